//! Helpers for tests of layer kernels, besides the library's reference implementation.

pub use hearth_kernels::reference::*;

/// Returns `true` if the CPU is emulated, as set by `cargo xtask neon`. Tests then take minutes
/// instead of seconds, so they run fewer cases.
pub fn is_emulated() -> bool {
    std::env::var_os("HEARTH_EMULATED").is_some()
}

/// Converts to f32.
pub fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

/// Panics if the relative error of `actual` is above `tolerance`.
#[track_caller]
pub fn assert_near(name: &str, actual: &[f32], expected: &[f64], tolerance: f64) {
    let error = relative_error(actual, expected);
    assert!(
        error <= tolerance,
        "{name}: relative error {error:.3e}, {tolerance:.1e} allowed\nactual   {:?}\nexpected {:?}",
        &actual[..actual.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}
