//! Runs cargo on the workspace.

use crate::paths;
use std::env;
use std::path::Path;
use std::process::Command;

/// A cargo command in the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    cargo_in(&paths::root(), arguments)
}

/// A cargo command in the root of a checkout.
pub fn cargo_in(checkout: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(checkout);
    unset_package(&mut command);
    command
}

/// Unsets the variables about this package that `cargo xtask` sets: build scripts that depend on
/// them would rerun for every other caller.
pub fn unset_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let is_of_this_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_this_package) {
            command.env_remove(name);
        }
    }
}

/// Core-seconds that a first build of all programs takes, measured on an AMD EPYC 9004 with two
/// cores (`docs/decisions/0002-single-cargo-profile.md`).
const FIRST_BUILD: u64 = 2900;

/// The expected duration of a first build, for the heading; empty if packages have been built.
pub fn first_build() -> String {
    let fingerprints = paths::build().join("release").join(".fingerprint");
    // Cargo has built a few packages for this program.
    let packages = std::fs::read_dir(fingerprints).map_or(0, Iterator::count);
    if packages > 200 {
        return String::new();
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    // Beyond eight cores the longest chain of packages decides.
    let minutes = (FIRST_BUILD / cores.clamp(1, 8)).div_ceil(60);
    format!(" (the first time; about {minutes} minutes with {cores} cores, some 620 packages)")
}

/// Arguments that select all programs. Always of the whole workspace: building single crates would
/// unify features differently and build shared dependencies twice. `xtask` is excluded: cargo would
/// replace the executable that is running.
pub const PROGRAMS: &[&str] = &[
    "--release",
    "--locked",
    "--workspace",
    "--exclude",
    "xtask",
    "--lib",
    "--bins",
];

/// Arguments that select all programs and tests except this program and its tests.
pub const SELECT_TESTS: &[&str] = &["--workspace", "--exclude", "xtask", "--lib", "--bins", "--tests"];

/// Arguments that select the tests of this program.
pub const SELECT_OWN_TESTS: &[&str] = &["--package", "xtask", "--bins", "--tests"];
