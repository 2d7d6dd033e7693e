//! The default model: fetched once, checked always.

use crate::place;
use crate::process::{Outcome, announce, run};
use crate::system::python;
use std::path::PathBuf;
use std::process::Command;

/// The file's name under `models/`; `models/catalog.toml` says what it is.
pub const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Downloads and unpacks with Python's own library, which set-up needs anyway for `pip`.
const SCRIPT: &str = include_str!("model.py");

/// Where the default model lies.
pub fn path() -> PathBuf {
    place::root().join("models").join(FILE)
}

/// Fetches the default model unless the right file is there.
///
/// # Errors
/// When neither source can be reached, or what came is not the file.
pub fn fetch() -> Outcome {
    let python = python().ok_or("Python 3 is needed to fetch the default model.")?;
    run(
        "Fetching the default model",
        Command::new(python).args(["-c", SCRIPT]).arg(path()),
    )
}

/// Puts the model where an executable of this build looks for it, so that it also works when started by hand.
///
/// # Errors
/// When the file system refuses.
pub fn place_beside_executables() -> Outcome {
    let folder = place::target().join("release").join("models");
    let link = folder.join(FILE);
    if link.is_file() {
        return Ok(());
    }
    announce("Putting the default model beside the executables");
    let placed = std::fs::create_dir_all(&folder)
        // One file with two names where the disk can do that.
        .and_then(|()| std::fs::hard_link(path(), &link).or_else(|_| std::fs::copy(path(), &link).map(|_| ())));
    placed.map_err(|error| format!("The default model could not be put at {} ({error}).", link.display()))
}
