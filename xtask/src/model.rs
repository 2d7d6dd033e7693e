//! The default model: downloaded once, verified every time.

use crate::paths;
use crate::process::{Outcome, announce, run};
use crate::system::python;
use std::path::PathBuf;
use std::process::Command;

/// File name under `models/`; see `models/catalog.toml`.
pub const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Downloads and unpacks with Python's standard library.
const SCRIPT: &str = include_str!("model.py");

/// Path of the default model.
pub fn path() -> PathBuf {
    paths::root().join("models").join(FILE)
}

/// Fetches the default model unless the correct file exists.
///
/// # Errors
/// If no source can be reached, or the checksum does not match.
pub fn fetch() -> Outcome {
    let python = python().ok_or("Python 3 is needed to fetch the default model.")?;
    run(
        "Fetching the default model",
        Command::new(python).args(["-c", SCRIPT]).arg(path()),
    )
}

/// Links the model into the folder where this build's executables look for it, so that they also
/// work when started manually.
///
/// # Errors
/// If linking and copying fail.
pub fn link_beside_executables() -> Outcome {
    let folder = paths::target().join("release").join("models");
    let link = folder.join(FILE);
    if link.is_file() {
        return Ok(());
    }
    announce("Linking the default model beside the executables");
    let result = std::fs::create_dir_all(&folder)
        // A hard link if the file system supports it.
        .and_then(|()| std::fs::hard_link(path(), &link).or_else(|_| std::fs::copy(path(), &link).map(|_| ())));
    result.map_err(|error| format!("The default model could not be linked at {} ({error}).", link.display()))
}
