//! Use cases of the caches on disk: disk usage and clearing.

use crate::{
    App, prompt_cache,
    shared::Shared,
    tune::remove_path,
    wire::{Cache, CacheUsage, Problem},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

impl App {
    /// The disk usage of each cache; one that is switched off is not listed.
    pub async fn caches(&self) -> Result<Vec<CacheUsage>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared))).await
    }

    /// Clears a cache, also while a model is loaded, and returns the disk usage of all. A file that
    /// the system does not delete while a model uses it stays.
    pub async fn clear_cache(&self, cache: Cache) -> Result<Vec<CacheUsage>, Problem> {
        self.shared
            .blocking(move |shared| {
                for file in folder(shared, cache).iter().flat_map(|folder| files(folder)) {
                    file.remove();
                }
                Ok(list(shared))
            })
            .await
    }
}

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

fn folder(shared: &Shared, cache: Cache) -> Option<PathBuf> {
    match cache {
        Cache::Prompts => Some(prompt_cache::folder(shared)),
        Cache::Weights => shared.packed.clone(),
    }
}

fn list(shared: &Shared) -> Vec<CacheUsage> {
    let of = |cache| {
        let folder = folder(shared, cache)?;
        Some(CacheUsage {
            cache,
            bytes: files(&folder).iter().map(|file| file.bytes).sum(),
            path: folder.display().to_string(),
        })
    };
    [Cache::Prompts, Cache::Weights].into_iter().filter_map(of).collect()
}
