//! All targets under libFuzzer, in one program: `HEARTH_FUZZ_TARGET` says which. Without it, the table of targets is printed, for
//! `cargo xtask fuzz`, which builds and starts this.
#![no_main]

use hearth_fuzz::{TARGETS, Target, inputs, limits};
use libfuzzer_sys::fuzz_target;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

static TARGET: OnceLock<&Target> = OnceLock::new();

/// The last panic: what it said, and where.
static PANIC: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

fuzz_target!(init: begin(), |bytes: &[u8]| {
    let target = TARGET.get().expect("chosen at the beginning");
    let done = catch_unwind(AssertUnwindSafe(|| limits::within(target.memory_mib, || (target.run)(bytes))));
    if done.is_err() {
        if let Some((said, place)) = &*PANIC.lock().unwrap_or_else(PoisonError::into_inner) {
            eprintln!("{said}\n{place}");
        }
        std::process::abort();
    }
});

/// Chooses the target and writes its inputs where `HEARTH_FUZZ_SEEDS` says, before libFuzzer reads them.
fn begin() {
    let Some(name) = std::env::var_os("HEARTH_FUZZ_TARGET") else {
        for target in TARGETS {
            println!("{} {} {}", target.name, target.memory_mib, target.longest);
        }
        std::process::exit(0);
    };
    let target = TARGETS.iter().find(|target| *target.name == *name);
    let target = TARGET.get_or_init(|| target.unwrap_or_else(|| panic!("there is no target {}", name.display())));
    if let Some(folder) = std::env::var_os("HEARTH_FUZZ_SEEDS") {
        inputs::write(target, Path::new(&folder)).expect("seeds are written");
    }
    // In place of libfuzzer-sys's own, which aborts also where a panic is caught: the parquet crate panics on some damaged files.
    std::panic::set_hook(Box::new(|panic| {
        let said = (panic.to_string(), Backtrace::force_capture());
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }));
}
