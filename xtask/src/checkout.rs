//! The settings of this checkout for cargo: one build folder for all checkouts on a machine.
//!
//! `.cargo/config.toml` includes `.cargo/checkout.toml`, which this module writes and git ignores.
//! It names the build folder, where cargo keeps everything but finished programs, and the compiler
//! wrapper `.cargo/rustc`, whose path keeps the files of two checkouts apart. Finished programs are
//! in the checkout's own `target`. See `docs/decisions/0027-one-build-folder.md`.

use crate::process::Outcome;
use crate::{cache, paths};
use std::env;
use std::fs;
use std::path::Path;

/// Variables with which a user chooses cargo's folders; then nothing is shared.
const CHOSEN: [&str; 3] = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];

/// Shares the build folder, if this system can and the user has not chosen another.
///
/// # Errors
/// If the settings cannot be written.
pub fn share_build_folder() -> Outcome {
    let file = paths::root().join(".cargo").join("checkout.toml");
    let chosen = CHOSEN.iter().any(|name| env::var_os(name).is_some());
    // The wrapper is a script of the Unix shell. Without it, checkouts must not share a folder.
    let folder = cache::folder().filter(|_| cfg!(unix) && !chosen);
    let Some(folder) = folder else {
        return match file.exists() && chosen && env::var_os("CARGO_BUILD_BUILD_DIR").is_none() {
            // Otherwise cargo would still build in the shared folder.
            true => {
                fs::remove_file(&file).map_err(|error| format!("{} could not be removed ({error}).", file.display()))
            }
            false => Ok(()),
        };
    };
    let text = settings(&folder.join("build"));
    if fs::read_to_string(&file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(&file, text).map_err(|error| format!("{} could not be written ({error}).", file.display()))
}

/// The text of the settings.
fn settings(folder: &Path) -> String {
    // A JSON string is a TOML string.
    let folder = serde_json::Value::from(folder.to_string_lossy()).to_string();
    format!(
        "# Written by `cargo xtask`. Remove this file, or set CARGO_TARGET_DIR, to build in another folder.\n\
         [build]\nbuild-dir = {folder}\nrustc-workspace-wrapper = \".cargo/rustc\"\n"
    )
}
