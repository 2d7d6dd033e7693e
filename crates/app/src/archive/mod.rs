//! Backup and restoration of the user's data as one file: a ZIP archive of the store, the runs with
//! their adapters, the datasets in the data folder, the presets, and a manifest with hashes. It
//! does not contain models, caches and files outside of the data folder.
//!
//! A backup is checked and extracted beside the current data. The restoration is completed at the
//! next start of the app, before the store is opened ([`complete`]).

mod complete;
mod extract;
mod file_name;
mod manifest;
mod skipped_files;
mod space;
mod write;

pub(crate) use complete::complete;
pub use file_name::backup_file_name;
pub(crate) use space::check_space;

use crate::{
    App,
    data_work::Work,
    presets, relocation,
    shared::{Shared, is_unfinished},
    wire::{DataPlace, PendingRestore, Problem, ProblemCode, Run, WrittenBackup},
};
use hearth_protocol::DataReason;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The folders of the data folder that a backup contains.
const FOLDERS: [&str; 3] = ["runs", "datasets", presets::FOLDER];

/// Staging folders of extracted backups. There are two, because one backup may be pending while
/// another one is extracted.
const STAGING: [&str; 2] = ["hearth-restore", "hearth-restore-2"];

/// The file that marks an extracted backup as complete and pending.
const PENDING: &str = "hearth-restore.json";

/// Refuses a backup while an ended answer is not saved, because the backup would not contain it.
fn refuse_with_unsaved(shared: &Shared) -> Result<(), Problem> {
    if shared.live().values().any(|message| !is_unfinished(message)) {
        Err(Problem::new(ProblemCode::Busy, DataReason::BackupWithUnsavedAnswer))
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
    /// replaces the current data at the next start. A backup that is pending already is discarded.
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
                // Waits until the extraction has stopped.
                let _not_extracting = shared.data_work.begin_after_same(Work::Restoration)?;
                complete::cancel(&shared.data)
            })
            .await
    }
}

/// Refuses work during an active run, whose files change while they are copied.
pub(crate) fn refuse_during_run(shared: &Shared) -> Result<(), Problem> {
    match shared.active_run() {
        None => Ok(()),
        Some(Run { name, .. }) => Err(Problem::new(ProblemCode::Busy, DataReason::RunActive { name })),
    }
}

/// Refuses work while a restoration is pending, because the next start replaces the data.
pub(crate) fn refuse_during_restoration(shared: &Shared) -> Result<(), Problem> {
    match complete::pending(&shared.data) {
        None => Ok(()),
        Some(_) => Err(Problem::new(ProblemCode::Busy, DataReason::RestorePending)),
    }
}

/// The problem of a file or folder at which a backup or a restoration failed.
fn failed(path: &Path, error: &io::Error) -> Problem {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ProblemCode::DiskFull,
        _ => ProblemCode::FileUnreadable,
    };
    let reason = DataReason::BackupFailed {
        path: path.display().to_string(),
        detail: error.to_string(),
    };
    Problem::new(code, reason)
}
