//! The manifest of a backup: `manifest.json`, the last entry of the archive.

use super::FOLDERS;
use crate::{device_name::is_device_name, presets, store, wire::SkippedFileReason};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    path::{Component, Path},
};

/// The entry of the manifest.
pub(super) const FILE: &str = "manifest.json";

/// The version of the format that is written.
pub(super) const VERSION: u32 = 1;

/// Most bytes of a manifest.
pub(super) const MAX_BYTES: u64 = 256 << 20;

/// Most files of a backup.
pub(super) const MAX_FILES: usize = 500_000;

/// Most components of a path.
const MAX_DEPTH: usize = 64;

/// Most bytes of a path, because a ZIP archive stores its length in 16 bits.
const MAX_PATH_BYTES: usize = 16 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    /// The version of the format.
    pub hearth_backup: u32,
    /// The Hearth that wrote it.
    pub version: String,
    /// Milliseconds since 1970.
    pub made_at: i64,
    /// The data folder at that time, for the paths in the store.
    pub data_folder: String,
    pub files: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The path in the archive and in the data folder, with `/`.
    pub path: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// Whether each path is allowed in a backup and occurs once, and the store is among them.
    /// Allowed are the store and files in [`FOLDERS`].
    pub fn has_valid_paths(&self) -> bool {
        let mut seen = HashSet::new();
        self.files.len() <= MAX_FILES
            && self
                .files
                .iter()
                .all(|file| is_valid(&file.path) && seen.insert(file.path.as_str()))
            && seen.contains(store::FILE)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// Whether a backup may have a file with this path: the path stays in the folders of a backup, on
/// any system. The rule applies to writing and to reading.
pub(super) fn is_valid(path: &str) -> bool {
    refused(path).is_none()
}

/// The reason why a file with this path is skipped. `None` means that the path is valid.
pub(super) fn refused(path: &str) -> Option<SkippedFileReason> {
    if path == store::FILE {
        return None;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let is_name = |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains('\0');
    if parts.len() < 2 || path.len() > MAX_PATH_BYTES || !FOLDERS.contains(&parts[0]) || !parts.iter().all(is_name) {
        return Some(SkippedFileReason::Name);
    }
    if parts.len() > MAX_DEPTH {
        return Some(SkippedFileReason::TooDeep);
    }
    let is_no_preset = parts[0] == presets::FOLDER && !presets::is_file(&parts[1..]);
    is_no_preset.then_some(SkippedFileReason::NotAPreset)
}

/// Whether a folder is so deep that its files are not in a backup.
pub(super) fn is_too_deep(folder: &str) -> bool {
    folder.split('/').count() >= MAX_DEPTH
}

/// Whether this system allows the names in a valid path. A name may denote a device or another
/// folder.
pub(super) fn is_possible_here(path: &str) -> bool {
    path.split('/').all(|part| {
        let mut components = Path::new(part).components();
        let is_normal = matches!(components.next(), Some(Component::Normal(name)) if name == part);
        is_normal && components.next().is_none() && (!cfg!(windows) || is_possible_on_windows(part))
    })
}

fn is_possible_on_windows(name: &str) -> bool {
    let is_forbidden = |c: char| c.is_control() || r#"<>:"/\|?*"#.contains(c);
    !name.contains(is_forbidden) && !name.ends_with(['.', ' ']) && !is_device_name(name)
}

#[cfg(test)]
mod tests {
    use super::{is_possible_on_windows, is_valid};

    #[test]
    fn paths_stay_in_the_folders_of_a_backup() {
        for path in [
            "hearth.db",
            "runs/1/adapter/adapter_model.safetensors",
            "datasets/a.jsonl",
            "presets/mine.json",
            "presets/deleted/mine.json",
            // Names that another system refuses.
            "runs/x.",
            "runs/c:x",
            "runs/a\\..\\x",
            "runs/nul.txt",
            "presets/CON.json",
            "presets/con .json",
        ] {
            assert!(is_valid(path), "{path}");
        }
        let deep = format!("runs/{}x", "a/".repeat(63));
        for path in [
            "",
            "runs",
            "runs/",
            "/etc/passwd",
            "../x",
            "runs/../x",
            "runs//x",
            "runs/./x",
            "runs/a\0b",
            "models/x.gguf",
            "hearth.lock",
            "presets/../x.json",
            "presets/a/b.json",
            "presets/deleted/a/b.json",
            "presets/deleted/../../x.json",
            "presets/x.exe",
            "presets/.json",
            "presets/.x.json",
            "presets",
            "presets/deleted",
            "./hearth.db",
            "hearth.db-wal",
            &deep,
        ] {
            assert!(!is_valid(path), "{path}");
        }
    }

    #[test]
    fn names_that_mean_something_else_on_windows_are_refused_there() {
        for name in [
            "x.",
            "x ",
            "c:x",
            "a\\x",
            "nul.txt",
            "con .json",
            "com1.x.json",
            "a?",
            "a\nb",
        ] {
            assert!(!is_possible_on_windows(name), "{name}");
        }
        for name in ["x", ".x", "x.y.z", "console", "\u{1f999} model"] {
            assert!(is_possible_on_windows(name), "{name}");
        }
    }
}
