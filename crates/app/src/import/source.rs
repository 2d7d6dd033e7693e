//! The documents of an export: a file, or the JSON files of a folder or of a ZIP archive. An
//! archive is read without extracting it.

use crate::{
    cancellation::{Cancellable, cancelled, is_cancelled},
    wire::{Problem, ProblemCode},
};
use hearth_protocol::DataReason;
use std::{
    cell::Cell,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};
use zip::ZipArchive;

/// Most bytes that are read, of an archive after decompression.
const MAX_BYTES: u64 = 4 << 30;

/// Most entries of a folder or an archive.
const MAX_ENTRIES: usize = 100_000;

/// Most levels of subfolders that are searched.
const MAX_DEPTH: usize = 5;

/// The two files of a Jan thread.
const JAN: [&str; 2] = ["thread.json", "messages.jsonl"];

/// A document.
pub(super) struct Document<'a> {
    /// File name.
    pub name: &'a str,
    /// Its folder. The documents of one Jan thread have the same folder.
    pub folder: &'a str,
    /// Whether the export has other documents.
    pub is_one_of_many: bool,
    pub stream: &'a mut dyn BufRead,
}

/// Receives a document.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Document<'_>) -> Result<(), Problem>;

/// The result of reading the documents.
#[derive(Debug, Default)]
pub(super) struct Visited {
    /// Entries of an archive that cannot be read: encrypted, or of an unknown compression.
    pub unreadable: u32,
}

/// Counts bytes as they are read.
pub(super) struct Meter {
    /// Reads fail once this is cancelled.
    pub import: Cancellable,
    read: Cell<u64>,
    total: Cell<u64>,
}

impl Meter {
    pub fn new(import: Cancellable) -> Self {
        Self {
            import,
            read: Cell::new(0),
            total: Cell::new(0),
        }
    }

    /// The fraction of bytes that were read, from 0 to 1.
    pub fn fraction(&self) -> f32 {
        (self.read.get() as f32 / self.total.get().max(1) as f32).min(1.0)
    }
}

/// Visits the documents at a path. For a file of a Jan thread, both files are visited,
/// `thread.json` first.
///
/// # Errors
/// The path cannot be read, has more than [`MAX_BYTES`] bytes or [`MAX_ENTRIES`] entries, or is a
/// damaged archive; or an error of `visit`.
pub(super) fn visit(path: &Path, meter: &Meter, visit: Visit<'_>) -> Result<Visited, Problem> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        let mut files = Vec::new();
        collect(path, MAX_DEPTH, &mut files)?;
        visit_files(files, meter, visit)?;
    } else if !metadata.is_file() {
        let path = path.display().to_string();
        return Err(refused(DataReason::ImportNotAFile { path }));
    } else if is_archive(path)? {
        return visit_archive(path, meter, visit);
    } else {
        visit_files(with_sibling(path), meter, visit)?;
    }
    Ok(Visited::default())
}

fn visit_files(mut files: Vec<PathBuf>, meter: &Meter, visit: Visit<'_>) -> Result<(), Problem> {
    files.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_owned();
        (path.parent().map(Path::to_owned), name != JAN[0], name)
    });
    let sizes = files.iter().filter_map(|path| fs::metadata(path).ok());
    let total: u64 = sizes.map(|metadata| metadata.len()).sum();
    if total > MAX_BYTES {
        return Err(too_large());
    }
    meter.total.set(total);
    let is_one_of_many = files.len() > 1;
    for path in files {
        let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        let mut stream = BufReader::with_capacity(1 << 16, Metered { inner: file, meter });
        visit(Document {
            name: &path.file_name().unwrap_or_default().to_string_lossy(),
            folder: &path.parent().unwrap_or(Path::new("")).to_string_lossy(),
            is_one_of_many,
            stream: &mut stream,
        })?;
    }
    Ok(())
}

