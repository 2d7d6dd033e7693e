//! `cargo xtask test`: every check and test there is, and their totals.

use crate::cargo::{TESTS, cargo};
use crate::process::{Outcome, announce, run, watch};
use crate::setup::{For, setup};
use crate::{fuzz, model, place, ui};
use std::process::Command;

/// The window's WebDriver; a version of its own, since it is no part of the app.
const TAURI_DRIVER: &str = "2.1.0";

/// Sets up, checks, builds and tests. Goes on after a failure, so that one run tells all there is to mend.
///
/// # Errors
/// Names what failed.
pub fn test() -> Outcome {
    println!(
        "Tests need more than a build does: a browser, a screen in memory, the window's WebDriver, chat templates to render."
    );
    setup(For::Test)?;
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
    totals.tests("The page's tests", ui::npm()?.args(["test"]));
    run(
        "Building everything (the first time takes a while)",
        cargo(&["build"]).args(TESTS),
    )?;
    model::place_beside_executables()?;
    let mut tests = cargo(&["test", "--no-fail-fast"]);
    tests.args(TESTS);
    tests
        .env("HEARTH_MODELS", place::root().join("models"))
        .env("HEARTH_TOOLS", place::tools());
    totals.tests("Rust tests, the window's among them", &mut tests);
    totals.tests("The kernels' tests, with assertions", &mut checked_kernels());
    totals.tests("Layers, with assertions", &mut checked_layers());
    match cfg!(target_os = "linux") {
        true => totals.outcome("Fuzzing", &fuzz::fuzz(&["--seed".to_owned(), "1".to_owned()])),
        false => announce("Fuzzing is left out: CI does it on Linux. The inputs were replayed with the Rust tests."),
    }
    totals.verdict()
}

/// The tests of `llm` for the processor that go through whole layers.
const LAYERS: [&str; 4] = ["layer", "logits", "packed", "saved"];

/// The tests of `kernels` once more, with debug assertions and checks of overflow. What is read before it is written is then NaN
/// (`kernels/src/scratch.rs`).
fn checked_kernels() -> Command {
    let mut command = checked(&["--package", "hearth-kernels", "--lib", "--tests"]);
    // Its own features alone: few crates are built for that.
    command.env("HEARTH_CHECKED", "1");
    command
}

/// Those of `llm` that go through whole layers on the processor. Selected from the whole workspace, so that what others wrote is not built again.
fn checked_layers() -> Command {
    let mut command = checked(&["--workspace"]);
    for test in LAYERS {
        command.args(["--test", test]);
    }
    command.env("HEARTH_MODELS", place::root().join("models"));
    command
}

/// Tests with assertions in `kernels` and `llm`, and in nothing else.
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

/// Installs the program through which tests drive the window.
fn driver() -> Outcome {
    let program = place::tools().join("bin").join("tauri-driver");
    if program.is_file() {
        return Ok(());
    }
    let mut install = cargo(&["install", "tauri-driver", "--locked", "--version", TAURI_DRIVER]);
    // It is no part of the app and never hot: the quickest build will do.
    install
        .arg("--debug")
        .arg("--root")
        .arg(place::tools())
        .env("CARGO_TARGET_DIR", place::tools().join("build"));
    run(
        "Installing tauri-driver, which drives the window in tests",
        &mut install,
    )
}

/// What passed and what did not, over several commands.
#[derive(Default)]
pub struct Totals {
    passed: usize,
    failed: usize,
    broken: Vec<String>,
}

impl Totals {
    /// A check that passes or fails as a whole.
    pub fn check(&mut self, what: &str, command: &mut Command) {
        self.outcome(what, &run(what, command));
    }

    /// One that was run already.
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

    /// Tests that say themselves how many passed.
    pub fn tests(&mut self, what: &str, command: &mut Command) {
        let failed_before = self.failed;
        let ended = watch(what, command, |line| {
            if let Some((passed, failed)) = counted(line) {
                self.passed += passed;
                self.failed += failed;
            }
        });
        if let Err(problem) = &ended {
            eprintln!("{problem}");
        }
        if ended != Ok(true) {
            // Also when it broke before it could count.
            self.failed = self.failed.max(failed_before + 1);
            self.broken.push(what.to_owned());
        }
    }

    /// Says the totals.
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

/// Passed and failed, from the line in which a test program sums up.
pub fn counted(line: &str) -> Option<(usize, usize)> {
    let plain = without_colours(line);
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

fn without_colours(line: &str) -> String {
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
    use super::counted;

    #[test]
    fn sums_are_read() {
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
            assert_eq!(counted(line), expected, "{line:?}");
        }
    }
}
