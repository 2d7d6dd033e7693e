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
    pub used: SystemTime,
}

impl CacheFile {
    /// Removes the file, and its folder if that is empty then. Returns `true` if the file is gone.
    pub fn remove(&self) -> bool {
        let gone = remove_path(&self.path);
        // Fails if the folder holds other files.
        let _ = self.path.parent().map(fs::remove_dir);
        gone
    }
}

/// The regular files in a folder, not its subfolders, with one of these extensions; other files
/// stay. Symbolic links are not followed.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> Vec<CacheFile> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            // The metadata describe the link, not its target.
            let (path, about) = (entry.path(), entry.metadata().ok()?);
            let ours = extensions
                .iter()
                .any(|ending| path.extension() == Some(ending.as_ref()));
            (ours && about.is_file()).then(|| CacheFile {
                path,
                bytes: about.len(),
                used: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            })
        })
        .collect()
}
