//! Writes a backup.

use super::{
    FOLDERS, failed,
    manifest::{self, Entry, Manifest},
    skipped_files::SkippedFileCounts,
    space::check_space,
};
use crate::{
    export::Failure,
    shared::Shared,
    store,
    wire::{Problem, ProblemCode, SkippedFileReason, WrittenBackup},
};
use hearth_formats::{durable, hex};
use hearth_protocol::{DataReason, DiskContents};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
};
use zip::{CompressionMethod, ZipWriter, result::ZipError, write::SimpleFileOptions};

/// Name of the store's copy for the archive. It is in the data folder, so that it is private.
const COPY: &str = "hearth.db-archive";

/// Writes a backup of the data folder to `path`.
pub(super) fn write(shared: &Shared, path: &Path) -> Result<WrittenBackup, Problem> {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    let data = fs::canonicalize(&shared.data).map_err(|error| failed(&shared.data, &error))?;
    if folder.as_ref().is_some_and(|folder| folder.starts_with(&data)) {
        return Err(Problem::new(ProblemCode::BadRequest, DataReason::BackupInDataFolder));
    }
    let data_files = BackupFiles::list(&shared.data).map_err(|error| failed(&shared.data, &error))?;
    if let Some(folder) = &folder {
        let store = fs::metadata(shared.store.path()).map_or(0, |metadata| metadata.len());
        check_space(folder, data_files.bytes.saturating_add(store), DiskContents::NewBackup)?;
    }
    let copy = shared.data.join(COPY);
    durable::remove_file(&copy).map_err(|error| failed(&copy, &error))?;
    let result = copy_store(shared, &copy).and_then(|()| {
        let mut counts = (0, SkippedFileCounts::default());
        durable::write_file(path, |out| {
            counts = write_archive(shared, &copy, data_files, out)?;
            Ok::<(), Failure>(())
        })
        .map_err(|failure| failure.into_problem(path))?;
        Ok(counts)
    });
    // The copy takes up space.
    let _ = fs::remove_file(&copy);
    let (files, skipped) = result?;
    Ok(WrittenBackup {
        files,
        skipped: skipped.into_list(),
        path: path.display().to_string(),
        bytes: fs::metadata(path).map_or(0, |metadata| metadata.len()),
    })
}

/// Copies the store, and checks that the copy can be restored.
fn copy_store(shared: &Shared, copy: &Path) -> Result<(), Problem> {
    shared.store.copy_to(copy)?;
    store::check_copy(copy).map_err(|error| {
        let cause = Problem::from(error);
        Problem::new(cause.code, DataReason::BackupNotRestorable { cause: Box::new(cause) })
    })
}

/// Writes the archive. Returns the number of its files, and the counts of skipped ones.
fn write_archive(
    shared: &Shared,
    copy: &Path,
    data_files: BackupFiles,
    out: &mut BufWriter<File>,
) -> Result<(u32, SkippedFileCounts), Failure> {
    let BackupFiles {
        files: paths,
        mut skipped,
        ..
    } = data_files;
    let mut archive = ZipWriter::new(out);
    let mut files = vec![add(&mut archive, File::open(copy)?, store::FILE.to_owned())?];
    for (name, path) in paths {
        match File::open(&path) {
            Ok(file) => files.push(add(&mut archive, file, name)?),
            // The file was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                skipped.add(SkippedFileReason::Unreadable, &name);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let count = files.len() as u32;
    let manifest = Manifest {
        hearth_backup: manifest::VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: store::now(),
        data_folder: shared.data.to_string_lossy().into_owned(),
        files,
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::from)?;
    if count as usize > manifest::MAX_FILES || text.len() as u64 > manifest::MAX_BYTES {
        return Err(too_many_files().into());
    }
    archive
        .start_file(manifest::FILE, options(manifest::FILE))
        .map_err(io_error)?;
    archive.write_all(&text)?;
    archive.finish().map_err(io_error)?;
    Ok((count, skipped))
}

fn too_many_files() -> Problem {
    Problem::new(ProblemCode::FileUnreadable, DataReason::BackupOfTooManyFiles)
}

/// The files of the data folder for a backup, by their names in the archive.
#[derive(Default)]
struct BackupFiles {
    files: Vec<(String, PathBuf)>,
    /// Total size of the files in bytes.
    bytes: u64,
    skipped: SkippedFileCounts,
}

impl BackupFiles {
    fn list(data: &Path) -> io::Result<Self> {
        let mut listed = Self::default();
        for folder in FOLDERS {
            listed.collect(&data.join(folder), folder)?;
        }
        listed.files.sort();
        Ok(listed)
    }

    /// Adds the regular files in a folder. Links are not followed. Temporary files of interrupted
    /// writes are ignored and not counted as skipped.
    fn collect(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.skipped.add(SkippedFileReason::Unreadable, name);
                return Ok(());
            }
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let file_name = match entry.file_name().into_string() {
                Ok(file_name) => file_name,
                Err(file_name) => {
                    let path = format!("{name}/{}", file_name.to_string_lossy());
                    self.skipped.add(SkippedFileReason::Name, &path);
                    continue;
                }
            };
            if !(file_name.starts_with('.') && file_name.ends_with(".part")) {
                self.add(&entry, format!("{name}/{file_name}"))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: &fs::DirEntry, name: String) -> io::Result<()> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return if manifest::is_too_deep(&name) {
                self.skipped.add(SkippedFileReason::TooDeep, &name);
                Ok(())
            } else {
                self.collect(&entry.path(), &name)
            };
        }
        match manifest::refused(&name) {
            _ if !kind.is_file() => self.skipped.add(SkippedFileReason::NotAFile, &name),
            Some(reason) => self.skipped.add(reason, &name),
            None => {
                // The file may have been removed meanwhile.
                self.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
                self.files.push((name, entry.path()));
            }
        }
        Ok(())
    }
}

/// Adds a file to the archive. Returns its manifest entry.
fn add<W: Write + Seek>(archive: &mut ZipWriter<W>, mut file: File, name: String) -> io::Result<Entry> {
    archive.start_file(name.as_str(), options(&name)).map_err(io_error)?;
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                digest.update(&buffer[..count]);
                archive.write_all(&buffer[..count])?;
                bytes += count as u64;
            }
        }
    }
    Ok(Entry {
        path: name,
        bytes,
        sha256: hex(digest.finalize()),
    })
}

/// Options of a file in the archive. Only text and databases are compressed, because weights do not
/// get smaller.
fn options(name: &str) -> SimpleFileOptions {
    let method = match name.rsplit('.').next() {
        Some("db" | "json" | "jsonl" | "csv" | "txt" | "md" | "log") => CompressionMethod::Deflated,
        _ => CompressionMethod::Stored,
    };
    SimpleFileOptions::default().compression_method(method).large_file(true)
}

fn io_error(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        error => io::Error::other(error),
    }
}
