//! Checks a backup and extracts it beside the current data.

use super::{
    complete::{self, Pending},
    failed,
    manifest::{self, Entry, Manifest},
    skipped_files::SkippedFileCounts,
    space::check_space,
};
use crate::{
    cancellation::{Cancellable, cancelled},
    convert::to_json,
    percent::Percent,
    permissions,
    shared::Shared,
    store::{self, Restored, StoreError},
    wire::{Event, PendingRestore, Problem, ProblemCode, SkippedFileReason},
};
use hearth_formats::{durable, hex};
use hearth_protocol::{BackupDamage, DataReason, DiskContents, StoreFault};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    path::Path,
};
use zip::ZipArchive;

type Archive = ZipArchive<BufReader<File>>;

/// Extracts a backup. The current data is kept until [`complete::complete`] replaces it.
///
/// # Errors
/// The archive is damaged, no backup, from a newer Hearth or not as Hearth writes it, the disk has
/// too little space, or the extraction was cancelled. Nothing was changed.
pub(super) fn extract(path: &Path, shared: &Shared, cancellable: &Cancellable) -> Result<PendingRestore, Problem> {
    let data = &shared.data;
    if !fs::metadata(path).map_err(|error| failed(path, &error))?.is_file() {
        return Err(damaged(path, BackupDamage::NotAFile));
    }
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| unreadable(path, error))?;
    let manifest = read_manifest(path, &mut archive)?;
    check_space(data, manifest.bytes(), DiskContents::RestoredBackup)?;
    let staging = complete::new_staging(data)?;
    let extraction = Extraction {
        path,
        staging: &staging,
        shared,
        cancellable,
        done: 0,
        percent: Percent::new(manifest.bytes()),
        skipped: SkippedFileCounts::default(),
    };
    let result = extraction.run(&mut archive, &manifest);
    if result.is_err() {
        // A partial copy takes up space.
        let _ = fs::remove_dir_all(&staging);
    }
    result
}

/// The extraction of the files of a backup.
struct Extraction<'a> {
    path: &'a Path,
    staging: &'a Path,
    shared: &'a Shared,
    cancellable: &'a Cancellable,
    /// Bytes written.
    done: u64,
    percent: Percent,
    skipped: SkippedFileCounts,
}

