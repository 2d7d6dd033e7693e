//! Downloads: resumable, verified, and moved into place once complete. A file is complete and
//! right, or it is not there; what has arrived of it lies beside it as `NAME.partial`.

mod connection;
mod fetch;
mod partial;
mod spans;

use self::{
    fetch::Fetch,
    partial::{Partial, partial_path, remove_records},
};
use super::{
    LibraryError,
    hub::{Hub, Origin, Remote, RemoteFile, without_query},
};
use hearth_formats::{
    durable::{commit_file, write_file},
    free_space, hex,
};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// Disk space that a download leaves free.
const MIN_FREE: u64 = 200 << 20;

/// End of the name of the record beside a downloaded model or adapter.
pub(super) const ORIGIN: &str = ".origin.json";

/// Most bytes of that record.
const MAX_ORIGIN_BYTES: u64 = 16 << 10;

/// Progress of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Downloading.
    Loading {
        /// Bytes downloaded.
        done: u64,
        /// Total bytes.
        total: u64,
    },
    /// Complete; the digest is being verified.
    Checking,
}

/// Receives the progress; `Break` cancels.
type Report<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Downloads the files of a model into a folder, those that are missing. Returns the path of the
/// first. Blocks until done.
///
/// # Errors
/// What has arrived stays, but for a file whose hash is wrong.
pub fn download(hub: &Hub, remote: &Remote, folder: &Path, progress: Report) -> Result<PathBuf, LibraryError> {
    let first = remote.files.first().ok_or_else(|| LibraryError::NoVariant {
        repository: remote.name.clone(),
        wanted: None,
        known: Vec::new(),
    })?;
    let target = folder.join(&first.path);
    let is_same = origin(&target).is_some_and(|saved| saved.revision == remote.origin.revision);
    check_space(remote, folder, is_same)?;
    let total = remote.size();
    let mut before = 0;
    for file in &remote.files {
        let target = folder.join(&file.path);
        if !is_complete(&target, file, is_same, progress)? {
            download_file(hub, file, &target, &mut |now| {
                progress(match now {
                    Progress::Loading { done, .. } => Progress::Loading {
                        done: before + done,
                        total,
                    },
                    Progress::Checking => Progress::Checking,
                })
            })?;
        }
        before += file.size;
    }
    save_origin(&target, &remote.origin)?;
    Ok(target)
}

/// Whether a file is in place. If the model beside it has the same revision, it was verified before
/// it was put there; otherwise its hash is.
fn is_complete(target: &Path, file: &RemoteFile, is_same: bool, progress: Report) -> Result<bool, LibraryError> {
    if !has_size(target, file) {
        return Ok(false);
    }
    let Some(expected) = file.sha256.as_ref().filter(|_| !is_same) else {
        return Ok(is_same);
    };
    report(progress, Progress::Checking)?;
    let found = File::open(target).and_then(|mut file| sha256(&mut file, progress));
    report(progress, Progress::Checking)?;
    // What cannot be read is downloaded again.
    Ok(found.is_ok_and(|found| found == *expected))
}

fn has_size(target: &Path, file: &RemoteFile) -> bool {
    fs::metadata(target).is_ok_and(|about| about.is_file() && about.len() == file.size)
}

