//! The files of the caches on disk, which workers write.

use crate::remove_path::remove_path;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A file of a cache.
pub(crate) struct CacheFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// Time of the last use.
    pub used: SystemTime,
}

impl CacheFile {
    /// Removes the file, and its folder if that becomes empty. Returns `true` if the file is gone.
    pub fn remove(&self) -> bool {
        let is_removed = remove_path(&self.path);
        // Fails if the folder has other files.
        let _ = self.path.parent().map(fs::remove_dir);
        is_removed
    }
}

/// The regular files in a folder, without its subfolders, that have one of these extensions.
/// Symbolic links are not followed.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> Vec<CacheFile> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            // The metadata is of a link itself, not of its target.
            let (path, metadata) = (entry.path(), entry.metadata().ok()?);
            let has_extension = extensions
                .iter()
                .any(|extension| path.extension() == Some(extension.as_ref()));
            (has_extension && metadata.is_file()).then(|| CacheFile {
                path,
                bytes: metadata.len(),
                used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            })
        })
        .collect()
}
