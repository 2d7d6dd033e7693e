//! The manifest of a backup: `manifest.json`, the last entry of the archive.

use super::FOLDERS;
use crate::store;
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

fn is_valid(path: &str) -> bool {
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
    };
    parts.len() > 1 && parts.len() < 16 && FOLDERS.contains(&parts[0]) && parts.iter().all(is_plain)
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
            "./hearth.db",
            "hearth.db-wal",
        ] {
            assert!(!is_valid(path), "{path}");
        }
    }
}
