//! What is kept on the disk so that Hearth is quick, and can be made again: how much it is, and clearing it.

use crate::{
    App, kept,
    shared::Shared,
    tune::removed,
    wire::{Cache, Cached, Problem},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

impl App {
    /// What each cache takes. One that is switched off is not listed.
    pub async fn caches(&self) -> Result<Vec<Cached>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared))).await
    }

    /// Empties a cache, also while a model is loaded, and gives what each takes then. What a system does not let go of while a model uses it
    /// stays.
    pub async fn clear_cache(&self, cache: Cache) -> Result<Vec<Cached>, Problem> {
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
    /// Removes it, and its folder if that is empty then; whether it is gone.
    pub fn remove(&self) -> bool {
        let gone = removed(&self.path);
        // It may hold more.
        let _ = self.path.parent().map(fs::remove_dir);
        gone
    }
}

/// What workers have written into a cache, in its folder or in folders of that: by what it ends with, so that nothing else is
/// ever taken for it.
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
        Cache::Chats => Some(kept::folder(shared)),
        Cache::Weights => shared.packed.clone(),
    }
}

fn list(shared: &Shared) -> Vec<Cached> {
    let of = |cache| {
        let folder = folder(shared, cache)?;
        Some(Cached {
            cache,
            bytes: files(&folder).iter().map(|file| file.bytes).sum(),
            path: folder.display().to_string(),
        })
    };
    [Cache::Chats, Cache::Weights].into_iter().filter_map(of).collect()
}
