//! The folder of packed weights: what files are called, and how much it may hold.

use crate::free_space;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// How files end that are whole, and those that are being written.
const WHOLE: &str = "packed";
const PART: &str = "part";

/// The folder holds no more files than these, and no more bytes; nor more than a third of what the
/// disk has for them.
const MOST_FILES: usize = 8;
const MOST_BYTES: u64 = 20 << 30;
/// What is left free on the disk at least.
const LEFT_FREE: u64 = 2 << 30;

/// The file of this key.
pub fn file_of(folder: &Path, key: &str) -> PathBuf {
    let digest = Sha256::digest(key.as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    folder.join(name).with_extension(WHOLE)
}

/// Makes room for a file of `size` bytes, and gives the name it should have while it is written.
/// What was used longest ago goes first; what writers have left that are gone goes always.
///
/// # Errors
/// The folder cannot be made or read, or there is no room.
pub fn make_room(path: &Path, size: u64) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut whole: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let found = entry.path();
        let ends = |with: &str| found.extension().is_some_and(|extension| extension == with);
        if ends(PART) && nobody_writes(&found) {
            let _ = fs::remove_file(&found);
        } else if ends(WHOLE)
            && let Ok(about) = entry.metadata()
        {
            whole.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), found));
        }
    }
    // The file itself is there only if it is of no use.
    whole.sort_by_key(|(used, _, found)| (found != path, *used));
    let mut held: u64 = whole.iter().map(|(_, length, _)| length).sum();
    let mut count = whole.len();
    let room = free_space(folder).map(|free| free.saturating_add(held));
    let most = MOST_BYTES.min(room.map_or(u64::MAX, |room| room / 3));
    let full = || io::Error::new(io::ErrorKind::StorageFull, "the disk has not enough room for them");
    if size > most || room.is_some_and(|room| size.saturating_add(LEFT_FREE) > room) {
        return Err(full());
    }
    for (_, length, found) in whole {
        if count < MOST_FILES && held + size <= most && found != path {
            break;
        }
        if fs::remove_file(found).is_ok() {
            (count, held) = (count - 1, held - length);
        }
    }
    if free_space(folder).is_some_and(|free| size.saturating_add(LEFT_FREE) > free) {
        return Err(full());
    }
    static PARTS: AtomicU32 = AtomicU32::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_extension(format!("{}-{number}.{PART}", std::process::id())))
}

/// Whether the writer of a part is gone: it would hold a lock.
fn nobody_writes(part: &Path) -> bool {
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
    fn the_oldest_make_room_and_what_was_left_half_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |key: &str| file_of(folder.path(), key);
        for age in 0..MOST_FILES {
            let file = File::create(path(&age.to_string())).unwrap();
            let used = SystemTime::now() - Duration::from_secs(60 * age as u64);
            file.set_modified(used).unwrap();
        }
        let left = make_room(&path("left"), 1).unwrap();
        fs::write(&left, "half").unwrap();
        let written = make_room(&path("written"), 1).unwrap();
        let writing = File::create(&written).unwrap();
        writing.lock().unwrap();
        assert!(make_room(&path("too large"), MOST_BYTES + 1).is_err());

        let new = make_room(&path("new"), 1).unwrap();
        assert!(!left.exists() && written.exists() && new != written);
        let there = |age: usize| path(&age.to_string()).exists();
        assert!(!there(MOST_FILES - 1) && (0..MOST_FILES - 1).all(there));
    }
}
