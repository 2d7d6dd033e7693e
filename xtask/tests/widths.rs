//! Line widths: rustfmt wraps code at 120 columns, but neither comments nor the code in macros.

use std::fs;
use std::path::{Path, PathBuf};

/// Columns of a line of code.
const CODE: usize = 120;
/// Columns of a line comment.
const COMMENT: usize = 100;
/// Folders of Rust sources.
const FOLDERS: [&str; 6] = ["crates", "src-tauri", "xtask", "tests", "bench", "fuzz"];

/// Appends the Rust files under `folder` that are not fixtures or build outputs.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry of a folder").path()) {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "fixtures" && name != "target" && name != "corpus" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The widest line allowed: a comment that is one long word, such as an address, cannot be wrapped.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start();
    let width = line.chars().count();
    match text.strip_prefix("//") {
        Some(comment) => width > COMMENT && comment.split_whitespace().count() > 2,
        // Lines with a string literal are not checked: some cannot be broken, such as a regular
        // expression.
        None => width > CODE && !text.contains('"'),
    }
}

#[test]
fn lines_are_within_their_width() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    FOLDERS
        .iter()
        .for_each(|folder| sources(&root.join(folder), &mut paths));
    assert!(paths.len() > 500, "only {} sources were found", paths.len());
    let mut wide = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = text.lines().enumerate().filter(|(_, line)| is_too_wide(line));
        wide.extend(lines.map(|(index, _)| format!("{}:{}", path.display(), index + 1)));
    }
    assert!(wide.is_empty(), "wrap these lines:\n{}", wide.join("\n"));
}
