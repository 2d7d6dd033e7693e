//! The files that are checked.

use crate::paths;
use crate::process::Outcome;
use crate::suites::git_output;

/// Endings of files with text written for this repository.
const ENDINGS: [&str; 8] = [".rs", ".ts", ".svelte", ".mjs", ".py", ".md", ".toml", ".yml"];
/// Parts of the paths of generated files, recorded text and third-party text.
const SKIPPED: [&str; 9] = [
    "fixtures/",
    "fuzz/corpus/",
    "docs/gpu/",
    "docs/PERFORMANCE",
    "host/wire.ts",
    "ui/messages/",
    "assets/",
    "src-tauri/gen/",
    "recordings/",
];

/// Paths of the checked files, from the repository's root.
///
/// # Errors
/// If git cannot list them.
pub fn tracked() -> Outcome<Vec<String>> {
    // Files that are not added yet count too.
    let listed = git_output(&["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut files: Vec<String> = listed
        .lines()
        .filter(|path| is_checked(path) && paths::root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    Ok(files)
}

/// Whether a file is checked. Of the fixtures, only scripts are.
pub fn is_checked(path: &str) -> bool {
    let is_script = path.ends_with(".py") || path.ends_with(".rs");
    let is_skipped = SKIPPED
        .iter()
        .any(|part| path.contains(part) && !(*part == "fixtures/" && is_script));
    ENDINGS.iter().any(|ending| path.ends_with(ending)) && !is_skipped
}
