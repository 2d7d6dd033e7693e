//! The cache folder of packed weights: file names and the size limit.

use hearth_formats::{free_space, hex};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// Extension of complete files.
const COMPLETE: &str = "packed";
/// Extension of temporary files, which are being written.
const TEMPORARY: &str = "part";

/// Maximum complete files.
const MAX_FILES: usize = 8;
/// Maximum bytes of all complete files. They also take at most a third of the disk space that is
/// free or taken by them.
const MAX_BYTES: u64 = 20 << 30;
/// Minimum bytes that remain free on the disk.
const MIN_FREE: u64 = 2 << 30;

/// The path of the file with this key.
pub fn file_of(folder: &Path, key: &str) -> PathBuf {
    let digest = Sha256::digest(key.as_bytes());
    folder.join(hex(&digest[..16])).with_extension(COMPLETE)
}

/// A complete file in the folder.
struct CompleteFile {
    path: PathBuf,
    size: u64,
    last_used: SystemTime,
}

/// Frees space for a file of `size` bytes, and returns its temporary path. Deletes temporary files
/// whose writer has exited and, if needed, the least recently used files.
///
/// # Errors
/// If the folder cannot be created or read, or there is not enough space.
pub fn reserve(path: &Path, size: u64) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut files: Vec<CompleteFile> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let entry_path = entry.path();
        let has_extension = |expected: &str| entry_path.extension().is_some_and(|actual| actual == expected);
        if has_extension(TEMPORARY) && is_abandoned(&entry_path) {
            let _ = fs::remove_file(&entry_path);
        } else if has_extension(COMPLETE)
            && let Ok(metadata) = entry.metadata()
        {
            files.push(CompleteFile {
                path: entry_path,
                size: metadata.len(),
                last_used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    }
    // A file at `path` is invalid, so it is the first to be deleted.
    files.sort_by_key(|file| (file.path != path, file.last_used));
    let mut used: u64 = files.iter().map(|file| file.size).sum();
    let mut count = files.len();
    let available = free_space(folder).map(|free| free.saturating_add(used));
    let limit = MAX_BYTES.min(available.map_or(u64::MAX, |available| available / 3));
    let storage_full = || io::Error::new(io::ErrorKind::StorageFull, "not enough free disk space");
    if size > limit || available.is_some_and(|available| size.saturating_add(MIN_FREE) > available) {
        return Err(storage_full());
    }
    for file in files {
        if count < MAX_FILES && used + size <= limit && file.path != path {
            break;
        }
        if fs::remove_file(file.path).is_ok() {
            (count, used) = (count - 1, used - file.size);
        }
    }
    if free_space(folder).is_some_and(|free| size.saturating_add(MIN_FREE) > free) {
        return Err(storage_full());
    }
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_extension(format!("{}-{number}.{TEMPORARY}", std::process::id())))
}

/// Whether the writer of a temporary file has exited. A running writer holds a lock.
fn is_abandoned(temporary: &Path) -> bool {
    File::options()
        .write(true)
        .open(temporary)
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
            let last_used = SystemTime::now() - Duration::from_secs(60 * age as u64);
            file.set_modified(last_used).unwrap();
        }
        let abandoned = reserve(&path("abandoned"), 1).unwrap();
        fs::write(&abandoned, "half").unwrap();
        let active = reserve(&path("active"), 1).unwrap();
        let writer = File::create(&active).unwrap();
        writer.lock().unwrap();
        assert!(reserve(&path("too large"), MAX_BYTES + 1).is_err());

        let new = reserve(&path("new"), 1).unwrap();
        assert!(!abandoned.exists() && active.exists() && new != active);
        let exists = |age: usize| path(&age.to_string()).exists();
        assert!(!exists(MAX_FILES - 1) && (0..MAX_FILES - 1).all(exists));
    }
}
