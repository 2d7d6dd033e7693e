//! `cargo xtask test`: runs all checks and tests and prints totals.

use crate::cargo::{TESTS, cargo};
use crate::process::{Outcome, announce, run, run_streaming};
use crate::setup::setup;
use crate::system::Purpose;
use crate::{fuzz, model, paths, ui};
use std::process::Command;

/// Version of tauri-driver, the WebDriver of the window.
const TAURI_DRIVER: &str = "2.1.0";

/// Sets up, checks, builds and tests. Continues after a failure, so that one run reports everything
/// to fix.
///
/// # Errors
/// Names what failed.
pub fn test() -> Outcome {
    println!("Tests need more than a build: a browser, a virtual display, the window's WebDriver, and chat templates.");
    setup(Purpose::Test)?;
    if cfg!(target_os = "linux") {
        driver()?;
    }
    let mut totals = Totals::default();
    totals.check("Formatting", &mut cargo(&["fmt", "--all", "--check"]));
    let clippy = [
        "clippy",
        "--release",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    totals.check("Lints", &mut cargo(&clippy));
    totals.tests("The web UI's tests", ui::npm()?.args(["test"]));
    run(
        "Building everything (the first time takes a while)",
        cargo(&["build"]).args(TESTS),
    )?;
    model::link_beside_executables()?;
    let mut tests = cargo(&["test", "--no-fail-fast"]);
    tests.args(TESTS);
    tests
        .env("HEARTH_MODELS", paths::root().join("models"))
        .env("HEARTH_TOOLS", paths::tools());
    totals.tests("Rust tests, including the window's", &mut tests);
    totals.tests("The kernels' tests, with assertions", &mut checked_kernels());
    totals.tests("Layers, with assertions", &mut checked_layers());
    match cfg!(target_os = "linux") {
        true => totals.outcome("Fuzzing", &fuzz::fuzz(&["--seed".to_owned(), "1".to_owned()])),
        false => announce("Fuzzing is skipped: CI runs it on Linux. The Rust tests replayed its inputs."),
    }
    totals.verdict()
}

/// The tests of `llm` that run complete layers on the CPU.
const LAYERS: [&str; 6] = ["layer", "logits", "packed", "kv_snapshot", "windows", "batch"];

/// The tests of `kernels` with debug assertions and overflow checks. Uninitialised scratch memory
/// is then NaN (`kernels/src/scratch.rs`).
fn checked_kernels() -> Command {
    let mut command = checked(&["--package", "hearth-kernels", "--lib", "--tests"]);
    // Only its own features, so that few crates are built.
    command.env("HEARTH_CHECKED", "1");
    command
}

/// The tests in [`LAYERS`]. Selected from the whole workspace, so that dependencies are not built
/// again.
fn checked_layers() -> Command {
    let mut command = checked(&["--workspace"]);
    for test in LAYERS {
        command.args(["--test", test]);
    }
    command.env("HEARTH_MODELS", paths::root().join("models"));
    command
}

/// Tests with debug assertions in `kernels` and `llm` only.
fn checked(selected: &[&str]) -> Command {
    let mut command = cargo(&["test", "--release", "--locked", "--no-fail-fast"]);
    command.args(selected);
    for name in ["hearth-kernels", "hearth-llm"] {
        for check in ["debug-assertions", "overflow-checks"] {
            command.args(["--config", &format!("profile.release.package.{name}.{check}=true")]);
        }
    }
    command
}

/// Installs tauri-driver, through which tests control the window.
fn driver() -> Outcome {
    let program = paths::tools().join("bin").join("tauri-driver");
    if program.is_file() {
        return Ok(());
    }
    let mut install = cargo(&["install", "tauri-driver", "--locked", "--version", TAURI_DRIVER]);
    // A debug build is sufficient and fastest to build.
    install
        .arg("--debug")
        .arg("--root")
        .arg(paths::tools())
        .env("CARGO_TARGET_DIR", paths::tools().join("build"));
    run("Installing tauri-driver for the window's tests", &mut install)
}

/// Totals over several commands.
#[derive(Default)]
pub struct Totals {
    passed: usize,
    failed: usize,
    broken: Vec<String>,
}

impl Totals {
    /// Runs a check that passes or fails as a whole.
    pub fn check(&mut self, what: &str, command: &mut Command) {
        self.outcome(what, &run(what, command));
    }

    /// Adds the outcome of a check.
    pub fn outcome(&mut self, what: &str, outcome: &Outcome) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(problem) => {
                eprintln!("{problem}");
                self.failed += 1;
                self.broken.push(what.to_owned());
            }
        }
    }

    /// Runs tests that print how many passed.
    pub fn tests(&mut self, what: &str, command: &mut Command) {
        let failed_before = self.failed;
        let ended = run_streaming(what, command, |line| {
            if let Some((passed, failed)) = parse_totals(line) {
                self.passed += passed;
                self.failed += failed;
            }
        });
        if let Err(problem) = &ended {
            eprintln!("{problem}");
        }
        if ended != Ok(true) {
            // Count a crash before the summary as a failure.
            self.failed = self.failed.max(failed_before + 1);
            self.broken.push(what.to_owned());
        }
    }

    /// Prints the totals.
    ///
    /// # Errors
    /// Names what failed.
    pub fn verdict(&self) -> Outcome {
        announce(&format!("{} passed, {} failed", self.passed, self.failed));
        if self.broken.is_empty() {
            Ok(())
        } else {
            Err(format!("Failed: {}.", self.broken.join(", ")))
        }
    }
}

/// Parses passed and failed from the summary line of a test program.
pub fn parse_totals(line: &str) -> Option<(usize, usize)> {
    let plain = strip_ansi(line);
    let summary = plain
        .trim_start()
        .strip_prefix("test result:")
        .or_else(|| plain.trim_start().strip_prefix("Tests "))?;
    let words: Vec<&str> = summary
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let before = |what| {
        words
            .windows(2)
            .find(|pair| pair[1] == what)
            .and_then(|pair| pair[0].parse().ok())
    };
    match (before("passed"), before("failed")) {
        (None, None) => None,
        (passed, failed) => Some((passed.unwrap_or(0), failed.unwrap_or(0))),
    }
}

fn strip_ansi(line: &str) -> String {
    let mut plain = String::new();
    let mut parts = line.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::parse_totals;

    #[test]
    fn test_totals_are_parsed() {
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
                Some((12, 0)),
            ),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored", Some((3, 2))),
            ("      Tests  50 passed (50)", Some((50, 0))),
            (
                "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[31m1 failed\u{1b}[39m | \u{1b}[32m49 passed\u{1b}[39m (50)",
                Some((49, 1)),
            ),
            (" Test Files  2 passed (2)", None),
            ("test model::loads ... ok", None),
        ] {
            assert_eq!(parse_totals(line), expected, "{line:?}");
        }
    }
}
