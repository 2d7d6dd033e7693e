//! `cargo xtask run`: sets up, builds and opens the window.

use crate::cargo::{PROGRAMS, cargo, first_build};
use crate::process::{Outcome, announce, run as step};
use crate::setup::setup;
use crate::system::Purpose;
use crate::{model, paths};
use std::env;
use std::process::Command;

/// Sets up, builds, and opens the window.
///
/// # Errors
/// Names the missing dependency or the failed step, and what to do.
pub fn run() -> Outcome {
    setup(Purpose::Run)?;
    step(
        &format!("Building Hearth{}", first_build()),
        cargo(&["build"]).args(PROGRAMS),
    )?;
    model::link_beside_executables()?;
    if display() {
        announce("Opening Hearth");
        return open(&mut Command::new(paths::executable("hearth-desktop")));
    }
    announce("There is no display for a window: starting `hearth chat` here instead");
    open(Command::new(paths::executable("hearth")).arg("chat").arg(model::path()))
}

/// Whether there is a display.
fn display() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(target_os = "linux") || set("DISPLAY") || set("WAYLAND_DISPLAY")
}

fn open(command: &mut Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{program} could not be started ({error})."))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} ended with {status}."))
    }
}
