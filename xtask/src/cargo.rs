//! Calls of cargo on the workspace.

use crate::place;
use std::env;
use std::process::Command;

/// Cargo, in the repository's root, in the one profile there is.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(place::root());
    // Set for this program by the cargo that started it; another cargo must find its own.
    command.env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Builds libraries, executables and tests at once: built apart, their features would differ and much be built twice.
pub const BUILD: &[&str] = &[
    "build",
    "--release",
    "--locked",
    "--workspace",
    "--lib",
    "--bins",
    "--tests",
];
