//! `cargo xtask guard`: the speed of the kernels, compared with earlier on this kind of machine.

use crate::cargo::cargo;
use crate::process::{Outcome, run};

/// Measures with `bench/examples/guard.rs`; `--write` writes the machine's line.
///
/// # Errors
/// If an option is invalid, it cannot be built, or kernels became slower.
pub fn guard(options: &[String]) -> Outcome {
    let options = match options {
        [] => &[][..],
        [write] if write == "--write" => &["--write"][..],
        _ => return Err("`cargo xtask guard` has one option, --write.".to_owned()),
    };
    let mut guard = cargo(&[
        "run",
        "--release",
        "--locked",
        "-p",
        "hearth-bench",
        "--example",
        "guard",
        "--",
    ]);
    run("Measuring the kernels", guard.args(options))
}
