//! Whether the GPU computes what the processor does, in each build of Hearth that lies beside the one that is measured.

use super::report::{Part, typed};
use crate::process::hear;
use std::path::Path;
use std::process::Command;

/// Checks the device, and shows what was found.
pub fn part(hearth: &Path, device: &str) -> Part {
    let mut part = Part::default();
    let mut command = Command::new(hearth);
    command.args(["devices", "--check", device]);
    part.commands(&[typed(&command)]);
    match hear("Checking the GPU", &mut command) {
        Ok(said) if said.ok => part.block("text", &said.stdout),
        Ok(said) => part.fail(said.complaint()),
        Err(problem) => part.fail(&problem),
    }
    part
}
