//! An incomplete download, and the record beside it: the file and version that it is of, and the
//! spans that were received, in any order. A file without a record was written by an earlier
//! Hearth; its length is the number of received bytes.

use super::spans::Spans;
use super::with_suffix;
use crate::library::{
    Kept, LibraryError,
    hub::{RemoteFile, RemotePart, ServerInfo},
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

/// The path at which a new record is written before it replaces the old one. Only the holder of the
/// file's lock writes it.
pub fn next_record_path(partial: &Path) -> PathBuf {
    with_suffix(partial, ".ranges.new")
}

/// The record of an unfinished file: the parts of it that are synced to the disk.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// The commit, digest or version at which it was requested.
    #[serde(default)]
    commit: Option<String>,
    #[serde(flatten)]
    first: PieceRecord,
    /// The other parts of a file that was cut on the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<PieceRecord>,
}

/// The record of one piece: a whole file on the server, or a part of one.
#[derive(Debug, Serialize, Deserialize)]
struct PieceRecord {
    size: u64,
    sha256: Option<String>,
    #[serde(flatten)]
    server_info: ServerInfo,
    done: Vec<(u64, u64)>,
}

impl Record {
    fn read(path: &Path) -> Option<Self> {
        let is_small =
            fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_RECORD_BYTES);
        let text = fs::read(path).ok().filter(|_| is_small)?;
        let mut record: Self = serde_json::from_slice(&text).ok()?;
        // The version becomes a header of requests.
        let pieces = std::iter::once(&mut record.first).chain(&mut record.others);
        pieces.for_each(|piece| piece.server_info.check());
        Some(record)
    }

    /// Returns the pieces of `remote` that a partial file of `len` bytes has. `None` means that the
    /// record is of another file.
    fn pieces(self, remote: &RemoteFile, commit: Option<&str>, len: u64) -> Option<Vec<Piece>> {
        let parts = remote.pieces();
        (parts.len() == 1 + self.others.len()).then_some(())?;
        let is_same_commit = self.commit.as_deref() == commit;
        let mut base = 0_u64;
        let mut pieces = Vec::with_capacity(parts.len());
        for (record, part) in std::iter::once(self.first).chain(self.others).zip(&parts) {
            let is_same_part = record.size == part.size && record.sha256 == part.sha256;
            let spans = Spans::from_pairs(&record.done).filter(|_| is_same_part)?;
            let is_inside = spans.end() <= part.size && (spans.is_empty() || base.saturating_add(spans.end()) <= len);
            is_inside.then_some(())?;
            let mut piece = Piece::new(remote, part, base);
            // Without a hash, only the version shows that the rest will be of the same file.
            let has_version = is_same_commit && record.server_info.version.is_some();
            let is_newer =
                remote.server_info.version.is_some() && remote.server_info.version != record.server_info.version;
            if record.server_info.ranges != Some(false) && (part.sha256.is_some() || has_version && !is_newer) {
                piece.spans = spans;
                piece.update_server_info(record.server_info);
            }
            pieces.push(piece);
            base = base.checked_add(part.size)?;
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
    server_info: ServerInfo,
    spans: Spans,
}

impl Piece {
    fn new(file: &RemoteFile, part: &RemotePart, base: u64) -> Self {
        Self {
            size: part.size,
            sha256: part.sha256.clone(),
            base,
            server_info: ServerInfo {
                version: None,
                ranges: file.server_info.ranges,
            },
            spans: Spans::default(),
        }
    }

    /// The pieces of a file of which no byte was received.
    fn all_missing(remote: &RemoteFile) -> Vec<Self> {
        let mut base = 0_u64;
        let piece = |part: &RemotePart| {
            let piece = Self::new(remote, part, base);
            base = base.saturating_add(part.size);
            piece
        };
        remote.pieces().iter().map(piece).collect()
    }

    /// Whether a later download can verify that the rest is of the same file, and the server sends
    /// ranges.
    fn is_resumable(&self) -> bool {
        match self.sha256 {
            Some(_) => self.server_info.ranges != Some(false),
            None => self.server_info.version.is_some() && self.server_info.ranges == Some(true),
        }
    }

    /// Replaces the version and the range support by those that `server_info` has.
    fn update_server_info(&mut self, server_info: ServerInfo) {
        self.server_info = ServerInfo {
            version: server_info.version.or(self.server_info.version.take()),
            ranges: server_info.ranges.or(self.server_info.ranges),
        };
    }

    fn record(&self) -> PieceRecord {
        PieceRecord {
            size: self.size,
            sha256: self.sha256.clone(),
            server_info: self.server_info.clone(),
            done: self.spans.pairs(),
        }
    }
}

/// Returns the pieces of a partial file. `None` means that the file is of another one.
fn load_pieces(remote: &RemoteFile, commit: Option<&str>, path: &Path, len: u64) -> Option<Vec<Piece>> {
    let record = record_path(path);
    if record.exists() {
        return Record::read(&record).and_then(|record| record.pieces(remote, commit, len));
    }
    // Written by an earlier Hearth. A longer file is of another one.
    let is_usable = remote.parts.is_empty() && remote.sha256.is_some() && len <= remote.size;
    let mut pieces = Piece::all_missing(remote);
    pieces.first_mut().filter(|_| is_usable)?.spans = Spans::up_to(len);
    Some(pieces)
}

/// Received bytes of a file that is requested at `commit`.
pub fn arrived(target: &Path, remote: &RemoteFile, commit: Option<&str>) -> u64 {
    let path = partial_path(target);
    let len = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    total(&load_pieces(remote, commit, &path, len).unwrap_or_default())
}

/// Whether a download of a file resumes from its received bytes, as far as its server's responses
/// show.
pub fn resumes(target: &Path, remote: &RemoteFile) -> bool {
    let record = Record::read(&record_path(&partial_path(target)));
    let records = record
        .into_iter()
        .flat_map(|record| std::iter::once(record.first).chain(record.others));
    let mut server_infos: Vec<ServerInfo> = records.map(|record| record.server_info).collect();
    let pieces = Piece::all_missing(remote);
    server_infos.resize(pieces.len(), remote.server_info.clone());
    pieces.into_iter().zip(server_infos).all(|(mut piece, server_info)| {
        piece.update_server_info(server_info);
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
    let nonempty: Vec<&Piece> = pieces.iter().filter(|piece| !piece.spans.is_empty()).collect();
    if nonempty.is_empty() {
        Kept::Nothing
    } else if nonempty.iter().all(|piece| piece.is_resumable()) {
        Kept::Resumes
    } else {
        Kept::Restarts
    }
}

/// An unfinished file, locked. Offsets are relative to the current piece.
#[derive(Debug)]
pub struct Partial {
    commit: Option<String>,
    path: PathBuf,
    file: File,
    pieces: Vec<Piece>,
    /// Index of the current piece.
    current: usize,
    has_record: bool,
    /// Bytes that were written after the last record.
    unrecorded: u64,
}

impl Partial {
    /// Opens the unfinished file of a target, or creates it. Bytes of another file or version are
    /// dropped.
    ///
    /// # Errors
    /// It cannot be opened, or another download has its lock.
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
        let received = load_pieces(remote, commit, &path, len).filter(|pieces| total(pieces) > 0);
        let is_new = received.is_none();
        let mut this = Self {
            commit: commit.map(str::to_owned),
            has_record: record_path(&path).exists(),
            pieces: received.unwrap_or_else(|| Piece::all_missing(remote)),
            current: 0,
            unrecorded: 0,
            file,
            path,
        };
        if is_new {
            this.truncate(0)?;
        }
        Ok(this)
    }

    /// Selects the current piece.
    pub fn select(&mut self, index: usize) {
        self.current = index.min(self.pieces.len() - 1);
    }

    fn piece(&self) -> &Piece {
        &self.pieces[self.current]
    }

    /// The ranges of the current piece received so far.
    pub fn spans(&self) -> &Spans {
        &self.piece().spans
    }

    /// Received bytes of all pieces.
    pub fn total(&self) -> u64 {
        total(&self.pieces)
    }

    /// Whether a retry would reuse the received bytes if the download ended now.
    pub fn kept(&self) -> Kept {
        kept(&self.pieces)
    }

    /// The version of the current piece's received bytes.
    pub fn version(&self) -> Option<&str> {
        self.piece().server_info.version.as_deref()
    }

    /// The version that the rest of the current piece must have. `None` for a piece with a hash:
    /// servers may name different versions of equal files.
    pub fn needs_version(&self) -> Option<&str> {
        self.version().filter(|_| self.piece().sha256.is_none())
    }

    /// Whether bytes from a response with `server_info` may be joined with the received ones.
    /// Without a hash, bytes without a version never may, unless none were received.
    pub fn fits(&self, server_info: &ServerInfo) -> bool {
        let piece = self.piece();
        match (&piece.server_info.version, &server_info.version) {
            _ if piece.sha256.is_some() => true,
            (Some(received), Some(version)) => received == version,
            _ => piece.spans.is_empty(),
        }
    }

    /// Whether a hash or the version can show that later bytes are of the same file.
    pub fn can_continue(&self) -> bool {
        self.piece().sha256.is_some() || self.version().is_some()
    }

    /// Updates the version and range support of the current piece.
    pub fn update_server_info(&mut self, server_info: ServerInfo) {
        self.pieces[self.current].update_server_info(server_info);
    }

    /// Drops the received bytes of the current piece, and its version.
    pub fn reset(&mut self) -> Result<(), LibraryError> {
        self.pieces[self.current].server_info.version = None;
        self.truncate(0)
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The span of the current piece in the file.
    pub fn piece_span(&self) -> Range<u64> {
        let piece = self.piece();
        piece.base..piece.base + piece.size
    }

    /// Bytes that are not recorded yet and that a crash would lose.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Writes bytes at an offset of the current piece. Offsets may come in any order.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), LibraryError> {
        if !self.has_record {
            // Bytes on the disk must have a record of their file and version.
            self.write_record()?;
        }
        let base = self.piece().base;
        self.file
            .seek(SeekFrom::Start(base + offset))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|source| self.failed(source))?;
        self.pieces[self.current]
            .spans
            .insert(offset..offset + bytes.len() as u64);
        self.unrecorded += bytes.len() as u64;
        Ok(())
    }

    /// Drops the bytes of the current piece from the offset `end` on.
    pub fn truncate(&mut self, end: u64) -> Result<(), LibraryError> {
        self.pieces[self.current].spans.truncate(end);
        if self.has_record {
            self.write_record()?;
        }
        let is_last = self.pieces[self.current + 1..]
            .iter()
            .all(|piece| piece.spans.is_empty());
        if is_last {
            self.set_len(self.piece().base + end)
        } else {
            Ok(())
        }
    }

    fn set_len(&self, len: u64) -> Result<(), LibraryError> {
        self.file.set_len(len).map_err(|source| self.failed(source))
    }

    /// Records the received bytes, if there are new ones.
    pub fn record(&mut self) -> Result<(), LibraryError> {
        if self.unrecorded > 0 {
            self.write_record()
        } else {
            Ok(())
        }
    }

    /// Syncs the file, then replaces the record, so that it lists only bytes that are on the disk.
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
        let result = fs::write(&next, text).and_then(|()| commit_file(&next, &path));
        result.map_err(|source| LibraryError::Write { path, source })?;
        (self.has_record, self.unrecorded) = (true, 0);
        Ok(())
    }

    fn failed(&self, source: io::Error) -> LibraryError {
        LibraryError::Write {
            path: self.path.clone(),
            source,
        }
    }

    /// Checks that the file is complete and unchanged before it replaces another one: programs that
    /// ignore the lock may have changed it.
    ///
    /// # Errors
    /// The file is incomplete or was changed, or its length cannot be read.
    pub fn check_complete(&self) -> Result<(), LibraryError> {
        let size = self.pieces.iter().map(|piece| piece.size).fold(0, u64::saturating_add);
        let is_whole = |spans: &Spans, size| spans.prefix() == size && spans.total() == size;
        let is_complete = self.pieces.iter().all(|piece| is_whole(&piece.spans, piece.size));
        let len = self.file.metadata().map_err(|source| self.failed(source))?.len();
        if is_complete && len == size && is_at(&self.file, &self.path) && self.has_own_record() {
            Ok(())
        } else {
            Err(LibraryError::AlteredMeanwhile(self.path.clone()))
        }
    }

    /// Whether the record on the disk describes this complete file.
    fn has_own_record(&self) -> bool {
        if !self.has_record {
            // Written by an earlier Hearth.
            return !record_path(&self.path).exists();
        }
        let Some(record) = Record::read(&record_path(&self.path)) else {
            return false;
        };
        let records: Vec<PieceRecord> = std::iter::once(record.first).chain(record.others).collect();
        let is_same = |(record, piece): (&PieceRecord, &Piece)| {
            let is_same_part = record.size == piece.size && record.sha256 == piece.sha256;
            is_same_part && record.done == piece.spans.pairs()
        };
        records.len() == self.pieces.len() && records.iter().zip(&self.pieces).all(is_same)
    }

    /// Moves the complete file to `target`, and holds its lock until then.
    ///
    /// # Errors
    /// The record cannot be removed, or the file cannot be renamed.
    pub fn commit(self, target: &Path) -> io::Result<()> {
        let Self { path, file, .. } = self;
        // A file without a record counts as complete up to its length.
        remove_records(&path)?;
        // Windows may refuse to rename a file that is open.
        let lock = (!cfg!(windows)).then_some(file);
        commit_file(&path, target)?;
        drop(lock);
        Ok(())
    }

    /// Removes the file and its record.
    pub fn remove(self) -> Result<(), LibraryError> {
        let Self { path, file, .. } = self;
        // A file without a record counts as complete up to its length, so it is emptied first.
        let result = file.set_len(0).and_then(|()| file.sync_all());
        // Windows does not delete an open file.
        drop(file);
        let result = result.and_then(|()| remove_records(&path).and_then(|()| remove(&path)));
        result.map_err(|source| LibraryError::Write { path, source })
    }
}

/// Opens and locks a file. With `create`, a missing file is created.
///
/// # Errors
/// It cannot be opened, or another download has its lock.
pub fn open_locked(path: &Path, create: bool) -> Result<File, TryLockError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false);
    loop {
        let file = options.open(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        // Before the lock was acquired, its former holder may have renamed the file.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Whether a path names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(at_path)) => is_same_file(&open, &at_path),
        _ => false,
    }
}

#[cfg(unix)]
fn is_same_file(left: &fs::Metadata, right: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (left.dev(), left.ino()) == (right.dev(), right.ino())
}

#[cfg(not(unix))]
fn is_same_file(left: &fs::Metadata, right: &fs::Metadata) -> bool {
    left.len() == right.len() && left.created().ok() == right.created().ok()
}

/// Removes the record of an unfinished file, and a new record that a crash has left incomplete.
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
