//! The documents of an export: a file, or the JSON files of a folder or of a ZIP archive. An
//! archive is read without extracting it.

use crate::{
    cancellation::{Cancellable, cancelled, is_cancelled},
    wire::{Problem, ProblemCode},
};
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

/// The pair of files of a thread of Jan.
const JAN: [&str; 2] = ["thread.json", "messages.jsonl"];

/// A document.
pub(super) struct Document<'a> {
    /// File name.
    pub name: &'a str,
    /// Its folder, by which documents belong together.
    pub folder: &'a str,
    /// Whether there are others.
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
    /// Its reads fail once this is cancelled.
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

    /// From 0 to 1.
    pub fn fraction(&self) -> f32 {
        (self.read.get() as f32 / self.total.get().max(1) as f32).min(1.0)
    }
}

/// Visits the documents at a path: of a thread of Jan both, `thread.json` first.
///
/// # Errors
/// The path cannot be read, has more than [`MAX_BYTES`] bytes or [`MAX_ENTRIES`] entries, or is a
/// damaged archive; or an error of `visit`.
pub(super) fn visit(path: &Path, meter: &Meter, visit: Visit<'_>) -> Result<Visited, Problem> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        let mut files = Vec::new();
        collect(path, MAX_DEPTH, &mut files)?;
        visit_files(files, meter, visit)?;
    } else if !about.is_file() {
        return Err(refused(format!(
            "{} is not a file. Choose the export itself.",
            path.display()
        )));
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
    let total: u64 = sizes.map(|about| about.len()).sum();
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

/// A file, and the other one of its thread if it is Jan's.
fn with_sibling(path: &Path) -> Vec<PathBuf> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if JAN.contains(&name) => {
            let both = JAN.iter().map(|name| path.with_file_name(name));
            both.filter(|path| path.is_file()).collect()
        }
        _ => vec![path.to_owned()],
    }
}

/// The JSON files in a folder; links are not followed.
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
        refused(format!(
            "The archive {} is damaged ({error}). Download the export again.",
            path.display()
        ))
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    if archive.len() > MAX_ENTRIES {
        return Err(too_many());
    }
    let mut entries: Vec<(String, usize)> = Vec::new();
    for at in 0..archive.len() {
        let Some(Ok(name)) = archive.name_for_index(at) else {
            continue;
        };
        let name = name.replace('\\', "/");
        if is_json(&name) && !name.starts_with("__MACOSX/") {
            entries.push((name, at));
        }
    }
    // `thread.json` before `messages.jsonl`.
    entries.sort_by(|(one, _), (other, _)| {
        let key = |name: &str| {
            let (folder, file) = split(name);
            (folder.to_owned(), file != JAN[0], file.to_owned())
        };
        key(one).cmp(&key(other))
    });
    let mut visited = Visited::default();
    let sizes = entries
        .iter()
        .filter_map(|(_, at)| Some(archive.by_index_raw(*at).ok()?.size()));
    meter.total.set(sizes.sum());
    let is_one_of_many = entries.len() > 1;
    for (name, at) in entries {
        let Ok(entry) = archive.by_index(at) else {
            visited.unreadable += 1;
            continue;
        };
        // Sizes in an archive may be wrong: what counts is what is read.
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
    let extension = Path::new(name).extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| it.eq_ignore_ascii_case("json") || it.eq_ignore_ascii_case("jsonl"))
}

/// Whether a file begins like a ZIP archive.
fn is_archive(path: &Path) -> Result<bool, Problem> {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut begin));
    read.map_err(|error| unreadable(path, &error))?;
    Ok(matches!(&begin[..], b"PK\x03\x04" | b"PK\x05\x06"))
}

/// A reader that counts, and fails after [`MAX_BYTES`] and once the import is cancelled.
struct Metered<'a, R> {
    inner: R,
    meter: &'a Meter,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.import.check()?;
        let read = self.inner.read(buffer)?;
        let all = self.meter.read.get() + read as u64;
        self.meter.read.set(all);
        if all > MAX_BYTES {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"))
        } else {
            Ok(read)
        }
    }
}

/// The problem of an error while a document is read.
pub(super) fn failed(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(),
        _ if is_cancelled(error) => cancelled("The import was cancelled."),
        _ => refused(format!(
            "The export could not be read to its end: {error}. Download it again, or copy it to another disk."
        )),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem {
        code: ProblemCode::FileUnreadable,
        message: format!("{} cannot be read: {error}.", path.display()),
    }
}

fn too_large() -> Problem {
    refused("The export has more than 4 GB of text, which is more than Hearth imports at once. Split it.".to_owned())
}

fn too_many() -> Problem {
    refused("There are more than 100,000 files in it. Choose a folder or an archive of one export.".to_owned())
}

fn refused(message: String) -> Problem {
    Problem {
        code: ProblemCode::DataInvalid,
        message,
    }
}
