//! The cache folder of packed weights.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets this process's cache folder of packed weights. It is created on demand and may be emptied
/// at any time. `None`, the default, disables the cache.
pub fn set_cache_folder(folder: Option<PathBuf>) {
    *FOLDER.lock().unwrap_or_else(PoisonError::into_inner) = folder;
}

/// The cache folder of packed weights. `None` means that the cache is disabled.
pub(crate) fn folder() -> Option<PathBuf> {
    FOLDER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
