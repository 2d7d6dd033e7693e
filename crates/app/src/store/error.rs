//! Errors of the store.

use crate::wire::{Problem, ProblemCode};
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// An error of opening, reading or writing the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data folder is not usable.
    #[error("Hearth cannot store its data in {}: {source}. Check that the folder is writable, or set HEARTH_DATA to \
        another one.", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another Hearth has the store open.
    #[error("Another Hearth is already using {}. Use that one, or close it first.", .0.display())]
    InUse(PathBuf),
    /// Written by a newer Hearth.
    #[error("Your conversations in {} were last opened by a newer Hearth (their format is {found}, this Hearth \
        supports up to {known}). Install the newer Hearth again; the file is unchanged.", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest supported schema version.
        known: i64,
    },
    /// The file is corrupt, or another program's.
    #[error("The file of your conversations, {}, is corrupt ({detail}). Restart Hearth: it offers to restore a backup \
        or to recover the readable rows.", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        detail: String,
    },
    /// Not as Hearth writes it, although it is not corrupt.
    #[error("It is not a store as Hearth writes it: {0}.")]
    Foreign(String),
    /// The backup before a migration failed; nothing was changed.
    #[error("Hearth could not back up your conversations to {}, which it does before changing their format: {source}. \
        Nothing was changed. Check the free disk space and that the folder is writable.", .folder.display())]
    Backup {
        /// Where to.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk is full.
    #[error("The disk that holds {} is full: free some space, then try again. Nothing that was saved before is \
        lost.", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds it.
    #[error("Another program is using the file of your conversations, {}. Close it or wait until it is done, then try \
        again.", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A thread of this process has a transaction.
    #[error("Hearth is writing to its store. Wait a moment, then try again.")]
    Occupied,
    /// The data folder is being moved.
    #[error("Hearth's data is being moved to another folder. Wait until that is done, then try again.")]
    Frozen,
    /// Something else.
    #[error("Your conversations could not be read or written: {source}.")]
    Sqlite {
        /// SQLite's error.
        #[from]
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
            Self::Corrupt { .. } => ProblemCode::StoreCorrupt,
            Self::DiskFull { .. } => ProblemCode::DiskFull,
        }
    }

    /// The same, once the path is known.
    pub(super) fn at(self, path: &Path) -> Self {
        match self {
            Self::Sqlite { source } => Self::from_sqlite(source, path),
            other => other,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
        }
    }
}
