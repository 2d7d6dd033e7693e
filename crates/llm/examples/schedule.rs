//! Counts the work and the synchronizations of a forward pass, and simulates its schedule with more
//! threads than this machine has.
//!
//! `cargo run --release -p hearth-llm --example schedule -- MODEL.gguf [DISPATCH_NS]`
//!
//! Prints a table for prefill and one for decode, in Markdown. DISPATCH_NS is the assumed cost of a
//! dispatch; by default what two threads of this machine need. Two limits are not simulated: memory
//! bandwidth, and lower clock rates if many cores are busy.

use hearth_formats::gguf::Gguf;
use hearth_kernels::team::{
    self,
    trace::{Costs, Trace, trace},
};
use hearth_llm::{LoadOptions, Model, Session};
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const PROMPT: usize = 512;
/// Tokens decoded, of which the median is taken.
const TOKENS: usize = 9;
/// Assumed seconds of a steal: some cache misses.
const STEAL: f64 = 200e-9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("Usage: schedule MODEL.gguf [DISPATCH_NS]")?;
    // Before the team is used.
    team::oversubscribe(THREADS[THREADS.len() - 1]);
    let dispatch = match arguments.next() {
        Some(nanoseconds) => nanoseconds.parse::<f64>()? * 1e-9,
        None => dispatch(),
    };
    let costs = Costs {
        dispatch: dispatch / 2.0,
        steal: STEAL,
    };
    let gguf = Gguf::open(Path::new(&path))?;
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()))?;
    let mut session = Session::new(Arc::new(model), PROMPT + TOKENS * (THREADS.len() + 1))?;
    println!(
        "A dispatch costs {:.0} ns, a steal {:.0} ns.",
        dispatch * 1e9,
        STEAL * 1e9
    );
    for (what, prompt) in [
        (format!("Prefill of {PROMPT} tokens"), true),
        ("Decode of a token".to_owned(), false),
    ] {
        let traced = |session: &mut Session| if prompt { prefill(session) } else { decode(session) };
        // The first pass allocates.
        traced(&mut session)?;
        println!("\n{what}:\n\n| threads | runs | chunks | serial, ms | total, ms | simulated, ms | speed-up |");
        println!("|---:|---:|---:|---:|---:|---:|---:|");
        for threads in THREADS {
            team::set_threads(threads);
            let trace = traced(&mut session)?;
            let simulated = trace.simulated(threads, costs);
            // Of the same trace: the machine's speed varies between traces.
            let speed_up = trace.total() / simulated;
            let parallel = trace.runs.iter().filter(|run| run.chunks.len() > 1);
            let chunks: usize = parallel.clone().map(|run| run.chunks.len()).sum();
            let [serial, total, simulated] = [trace.serial(), trace.total(), simulated].map(|seconds| seconds * 1e3);
            println!(
                "| {threads} | {} | {chunks} | {serial:.3} | {total:.3} | {simulated:.3} | {speed_up:.2} |",
                parallel.count()
            );
        }
    }
    Ok(())
}

/// The trace of a prompt.
fn prefill(session: &mut Session) -> Result<Trace, Box<dyn Error>> {
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|token| 100 + token % 50).collect();
    session.clear();
    let mut outcome = Ok(());
    let traced = trace(|| {
        outcome = session
            .prefill(&prompt, &mut |_, _| ControlFlow::Continue(()))
            .map(drop)
    });
    outcome?;
    Ok(traced)
}

/// The median trace of some tokens.
fn decode(session: &mut Session) -> Result<Trace, Box<dyn Error>> {
    let mut traces = Vec::new();
    for token in 0..TOKENS as u32 {
        let mut outcome = Ok(None);
        traces.push(trace(|| outcome = session.push_greedy(100 + token)));
        outcome?;
    }
    traces.sort_by(|a, b| a.total().total_cmp(&b.total()));
    Ok(traces.swap_remove(TOKENS / 2))
}

/// Median seconds that a run of two chunks on two threads takes longer than one chunk.
fn dispatch() -> f64 {
    const WORK: Duration = Duration::from_micros(5);
    team::set_threads(2);
    let _awake = team::enter();
    let mut times: Vec<f64> = (0..2_001)
        .map(|_| {
            let start = Instant::now();
            team::run(2, &|_| {
                let start = Instant::now();
                while start.elapsed() < WORK {}
            });
            start.elapsed().saturating_sub(WORK).as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
