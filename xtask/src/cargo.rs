//! Calls of cargo on the workspace.

use crate::place;
use std::env;
use std::process::Command;

/// Cargo, in the repository's root, in the one profile there is.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(place::root());
    // Set for this program by the cargo that started it: another cargo must find its own, and build scripts that look at these
    // would run again after every change of who calls.
    for (name, _) in env::vars_os() {
        let of_this_program = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(of_this_program) {
            command.env_remove(name);
        }
    }
    command
}

/// Selects all that a person runs. Always of the whole workspace: a build of some crates would give what they share other
/// features, and so build it twice.
pub const PROGRAMS: &[&str] = &["--release", "--locked", "--workspace", "--lib", "--bins"];

/// Selects all that is tested, programs included.
pub const TESTS: &[&str] = &["--release", "--locked", "--workspace", "--lib", "--bins", "--tests"];
