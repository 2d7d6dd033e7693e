//! A file that has not arrived completely, and the record beside it: of which file and version it
//! is, and which bytes have arrived. Spans may be missing anywhere. A file without a record is of
//! an earlier Hearth; its length says what has arrived.

use super::spans::Spans;
use super::with_suffix;
use crate::library::{
    Kept, LibraryError,
    hub::{RemoteFile, RemotePart, Said},
};
use hearth_formats::durable::commit_file;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
};

/// Most bytes of a record.
const MAX_RECORD_BYTES: u64 = 128 << 10;

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

/// The record of an unfinished file: the parts of it that are synced to the disk.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The commit, digest or version that it was requested of.
    #[serde(default)]
    commit: Option<String>,
    #[serde(flatten)]
    first: PieceRecord,
    /// The other parts of a file that was cut on the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<PieceRecord>,
}

/// The same of a file there.
#[derive(Debug, Serialize, Deserialize)]
struct PieceRecord {
    size: u64,
    sha256: Option<String>,
    #[serde(flatten)]
    said: Said,
    done: Vec<(u64, u64)>,
}

impl Record {
    fn read(path: &Path) -> Option<Self> {
        let is_small = fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() <= MAX_RECORD_BYTES);
        let text = fs::read(path).ok().filter(|_| is_small)?;
        let mut record: Self = serde_json::from_slice(&text).ok()?;
        // It becomes a header of requests.
        let pieces = std::iter::once(&mut record.first).chain(&mut record.others);
        pieces.for_each(|piece| piece.said.check());
        Some(record)
    }

    /// The pieces that a file of this length has of this remote file; `None` if the record is
    /// another file's.
    fn pieces(self, remote: &RemoteFile, commit: Option<&str>, len: u64) -> Option<Vec<Piece>> {
        let wanted = remote.pieces();
        (wanted.len() == 1 + self.others.len()).then_some(())?;
        let is_same_commit = self.commit.as_deref() == commit;
        let mut base = 0_u64;
        let mut pieces = Vec::with_capacity(wanted.len());
        for (found, wanted) in std::iter::once(self.first).chain(self.others).zip(&wanted) {
            let is_of = found.size == wanted.size && found.sha256 == wanted.sha256;
            let spans = Spans::from_pairs(&found.done).filter(|_| is_of)?;
            let is_inside = spans.end() <= wanted.size && (spans.is_empty() || base.saturating_add(spans.end()) <= len);
            is_inside.then_some(())?;
            let mut piece = Piece::new(remote, wanted, base);
            // Without a hash only the version tells that the rest will be of the same file.
            let is_version = is_same_commit && found.said.version.is_some();
            let is_newer = remote.said.version.is_some() && remote.said.version != found.said.version;
            if found.said.ranges != Some(false) && (wanted.sha256.is_some() || is_version && !is_newer) {
                piece.spans = spans;
                piece.learn(found.said);
            }
            pieces.push(piece);
            base = base.checked_add(wanted.size)?;
        }
        Some(pieces)
    }
}

/// A piece of a partially downloaded file.
#[derive(Debug)]
struct Piece {
    size: u64,
    sha256: Option<String>,
    /// Its offset in the joined file.
    base: u64,
    said: Said,
    spans: Spans,
}

impl Piece {
    fn new(file: &RemoteFile, of: &RemotePart, base: u64) -> Self {
        Self {
            size: of.size,
            sha256: of.sha256.clone(),
            base,
            said: Said {
                version: None,
                ranges: file.said.ranges,
            },
            spans: Spans::default(),
        }
    }

    /// The pieces of a file of which no byte has arrived.
    fn all(remote: &RemoteFile) -> Vec<Self> {
        let mut base = 0_u64;
        let piece = |part: &RemotePart| {
            let piece = Self::new(remote, part, base);
            base = base.saturating_add(part.size);
            piece
        };
        remote.pieces().iter().map(piece).collect()
    }

    /// Whether the rest can be told from another file's, and the server sends it alone.
    fn is_resumable(&self) -> bool {
        match self.sha256 {
            Some(_) => self.said.ranges != Some(false),
            None => self.said.version.is_some() && self.said.ranges == Some(true),
        }
    }

    fn learn(&mut self, said: Said) {
        self.said = Said {
            version: said.version.or(self.said.version.take()),
            ranges: said.ranges.or(self.said.ranges),
        };
    }

    fn record(&self) -> PieceRecord {
        PieceRecord {
            size: self.size,
            sha256: self.sha256.clone(),
            said: self.said.clone(),
            done: self.spans.pairs(),
        }
    }
}

/// The pieces of a file that are there.
fn found(remote: &RemoteFile, commit: Option<&str>, path: &Path, len: u64) -> Option<Vec<Piece>> {
    let record = record_path(path);
    if record.exists() {
        return Record::read(&record).and_then(|record| record.pieces(remote, commit, len));
    }
    // Of an earlier Hearth. A longer one is of another file.
    let is_known = remote.parts.is_empty() && remote.sha256.is_some() && len <= remote.size;
    let mut pieces = Piece::all(remote);
    pieces.first_mut().filter(|_| is_known)?.spans = Spans::up_to(len);
    Some(pieces)
}

