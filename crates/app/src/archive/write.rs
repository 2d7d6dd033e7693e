//! Writes a backup.

use super::{
    FOLDERS, failed,
    left_out::LeftOutCounts,
    manifest::{self, Entry, Manifest},
    space::check_space,
};
use crate::{
    export::unwritable,
    shared::Shared,
    store,
    wire::{LeftOutReason, Problem, ProblemCode, WrittenBackup},
};
use hearth_formats::{durable, hex};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
};
use zip::{CompressionMethod, ZipWriter, result::ZipError, write::SimpleFileOptions};

/// The copy of the store that is put into the archive, in the data folder, so that it is private.
const COPY: &str = "hearth.db-archive";

pub(super) fn write(shared: &Shared, path: &Path) -> Result<WrittenBackup, Problem> {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    let data = fs::canonicalize(&shared.data).map_err(|error| failed(&shared.data, &error))?;
    if folder.as_ref().is_some_and(|folder| folder.starts_with(&data)) {
        return Err(Problem {
            code: ProblemCode::BadRequest,
            message: "A backup inside Hearth's data folder would be lost with it. Choose another folder.".to_owned(),
        });
    }
    let found = Found::read(&shared.data).map_err(|error| failed(&shared.data, &error))?;
    if let Some(folder) = &folder {
        let store = fs::metadata(shared.store.path()).map_or(0, |about| about.len());
        check_space(folder, found.bytes.saturating_add(store), "A backup of everything")?;
    }
    let copy = shared.data.join(COPY);
    durable::remove_file(&copy).map_err(|error| failed(&copy, &error))?;
    let written = copy_store(shared, &copy).and_then(|()| {
        let mut about = (0, LeftOutCounts::default());
        durable::write_file(path, |out| {
            about = write_archive(shared, &copy, found, out)?;
            Ok::<(), io::Error>(())
        })
        .map_err(|error| unwritable(path, &error))?;
        Ok(about)
    });
    // It would take up space.
    let _ = fs::remove_file(&copy);
    let (files, left_out) = written?;
    Ok(WrittenBackup {
        files,
        left_out: left_out.into_list(),
        path: path.display().to_string(),
        bytes: fs::metadata(path).map_or(0, |about| about.len()),
    })
}

/// Copies the store, and checks that the copy can be restored.
fn copy_store(shared: &Shared, copy: &Path) -> Result<(), Problem> {
    shared.store.copy_to(copy)?;
    store::check_copy(copy).map_err(|error| Problem {
        code: error.code(),
        message: format!("No backup was written, because it could not be restored. {error}"),
    })
}

/// Returns the number of files, and those that are not in it.
fn write_archive(
    shared: &Shared,
    copy: &Path,
    found: Found,
    out: &mut BufWriter<File>,
) -> io::Result<(u32, LeftOutCounts)> {
    let Found {
        files: found,
        mut left_out,
        ..
    } = found;
    let mut archive = ZipWriter::new(out);
    let mut files = vec![add(&mut archive, File::open(copy)?, store::FILE.to_owned())?];
    for (name, path) in found {
        match File::open(&path) {
            Ok(file) => files.push(add(&mut archive, file, name)?),
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                left_out.add(LeftOutReason::Unreadable, &name);
            }
            Err(error) => return Err(error),
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
    let text = serde_json::to_vec_pretty(&manifest)?;
    if count as usize > manifest::MAX_FILES || text.len() as u64 > manifest::MAX_BYTES {
        return Err(io::Error::other("the data folder has more files than a backup holds"));
    }
    archive
        .start_file(manifest::FILE, options(manifest::FILE))
        .map_err(io_error)?;
    archive.write_all(&text)?;
    archive.finish().map_err(io_error)?;
    Ok((count, left_out))
}

/// The files of the data folder for a backup, by their names in the archive.
#[derive(Default)]
struct Found {
    files: Vec<(String, PathBuf)>,
    /// Bytes of these.
    bytes: u64,
    left_out: LeftOutCounts,
}

impl Found {
    fn read(data: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for folder in FOLDERS {
            found.collect(&data.join(folder), folder)?;
        }
        found.files.sort();
        Ok(found)
    }

    /// Adds the regular files in a folder. Links are not followed; temporary files of writes that
    /// were killed are not mentioned.
    fn collect(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.left_out.add(LeftOutReason::Unreadable, name);
                return Ok(());
            }
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let own = match entry.file_name().into_string() {
                Ok(own) => own,
                Err(own) => {
                    let path = format!("{name}/{}", own.to_string_lossy());
                    self.left_out.add(LeftOutReason::Name, &path);
                    continue;
                }
            };
            if !(own.starts_with('.') && own.ends_with(".part")) {
                self.add(&entry, format!("{name}/{own}"))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: &fs::DirEntry, name: String) -> io::Result<()> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return if manifest::is_too_deep(&name) {
                self.left_out.add(LeftOutReason::TooDeep, &name);
                Ok(())
            } else {
                self.collect(&entry.path(), &name)
            };
        }
        match manifest::refused(&name) {
            _ if !kind.is_file() => self.left_out.add(LeftOutReason::NotAFile, &name),
            Some(reason) => self.left_out.add(reason, &name),
            None => {
                // It may have been removed meanwhile.
                self.bytes += entry.metadata().map_or(0, |about| about.len());
                self.files.push((name, entry.path()));
            }
        }
        Ok(())
    }
}

/// Adds a file.
fn add<W: Write + Seek>(archive: &mut ZipWriter<W>, mut file: File, name: String) -> io::Result<Entry> {
    archive.start_file(name.as_str(), options(&name)).map_err(io_error)?;
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                digest.update(&buffer[..read]);
                archive.write_all(&buffer[..read])?;
                bytes += read as u64;
            }
        }
    }
    Ok(Entry {
        path: name,
        bytes,
        sha256: hex(digest.finalize()),
    })
}

/// Weights do not get smaller by compression.
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
