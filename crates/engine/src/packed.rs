//! Where weights that were packed for this machine are kept from one load to the next.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Keeps what loads of this process pack in this folder, which is made if it is not there and may be emptied at any time; none: nowhere, as
/// it is before the first call.
pub fn keep_in(folder: Option<PathBuf>) {
    *FOLDER.lock().unwrap_or_else(PoisonError::into_inner) = folder;
}

/// The folder.
pub(crate) fn folder() -> Option<PathBuf> {
    FOLDER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
