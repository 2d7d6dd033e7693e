//! Writes a backup.

use super::{
    FOLDERS, failed,
    manifest::{self, Entry, Manifest},
};
use crate::{
    export::unwritable,
    presets,
    shared::Shared,
    store,
    wire::{Problem, ProblemCode, WrittenBackup},
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
    if folder.is_some_and(|folder| folder.starts_with(&data)) {
        return Err(Problem {
            code: ProblemCode::BadRequest,
            message: "A backup inside Hearth's data folder would be lost with it. Choose another folder.".to_owned(),
        });
    }
    let copy = shared.data.join(COPY);
    durable::remove_file(&copy).map_err(|error| failed(&copy, &error))?;
    let written = shared.store.copy_to(&copy).map_err(Problem::from).and_then(|()| {
        let mut files = 0;
        durable::write_file(path, |out| {
            files = write_archive(shared, &copy, out)?;
            Ok::<(), io::Error>(())
        })
        .map_err(|error| unwritable(path, &error))?;
        Ok(files)
    });
    // It would take up space.
    let _ = fs::remove_file(&copy);
    Ok(WrittenBackup {
        files: written?,
        path: path.display().to_string(),
        bytes: fs::metadata(path).map_or(0, |about| about.len()),
    })
}

/// Returns the number of files.
fn write_archive(shared: &Shared, copy: &Path, out: &mut BufWriter<File>) -> io::Result<u32> {
    let mut archive = ZipWriter::new(out);
    let mut files = Vec::new();
    files.extend(add(&mut archive, copy, store::FILE.to_owned())?);
    for folder in FOLDERS {
        let mut found = Vec::new();
        collect(&shared.data.join(folder), folder, &mut found)?;
        found.sort();
        for (name, path) in found {
            files.extend(add(&mut archive, &path, name)?);
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
    archive
        .start_file(manifest::FILE, options(manifest::FILE))
        .map_err(io_error)?;
    serde_json::to_writer_pretty(&mut archive, &manifest)?;
    archive.finish().map_err(io_error)?;
    Ok(count)
}

/// The regular files in a folder with their names in the archive. Links are not followed, and
/// temporary files of writes that were killed are left out.
fn collect(folder: &Path, name: &str, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(own) = entry.file_name().into_string() else {
            continue;
        };
        let is_temporary = own.starts_with('.') && own.ends_with(".part");
        let name = format!("{name}/{own}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_temporary {
            collect(&entry.path(), &name, found)?;
        } else if kind.is_file() && !is_temporary && is_kept(&name) {
            found.push((name, entry.path()));
        }
    }
    Ok(())
}

/// A file in the folder of presets that is none would make the whole backup invalid.
fn is_kept(name: &str) -> bool {
    !name.starts_with(&format!("{}/", presets::FOLDER)) || manifest::is_valid(name)
}

/// Adds a file. Returns `None` if it was removed meanwhile.
fn add<W: Write + Seek>(archive: &mut ZipWriter<W>, path: &Path, name: String) -> io::Result<Option<Entry>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
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
    Ok(Some(Entry {
        path: name,
        bytes,
        sha256: hex(digest.finalize()),
    }))
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
