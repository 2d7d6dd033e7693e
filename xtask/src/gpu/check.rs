//! The device check: compares the GPU with the CPU, in each build beside the measured one.

use super::report::{Part, command_line};
use crate::process::capture;
use std::path::Path;
use std::process::Command;

/// Runs the device check and shows its result.
pub fn part(hearth: &Path, device: &str) -> Part {
    let mut part = Part::default();
    let mut command = Command::new(hearth);
    command.args(["devices", "--check", device]);
    part.commands(&[command_line(&command)]);
    match capture("Checking the GPU", &mut command) {
        Ok(output) if output.ok => part.block("text", &output.stdout),
        Ok(output) => part.fail(output.last_stderr_line()),
        Err(problem) => part.fail(&problem),
    }
    part
}
