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

/// The files that workers wrote into a cache's folder or its subfolders, recognised by extension so
/// that other files stay.
pub(crate) fn files(folder: &Path) -> Vec<CacheFile> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let inside = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => list(&entry.path()).collect(),
        _ => vec![entry],
    };
    list(folder)
        .flat_map(inside)
        .filter_map(|entry| {
            let (path, about) = (entry.path(), entry.metadata().ok()?);
            let ours = ["kv", "packed", "part"]
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
