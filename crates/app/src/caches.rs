//! Methods of [`App`] for the caches on disk: disk usage and clearing.

use crate::{
    App,
    cache_files::{self, CacheFile},
    prompt_cache,
    shared::Shared,
    wire::{Cache, CacheUsage, Problem},
};
use std::path::{Path, PathBuf};

impl App {
    /// The disk usage of each cache, except a cache that is switched off.
    pub async fn caches(&self) -> Result<Vec<CacheUsage>, Problem> {
        self.shared.blocking(|shared| Ok(list(shared))).await
    }

    /// Clears a cache, even while a model is loaded, and returns the disk usage of all caches.
    /// Files stay if the system does not delete files in use.
    pub async fn clear_cache(&self, cache: Cache) -> Result<Vec<CacheUsage>, Problem> {
        self.shared
            .blocking(move |shared| {
                for file in folder(shared, cache).iter().flat_map(|folder| files(folder, cache)) {
                    file.remove();
                }
                Ok(list(shared))
            })
            .await
    }
}

fn folder(shared: &Shared, cache: Cache) -> Option<PathBuf> {
    match cache {
        Cache::Prompts => Some(prompt_cache::folder(shared)),
        Cache::Weights => shared.packed.clone(),
    }
}

fn files(folder: &Path, cache: Cache) -> Vec<CacheFile> {
    match cache {
        Cache::Prompts => prompt_cache::files(folder),
        Cache::Weights => cache_files::files(folder, &["packed", "part"]),
    }
}

fn list(shared: &Shared) -> Vec<CacheUsage> {
    let usage = |cache| {
        let folder = folder(shared, cache)?;
        Some(CacheUsage {
            cache,
            bytes: files(&folder, cache).iter().map(|file| file.bytes).sum(),
            path: folder.display().to_string(),
        })
    };
    [Cache::Prompts, Cache::Weights].into_iter().filter_map(usage).collect()
}
