//! Every seed, every kept input and mutations of them through every target, on the stable compiler: one test for each row of the table.

use hearth_fuzz::mutate::{Random, mutated};
use hearth_fuzz::{Seed, TARGETS, Target, inputs, limits};
use libtest_mimic::{Arguments, Failed, Trial};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// After so long an input hangs. Far beyond what any takes, also where others use the machine.
const HANGS: Duration = Duration::from_secs(120);

/// What is being done, and since when.
static DOING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

fn main() {
    let mut arguments = Arguments::from_args();
    // The limit of memory is the process's.
    arguments.test_threads = Some(1);
    std::thread::spawn(watch);
    let trials = TARGETS.iter().map(|target| Trial::test(target.name, || replay(target)));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn replay(target: &'static Target) -> Result<(), Failed> {
    let seeds = (target.seeds)();
    for seed in &seeds {
        if !survived(target, &seed.name, &seed.bytes)? {
            return Err(format!(
                "{}: the seed {} is not read, so that fuzzing does not reach far",
                target.name, seed.name
            )
            .into());
        }
    }
    let kept = inputs::kept(target)?;
    for input in &kept {
        survived(target, &input.name, &input.bytes)?;
    }
    for Seed { name, bytes } in seeds.iter().chain(&kept) {
        let mut random = Random::new(bytes.len() as u64);
        for number in 0..target.mutations {
            survived(
                target,
                &format!("mutation {number} of {name}"),
                &mutated(bytes, &mut random),
            )?;
        }
    }
    Ok(())
}

/// Whether an input was read.
///
/// # Errors
/// The target panicked. Where it aborts or hangs, the process ends, and says with which input.
fn survived(target: &Target, name: &str, bytes: &[u8]) -> Result<bool, Failed> {
    let what = format!("{}: {name}", target.name);
    doing(Some((Instant::now(), what.clone())));
    let read = catch_unwind(AssertUnwindSafe(|| {
        limits::within(target.memory_mib, || (target.run)(bytes))
    }));
    doing(None);
    read.map_err(|_| {
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

fn doing(what: Option<(Instant, String)>) {
    *DOING.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = what;
}

/// Ends the process if an input hangs.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let doing = DOING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((since, what)) = &*doing
            && since.elapsed() > HANGS
        {
            eprintln!("{what}: hangs");
            std::process::exit(1);
        }
    }
}
