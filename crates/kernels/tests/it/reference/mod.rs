//! Helpers for tests of layer kernels, besides the library's reference implementation.

pub use hearth_kernels::reference::*;

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
