//! Temporary siblings of a file or folder.

use super::parent;
use crate::hex;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Name suffix of a temporary sibling.
const PART: &str = ".part";
/// Name of the lock file in a temporary sibling. Its process holds the lock.
const LOCK: &str = ".lock";
/// Maximum bytes of a file name that are used in the name of a sibling. Systems allow 255 bytes or
/// more in total, and process id, number and suffix take at most 37.
const MAX_NAME: usize = 200;

/// A temporary folder beside a path that holds the new content. Removed on drop.
pub struct Temporary {
    folder: PathBuf,
    /// Path of the new content in the folder, with the same file name as the final path.
    content: PathBuf,
    lock: Option<File>,
}

impl Temporary {
    /// Creates a temporary folder that no other write uses. Removes the folders of killed
    /// processes.
    pub fn beside(path: &Path) -> io::Result<Self> {
        /// Distinguishes the writes of a process.
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        remove_abandoned(path);
        loop {
            let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = sibling(path, &format!("{}-{number}{PART}", process::id()));
            match private().create(&folder) {
                // Of a killed process with the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                result => result?,
            }
            let content = folder.join(path.file_name().unwrap_or_default());
            match lock(&folder) {
                Ok(None) => {}
                Ok(lock) => return Ok(Self { folder, content, lock }),
                Err(error) => {
                    let _ = fs::remove_dir(&folder);
                    return Err(error);
                }
            }
        }
    }

    /// The path for the new content. Nothing is there yet.
    pub fn content(&self) -> PathBuf {
        self.content.clone()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            remove_folder(&self.folder, lock);
        }
    }
}

/// Removes a temporary folder as far as possible; the next write to the path removes the rest. The
/// lock file is removed last, so that a kill does not leave content without one.
fn remove_folder(folder: &Path, lock: File) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name() != LOCK) {
        if remove(&entry.path()).is_err() {
            return;
        }
    }
    // Windows does not remove an open file.
    drop(lock);
    let _ = fs::remove_file(folder.join(LOCK)).and_then(|()| fs::remove_dir(folder));
}

/// Creates a folder that only this user may read, since the old content may be private.
fn private() -> DirBuilder {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    }
    #[cfg(not(unix))]
    DirBuilder::new()
}

/// Locks a new temporary folder. `None` if another process removes it as abandoned, which is
/// possible until it is locked.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // On a file system without locks no folder is removed as abandoned.
        _ => Ok(path.exists().then_some(file)),
    }
}

/// Removes the temporary siblings of a path whose process has ended, as far as possible.
pub fn remove_abandoned(path: &Path) {
    let prefix = sibling(path, "");
    let prefix = prefix.file_name().unwrap_or_default().as_encoded_bytes();
    let is_temporary = |name: &OsStr| {
        let rest = name.as_encoded_bytes().strip_prefix(prefix)?;
        let numbers = rest.strip_suffix(PART.as_bytes())?;
        let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let mut numbers = numbers.splitn(2, |&byte| byte == b'-');
        Some(numbers.next().is_some_and(is_number) && numbers.next().is_some_and(is_number))
    };
    for entry in fs::read_dir(parent(path)).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_temporary(&entry.file_name()) == Some(true) {
            remove_if_abandoned(&entry.path());
        }
    }
}

fn remove_if_abandoned(folder: &Path) {
    match OpenOptions::new().write(true).open(folder.join(LOCK)) {
        Ok(lock) => {
            if lock.try_lock().is_ok() {
                remove_folder(folder, lock);
            }
        }
        // Its process was killed before it created the lock file or after it removed it, so the
        // folder is empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_dir(folder)),
        Err(_) => {}
    }
}

/// The path `.NAME.suffix` beside `NAME`, with a hash in place of a long name.
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut sibling = OsString::from(".");
    if name.len() <= MAX_NAME {
        sibling.push(name)
    } else {
        sibling.push(hex(&Sha256::digest(name.as_encoded_bytes())[..16]))
    }
    sibling.push(".");
    sibling.push(suffix);
    path.with_file_name(sibling)
}

/// Removes a file or folder, if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
