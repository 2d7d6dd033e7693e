//! Runs every seed, every corpus input and mutations of them through every target on stable Rust;
//! one test per target.

use hearth_fuzz::mutate::{Random, mutated};
use hearth_fuzz::{Seed, TARGETS, Target, inputs, limits};
use libtest_mimic::{Arguments, Failed, Trial};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time after which an input counts as a hang; generous, for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The current input and when it started.
static CURRENT: Mutex<Option<(Instant, String)>> = Mutex::new(None);

fn main() {
    let mut arguments = Arguments::from_args();
    // The memory limit is per process.
    arguments.test_threads = Some(1);
    std::thread::spawn(watchdog);
    let trials = TARGETS.iter().map(|target| Trial::test(target.name, || replay(target)));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn replay(target: &'static Target) -> Result<(), Failed> {
    let seeds = (target.seeds)();
    for seed in &seeds {
        if !run_input(target, &seed.name, &seed.bytes)? {
            return Err(format!(
                "{}: the seed {} is refused, so fuzzing would not reach deep",
                target.name, seed.name
            )
            .into());
        }
    }
    let corpus = inputs::corpus(target)?;
    for input in &corpus {
        run_input(target, &input.name, &input.bytes)?;
    }
    for Seed { name, bytes } in seeds.iter().chain(&corpus) {
        let mut random = Random::new(bytes.len() as u64);
        for number in 0..target.mutations {
            run_input(
                target,
                &format!("mutation {number} of {name}"),
                &mutated(bytes, &mut random),
            )?;
        }
    }
    Ok(())
}

/// Runs an input. Returns whether it was accepted.
///
/// # Errors
/// If the target panics. If it aborts or hangs, the process ends and names the input.
fn run_input(target: &Target, name: &str, bytes: &[u8]) -> Result<bool, Failed> {
    let what = format!("{}: {name}", target.name);
    set_current(Some((Instant::now(), what.clone())));
    let result = catch_unwind(AssertUnwindSafe(|| {
        limits::within(target.memory_mib, || (target.run)(bytes))
    }));
    set_current(None);
    result.map_err(|_| {
        let path = std::env::temp_dir().join(format!("hearth-fuzz-{}", target.name));
        match std::fs::write(&path, bytes) {
            Ok(()) => format!(
                "{what}: panicked. Replay it: cargo xtask fuzz {} {}",
                target.name,
                path.display()
            )
            .into(),
            Err(_) => format!("{what}: panicked").into(),
        }
    })
}

fn set_current(what: Option<(Instant, String)>) {
    *CURRENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = what;
}

/// Ends the process if an input hangs.
fn watchdog() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let current = CURRENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((since, what)) = &*current
            && since.elapsed() > TIMEOUT
        {
            eprintln!("{what}: hangs");
            std::process::exit(1);
        }
    }
}
