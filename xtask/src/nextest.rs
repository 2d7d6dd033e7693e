//! `cargo nextest`, which runs each Rust test in a process of its own (`.config/nextest.toml`).

use crate::cargo::{cargo, unset_package};
use crate::junit::{TestResults, run_tests};
use crate::paths;
use crate::process::{Outcome, read, run};
use std::path::PathBuf;
use std::process::Command;

/// The installed version; an existing one may be newer.
const VERSION: (u32, u32, u32) = (0, 9, 143);

/// The report, relative to the repository's root: nextest's folder, its profile, and the name in
/// `.config/nextest.toml`.
const REPORT: &str = "target/nextest/default/junit.xml";

/// A `cargo nextest run` of release builds, with these arguments.
///
/// # Errors
/// If nextest is missing and cannot be installed.
pub fn nextest(arguments: &[&str]) -> Outcome<Command> {
    let mut command = Command::new(program()?);
    command
        .args(["nextest", "run", "--release", "--locked", "--no-fail-fast"])
        .args(arguments)
        .current_dir(paths::root());
    unset_package(&mut command);
    Ok(command)
}

/// Runs a command of [`nextest`]. A failed test is no error.
///
/// # Errors
/// If it cannot be started, runs no test, or ends early.
pub fn run_nextest(what: &str, command: &mut Command) -> Outcome<TestResults> {
    run_tests(what, command, &paths::root().join(REPORT))
}

/// The installed nextest, on the PATH or in the tools' folder; installed there if there is none.
fn program() -> Outcome<PathBuf> {
    let own = paths::tools()
        .join("bin")
        .join("cargo-nextest")
        .with_extension(std::env::consts::EXE_EXTENSION);
    let found = paths::program(&["cargo-nextest"]).into_iter().chain([own.clone()]);
    let mut usable = found.filter(|program| {
        let printed = read(Command::new(program).args(["nextest", "--version"]));
        printed
            .and_then(|printed| version(&printed))
            .is_some_and(|found| found >= VERSION)
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
    Ok(own)
}

/// Parses `cargo-nextest 0.9.143 (…)`.
fn version(printed: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = printed
        .split_whitespace()
        .nth(1)?
        .split('.')
        .map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::version;

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
