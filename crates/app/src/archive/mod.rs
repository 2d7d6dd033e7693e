//! Backup and restoration of everything that the user made, as one file: a ZIP archive of the
//! store, the runs with their adapters, the datasets made here, the presets, and a manifest with
//! their hashes. Models, caches and files outside the data folder are not in it.
//!
//! A backup is checked and extracted next to the present data. The restoration is completed at the
//! next start of the app, before the store is opened ([`complete`]).

mod complete;
mod extract;
mod left_out;
mod manifest;
mod space;
mod write;

pub(crate) use complete::complete;
pub(crate) use space::check_space;

use crate::{
    App,
    data_work::Work,
    presets, relocation,
    shared::{Shared, is_unfinished},
    wire::{DataPlace, PendingRestore, Problem, ProblemCode, WrittenBackup},
};
use std::path::{Path, PathBuf};

/// The folders of the data folder that a backup holds.
const FOLDERS: [&str; 3] = ["runs", "datasets", presets::FOLDER];

/// Folders of an extracted backup, until it is in place: one may be pending while another one is
/// extracted.
const STAGING: [&str; 2] = ["hearth-restore", "hearth-restore-2"];

/// The file that says that an extracted backup is complete and shall be put in place.
const PENDING: &str = "hearth-restore.json";

/// An answer that has ended and could not be saved would be missing in a backup.
fn refuse_with_unsaved(shared: &Shared) -> Result<(), Problem> {
    if shared.live().values().any(|message| !is_unfinished(message)) {
        Err(Problem {
            code: ProblemCode::Busy,
            message:
                "An answer is not saved yet, so it would not be in the backup. Free some space on the disk, close the \
             program that uses the store or wait for the import, then try again."
                    .to_owned(),
        })
    } else {
        Ok(())
    }
}

impl App {
    /// The data folder, and the restoration that is completed at the next start.
    pub async fn data_place(&self) -> Result<DataPlace, Problem> {
        self.shared
            .blocking(|shared| {
                Ok(DataPlace {
                    path: shared.data.display().to_string(),
                    bytes: relocation::bytes_of(&shared.data),
                    pending: complete::pending(&shared.data).map(|pending| pending.about),
                    former: relocation::former(shared),
                })
            })
            .await
    }

    /// The data folder.
    pub fn data_folder(&self) -> &Path {
        &self.shared.data
    }

    /// Writes a backup of everything to a file, which is replaced atomically.
    pub async fn back_up(&self, path: PathBuf) -> Result<WrittenBackup, Problem> {
        let in_progress = self.shared.data_work.begin(Work::Backup)?;
        self.shared
            .blocking(move |shared| {
                let _until_the_end = in_progress;
                refuse_during_run(shared)?;
                shared.save_deferred();
                refuse_with_unsaved(shared)?;
                write::write(shared, &path)
            })
            .await
    }

    /// Checks and extracts a backup, with [`Event::RestoreProgress`](crate::wire::Event). It
    /// replaces the present data at the next start, in place of a backup restored before; until
    /// then nothing changes.
    pub async fn restore_backup(&self, path: PathBuf) -> Result<PendingRestore, Problem> {
        let in_progress = self.shared.data_work.begin(Work::Restoration)?;
        let cancellable = self.shared.restorations.begin();
        self.shared
            .blocking(move |shared| {
                let _until_the_end = in_progress;
                refuse_during_run(shared)?;
                extract::extract(&path, shared, &cancellable)
            })
            .await
    }

    /// Cancels a restoration, while it is extracted or before the next start.
    pub async fn cancel_restore(&self) -> Result<(), Problem> {
        self.shared.restorations.cancel();
        self.shared
            .blocking(|shared| {
                // Once the extraction has noticed.
                let _not_extracting = shared.data_work.begin_after_same(Work::Restoration)?;
                complete::cancel(&shared.data)
            })
            .await
    }
}

/// The files of an active run change while they would be copied.
pub(crate) fn refuse_during_run(shared: &Shared) -> Result<(), Problem> {
    match shared.active_run() {
        None => Ok(()),
        Some(run) => Err(Problem {
            code: ProblemCode::Busy,
            message: format!(
                "The run “{}” is active. Stop it or wait until it is done, then try again.",
                run.name
            ),
        }),
    }
}

/// The next start of the present folder replaces its data.
pub(crate) fn refuse_during_restoration(shared: &Shared) -> Result<(), Problem> {
    match complete::pending(&shared.data) {
        None => Ok(()),
        Some(_) => Err(Problem {
            code: ProblemCode::Busy,
            message: "A backup is restored at the next start. Restart Hearth or cancel that first.".to_owned(),
        }),
    }
}

/// The problem of a file or folder at which a backup or a restoration failed.
fn failed(path: &Path, error: &std::io::Error) -> Problem {
    Problem {
        code: match error.kind() {
            std::io::ErrorKind::StorageFull => ProblemCode::DiskFull,
            _ => ProblemCode::FileUnreadable,
        },
        message: format!(
            "{} could not be read or written: {error}. Nothing was changed.",
            path.display()
        ),
    }
}
