//! Downloads: resumable, verified, and moved into place once complete. A file exists only if it is
//! complete and verified; received bytes are in `NAME.partial` beside it. A newer version replaces
//! a model once all of its files are complete.

mod complete;
mod connection;
mod fetch;
mod partial;
mod record;
mod spans;

pub(super) use self::record::{ORIGIN, Saved, origin, remove_origin, saved};

use self::{
    complete::flaw,
    fetch::Fetch,
    partial::{Partial, open_locked, partial_path, remove_records},
    record::{SavedFile, save_origin},
};
use super::{
    LibraryError,
    hub::{Hub, Remote, RemoteFile, without_query},
};
use hearth_formats::{free_space, hex};
use hearth_protocol::ModelsReason;
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, SeekFrom},
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
};

/// Disk space that a download leaves free.
const MIN_FREE: u64 = 200 << 20;

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
    /// The server has another version of a downloaded model, which will replace it.
    Changed,
}

/// Receives the progress; `Break` cancels.
type Report<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Downloads the files of a model into a folder if they are missing or the server has another
/// version. Returns the path of the first file. Blocks until done.
///
/// # Errors
/// The download failed or was cancelled. Received bytes are kept, except for a file with a wrong
/// hash.
pub fn download(hub: &Hub, remote: &Remote, folder: &Path, progress: Report) -> Result<PathBuf, LibraryError> {
    let first = remote.files.first().ok_or_else(|| {
        let repository = remote.name.clone();
        LibraryError::NotFound(ModelsReason::NothingToDownload { repository })
    })?;
    let target = folder.join(&first.path);
    let before = saved(&target);
    let is_same = before
        .as_ref()
        .is_some_and(|saved| saved.is_of(remote.origin.revision.as_deref()));
    if before
        .as_ref()
        .is_some_and(|saved| is_of_unknown_version(saved, remote, folder))
    {
        return Ok(target);
    }
    check_space(remote, folder, before.as_ref())?;
    let mut update = Update {
        // A model with files of two versions would be invalid.
        is_together: before.is_some() && remote.files.len() > 1,
        is_reported: before
            .as_ref()
            .is_none_or(|saved| is_same || saved.origin.revision.is_none()),
        former: before.as_ref().map(|_| target.clone()),
        mark: before
            .as_ref()
            .filter(|saved| !saved.updating)
            .map(|saved| (target.clone(), saved.while_updating())),
        ready: Vec::new(),
    };
    let commit = remote.origin.revision.as_deref();
    let total = remote.size();
    let (mut done, mut files) = (0, Vec::new());
    for file in &remote.files {
        let target = folder.join(&file.path);
        let record = before.as_ref().and_then(|saved| saved.file(&file.path));
        let mut complete = complete_hash(&target, file, record, is_same, progress)?;
        if complete.is_none() {
            update.report(&target, progress)?;
            let hash = download_file(hub, file, commit, &target, &mut update, &mut |now| {
                progress(match now {
                    Progress::Loading { done: file_done, .. } => Progress::Loading {
                        done: done + file_done,
                        total,
                    },
                    other => other,
                })
            })?;
            complete = Some(hash);
        }
        files.push(SavedFile::new(file, complete.flatten()));
        done += file.size;
    }
    update.finish()?;
    let origin = remote.origin.clone();
    let saved = Saved {
        origin,
        files,
        updating: false,
    };
    save_origin(&target, &saved)?;
    Ok(target)
}

/// Whether a downloaded model has a record without a version, written by an earlier Hearth. It
/// cannot be compared with the server's files, so it is kept and not downloaded again.
fn is_of_unknown_version(saved: &Saved, remote: &Remote, folder: &Path) -> bool {
    let is_old = saved.files.is_empty() && saved.origin.revision.is_none() && !saved.updating;
    is_old && !is_hashed(remote) && remote.files.iter().all(|file| has_size(&folder.join(&file.path), file))
}

/// Whether the server publishes a hash of each file, or of each part of it.
pub(super) fn is_hashed(remote: &Remote) -> bool {
    let mut pieces = remote.files.iter().flat_map(RemoteFile::pieces);
    pieces.all(|piece| piece.sha256.is_some())
}

/// Files that replace the files of another version.
struct Update {
    /// Whether all files are moved into place together.
    is_together: bool,
    is_reported: bool,
    /// The first file of the model that is replaced, if there is one.
    former: Option<PathBuf>,
    /// The model's first file, and its record while files are replaced. `None` means that this
    /// record was written already. After a crash, the model then has no known version.
    mark: Option<(PathBuf, Saved)>,
    /// Complete files, still locked, and their final paths.
    ready: Vec<(Partial, PathBuf)>,
}

