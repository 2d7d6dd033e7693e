//! Downloads: resumable, verified, and moved into place once complete. A file is complete and
//! right, or it is not there; what has arrived of it lies beside it as `NAME.partial`. A newer
//! version replaces a model once all of its files are complete.

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
    /// The model is here, and another version of it is on the server, which will replace it.
    Changed,
}

/// Receives the progress; `Break` cancels.
type Report<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Downloads the files of a model into a folder: those that are missing, or of another version on
/// the server. Returns the path of the first. Blocks until done.
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
        // A model of which some files are of another version would be another model.
        is_together: before.is_some() && remote.files.len() > 1,
        is_told: before
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
        let known = before.as_ref().and_then(|saved| saved.file(&file.path));
        let mut found = complete_hash(&target, file, known, is_same, progress)?;
        if found.is_none() {
            update.tell(&target, progress)?;
            let hash = download_file(hub, file, commit, &target, &mut update, &mut |now| {
                progress(match now {
                    Progress::Loading { done: of_file, .. } => Progress::Loading {
                        done: done + of_file,
                        total,
                    },
                    other => other,
                })
            })?;
            found = Some(hash);
        }
        files.push(SavedFile::new(file, found.flatten()));
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

/// Whether the hash of each file, or of each part of it, is published.
pub(super) fn is_hashed(remote: &Remote) -> bool {
    let mut pieces = remote.files.iter().flat_map(RemoteFile::pieces);
    pieces.all(|piece| piece.sha256.is_some())
}

/// Files that replace the files of another version.
struct Update {
    /// Whether they are put in place together.
    is_together: bool,
    is_told: bool,
    /// The first file of the model that is replaced, if there is one.
    former: Option<PathBuf>,
    /// The model's first file, and its record from the first replacement to the last, unless it has
    /// that already. What a crash leaves is then of no known version.
    mark: Option<(PathBuf, Saved)>,
    /// Complete files, still locked, and their places.
    ready: Vec<(Partial, PathBuf)>,
}

impl Update {
    /// Reports that a file is replaced, once.
    fn tell(&mut self, target: &Path, progress: Report) -> Result<(), LibraryError> {
        if self.is_told || !target.exists() {
            Ok(())
        } else {
            self.is_told = true;
            report(progress, Progress::Changed)
        }
    }