/// Refuses a download for which the disk has no room.
fn check_space(remote: &Remote, folder: &Path, is_same: bool) -> Result<(), LibraryError> {
    fs::create_dir_all(folder).map_err(|source| LibraryError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let missing = remote.files.iter().map(|file| {
        let target = folder.join(&file.path);
        match is_same && has_size(&target, file) {
            true => 0,
            false => file.size.saturating_sub(partial::arrived(&target, file)),
        }
    });
    let missing = missing.fold(0, u64::saturating_add);
    let needed = missing.saturating_add(MIN_FREE);
    match free_space(folder) {
        Some(free) if missing > 0 && free < needed => Err(LibraryError::NoSpace {
            name: remote.name.clone(),
            folder: folder.to_owned(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// Bytes of a model that have arrived.
pub fn arrived(remote: &Remote, folder: &Path) -> u64 {
    let of = |file: &RemoteFile| {
        let target = folder.join(&file.path);
        match has_size(&target, file) {
            true => file.size,
            false => partial::arrived(&target, file),
        }
    };
    remote.files.iter().map(of).fold(0, u64::saturating_add)
}

/// Removes what has arrived of an unfinished download. A complete model stays.
///
/// # Errors
/// A file cannot be removed, or is being downloaded.
pub fn discard(remote: &Remote, folder: &Path) -> Result<(), LibraryError> {
    // The row may be damaged, or from elsewhere.
    if !remote.has_safe_paths() {
        return Err(LibraryError::UnsafeName(remote.name.clone()));
    }
    let is_model = remote
        .files
        .first()
        .is_some_and(|first| origin(&folder.join(&first.path)).is_some());
    for file in &remote.files {
        let target = folder.join(&file.path);
        let partial = partial_path(&target);
        remove_unlocked(&partial, &file.name)?;
        remove_records(&partial).map_err(|source| LibraryError::Delete { path: partial, source })?;
        // Parts of a model that never became complete.
        if remote.files.len() > 1 && !is_model {
            remove_unlocked(&target, &file.name)?;
        }
    }
    Ok(())
}

/// Removes a file unless a download holds its lock.
fn remove_unlocked(path: &Path, name: &str) -> Result<(), LibraryError> {
    let failed = |source| LibraryError::Delete {
        path: path.to_owned(),
        source,
    };
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(LibraryError::AlreadyDownloading(name.to_owned()));
    }
    // Without its record, an unfinished file must not count as complete up to its length.
    file.set_len(0).and_then(|()| file.sync_all()).map_err(failed)?;
    // Windows does not delete an open file.
    drop(file);
    fs::remove_file(path).map_err(failed)
}

/// Downloads one file to a path.
fn download_file(hub: &Hub, remote: &RemoteFile, target: &Path, progress: Report) -> Result<(), LibraryError> {
    let partial = Partial::open(remote, target)?;
    let failed = |source: io::Error| LibraryError::Write {
        path: target.to_owned(),
        source,
    };
    let mut partial = Fetch::new(hub, remote, partial, progress).run()?;
    report(progress, Progress::Checking)?;
    let found = sha256(partial.file(), progress).map_err(failed)?;
    report(progress, Progress::Checking)?;
    let is_right = match &remote.sha256 {
        Some(expected) => *expected == found,
        None => has_magic(partial.file()).map_err(failed)?,
    };
    if !is_right {
        partial.remove()?;
        return Err(LibraryError::HashMismatch {
            name: remote.name.clone(),
            url: without_query(&remote.url).to_owned(),
            found,
        });
    }
    commit_file(&partial.close()?, target).map_err(failed)
}

/// Whether a file begins as a GGUF file does.
fn has_magic(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; 4];
    file.seek(SeekFrom::Start(0))?;
    Ok(file.read_exact(&mut magic).is_ok() && magic == *b"GGUF")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(suffix);
    path.with_file_name(name)
}

fn report(progress: Report, now: Progress) -> Result<(), LibraryError> {
    match progress(now) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(LibraryError::Cancelled),
    }
}

/// The sha256 of a whole file, in hexadecimal. Ends early if cancelled.
fn sha256(file: &mut File, progress: Report) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 || progress(Progress::Checking).is_break() {
            return Ok(hex(digest.finalize()));
        }
        digest.update(&buffer[..count]);
    }
}

/// The record of a model's origin, beside its first file.
fn origin_file(model: &Path) -> PathBuf {
    with_suffix(model, ORIGIN)
}

fn save_origin(model: &Path, origin: &Origin) -> Result<(), LibraryError> {
    let path = origin_file(model);
    let text = serde_json::to_vec_pretty(origin).unwrap_or_default();
    let written: io::Result<()> = write_file(&path, |out| out.write_all(&text));
    written.map_err(|source| LibraryError::Write { path, source })
}

/// Where a model was downloaded from. `None` means that Hearth did not download it.
pub(super) fn origin(model: &Path) -> Option<Origin> {
    let path = origin_file(model);
    let is_small = fs::metadata(&path).is_ok_and(|about| about.is_file() && about.len() <= MAX_ORIGIN_BYTES);
    let text = fs::read(path).ok().filter(|_| is_small)?;
    serde_json::from_slice(&text).ok()
}

/// Removes the record of a deleted model.
pub(super) fn remove_origin(model: &Path) -> io::Result<()> {
    match fs::remove_file(origin_file(model)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
