//! A file that has not arrived completely. Without a record beside it, its length says what has
//! arrived; with one, only the record does: spans may be missing anywhere.

use super::spans::Spans;
use super::with_suffix;
use crate::library::{LibraryError, hub::RemoteFile};
use hearth_formats::durable::commit_file;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Most bytes of a record.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// The path of the unfinished file of a target.
pub fn partial_path(target: &Path) -> PathBuf {
    with_suffix(target, ".partial")
}

/// The path of the record of an unfinished file.
pub fn record_path(partial: &Path) -> PathBuf {
    with_suffix(partial, ".ranges")
}

/// The path of the next record, until it is complete. Only the holder of the file's lock writes it.
pub fn next_record_path(partial: &Path) -> PathBuf {
    with_suffix(partial, ".ranges.new")
}

/// What is on the disk of a file, once it was synced.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    size: u64,
    sha256: Option<String>,
    done: Vec<(u64, u64)>,
}

impl Record {
    fn read(path: &Path) -> Option<Self> {
        let is_small = fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= MAX_RECORD_BYTES);
        let text = fs::read(path).ok().filter(|_| is_small)?;
        serde_json::from_slice(&text).ok()
    }

    /// The spans that a file of this length can have of this remote file; none if the record is
    /// another file's.
    fn spans(&self, remote: &RemoteFile, len: u64) -> Option<Spans> {
        let is_of = self.size == remote.size && self.sha256 == remote.sha256;
        let spans = Spans::from_pairs(&self.done).filter(|_| is_of)?;
        (spans.end() <= remote.size.min(len)).then_some(spans)
    }
}

/// Bytes that have arrived of a file.
pub fn arrived(target: &Path, remote: &RemoteFile) -> u64 {
    let path = partial_path(target);
    let len = fs::metadata(&path).map_or(0, |about| about.len());
    let record = record_path(&path);
    match record.exists() {
        true => Record::read(&record)
            .and_then(|record| record.spans(remote, len))
            .map_or(0, |spans| spans.total()),
        false => len.min(remote.size),
    }
}

/// An unfinished file, locked.
#[derive(Debug)]
pub struct Partial<'a> {
    remote: &'a RemoteFile,
    path: PathBuf,
    file: File,
    spans: Spans,
    has_record: bool,
    /// Bytes written that the record does not have.
    unrecorded: u64,
}

impl<'a> Partial<'a> {
    /// Opens the unfinished file of a target, and makes it if there is none.
    ///
    /// # Errors
    /// It cannot be opened, or is being downloaded.
    pub fn open(remote: &'a RemoteFile, target: &Path) -> Result<Self, LibraryError> {
        let path = partial_path(target);
        let failed = |source: io::Error| LibraryError::Write {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(target.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LibraryError::AlreadyDownloading(remote.name.clone())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let len = file.metadata().map_err(failed)?.len();
        let record = record_path(&path);
        let mut this = Self {
            remote,
            has_record: record.exists(),
            spans: Spans::default(),
            unrecorded: 0,
            file,
            path,
        };
        let found = match this.has_record {
            true => Record::read(&record).and_then(|record| record.spans(remote, len)),
            // A longer one is of another file.
            false => Some(Spans::up_to(len)).filter(|_| len <= remote.size),
        };
        // Without a hash, nothing could tell that the rest comes from the same file.
        match found.filter(|_| remote.sha256.is_some()) {
            Some(spans) => this.spans = spans,
            None => this.truncate(0)?,
        }
        Ok(this)
    }

    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Bytes that a crash would lose.
    pub fn unrecorded(&self) -> u64 {
        match self.has_record {
            true => self.unrecorded,
            false => 0,
        }
    }

    /// Keeps a record from here on, so that bytes may be written in any order.
    pub fn keep_record(&mut self) -> Result<(), LibraryError> {
        match self.has_record {
            true => Ok(()),
            false => self.write_record(),
        }
    }

    /// Writes bytes, in any order if there is a record, and at the end otherwise.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), LibraryError> {
        debug_assert!(self.has_record || at == self.spans.prefix());
        let written = self.file.seek(SeekFrom::Start(at));
        written
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|source| self.failed(source))?;
        self.spans.insert(at..at + bytes.len() as u64);
        self.unrecorded += bytes.len() as u64;
        Ok(())
    }

    /// Forgets what comes after an offset.
    pub fn truncate(&mut self, end: u64) -> Result<(), LibraryError> {
        self.spans.truncate(end);
        if self.has_record {
            self.write_record()?;
        }
        self.file.set_len(end).map_err(|source| self.failed(source))
    }

    /// Records what has arrived, if there is a record.
    pub fn record(&mut self) -> Result<(), LibraryError> {
        match self.has_record && self.unrecorded > 0 {
            true => self.write_record(),
            false => Ok(()),
        }
    }

    /// Syncs the file, then replaces the record: it never has what the disk does not.
    fn write_record(&mut self) -> Result<(), LibraryError> {
        let (next, path) = (next_record_path(&self.path), record_path(&self.path));
        let record = Record {
            size: self.remote.size,
            sha256: self.remote.sha256.clone(),
            done: self.spans.pairs(),
        };
        let text = serde_json::to_vec(&record).unwrap_or_default();
        self.file.sync_all().map_err(|source| self.failed(source))?;
        let written = fs::write(&next, text).and_then(|()| commit_file(&next, &path));
        written.map_err(|source| LibraryError::Write { path, source })?;
        (self.has_record, self.unrecorded) = (true, 0);
        Ok(())
    }

    fn failed(&self, source: io::Error) -> LibraryError {
        LibraryError::Write {
            path: self.path.clone(),
            source,
        }
    }

    /// Closes the complete file. Returns its path.
    ///
    /// # Errors
    /// The file cannot be synced, or its record not removed.
    pub fn close(self) -> Result<PathBuf, LibraryError> {
        // Without a record, its length says that it is complete.
        let synced = if self.has_record { self.file.sync_all() } else { Ok(()) };
        let removed = synced.and_then(|()| remove_records(&self.path));
        removed.map_err(|source| self.failed(source))?;
        Ok(self.path)
    }

    /// Removes the file and its record.
    pub fn remove(self) -> Result<(), LibraryError> {
        let Self { path, file, .. } = self;
        // Without its record, it must not count as complete up to its length.
        let emptied = file.set_len(0).and_then(|()| file.sync_all());
        // Windows does not delete an open file.
        drop(file);
        let removed = emptied.and_then(|()| remove_records(&path).and_then(|()| remove(&path)));
        removed.map_err(|source| LibraryError::Write { path, source })
    }
}

/// Removes the record of an unfinished file, and what a crash has left of the next one.
pub fn remove_records(partial: &Path) -> io::Result<()> {
    remove(&next_record_path(partial))?;
    remove(&record_path(partial))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
