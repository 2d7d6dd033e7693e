//! Helpers for tests of layer kernels, besides the library's reference implementation.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub use hearth_kernels::reference::*;

/// Runs the other tests of the calling file again on each lower instruction set of the machine (a
/// process chooses its instruction set once).
#[track_caller]
pub fn on_lower_levels() {
    const LIMIT: &str = "HEARTH_ISA";
    if std::env::var_os(LIMIT).is_some() {
        return;
    }
    let best = hearth_kernels::Isa::best();
    for isa in hearth_kernels::Isa::available().into_iter().filter(|isa| *isa != best) {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .env(LIMIT, isa.name())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "on {}:\n{said}", isa.name());
    }
}

/// Whether the CPU is emulated, as set by `cargo xtask neon`: tests may take minutes instead of
/// seconds, so they run fewer cases.
pub fn emulated() -> bool {
    std::env::var_os("HEARTH_EMULATED").is_some()
}

pub fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

/// Panics if the relative error of `found` is above `tolerance`.
#[track_caller]
pub fn assert_near(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    let error = relative_error(found, expected);
    assert!(
        error <= tolerance,
        "{what}: relative error {error:.3e}, {tolerance:.1e} allowed\nfound    {:?}\nexpected {:?}",
        &found[..found.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}
