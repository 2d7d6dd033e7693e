//! A folder that one test makes, and the processes of all tests read: under nextest, each test is a
//! process.
//!
//! Its name has a hash of its inputs, so a later run of the same build finds it, too.

use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file that processes lock while they make or use a folder.
const LOCK: &str = "lock";

/// A folder that no process removes while this exists.
#[derive(Debug)]
pub struct Shared {
    folder: PathBuf,
    _in_use: File,
}

impl Shared {
    /// The folder `NAME-KEY` in `base`. If it does not exist, `make` fills an empty folder. Folders
    /// of this name with other keys are removed once no process uses them. `key` identifies the
    /// inputs of the contents.
    ///
    /// # Panics
    /// Panics if `make` does, or if the disk is full.
    pub fn folder(base: &Path, name: &str, key: &str, make: impl Fn(&Path)) -> Self {
        fs::create_dir_all(base).expect("the folder of shared folders can be made");
        let folder = base.join(format!("{name}-{key}"));
        let lock = open_lock(&folder).expect("a lock can be made");
        loop {
            lock.lock_shared().expect("a lock");
            if folder.is_dir() {
                return Self { folder, _in_use: lock };
            }
            lock.unlock().expect("a lock");
            lock.lock().expect("a lock");
            if !folder.is_dir() {
                fill(&folder, &make);
                remove_others(base, name, &folder);
            }
            // A process with another key may remove the folder before it is in use here.
            lock.unlock().expect("a lock");
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

/// Opens the lock of a folder, which is beside it.
fn open_lock(folder: &Path) -> io::Result<File> {
    let path = folder.with_extension(LOCK);
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}

/// Makes a folder under a temporary name and renames it when it is complete.
fn fill(folder: &Path, make: &impl Fn(&Path)) {
    let part = folder.with_extension("part");
    // A process that was killed may have left one.
    if part.exists() {
        fs::remove_dir_all(&part).expect("an incomplete folder can be removed");
    }
    fs::create_dir(&part).expect("a folder can be made");
    make(&part);
    fs::rename(&part, folder).expect("a folder can be renamed");
}

/// Removes the folders with other keys that no process uses.
fn remove_others(base: &Path, name: &str, own: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let lock = entry.path();
        let stem = lock.file_stem().and_then(OsStr::to_str);
        let has_name = stem
            .and_then(|stem| stem.rsplit_once('-'))
            .is_some_and(|(prefix, _)| prefix == name);
        let other = lock.with_extension("");
        if !has_name || lock.extension() != Some(OsStr::new(LOCK)) || other == own {
            continue;
        }
        if let Ok(file) = File::open(&lock)
            && file.try_lock().is_ok()
        {
            // If removal fails, the next process tries again. The lock itself stays: a process may
            // have opened it, and would then lock another file than the next process.
            let _ = fs::remove_dir_all(&other);
            let _ = fs::remove_dir_all(other.with_extension("part"));
        }
    }
}

/// A key that depends on the contents of files and on texts.
///
/// # Panics
/// Panics if a file cannot be read.
pub fn key(files: &[&Path], texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    // Counts and lengths are hashed first, so that different lists have different encodings.
    hash.update((files.len() as u64).to_le_bytes());
    for path in files {
        let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        hash.update(file.metadata().expect("a file has a length").len().to_le_bytes());
        io::copy(&mut file, &mut hash).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