/// Bytes that have arrived of a file, which was requested of this commit.
pub fn arrived(target: &Path, remote: &RemoteFile, commit: Option<&str>) -> u64 {
    let path = partial_path(target);
    let len = fs::metadata(&path).map_or(0, |about| about.len());
    total(&found(remote, commit, &path, len).unwrap_or_default())
}

/// Whether a download of a file goes on where it ended, as far as its server has said.
pub fn resumes(target: &Path, remote: &RemoteFile) -> bool {
    let record = Record::read(&record_path(&partial_path(target)));
    let records = record
        .into_iter()
        .flat_map(|record| std::iter::once(record.first).chain(record.others));
    let mut said: Vec<Said> = records.map(|record| record.said).collect();
    let pieces = Piece::all(remote);
    said.resize(pieces.len(), remote.said.clone());
    pieces.into_iter().zip(said).all(|(mut piece, said)| {
        piece.learn(said);
        piece.is_resumable()
    })
}

fn total(pieces: &[Piece]) -> u64 {
    pieces
        .iter()
        .map(|piece| piece.spans.total())
        .fold(0, u64::saturating_add)
}

fn kept(pieces: &[Piece]) -> Kept {
    let begun: Vec<&Piece> = pieces.iter().filter(|piece| !piece.spans.is_empty()).collect();
    if begun.is_empty() {
        Kept::Nothing
    } else if begun.iter().all(|piece| piece.is_resumable()) {
        Kept::Resumes
    } else {
        Kept::Restarts
    }
}

/// An unfinished file, locked. Offsets are relative to one piece of it at a time, the present
/// piece.
#[derive(Debug)]
pub struct Partial {
    commit: Option<String>,
    path: PathBuf,
    file: File,
    pieces: Vec<Piece>,
    /// The place of the present one.
    at: usize,
    has_record: bool,
    /// Bytes written that the record does not have.
    unrecorded: u64,
}

