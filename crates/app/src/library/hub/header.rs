//! The header of a model that is not on this machine, read by range requests into a sparse file,
//! which the readers of local models' headers can read.

use super::super::LibraryError;
use super::client::{Failure, Hub, ResponseRange};
use super::deadline::Deadline;
use super::header_len::{HeaderLenError, header_len};
use super::remote::{Remote, RemoteFile, RemotePart};
use hearth_formats::is_web_page;
use hearth_protocol::FetchFailure;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
};

/// Bytes of the first request. Most vocabularies need one or two more.
const FIRST: u64 = 2 << 20;

/// Bytes of the first request for later parts of a split model, which have no vocabulary.
const FIRST_OF_PART: u64 = 64 << 10;

/// Most bytes of the headers of all parts.
const MAX_HEADERS: u64 = 256 << 20;

/// Prefix of the folders of headers.
const PREFIX: &str = ".header-";

/// Most bytes of a header, as in the reader of files.
const MAX_HEADER: u64 = 128 << 20;

/// Consecutive requests without data after which reading fails.
const MAX_REQUESTS: u32 = 3;

/// The files of a model with their headers and their sizes, but holes instead of weights. Dropping
/// it removes them.
#[derive(Debug)]
pub struct HeaderFile {
    folder: PathBuf,
    first: PathBuf,
}

impl HeaderFile {
    /// Reads the headers of a model's files into a new folder in `parent`. Blocks until done.
    ///
    /// # Errors
    /// A file cannot be requested or is not a GGUF file, or cannot be written.
    pub fn fetch(hub: &Hub, remote: &Remote, parent: &Path) -> Result<Self, LibraryError> {
        let folder = new_folder(parent).map_err(|source| LibraryError::Write {
            path: parent.to_owned(),
            source,
        })?;
        let failed = |source: io::Error| LibraryError::Write {
            path: folder.clone(),
            source,
        };
        // From here on, dropping `this` removes the folder.
        let mut this = Self {
            first: folder.clone(),
            folder: folder.clone(),
        };
        let mut remaining_bytes = MAX_HEADERS;
        let mut deadline = Deadline::new(hub);
        for (at, file) in remote.files.iter().enumerate() {
            // The first part of a split file has the header.
            let piece = file.pieces().swap_remove(0);
            let header = read(hub, &piece, if at == 0 { FIRST } else { FIRST_OF_PART }, &mut deadline)?;
            remaining_bytes = remaining_bytes
                .checked_sub(header.len() as u64)
                .ok_or_else(|| Failure::Final(FetchFailure::HeadersTooLarge).error(&file.name))?;
            let path = folder.join(file.path.file_name().unwrap_or_default());
            let write = || -> io::Result<()> {
                let mut out = OpenOptions::new().write(true).create_new(true).open(&path)?;
                out.write_all(&header)?;
                out.set_len(file.size)
            };
            write().map_err(failed)?;
            if at == 0 {
                this.first = path;
            }
        }
        Ok(this)
    }

    /// The first file.
    pub fn path(&self) -> &Path {
        &self.first
    }
}

impl Drop for HeaderFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "the folder of a header could not be removed");
        }
    }
}

/// A new folder for headers.
fn new_folder(parent: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let mut number = 0_u32;
    loop {
        let folder = parent.join(format!("{PREFIX}{number}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return result.map(|()| folder),
        }
    }
}

/// Removes folders that remain after a crash. Must be called while no header is in use.
pub fn sweep_headers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let headers = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in headers {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, "the folder of a header could not be removed");
        }
    }
}

/// The first bytes of a file, at most `len`.
pub(super) fn start(hub: &Hub, file: &RemoteFile, len: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let piece = file.pieces().swap_remove(0);
    append(hub, &piece, &mut bytes, len.min(piece.size), &mut Deadline::new(hub))?;
    Ok(bytes)
}

/// The header of a file.
fn read(hub: &Hub, file: &RemotePart, first: u64, deadline: &mut Deadline) -> Result<Vec<u8>, LibraryError> {
    let failed = |cause| Failure::Final(cause).error(&file.name);
    let mut bytes = Vec::new();
    let mut target_len = first;
    loop {
        let end = target_len.min(file.size).min(MAX_HEADER);
        append(hub, file, &mut bytes, end, deadline).map_err(|failure| failure.error(&file.name))?;
        match header_len(&bytes) {
            Ok(len) => {
                bytes.truncate(len);
                return Ok(bytes);
            }
            Err(_) if is_web_page(&bytes) => return Err(Failure::web_page().error(&file.name)),
            Err(HeaderLenError::Invalid) => return Err(failed(FetchFailure::NotGguf)),
            Err(HeaderLenError::Incomplete) if end == file.size => return Err(failed(FetchFailure::HeaderBeyondEnd)),
            Err(HeaderLenError::Incomplete) if end == MAX_HEADER => return Err(failed(FetchFailure::HeaderTooLarge)),
            Err(HeaderLenError::Incomplete) => target_len = end * 2,
        }
    }
}

/// Requests the bytes up to `end`, in several requests if the connection breaks.
fn append(hub: &Hub, file: &RemotePart, bytes: &mut Vec<u8>, end: u64, deadline: &mut Deadline) -> Result<(), Failure> {
    deadline.allow(end.saturating_sub(bytes.len() as u64));
    let mut empty_requests = 0;
    while (bytes.len() as u64) < end {
        let start = bytes.len() as u64;
        deadline.remaining()?;
        let cause = match request(hub, file, bytes, end, *deadline) {
            Ok(()) => FetchFailure::EndedEarly,
            Err(Failure::Temporary(cause) | Failure::Busy(cause, _)) => cause,
            Err(failure) => return Err(failure),
        };
        if bytes.len() as u64 == start {
            empty_requests += 1;
            if empty_requests == MAX_REQUESTS {
                return Err(Failure::Temporary(cause));
            }
            thread::sleep(hub.retry_delay * (1 << (empty_requests - 1)));
        }
    }
    Ok(())
}

fn request(hub: &Hub, file: &RemotePart, bytes: &mut Vec<u8>, end: u64, deadline: Deadline) -> Result<(), Failure> {
    let start = bytes.len() as u64;
    let response = hub.get_until(&file.url, Some((start, Some(end - 1))), deadline)?;
    let range = ResponseRange::from_response(&response)?;
    if range.total.is_some_and(|total| total != file.size) {
        return Err(Failure::Final(FetchFailure::OtherSize));
    }
    if range.start > start {
        return Err(Failure::Final(FetchFailure::OtherRange));
    }
    // A server without ranges sends the file from its start.
    bytes.truncate(usize::try_from(range.start).map_err(|_| Failure::Range)?);
    let mut body = response.into_body().into_reader().take(end - range.start);
    match body.read_to_end(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::broken(&error)),
    }
}