impl Update {
    /// Reports that a file is replaced, once.
    fn report(&mut self, target: &Path, progress: Report) -> Result<(), LibraryError> {
        if self.is_reported || !target.exists() {
            Ok(())
        } else {
            self.is_reported = true;
            report(progress, Progress::Changed)
        }
    }

    /// Moves a complete file into place, now or together with the others.
    fn add(&mut self, mut partial: Partial, target: &Path) -> Result<(), LibraryError> {
        partial.record()?;
        self.ready.push((partial, target.to_owned()));
        if self.is_together { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<(), LibraryError> {
        if self.ready.is_empty() {
            return Ok(());
        }
        // Checks all files before the first one is replaced.
        self.ready
            .iter()
            .try_for_each(|(partial, _)| partial.check_complete())?;
        if let Some(path) = self.former.as_ref().filter(|first| saved(first).is_none()) {
            return Err(LibraryError::DeletedMeanwhile(path.clone()));
        }
        if let Some((first, mark)) = self.mark.take() {
            save_origin(&first, &mark)?;
        }
        for (partial, target) in self.ready.drain(..) {
            partial
                .commit(&target)
                .map_err(|source| LibraryError::Write { path: target, source })?;
        }
        Ok(())
    }
}

/// Returns the hash of a file that is in place. The outer `None` means that the file is missing, or
/// may be of another version. The inner `None` means that its hash is not known. A file counts as
/// verified if the record beside it has the same revision (`is_same`) or the expected hash.
/// Otherwise the file is hashed here.
fn complete_hash(
    target: &Path,
    file: &RemoteFile,
    record: Option<&SavedFile>,
    is_same: bool,
    progress: Report,
) -> Result<Option<Option<String>>, LibraryError> {
    if !has_size(target, file) {
        return Ok(None);
    }
    if is_same || record.is_some_and(|record| record.is_same(file) == Some(true)) {
        let hash = record.and_then(|record| record.sha256.clone());
        return Ok(Some(hash.or_else(|| file.sha256.clone())));
    }
    if file.pieces().iter().any(|piece| piece.sha256.is_none()) {
        return Ok(None);
    }
    report(progress, Progress::Checking)?;
    let is_verified = File::open(target).and_then(|mut opened| has_hashes(&mut opened, file, progress));
    report(progress, Progress::Checking)?;
    // A file that cannot be read is downloaded again.
    Ok(is_verified.unwrap_or(false).then(|| file.sha256.clone()))
}

/// Whether each piece of a file has its published hash.
fn has_hashes(opened: &mut File, file: &RemoteFile, progress: Report) -> io::Result<bool> {
    let mut start = 0_u64;
    for piece in file.pieces() {
        let end = start.saturating_add(piece.size);
        if piece.sha256 != Some(sha256(opened, start..end, progress)?) {
            return Ok(false);
        }
        start = end;
    }
    Ok(true)
}

fn has_size(target: &Path, file: &RemoteFile) -> bool {
    fs::metadata(target).is_ok_and(|metadata| metadata.is_file() && metadata.len() == file.size)
}

/// Checks that the disk has space for a download.
fn check_space(remote: &Remote, folder: &Path, before: Option<&Saved>) -> Result<(), LibraryError> {
    fs::create_dir_all(folder).map_err(|source| LibraryError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let commit = remote.origin.revision.as_deref();
    let missing = remote.files.iter().map(|file| {
        let target = folder.join(&file.path);
        if before.is_some_and(|saved| is_in_place(remote, file, &target, Some(saved))) {
            0
        } else {
            file.size.saturating_sub(partial::arrived(&target, file, commit))
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

/// Whether a file that is in place counts as the server's file, according to its record.
fn is_in_place(remote: &Remote, file: &RemoteFile, target: &Path, saved: Option<&Saved>) -> bool {
    let is_server_file = |saved: &Saved| {
        let is_same = saved.file(&file.path).and_then(|record| record.is_same(file));
        let has_other_revision = saved.origin.revision.is_some() && remote.origin.revision.is_some();
        saved.is_of(remote.origin.revision.as_deref()) || is_same.unwrap_or(!saved.updating && !has_other_revision)
    };
    has_size(target, file) && saved.is_none_or(is_server_file)
}

/// The record of a downloaded model.
fn saved_of(remote: &Remote, folder: &Path) -> Option<Saved> {
    saved(&folder.join(&remote.files.first()?.path))
}

/// Received bytes of a model.
pub fn arrived(remote: &Remote, folder: &Path) -> u64 {
    let commit = remote.origin.revision.as_deref();
    let saved = saved_of(remote, folder);
    let arrived_bytes = |file: &RemoteFile| {
        let target = folder.join(&file.path);
        match partial::arrived(&target, file, commit) {
            // Bytes of another version do not count.
            0 if is_in_place(remote, file, &target, saved.as_ref()) => file.size,
            bytes => bytes,
        }
    };
    remote.files.iter().map(arrived_bytes).fold(0, u64::saturating_add)
}

/// Whether a stopped download resumes from its received bytes, as far as its server's responses
/// show.
pub fn resumes(remote: &Remote, folder: &Path) -> bool {
    let saved = saved_of(remote, folder);
    let mut files = remote.files.iter();
    files.all(|file| {
        let target = folder.join(&file.path);
        let has_partial = partial_path(&target).exists();
        !has_partial && is_in_place(remote, file, &target, saved.as_ref()) || partial::resumes(&target, file)
    })
}

/// Removes the received bytes of an unfinished download. A complete model is kept.
///
/// # Errors
/// A file cannot be removed, or is being downloaded.
pub fn discard(remote: &Remote, folder: &Path) -> Result<(), LibraryError> {
    // A row of the store may be damaged, or copied from another machine.
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
        // Complete files of a model that is not complete.
        if remote.files.len() > 1 && !is_model {
            remove_unlocked(&target, &file.name)?;
        }
    }
    Ok(())
}

/// Whether a file of a model is being downloaded, here or by another process.
pub(super) fn is_loading(target: &Path) -> bool {
    let opened = open_locked(&partial_path(target), false);
    matches!(opened, Err(TryLockError::WouldBlock))
}

/// Removes a file unless a download holds its lock.
fn remove_unlocked(path: &Path, name: &str) -> Result<(), LibraryError> {
    let failed = |source| LibraryError::Delete {
        path: path.to_owned(),
        source,
    };
    let file = match open_locked(path, false) {
        Ok(file) => file,
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => return Err(LibraryError::AlreadyDownloading(name.to_owned())),
    };
    // An unfinished file without a record counts as complete up to its length, so it is emptied.
    file.set_len(0).and_then(|()| file.sync_all()).map_err(failed)?;
    // Windows does not delete an open file.
    drop(file);
    fs::remove_file(path).map_err(failed)
}

/// Downloads one file to a path. Returns its hash, unless it was joined from several parts.
fn download_file(
    hub: &Hub,
    remote: &RemoteFile,
    commit: Option<&str>,
    target: &Path,
    update: &mut Update,
    progress: Report,
) -> Result<Option<String>, LibraryError> {
    if remote.size == 0 {
        return Err(LibraryError::flawed(&remote.name, &remote.url, super::Flaw::Empty));
    }
    let mut partial = Partial::open(remote, commit, target)?;
    let failed = |source: io::Error| LibraryError::Write {
        path: target.to_owned(),
        source,
    };
    let pieces = remote.pieces();
    let mut hash = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        partial.select(index);
        Fetch::new(hub, piece, index == 0, remote.size, &mut partial, progress).run()?;
        report(progress, Progress::Checking)?;
        let span = partial.piece_span();
        hash = sha256(partial.file(), span, progress).map_err(failed)?;
        report(progress, Progress::Checking)?;
        if piece.sha256.as_ref().is_none_or(|expected| *expected == hash) {
            continue;
        }
        match pieces.len() {
            1 => partial.remove()?,
            _ => partial.reset()?,
        }
        return Err(LibraryError::HashMismatch {
            name: piece.name.clone(),
            url: without_query(&piece.url).to_owned(),
            found: hash,
        });
    }
    let is_hashed = pieces.iter().all(|piece| piece.sha256.is_some());
    if let Some(flaw) = flaw(partial.file(), target, is_hashed).map_err(failed)? {
        partial.remove()?;
        return Err(LibraryError::flawed(&remote.name, &remote.url, flaw));
    }
    update.add(partial, target)?;
    Ok((pieces.len() == 1).then_some(hash))
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

/// Returns the SHA-256 of a span of a file, in hexadecimal. Ends early if cancelled.
fn sha256(file: &mut File, span: Range<u64>, progress: Report) -> io::Result<String> {
    file.seek(SeekFrom::Start(span.start))?;
    let mut bytes = file.take(span.end - span.start);
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = bytes.read(&mut buffer)?;
        if count == 0 || progress(Progress::Checking).is_break() {
            return Ok(hex(digest.finalize()));
        }
        digest.update(&buffer[..count]);
    }
}
