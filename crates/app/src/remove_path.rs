//! Removal of files and folders, with a log entry if it fails.

use std::{fs, io, path::Path};

/// Removes a file or folder. Returns `true` if it no longer exists.
pub(crate) fn remove_path(path: &Path) -> bool {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a deleted file or folder could not be removed yet");
            false
        }
    }
}
