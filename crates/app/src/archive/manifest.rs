//! The manifest of a backup: `manifest.json`, the last entry of the archive.

use super::FOLDERS;
use crate::{device_name::is_device_name, presets, store};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    path::{Component, Path},
};

/// The entry of the manifest.
pub(super) const FILE: &str = "manifest.json";

/// The version that is written.
pub(super) const VERSION: u32 = 1;

/// Most bytes of a manifest.
pub(super) const MAX_BYTES: u64 = 64 << 20;

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
    /// With `/`, in the archive and in the data folder.
    pub path: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// Whether the paths are those of a backup: the store and files in [`FOLDERS`], each once.
    pub fn has_valid_paths(&self) -> bool {
        let mut seen = HashSet::new();
        self.files
            .iter()
            .all(|file| is_valid(&file.path) && seen.insert(file.path.to_lowercase()))
            && seen.contains(store::FILE)
    }
}

/// Whether a path is that of a file in a backup: it stays in the data folder on any system.
pub(super) fn is_valid(path: &str) -> bool {
    if path == store::FILE {
        return true;
    }
    let parts: Vec<&str> = path.split('/').collect();
    // Also names that are special on another system.
    let is_plain = |part: &&str| {
        let mut components = Path::new(part).components();
        matches!(components.next(), Some(Component::Normal(name)) if name == *part)
            && components.next().is_none()
            && !part.contains(['\\', ':', '\0'])
            && !part.ends_with(['.', ' '])
            && !is_device_name(part)
    };
    let is_in_folder = match parts[0] {
        presets::FOLDER => presets::is_file(&parts[1..]),
        folder => parts.len() > 1 && parts.len() < 16 && FOLDERS.contains(&folder),
    };
    is_in_folder && parts.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn paths_stay_in_the_folders_of_a_backup() {
        for path in [
            "hearth.db",
            "runs/1/adapter/adapter_model.safetensors",
            "datasets/a.jsonl",
            "presets/mine.json",
            "presets/deleted/mine.json",
        ] {
            assert!(is_valid(path), "{path}");
        }
        for path in [
            "",
            "runs",
            "runs/",
            "/etc/passwd",
            "../x",
            "runs/../x",
            "runs//x",
            "runs/./x",
            "runs/a\\..\\x",
            "runs/c:x",
            "models/x.gguf",
            "hearth.lock",
            "runs/x.",
            "runs/nul.txt",
            "presets/CON.json",
            "presets/con .json",
            "presets/com1.x.json",
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
        ] {
            assert!(!is_valid(path), "{path}");
        }
    }
}
