//! Counts the work and the synchronizations of a forward pass, and simulates its schedule with more
//! threads than this machine has.
//!
//! `cargo run --release -p hearth-llm --example schedule -- MODEL.gguf [DISPATCH_NS]`
//!
//! Prints a table for prefill and one for decode, in Markdown. DISPATCH_NS is the assumed cost of a
//! dispatch in nanoseconds; by default, the cost measured with two threads on this machine. Two
//! limits are not simulated: memory bandwidth, and lower clock rates when many cores are busy.

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

/// Simulated thread counts.
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Tokens of the prefill.
const PROMPT_TOKENS: usize = 512;
/// Number of decode steps, of which the median is reported.
const DECODE_STEPS: usize = 9;
/// Assumed cost of a work steal in seconds: a few cache misses.
const STEAL_SECONDS: f64 = 200e-9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("Usage: schedule MODEL.gguf [DISPATCH_NS]")?;
    // Before the team is used.
    team::oversubscribe(THREADS[THREADS.len() - 1]);
    let dispatch = match arguments.next() {
        Some(nanoseconds) => nanoseconds.parse::<f64>()? * 1e-9,
        None => measure_dispatch(),
    };
    let costs = Costs {
        dispatch: dispatch / 2.0,
        steal: STEAL_SECONDS,
    };
    let gguf = Gguf::open(Path::new(&path))?;
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()))?;
    let mut session = Session::new(Arc::new(model), PROMPT_TOKENS + DECODE_STEPS * (THREADS.len() + 1))?;
    println!(
        "A dispatch costs {:.0} ns, a steal {:.0} ns.",
        dispatch * 1e9,
        STEAL_SECONDS * 1e9
    );
    for (title, is_prefill) in [
        (format!("Prefill of {PROMPT_TOKENS} tokens"), true),
        ("Decode of a token".to_owned(), false),
    ] {
        let trace_pass = if is_prefill { trace_prefill } else { trace_decode };
        // The first pass allocates.
        trace_pass(&mut session)?;
        println!("\n{title}:\n\n| threads | runs | chunks | serial, ms | total, ms | simulated, ms | speed-up |");
        println!("|---:|---:|---:|---:|---:|---:|---:|");
        for threads in THREADS {
            team::set_threads(threads);
            let trace = trace_pass(&mut session)?;
            let simulated = trace.simulated(threads, costs);
            // Both times are from one trace, because the machine's speed varies between traces.
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

/// Traces the prefill of a prompt.
fn trace_prefill(session: &mut Session) -> Result<Trace, Box<dyn Error>> {
    let prompt: Vec<u32> = (0..PROMPT_TOKENS as u32).map(|token| 100 + token % 50).collect();
    session.clear();
    let mut result = Ok(());
    let prefill_trace = trace(|| {
        result = session
            .prefill(&prompt, &mut |_, _| ControlFlow::Continue(()))
            .map(drop)
    });
    result?;
    Ok(prefill_trace)
}

/// Traces [`DECODE_STEPS`] decode steps. Returns the trace with the median total time.
fn trace_decode(session: &mut Session) -> Result<Trace, Box<dyn Error>> {
    let mut traces = Vec::new();
    for token in 0..DECODE_STEPS as u32 {
        let mut result = Ok(None);
        traces.push(trace(|| result = session.push_greedy(100 + token)));
        result?;
    }
    traces.sort_by(|a, b| a.total().total_cmp(&b.total()));
    Ok(traces.swap_remove(DECODE_STEPS / 2))
}

/// Measures the cost of a dispatch in seconds: the median time by which a run of two chunks on two
/// threads exceeds the time of one chunk.
fn measure_dispatch() -> f64 {
    const CHUNK_TIME: Duration = Duration::from_micros(5);
    team::set_threads(2);
    let _awake = team::enter();
    let mut times: Vec<f64> = (0..2_001)
        .map(|_| {
            let start = Instant::now();
            team::run(2, &|_| {
                let start = Instant::now();
                while start.elapsed() < CHUNK_TIME {}
            });
            start.elapsed().saturating_sub(CHUNK_TIME).as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