/// A file, and for a file of a Jan thread also the other file.
fn with_sibling(path: &Path) -> Vec<PathBuf> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if JAN.contains(&name) => {
            let pair = JAN.iter().map(|name| path.with_file_name(name));
            pair.filter(|path| path.is_file()).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// Collects the JSON files in a folder. Links are not followed.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Problem> {
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, files)?;
        } else if kind.is_file() && is_json(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
        if files.len() > MAX_ENTRIES {
            return Err(too_many());
        }
    }
    Ok(())
}

fn visit_archive(path: &Path, meter: &Meter, visit: Visit<'_>) -> Result<Visited, Problem> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let damaged = |error: zip::result::ZipError| {
        let (path, detail) = (path.display().to_string(), error.to_string());
        refused(DataReason::ImportDamaged { path, detail })
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    if archive.len() > MAX_ENTRIES {
        return Err(too_many());
    }
    let mut entries: Vec<(String, usize)> = Vec::new();
    for index in 0..archive.len() {
        let Some(Ok(name)) = archive.name_for_index(index) else {
            continue;
        };
        let name = name.replace('\\', "/");
        if is_json(&name) && !name.starts_with("__MACOSX/") {
            entries.push((name, index));
        }
    }
    // `thread.json` before `messages.jsonl`.
    entries.sort_by(|(left, _), (right, _)| {
        let key = |name: &str| {
            let (folder, file) = split(name);
            (folder.to_owned(), file != JAN[0], file.to_owned())
        };
        key(left).cmp(&key(right))
    });
    let mut visited = Visited::default();
    let sizes = entries
        .iter()
        .filter_map(|(_, index)| Some(archive.by_index_raw(*index).ok()?.size()));
    meter.total.set(sizes.sum());
    let is_one_of_many = entries.len() > 1;
    for (name, index) in entries {
        let Ok(entry) = archive.by_index(index) else {
            visited.unreadable += 1;
            continue;
        };
        // Sizes in an archive may be wrong, so the limit applies to the bytes that are read.
        let mut stream = BufReader::with_capacity(1 << 16, Metered { inner: entry, meter });
        let (folder, file) = split(&name);
        visit(Document {
            name: file,
            folder,
            is_one_of_many,
            stream: &mut stream,
        })?;
    }
    Ok(visited)
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

fn is_json(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json") || extension.eq_ignore_ascii_case("jsonl"))
}

/// Whether a file begins with the signature of a ZIP archive.
fn is_archive(path: &Path) -> Result<bool, Problem> {
    let mut magic = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut magic))
        .map_err(|error| unreadable(path, &error))?;
    Ok(matches!(&magic[..], b"PK\x03\x04" | b"PK\x05\x06"))
}

/// A reader that counts, and fails after [`MAX_BYTES`] and once the import is cancelled.
struct Metered<'a, R> {
    inner: R,
    meter: &'a Meter,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.import.check()?;
        let count = self.inner.read(buffer)?;
        let total_read = self.meter.read.get() + count as u64;
        self.meter.read.set(total_read);
        if total_read > MAX_BYTES {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"))
        } else {
            Ok(count)
        }
    }
}

/// The problem of an error while a document is read.
pub(super) fn failed(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(),
        _ if is_cancelled(error) => cancelled(DataReason::ImportCancelled),
        _ => refused(DataReason::ImportUnreadable {
            detail: error.to_string(),
        }),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let (path, detail) = (path.display().to_string(), error.to_string());
    Problem::new(ProblemCode::FileUnreadable, DataReason::FileUnreadable { path, detail })
}

fn too_large() -> Problem {
    let limit_bytes = MAX_BYTES;
    refused(DataReason::ImportTooLarge { limit_bytes })
}

fn too_many() -> Problem {
    let limit = MAX_ENTRIES as u64;
    refused(DataReason::ImportTooManyFiles { limit })
}

fn refused(reason: DataReason) -> Problem {
    Problem::new(ProblemCode::DataInvalid, reason)
}
