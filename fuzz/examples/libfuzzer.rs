//! All targets under libFuzzer in one program, selected by `HEARTH_FUZZ_TARGET`. Without it, prints
//! the table of targets for `cargo xtask fuzz`, which builds and runs this program.
#![no_main]

use hearth_fuzz::{TARGETS, Target, inputs, limits};
use libfuzzer_sys::fuzz_target;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

static TARGET: OnceLock<&Target> = OnceLock::new();

/// Message and backtrace of the last panic.
static PANIC: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

fuzz_target!(init: init(), |bytes: &[u8]| {
    let target = TARGET.get().expect("the target is set at start");
    let result = catch_unwind(AssertUnwindSafe(|| limits::within(target.memory_mib, || (target.run)(bytes))));
    if result.is_err() {
        if let Some((message, backtrace)) = &*PANIC.lock().unwrap_or_else(PoisonError::into_inner) {
            eprintln!("{message}\n{backtrace}");
        }
        std::process::abort();
    }
});

/// Selects the target and writes its inputs to the folder `HEARTH_FUZZ_SEEDS` before libFuzzer
/// reads them.
fn init() {
    let Some(name) = std::env::var_os("HEARTH_FUZZ_TARGET") else {
        for target in TARGETS {
            println!("{} {} {}", target.name, target.memory_mib, target.max_len);
        }
        std::process::exit(0);
    };
    let target = TARGETS.iter().find(|target| *target.name == *name);
    let target = TARGET.get_or_init(|| target.unwrap_or_else(|| panic!("unknown target {}", name.display())));
    if let Some(folder) = std::env::var_os("HEARTH_FUZZ_SEEDS") {
        inputs::write(target, Path::new(&folder)).expect("seeds are written");
    }
    // Replaces the hook of libfuzzer-sys, which aborts even if a panic is caught: the parquet crate
    // panics on some corrupt files.
    std::panic::set_hook(Box::new(|panic| {
        let message = (panic.to_string(), Backtrace::force_capture());
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }));
}