impl Extraction<'_> {
    fn run(mut self, archive: &mut Archive, manifest: &Manifest) -> Result<PendingRestore, Problem> {
        for file in &manifest.files {
            self.refuse_if_cancelled()?;
            self.add(archive, file)?;
        }
        let conversations = self.prepare_store(manifest)?;
        sync(self.staging).map_err(|error| failed(self.staging, &error))?;
        self.refuse_if_cancelled()?;
        let data = &self.shared.data;
        let restore = PendingRestore {
            made_at: manifest.made_at,
            conversations,
            files: (manifest.files.len() as u32).saturating_sub(self.skipped.count()),
            skipped: self.skipped.into_list(),
            aside: data
                .join(format!("hearth-set-aside-{}", store::now()))
                .display()
                .to_string(),
        };
        complete::begin(data, &Pending::new(restore.clone(), self.staging))?;
        Ok(restore)
    }

    /// Checks and prepares the extracted store, which is untrusted.
    fn prepare_store(&self, manifest: &Manifest) -> Result<u32, Problem> {
        let settings = self.shared.settings();
        let restored = Restored {
            old: Path::new(&manifest.data_folder),
            new: &self.shared.data,
            settings: &[
                // This machine's token is sent to this address.
                ("hubEndpoint", to_json(&settings.hub_endpoint)),
                ("offline", to_json(&settings.offline)),
                // These folders are scanned without a request by the user.
                ("modelFolders", to_json(&settings.model_folders)),
            ],
        };
        store::prepare_restored(self.staging, &restored).map_err(|error| match error {
            StoreError::Foreign(fault) => damaged(self.path, BackupDamage::ForeignStore { fault }),
            StoreError::OtherProgram { .. } => {
                let fault = StoreFault::OtherProgram;
                damaged(self.path, BackupDamage::ForeignStore { fault })
            }
            StoreError::Corrupt { detail, .. } => damaged(self.path, BackupDamage::CorruptStore { detail }),
            error => error.into(),
        })
    }

    fn refuse_if_cancelled(&self) -> Result<(), Problem> {
        let result = self.cancellable.check();
        result.map_err(|_| cancelled(DataReason::RestoreCancelled))
    }

    /// Extracts a file. A file whose name this system does not allow is skipped.
    fn add(&mut self, archive: &mut Archive, file: &Entry) -> Result<(), Problem> {
        let mut entry = archive
            .by_name(&file.path)
            .map_err(|error| self.unreadable(file, error))?;
        if !manifest::is_possible_here(&file.path) {
            self.skipped.add(SkippedFileReason::Name, &file.path);
            return Ok(());
        }
        let target = self.staging.join(&file.path);
        let out = match create(&target) {
            Err(error) if is_name_error(&error) => {
                self.skipped.add(SkippedFileReason::Name, &file.path);
                return Ok(());
            }
            result => result.map_err(|error| failed(&target, &error))?,
        };
        self.copy(&mut entry, out, file, &target)
    }

    fn copy(&mut self, entry: &mut impl Read, mut out: File, file: &Entry, target: &Path) -> Result<(), Problem> {
        let (mut digest, mut remaining) = (Sha256::new(), file.bytes);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = entry.read(&mut buffer).map_err(|error| self.unreadable(file, error))?;
            if count == 0 {
                break;
            }
            remaining = remaining.checked_sub(count as u64).ok_or_else(|| {
                let name = file.path.clone();
                damaged(self.path, BackupDamage::TooLarge { name })
            })?;
            digest.update(&buffer[..count]);
            out.write_all(&buffer[..count])
                .map_err(|error| failed(target, &error))?;
            self.done += count as u64;
            if let Some(fraction) = self.percent.advance(self.done) {
                self.shared.emit(Event::RestoreProgress { fraction });
            }
            self.refuse_if_cancelled()?;
        }
        if remaining > 0 || hex(digest.finalize()) != file.sha256 {
            let name = file.path.clone();
            return Err(damaged(self.path, BackupDamage::OtherHash { name }));
        }
        out.sync_all().map_err(|error| failed(target, &error))
    }

    /// The problem of a file in the archive.
    fn unreadable(&self, file: &Entry, error: impl ToString) -> Problem {
        let (name, detail) = (file.path.clone(), error.to_string());
        damaged(self.path, BackupDamage::Unreadable { name, detail })
    }
}

fn create(target: &Path) -> io::Result<File> {
    if let Some(folder) = target.parent() {
        permissions::create_private_folder(folder)?;
    }
    File::create_new(target)
}

/// Whether a file could not be created because of its name: the file system does not allow it, or
/// does not distinguish it from another one, by case or by Unicode normalization.
fn is_name_error(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    #[cfg(unix)]
    let is_encoding = error.raw_os_error() == Some(libc::EILSEQ);
    #[cfg(not(unix))]
    let is_encoding = false;
    is_encoding
        || matches!(
            error.kind(),
            AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory
        )
}

fn read_manifest(path: &Path, archive: &mut Archive) -> Result<Manifest, Problem> {
    let display = || path.display().to_string();
    let not_a_backup = || Problem::new(ProblemCode::DataInvalid, DataReason::NotABackup { path: display() });
    let entry = archive.by_name(manifest::FILE).map_err(|_| not_a_backup())?;
    let mut text = Vec::new();
    entry
        .take(manifest::MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| unreadable(path, error))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|_| not_a_backup())?;
    if manifest.hearth_backup > manifest::VERSION {
        let reason = DataReason::BackupNewer {
            path: display(),
            version: manifest.version.chars().take(40).collect(),
        };
        return Err(Problem::new(ProblemCode::DataInvalid, reason));
    }
    if manifest.has_valid_paths() {
        Ok(manifest)
    } else {
        Err(damaged(path, BackupDamage::FileList))
    }
}

/// Syncs a folder and its subfolders.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        }
    }
    durable::sync_folder(folder)
}

/// The problem of an archive.
fn unreadable(path: &Path, error: impl ToString) -> Problem {
    let detail = error.to_string();
    damaged(path, BackupDamage::Archive { detail })
}

fn damaged(path: &Path, damage: BackupDamage) -> Problem {
    let path = path.display().to_string();
    Problem::new(ProblemCode::DataInvalid, DataReason::BackupDamaged { path, damage })
}
