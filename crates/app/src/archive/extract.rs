//! Checks a backup and extracts it beside the present data.

use super::{
    STAGING,
    complete::{self, Pending},
    failed,
    manifest::{self, Manifest},
};
use crate::{
    permissions, store,
    wire::{PendingRestore, Problem, ProblemCode},
};
use hearth_formats::{durable, hex};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    path::Path,
};
use zip::ZipArchive;

type Archive = ZipArchive<BufReader<File>>;

/// Extracts a backup. The present data stays until [`complete::complete`].
///
/// # Errors
/// The archive is damaged, no backup or from a newer Hearth, or the disk is full; nothing was
/// changed.
pub(super) fn extract(path: &Path, data: &Path) -> Result<PendingRestore, Problem> {
    if !fs::metadata(path).map_err(|error| failed(path, &error))?.is_file() {
        return Err(damaged(path, "it is not a file"));
    }
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, &error.to_string()))?;
    let manifest = read_manifest(path, &mut archive)?;
    complete::cancel(data)?;
    let staging = data.join(STAGING);
    let extracted = permissions::create_private_folder(&staging)
        .map_err(|error| failed(&staging, &error))
        .and_then(|()| extract_all(path, &mut archive, &manifest, &staging))
        .and_then(|()| {
            let conversations = store::prepare_restored(&staging, Path::new(&manifest.data_folder), data)?;
            let about = PendingRestore {
                made_at: manifest.made_at,
                conversations,
                files: manifest.files.len() as u32,
                aside: data
                    .join(format!("hearth-set-aside-{}", store::now()))
                    .display()
                    .to_string(),
            };
            sync(&staging).map_err(|error| failed(&staging, &error))?;
            complete::begin(data, &Pending::new(about.clone()))?;
            Ok(about)
        });
    if extracted.is_err() {
        // It would take up space.
        let _ = fs::remove_dir_all(&staging);
    }
    extracted
}

fn read_manifest(path: &Path, archive: &mut Archive) -> Result<Manifest, Problem> {
    let no_backup = || Problem {
        code: ProblemCode::DataInvalid,
        message: format!(
            "{} is not a backup of Hearth. Choose a file that Hearth wrote as a backup.",
            path.display()
        ),
    };
    let entry = archive.by_name(manifest::FILE).map_err(|_| no_backup())?;
    let mut text = Vec::new();
    entry
        .take(manifest::MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| damaged(path, &error.to_string()))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|_| no_backup())?;
    if manifest.hearth_backup > manifest::VERSION {
        return Err(Problem {
            code: ProblemCode::DataInvalid,
            message: format!(
                "{} was written by a newer Hearth ({}). Install that one to restore it.",
                path.display(),
                manifest.version.chars().take(40).collect::<String>()
            ),
        });
    }
    match manifest.has_valid_paths() {
        true => Ok(manifest),
        false => Err(damaged(path, "its list of files is not that of a backup")),
    }
}

fn extract_all(path: &Path, archive: &mut Archive, manifest: &Manifest, staging: &Path) -> Result<(), Problem> {
    for file in &manifest.files {
        let mut entry = archive
            .by_name(&file.path)
            .map_err(|error| damaged(path, &format!("{}: {error}", file.path)))?;
        let target = staging.join(&file.path);
        let folder = target.parent().unwrap_or(staging);
        permissions::create_private_folder(folder).map_err(|error| failed(folder, &error))?;
        let mut out = File::create_new(&target).map_err(|error| failed(&target, &error))?;
        let (mut digest, mut left) = (Sha256::new(), file.bytes);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = entry
                .read(&mut buffer)
                .map_err(|error| damaged(path, &format!("{}: {error}", file.path)))?;
            if read == 0 {
                break;
            }
            left = left
                .checked_sub(read as u64)
                .ok_or_else(|| damaged(path, &format!("{} is larger than its list of files says", file.path)))?;
            digest.update(&buffer[..read]);
            out.write_all(&buffer[..read])
                .map_err(|error| failed(&target, &error))?;
        }
        if left > 0 || hex(digest.finalize()) != file.sha256 {
            return Err(damaged(
                path,
                &format!("{} has another hash than its list of files says", file.path),
            ));
        }
        out.sync_all().map_err(|error| failed(&target, &error))?;
    }
    Ok(())
}

/// Syncs the entries of a folder and of those in it.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        }
    }
    durable::sync_folder(folder)
}

fn damaged(path: &Path, why: &str) -> Problem {
    Problem {
        code: ProblemCode::DataInvalid,
        message: format!(
            "The backup {} is damaged: {why}. Nothing was changed. Use another copy of it.",
            path.display()
        ),
    }
}
