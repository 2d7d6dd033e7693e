//! `cargo xtask test`: runs all checks and tests and prints totals.

use crate::cargo::{SELECT_OWN_TESTS, SELECT_TESTS, cargo};
use crate::junit::{TestResults, run_tests};
use crate::nextest::{nextest, run_nextest};
use crate::process::{Outcome, announce, run};
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
    totals.tests("The web UI's tests", ui_tests());
    run(
        "Building everything (the first time takes a while)",
        cargo(&["build", "--release", "--locked"]).args(SELECT_TESTS),
    )?;
    model::link_beside_executables()?;
    let what = "Rust tests, including the window's";
    let tests = nextest(SELECT_TESTS).and_then(|mut tests| {
        tests
            .env("HEARTH_MODELS", paths::root().join("models"))
            .env("HEARTH_TOOLS", paths::tools());
        run_nextest(what, &mut tests)
    });
    totals.tests(what, tests);
    let what = "The tests of xtask";
    let tests = nextest(SELECT_OWN_TESTS).and_then(|mut tests| run_nextest(what, &mut tests));
    totals.tests(what, tests);
    totals.tests("The kernels' tests, with assertions", checked_kernels());
    totals.tests("Layers, with assertions", checked_layers());
    match cfg!(target_os = "linux") {
        true => totals.outcome("Fuzzing", &fuzz::fuzz(&["--seed".to_owned(), "1".to_owned()])),
        false => announce("Fuzzing is skipped: CI runs it on Linux. The Rust tests replayed its inputs."),
    }
    totals.verdict()
}

/// The tests of `llm` that run complete layers on the CPU.
const LAYERS: [&str; 6] = ["layer", "logits", "packed", "kv_snapshot", "windows", "batch"];

/// The web UI's tests.
fn ui_tests() -> Outcome<TestResults> {
    let report = paths::root().join("target/vitest/junit.xml");
    let mut command = ui::npm()?;
    command.args(["test", "--", "--reporter=default", "--reporter=junit"]);
    command.arg(format!("--outputFile.junit={}", report.display()));
    run_tests("The web UI's tests", &mut command, &report)
}

/// The tests of `kernels` with debug assertions and overflow checks. Uninitialised scratch memory
/// is then NaN (`kernels/src/scratch.rs`). The code for AVX-VNNI runs on machines with AVX-512.
fn checked_kernels() -> Outcome<TestResults> {
    // Only its own features, so that few crates are built.
    let mut command = checked(&[
        "--package",
        "hearth-kernels",
        "--lib",
        "--tests",
        "--features",
        "avx-vnni-on-avx512",
    ])?;
    command.env("HEARTH_CHECKED", "1");
    run_nextest("The kernels' tests, with assertions", &mut command)
}

/// The tests in [`LAYERS`]. Selected from the whole workspace, so that dependencies are not built
/// again.
fn checked_layers() -> Outcome<TestResults> {
    let mut command = checked(&["--workspace"])?;
    for test in LAYERS {
        command.args(["--test", test]);
    }
    command.env("HEARTH_MODELS", paths::root().join("models"));
    run_nextest("Layers, with assertions", &mut command)
}

/// Tests with debug assertions in `kernels` and `llm` only.
fn checked(selected: &[&str]) -> Outcome<Command> {
    let mut command = nextest(selected)?;
    for name in ["hearth-kernels", "hearth-llm"] {
        for check in ["debug-assertions", "overflow-checks"] {
            command.args(["--config", &format!("profile.release.package.{name}.{check}=true")]);
        }
    }
    Ok(command)
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

    /// Adds the results of tests.
    pub fn tests(&mut self, what: &str, results: Outcome<TestResults>) {
        match results {
            Ok(results) => {
                self.passed += results.passed.len();
                self.failed += results.failed.len();
                if !results.failed.is_empty() {
                    self.broken.push(format!("{what} ({})", results.failed.join(", ")));
                }
            }
            // That it ended early counts as a failure.
            Err(problem) => self.outcome(what, &Err(problem)),
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
