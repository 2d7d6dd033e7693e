//! Errors of the store.

use crate::wire::{Problem, ProblemCode};
use hearth_protocol::{DataReason, StoreFault};
use rusqlite::ErrorCode;
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// An error of opening, reading or writing the store. Its `Display` is its problem's.
#[derive(Debug)]
pub enum StoreError {
    /// The data folder is not usable.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another Hearth has the store open.
    InUse(PathBuf),
    /// Written by a newer Hearth.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest supported schema version.
        known: i64,
    },
    /// The file is corrupt.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        detail: String,
    },
    /// The file is a database of another program.
    OtherProgram {
        /// The file.
        path: PathBuf,
    },
    /// The store is not corrupt, but Hearth did not write it.
    Foreign(StoreFault),
    /// The backup before a migration failed; nothing was changed.
    Backup {
        /// The folder of backups.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk is full.
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process has locked it.
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A thread of this process has a transaction.
    Occupied,
    /// The data folder is being moved.
    Frozen,
    /// Another error of SQLite.
    Sqlite {
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Classifies SQLite's errors by the remedies that the user has.
    pub(super) fn from_sqlite(error: rusqlite::Error, path: &Path) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt {
                path,
                detail: error.to_string(),
            },
            _ => Self::Sqlite { source: error },
        }
    }

    /// The error's code.
    pub fn code(&self) -> ProblemCode {
        match self {
            Self::Folder { .. } | Self::Backup { .. } | Self::Busy { .. } | Self::Sqlite { .. } => ProblemCode::Store,
            Self::Frozen | Self::Occupied => ProblemCode::Busy,
            Self::InUse(_) => ProblemCode::AlreadyRunning,
            Self::Foreign(_) => ProblemCode::DataInvalid,
            Self::Newer { .. } => ProblemCode::StoreNewer,
            Self::Corrupt { .. } | Self::OtherProgram { .. } => ProblemCode::StoreCorrupt,
            Self::DiskFull { .. } => ProblemCode::DiskFull,
        }
    }

    /// The error's reason.
    fn reason(&self) -> DataReason {
        let display = |path: &Path| path.display().to_string();
        match self {
            Self::Folder { folder, source } => DataReason::FolderUnusable {
                folder: display(folder),
                detail: source.to_string(),
            },
            Self::InUse(folder) => DataReason::InUse {
                folder: display(folder),
            },
            Self::Newer { path, found, known } => DataReason::StoreNewer {
                path: display(path),
                found: *found,
                known: *known,
            },
            Self::Corrupt { path, detail } => DataReason::StoreCorrupt {
                path: display(path),
                detail: detail.clone(),
            },
            Self::OtherProgram { path } => DataReason::StoreOfOtherProgram { path: display(path) },
            Self::Foreign(fault) => DataReason::StoreForeign { fault: fault.clone() },
            Self::Backup { folder, source } => DataReason::MigrationBackupFailed {
                folder: display(folder),
                detail: source.to_string(),
            },
            Self::DiskFull { path } => DataReason::StoreDiskFull { path: display(path) },
            Self::Busy { path } => DataReason::StoreBusy { path: display(path) },
            Self::Occupied => DataReason::StoreOccupied,
            Self::Frozen => DataReason::StoreFrozen,
            Self::Sqlite { source } => DataReason::StoreFailed {
                detail: source.to_string(),
            },
        }
    }

    fn problem(&self) -> Problem {
        Problem::new(self.code(), self.reason())
    }

    /// Classifies an error of SQLite for the store at `path`.
    pub(super) fn at(self, path: &Path) -> Self {
        match self {
            Self::Sqlite { source } => Self::from_sqlite(source, path),
            error => error,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem())
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite { source }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        error.problem()
    }
}
