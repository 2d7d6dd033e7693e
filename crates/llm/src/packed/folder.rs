//! The cache folder of packed weights: file names and the size limit.

use hearth_formats::{free_space, hex};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Extensions of complete files, and of files that are being written.
const COMPLETE: &str = "packed";
const PART: &str = "part";

/// Limits of the folder in files and bytes; it also takes at most a third of the disk space
/// available to it.
const MAX_FILES: usize = 8;
const MAX_BYTES: u64 = 20 << 30;
/// Minimum free space left on the disk.
const MIN_FREE: u64 = 2 << 30;

/// The path of the file with this key.
pub fn file_of(folder: &Path, key: &str) -> PathBuf {
    let digest = Sha256::digest(key.as_bytes());
    folder.join(hex(&digest[..16])).with_extension(COMPLETE)
}

/// Frees space for a file of `size` bytes; returns its temporary path. Deletes the least recently
/// used files as needed, and temporary files whose writer has exited.
///
/// # Errors
/// If the folder cannot be created or read, or there is not enough space.
pub fn reserve(path: &Path, size: u64) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut complete: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let found = entry.path();
        let ends = |with: &str| found.extension().is_some_and(|extension| extension == with);
        if ends(PART) && is_abandoned(&found) {
            let _ = fs::remove_file(&found);
        } else if ends(COMPLETE)
            && let Ok(about) = entry.metadata()
        {
            complete.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), found));
        }
    }
    // A file already at `path` is invalid, so it is deleted first.
    complete.sort_by_key(|(used, _, found)| (found != path, *used));
    let mut held: u64 = complete.iter().map(|(_, length, _)| length).sum();
    let mut count = complete.len();
    let available = free_space(folder).map(|free| free.saturating_add(held));
    let limit = MAX_BYTES.min(available.map_or(u64::MAX, |available| available / 3));
    let full = || io::Error::new(io::ErrorKind::StorageFull, "not enough free disk space");
    if size > limit || available.is_some_and(|available| size.saturating_add(MIN_FREE) > available) {
        return Err(full());
    }
    for (_, length, found) in complete {
        if count < MAX_FILES && held + size <= limit && found != path {
            break;
        }
        if fs::remove_file(found).is_ok() {
            (count, held) = (count - 1, held - length);
        }
    }
    if free_space(folder).is_some_and(|free| size.saturating_add(MIN_FREE) > free) {
        return Err(full());
    }
    static PARTS: AtomicU32 = AtomicU32::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_extension(format!("{}-{number}.{PART}", std::process::id())))
}

/// Returns whether the writer of a temporary file has exited: it would hold a lock.
fn is_abandoned(part: &Path) -> bool {
    File::options()
        .write(true)
        .open(part)
        .is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_least_recently_used_files_and_abandoned_parts_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = |key: &str| file_of(folder.path(), key);
        for age in 0..MAX_FILES {
            let file = File::create(path(&age.to_string())).unwrap();
            let used = SystemTime::now() - Duration::from_secs(60 * age as u64);
            file.set_modified(used).unwrap();
        }
        let left = reserve(&path("left"), 1).unwrap();
        fs::write(&left, "half").unwrap();
        let written = reserve(&path("written"), 1).unwrap();
        let writing = File::create(&written).unwrap();
        writing.lock().unwrap();
        assert!(reserve(&path("too large"), MAX_BYTES + 1).is_err());

        let new = reserve(&path("new"), 1).unwrap();
        assert!(!left.exists() && written.exists() && new != written);
        let there = |age: usize| path(&age.to_string()).exists();
        assert!(!there(MAX_FILES - 1) && (0..MAX_FILES - 1).all(there));
    }
}