impl Partial {
    /// Opens the unfinished file of a target, and makes it if there is none. What is there of
    /// another file or version is dropped.
    ///
    /// # Errors
    /// It cannot be opened, or is being downloaded.
    pub fn open(remote: &RemoteFile, commit: Option<&str>, target: &Path) -> Result<Self, LibraryError> {
        let path = partial_path(target);
        let failed = |source: io::Error| LibraryError::Write {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(target.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let file = open_locked(&path, true).map_err(|error| match error {
            TryLockError::WouldBlock => LibraryError::AlreadyDownloading(remote.name.clone()),
            TryLockError::Error(source) => failed(source),
        })?;
        let len = file.metadata().map_err(failed)?.len();
        let found = found(remote, commit, &path, len).filter(|pieces| total(pieces) > 0);
        let is_new = found.is_none();
        let mut this = Self {
            commit: commit.map(str::to_owned),
            has_record: record_path(&path).exists(),
            pieces: found.unwrap_or_else(|| Piece::all(remote)),
            at: 0,
            unrecorded: 0,
            file,
            path,
        };
        if is_new {
            this.truncate(0)?;
        }
        Ok(this)
    }

    /// Makes a piece the present one.
    pub fn select(&mut self, at: usize) {
        self.at = at.min(self.pieces.len() - 1);
    }

    fn piece(&self) -> &Piece {
        &self.pieces[self.at]
    }

    /// The ranges of the current piece received so far.
    pub fn spans(&self) -> &Spans {
        &self.piece().spans
    }

    /// Bytes that have arrived of all pieces.
    pub fn total(&self) -> u64 {
        total(&self.pieces)
    }

    /// Whether a retry would reuse the received bytes if the download ended now.
    pub fn kept(&self) -> Kept {
        kept(&self.pieces)
    }

    /// The version of the present piece that has arrived.
    pub fn version(&self) -> Option<&str> {
        self.piece().said.version.as_deref()
    }

    /// The version that the rest of the present piece must be of. `None` for a piece with a hash,
    /// which decides: servers of equal files may name different versions.
    pub fn needs_version(&self) -> Option<&str> {
        self.version().filter(|_| self.piece().sha256.is_none())
    }

    /// Whether bytes of which the server says this belong to those that have arrived. Without a
    /// hash, those without a version never do.
    pub fn fits(&self, said: &Said) -> bool {
        let piece = self.piece();
        match (&piece.said.version, &said.version) {
            _ if piece.sha256.is_some() => true,
            (Some(before), Some(now)) => before == now,
            _ => piece.spans.is_empty(),
        }
    }

    /// Whether a hash or the version will tell that what arrives later is of the same file.
    pub fn can_continue(&self) -> bool {
        self.piece().sha256.is_some() || self.version().is_some()
    }

    /// Keeps what a server says of the present piece.
    pub fn learn(&mut self, said: Said) {
        self.pieces[self.at].learn(said);
    }

    /// Drops what has arrived of the present piece, and its version.
    pub fn forget(&mut self) -> Result<(), LibraryError> {
        self.pieces[self.at].said.version = None;
        self.truncate(0)
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where the present piece lies in the file.
    pub fn place(&self) -> Range<u64> {
        let piece = self.piece();
        piece.base..piece.base + piece.size
    }

    /// Bytes that a crash would lose.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Writes bytes of the present piece, in any order.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), LibraryError> {
        if !self.has_record {
            // From the first byte on it is known of which file and version they are.
            self.write_record()?;
        }
        let base = self.piece().base;
        let written = self.file.seek(SeekFrom::Start(base + at));
        written
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|source| self.failed(source))?;
        self.pieces[self.at].spans.insert(at..at + bytes.len() as u64);
        self.unrecorded += bytes.len() as u64;
        Ok(())
    }

    /// Drops what comes after an offset of the present piece.
    pub fn truncate(&mut self, end: u64) -> Result<(), LibraryError> {
        self.pieces[self.at].spans.truncate(end);
        if self.has_record {
            self.write_record()?;
        }
        let is_last = self.pieces[self.at + 1..].iter().all(|piece| piece.spans.is_empty());
        if is_last {
            self.set_len(self.piece().base + end)
        } else {
            Ok(())
        }
    }

    fn set_len(&self, len: u64) -> Result<(), LibraryError> {
        self.file.set_len(len).map_err(|source| self.failed(source))
    }

    /// Records what has arrived.
    pub fn record(&mut self) -> Result<(), LibraryError> {
        if self.unrecorded > 0 {
            self.write_record()
        } else {
            Ok(())
        }
    }

    /// Syncs the file, then replaces the record: it never has what the disk does not.
    fn write_record(&mut self) -> Result<(), LibraryError> {
        let (next, path) = (next_record_path(&self.path), record_path(&self.path));
        let mut pieces = self.pieces.iter().map(Piece::record);
        let Some(first) = pieces.next() else { return Ok(()) };
        let record = Record {
            commit: self.commit.clone(),
            first,
            others: pieces.collect(),
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

    /// Checks that the file is complete and still the one that was checked, before it replaces
    /// another one: programs that know no lock may have changed it.
    ///
    /// # Errors
    /// It is not, or it or its record cannot be read.
    pub fn check_complete(&self) -> Result<(), LibraryError> {
        let size = self.pieces.iter().map(|piece| piece.size).fold(0, u64::saturating_add);
        let is_whole = |spans: &Spans, size| spans.prefix() == size && spans.total() == size;
        let arrived = self.pieces.iter().all(|piece| is_whole(&piece.spans, piece.size));
        let len = self.file.metadata().map_err(|source| self.failed(source))?.len();
        if arrived && len == size && is_at(&self.file, &self.path) && self.has_own_record() {
            Ok(())
        } else {
            Err(LibraryError::NotPlaced {
                path: self.path.clone(),
                why: "another program changed or removed it while it was downloaded",
            })
        }
    }

    /// Whether the record on the disk describes this complete file.
    fn has_own_record(&self) -> bool {
        if !self.has_record {
            // Of an earlier Hearth.
            return !record_path(&self.path).exists();
        }
        let Some(record) = Record::read(&record_path(&self.path)) else {
            return false;
        };
        let records: Vec<PieceRecord> = std::iter::once(record.first).chain(record.others).collect();
        let is_same = |(found, own): (&PieceRecord, &Piece)| {
            let is_of = found.size == own.size && found.sha256 == own.sha256;
            is_of && found.done == own.spans.pairs()
        };
        records.len() == self.pieces.len() && records.iter().zip(&self.pieces).all(is_same)
    }

    /// Puts the complete file in place. Its lock is held until then.
    ///
    /// # Errors
    /// Its record cannot be removed, or the file not be renamed.
    pub fn put(self, target: &Path) -> io::Result<()> {
        let Self { path, file, .. } = self;
        // Without a record, its length says that it is complete.
        remove_records(&path)?;
        // Windows may refuse to rename a file that is open.
        let held = (!cfg!(windows)).then_some(file);
        commit_file(&path, target)?;
        drop(held);
        Ok(())
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

/// Opens a file, and locks it. With `create` it is made if there is none.
///
/// # Errors
/// It cannot be opened, or another download has its lock.
pub fn open_locked(path: &Path, create: bool) -> Result<File, TryLockError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false);
    loop {
        let file = options.open(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        // Before it was locked, its former holder may have put it in place under another name.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Whether a path still leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(there)) => is_one_file(&own, &there),
        _ => false,
    }
}

#[cfg(unix)]
fn is_one_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_one_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.len() == other.len() && one.created().ok() == other.created().ok()
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
