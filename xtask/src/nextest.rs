//! `cargo nextest`, which runs each Rust test in a separate process (`.config/nextest.toml`).

use crate::cargo::SELECT_TESTS;
use crate::cargo::{cargo, unset_package};
use crate::junit::{TestResults, run_tests};
use crate::process::shown;
use crate::process::{Outcome, announce, read, run};
use crate::{paths, report};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The installed version; an existing one may be newer.
const VERSION: (u32, u32, u32) = (0, 9, 143);

/// The report, relative to the repository's root: nextest's folder, its profile, and the name in
/// `.config/nextest.toml`.
const REPORT: &str = "target/nextest/default/junit.xml";

/// The effect of a failed test on the remaining tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// The other tests run.
    GoOn,
    /// The other tests do not run.
    EndTheRun,
}

/// A `cargo nextest run` of release builds, with these arguments.
///
/// # Errors
/// If nextest is missing and cannot be installed.
pub fn nextest(arguments: &[&str]) -> Outcome<Command> {
    nextest_with(Failures::GoOn, arguments)
}

/// As [`nextest`], also for a run that ends at the first failed test.
///
/// # Errors
/// As [`nextest`].
pub fn nextest_with(failures: Failures, arguments: &[&str]) -> Outcome<Command> {
    let mut command = subcommand("run")?;
    command.arg(match failures {
        Failures::GoOn => "--no-fail-fast",
        Failures::EndTheRun => "--fail-fast",
    });
    command.args(arguments);
    Ok(command)
}

/// A subcommand of nextest for release builds.
fn subcommand(name: &str) -> Outcome<Command> {
    let mut command = Command::new(program()?);
    command
        .args(["nextest", name, "--release", "--locked"])
        .current_dir(paths::root());
    unset_package(&mut command);
    Ok(command)
}

/// Runs a command of [`nextest`] and copies its report to the report of `stage`. A failed test is
/// not an error.
///
/// # Errors
/// If it cannot be started, runs no test, or ends early.
pub fn run_nextest(what: &str, command: &mut Command, stage: &str) -> Outcome<TestResults> {
    let report = paths::root().join(REPORT);
    let results = run_tests(what, command, &report)?;
    let copy = report::junit(stage);
    fs::create_dir_all(report::folder())
        .and_then(|()| fs::copy(&report, &copy))
        .map_err(|error| format!("{} could not be written ({error}).", copy.display()))?;
    Ok(results)
}

/// Names of all tests that an unfiltered run of [`SELECT_TESTS`] runs, as `suite test`.
///
/// # Errors
/// If nextest cannot list them.
pub fn list_tests() -> Outcome<BTreeSet<String>> {
    announce("Listing the Rust tests");
    let mut command = subcommand("list")?;
    command.args(SELECT_TESTS).args(["--message-format", "json"]);
    let text = read(&mut command).ok_or_else(|| format!("`{}` failed.", shown(&command)))?;
    parse_list(&text)
}

fn parse_list(text: &str) -> Outcome<BTreeSet<String>> {
    let list: List = serde_json::from_str(text).map_err(|error| format!("nextest's list of tests: {error}"))?;
    let tests = list.suites.iter().flat_map(|(suite, tests)| {
        let enabled = tests.cases.iter().filter(|(_, case)| !case.ignored);
        enabled.map(move |(name, _)| format!("{suite} {name}"))
    });
    Ok(tests.collect())
}

/// nextest's list of tests.
#[derive(Deserialize)]
struct List {
    #[serde(rename = "rust-suites")]
    suites: BTreeMap<String, Executable>,
}

#[derive(Deserialize)]
struct Executable {
    #[serde(rename = "testcases", default)]
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    ignored: bool,
}

/// The installed nextest, on the PATH or in the tools' folder; installed there if there is none.
fn program() -> Outcome<PathBuf> {
    let installed = paths::tools()
        .join("bin")
        .join("cargo-nextest")
        .with_extension(std::env::consts::EXE_EXTENSION);
    let candidates = paths::program(&["cargo-nextest"])
        .into_iter()
        .chain([installed.clone()]);
    let mut usable = candidates.filter(|program| {
        let output = read(Command::new(program).args(["nextest", "--version"]));
        output
            .and_then(|output| version(&output))
            .is_some_and(|version| version >= VERSION)
    });
    if let Some(program) = usable.next() {
        return Ok(program);
    }
    let (major, minor, patch) = VERSION;
    let mut install = cargo(&["install", "cargo-nextest", "--locked", "--force", "--version"]);
    // A debug build is sufficient and fastest to build.
    install
        .arg(format!("{major}.{minor}.{patch}"))
        .arg("--debug")
        .arg("--root")
        .arg(paths::tools())
        .env("CARGO_TARGET_DIR", paths::tools().join("build"));
    run("Installing cargo-nextest, which runs the tests", &mut install)?;
    Ok(installed)
}

/// Parses `cargo-nextest 0.9.143 (…)`.
fn version(output: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = output
        .split_whitespace()
        .nth(1)?
        .split('.')
        .map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::{parse_list, version};

    #[test]
    fn lists_of_tests_are_parsed() {
        let list = r#"{"rust-build-meta": {}, "test-count": 3, "rust-suites": {
            "a::it": {"package-name": "a", "testcases": {
                "x::one": {"kind": "test", "ignored": false}, "x::two": {"kind": "test", "ignored": true}}},
            "b": {"testcases": {"three": {"ignored": false}}}}}"#;
        let names: Vec<String> = parse_list(list).expect("a list").into_iter().collect();
        assert_eq!(names, ["a::it x::one", "b three"]);
        assert!(parse_list("{}").is_err());
    }

    #[test]
    fn versions_are_parsed() {
        assert_eq!(
            version("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"),
            Some((0, 9, 143))
        );
        assert_eq!(version("cargo-nextest 0.10.1"), Some((0, 10, 1)));
        assert_eq!(version("error: no such command"), None);
    }
}
