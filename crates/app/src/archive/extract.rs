//! Checks a backup and extracts it beside the present data.

use super::{
    complete::{self, Pending},
    failed,
    left_out::LeftOutCounts,
    manifest::{self, Entry, Manifest},
    space::check_space,
};
use crate::{
    cancellation::{Cancellable, cancelled},
    convert::to_json,
    percent::Percent,
    permissions,
    shared::Shared,
    store::{self, Restored, StoreError},
    wire::{Event, LeftOutReason, PendingRestore, Problem, ProblemCode},
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
/// The archive is damaged, no backup, from a newer Hearth or not as Hearth writes it, the disk has
/// too little room, or the extraction was cancelled; nothing was changed.
pub(super) fn extract(path: &Path, shared: &Shared, cancellable: &Cancellable) -> Result<PendingRestore, Problem> {
    let data = &shared.data;
    if !fs::metadata(path).map_err(|error| failed(path, &error))?.is_file() {
        return Err(damaged(path, "it is not a file"));
    }
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, &error.to_string()))?;
    let manifest = read_manifest(path, &mut archive)?;
    check_space(data, manifest.bytes(), "The backup")?;
    let staging = complete::new_staging(data)?;
    let extraction = Extraction {
        path,
        staging: &staging,
        shared,
        cancellable,
        done: 0,
        percent: Percent::new(manifest.bytes()),
        left_out: LeftOutCounts::default(),
    };
    let extracted = extraction.run(&mut archive, &manifest);
    if extracted.is_err() {
        // It would take up space.
        let _ = fs::remove_dir_all(&staging);
    }
    extracted
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
    left_out: LeftOutCounts,
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
        let about = PendingRestore {
            made_at: manifest.made_at,
            conversations,
            files: (manifest.files.len() as u32).saturating_sub(self.left_out.count()),
            left_out: self.left_out.into_list(),
            aside: data
                .join(format!("hearth-set-aside-{}", store::now()))
                .display()
                .to_string(),
        };
        complete::begin(data, &Pending::new(about.clone(), self.staging))?;
        Ok(about)
    }

    /// Checks and prepares the extracted store. It may be someone else's.
    fn prepare_store(&self, manifest: &Manifest) -> Result<u32, Problem> {
        let settings = self.shared.settings();
        let restored = Restored {
            old: Path::new(&manifest.data_folder),
            new: &self.shared.data,
            settings: &[
                // The token of this machine is sent to this address.
                ("hubEndpoint", to_json(&settings.hub_endpoint)),
                ("offline", to_json(&settings.offline)),
                // These folders are scanned without a request by the user.
                ("modelFolders", to_json(&settings.model_folders)),
            ],
        };
        store::prepare_restored(self.staging, &restored).map_err(|error| match error {
            StoreError::Foreign(_) => damaged(self.path, &format!("its store is not as Hearth writes it. {error}")),
            StoreError::Corrupt { detail, .. } => damaged(self.path, &format!("its store is corrupt ({detail})")),
            error => error.into(),
        })
    }

    fn refuse_if_cancelled(&self) -> Result<(), Problem> {
        let checked = self.cancellable.check();
        checked.map_err(|_| cancelled("The restoration was cancelled. Nothing was changed."))
    }

    /// Extracts a file. One whose name this system does not allow is left out; the store is not.
    fn add(&mut self, archive: &mut Archive, file: &Entry) -> Result<(), Problem> {
        let mut entry = archive
            .by_name(&file.path)
            .map_err(|error| damaged(self.path, &format!("{}: {error}", file.path)))?;
        if !manifest::is_possible_here(&file.path) {
            self.left_out.add(LeftOutReason::Name, &file.path);
            return Ok(());
        }
        let target = self.staging.join(&file.path);
        let out = match create(&target) {
            Err(error) if is_of_name(&error) => {
                self.left_out.add(LeftOutReason::Name, &file.path);
                return Ok(());
            }
            created => created.map_err(|error| failed(&target, &error))?,
        };
        self.copy(&mut entry, out, file, &target)
    }

    fn copy(&mut self, entry: &mut impl Read, mut out: File, file: &Entry, target: &Path) -> Result<(), Problem> {
        let is_damaged = |why: String| damaged(self.path, &format!("{} {why}", file.path));
        let (mut digest, mut left) = (Sha256::new(), file.bytes);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = entry
                .read(&mut buffer)
                .map_err(|error| is_damaged(format!("cannot be read: {error}")))?;
            if read == 0 {
                break;
            }
            left = left
                .checked_sub(read as u64)
                .ok_or_else(|| is_damaged("is larger than its list of files says".to_owned()))?;
            digest.update(&buffer[..read]);
            out.write_all(&buffer[..read]).map_err(|error| failed(target, &error))?;
            self.done += read as u64;
            if let Some(fraction) = self.percent.advance(self.done) {
                self.shared.emit(Event::RestoreProgress { fraction });
            }
            self.refuse_if_cancelled()?;
        }
        if left > 0 || hex(digest.finalize()) != file.sha256 {
            return Err(is_damaged("has another hash than its list of files says".to_owned()));
        }
        out.sync_all().map_err(|error| failed(target, &error))
    }
}

fn create(target: &Path) -> io::Result<File> {
    if let Some(folder) = target.parent() {
        permissions::create_private_folder(folder)?;
    }
    File::create_new(target)
}

/// Whether a file could not be created because of its name: the file system does not allow it, or
/// does not distinguish it from another one, by case or by the form of a letter.
fn is_of_name(error: &io::Error) -> bool {
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
    if manifest.has_valid_paths() {
        Ok(manifest)
    } else {
        Err(damaged(path, "its list of files is not that of a backup"))
    }
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