    /// Puts a complete file in place, now or with the others.
    fn add(&mut self, mut partial: Partial, target: &Path) -> Result<(), LibraryError> {
        partial.record()?;
        self.ready.push((partial, target.to_owned()));
        if self.is_together { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<(), LibraryError> {
        if self.ready.is_empty() {
            return Ok(());
        }
        // All before the first one.
        self.ready
            .iter()
            .try_for_each(|(partial, _)| partial.check_complete())?;
        if let Some(path) = self.former.as_ref().filter(|first| saved(first).is_none()) {
            return Err(LibraryError::NotPlaced {
                path: path.clone(),
                why: "it was deleted while another version of it was downloaded",
            });
        }
        if let Some((first, mark)) = self.mark.take() {
            save_origin(&first, &mark)?;
        }
        for (partial, target) in self.ready.drain(..) {
            partial
                .put(&target)
                .map_err(|source| LibraryError::Write { path: target, source })?;
        }
        Ok(())
    }
}

/// Returns the hash of a file that is in place. The outer `None` means that it is missing, or is or
/// may be of another version. The inner `None` means that its hash is not known. A file was
/// verified before it was put in place if the record next to it has the same revision (`is_same`)
/// or the expected hash of the file. Otherwise the file is hashed here.
fn complete_hash(
    target: &Path,
    file: &RemoteFile,
    known: Option<&SavedFile>,
    is_same: bool,
    progress: Report,
) -> Result<Option<Option<String>>, LibraryError> {
    if !has_size(target, file) {
        return Ok(None);
    }
    if is_same || known.is_some_and(|known| known.is_same(file) == Some(true)) {
        let recorded = known.and_then(|known| known.sha256.clone());
        return Ok(Some(recorded.or_else(|| file.sha256.clone())));
    }
    if file.pieces().iter().any(|piece| piece.sha256.is_none()) {
        return Ok(None);
    }
    report(progress, Progress::Checking)?;
    let is_right = File::open(target).and_then(|mut opened| has_hashes(&mut opened, file, progress));
    report(progress, Progress::Checking)?;
    // What cannot be read is downloaded again.
    Ok(is_right.unwrap_or(false).then(|| file.sha256.clone()))
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
    fs::metadata(target).is_ok_and(|about| about.is_file() && about.len() == file.size)
}

/// Refuses a download for which the disk has no room.
fn check_space(remote: &Remote, folder: &Path, before: Option<&Saved>) -> Result<(), LibraryError> {
    fs::create_dir_all(folder).map_err(|source| LibraryError::Write {
        path: folder.to_owned(),
        source,
    })?;
    let commit = remote.origin.revision.as_deref();
    let missing = remote.files.iter().map(|file| {
        let target = folder.join(&file.path);
        if before.is_some_and(|saved| is_here(remote, file, &target, Some(saved))) {
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
fn is_here(remote: &Remote, file: &RemoteFile, target: &Path, saved: Option<&Saved>) -> bool {
    let is_of = |saved: &Saved| {
        let known = saved.file(&file.path).and_then(|known| known.is_same(file));
        let is_known_other = saved.origin.revision.is_some() && remote.origin.revision.is_some();
        saved.is_of(remote.origin.revision.as_deref()) || known.unwrap_or(!saved.updating && !is_known_other)
    };
    has_size(target, file) && saved.is_none_or(is_of)
}

/// The record of a model that is here.
fn saved_of(remote: &Remote, folder: &Path) -> Option<Saved> {
    saved(&folder.join(&remote.files.first()?.path))
}

/// Bytes of a model that have arrived.
pub fn arrived(remote: &Remote, folder: &Path) -> u64 {
    let commit = remote.origin.revision.as_deref();
    let saved = saved_of(remote, folder);
    let of = |file: &RemoteFile| {
        let target = folder.join(&file.path);
        match partial::arrived(&target, file, commit) {
            // Bytes of another version do not count.
            0 if is_here(remote, file, &target, saved.as_ref()) => file.size,
            bytes => bytes,
        }
    };
    remote.files.iter().map(of).fold(0, u64::saturating_add)
}

/// Whether a download that is stopped goes on where it ended, as far as its server has said.
pub fn resumes(remote: &Remote, folder: &Path) -> bool {
    let saved = saved_of(remote, folder);
    let mut files = remote.files.iter();
    files.all(|file| {
        let target = folder.join(&file.path);
        let is_begun = partial_path(&target).exists();
        !is_begun && is_here(remote, file, &target, saved.as_ref()) || partial::resumes(&target, file)
    })
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
    // Without its record, an unfinished file must not count as complete up to its length.
    file.set_len(0).and_then(|()| file.sync_all()).map_err(failed)?;
    // Windows does not delete an open file.
    drop(file);
    fs::remove_file(path).map_err(failed)
}

/// Downloads one file to a path. Returns its hash, unless it was joined of several.
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
    for (at, piece) in pieces.iter().enumerate() {
        partial.select(at);
        Fetch::new(hub, piece, at == 0, remote.size, &mut partial, progress).run()?;
        report(progress, Progress::Checking)?;
        let place = partial.place();
        hash = sha256(partial.file(), place, progress).map_err(failed)?;
        report(progress, Progress::Checking)?;
        if piece.sha256.as_ref().is_none_or(|expected| *expected == hash) {
            continue;
        }
        match pieces.len() {
            1 => partial.remove()?,
            _ => partial.forget()?,
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

/// The sha256 of a part of a file, in hexadecimal. Ends early if cancelled.
fn sha256(file: &mut File, part: Range<u64>, progress: Report) -> io::Result<String> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end - part.start);
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = rest.read(&mut buffer)?;
        if count == 0 || progress(Progress::Checking).is_break() {
            return Ok(hex(digest.finalize()));
        }
        digest.update(&buffer[..count]);
    }
}
