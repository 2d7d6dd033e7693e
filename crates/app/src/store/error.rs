//! What can go wrong with the store, in sentences.

use crate::wire::{Code, Problem};
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why conversations could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("Hearth cannot keep its data in {}: {source}. Check that the folder can be written, or set HEARTH_DATA to another one.", .folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("Another Hearth is already using {}. Use that one, or close it first.", .0.display())]
    InUse(PathBuf),
    /// A newer Hearth wrote it.
    #[error("Your conversations in {} were last opened by a newer Hearth (their format is {found}, this Hearth knows up to {known}). Install that Hearth again; the file was left as it is.", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known.
        known: i64,
    },
    /// It is no longer whole.
    #[error("The file of your conversations, {}, is damaged ({what}). Restart Hearth: it offers to go back to a copy, or to save what can be read.", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// The copy could not be made without which nothing is changed.
    #[error("Hearth could not make a copy of your conversations in {}, which it does before it changes their format: {source}. Nothing was changed. Check that there is space in the folder, and that it can be written.", .folder.display())]
    Backup {
        /// Where to.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no room left.
    #[error("The disk that holds {} is full: free some space, then try again. Nothing that was saved before is lost.", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds it.
    #[error("Another program is using the file of your conversations, {}. Close it or wait until it is done, then try again.", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// Something else.
    #[error("Your conversations could not be read or written: {source}.")]
    Sqlite {
        /// What SQLite says.
        #[from]
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts SQLite's errors by what a person can do about them.
    pub(super) fn from_sqlite(error: rusqlite::Error, path: &Path) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged {
                path,
                what: error.to_string(),
            },
            _ => Self::Sqlite { source: error },
        }
    }

    /// The error's kind, for programs.
    pub fn code(&self) -> Code {
        match self {
            Self::Folder { .. } | Self::Backup { .. } | Self::Busy { .. } | Self::Sqlite { .. } => Code::Store,
            Self::InUse(_) => Code::AlreadyRunning,
            Self::Newer { .. } => Code::StoreNewer,
            Self::Damaged { .. } => Code::StoreDamaged,
            Self::DiskFull { .. } => Code::DiskFull,
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
