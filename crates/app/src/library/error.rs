//! Errors of the library.

use crate::wire::{Problem, ProblemCode};
use std::{io, path::PathBuf};

/// An error of finding, adding, removing or downloading a model.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Neither a path nor a known name.
    #[error("There is no model called \u{201c}{name}\u{201d} here{}. Give the path of a GGUF file, or one of these \
        names: {}.", .pull.as_ref().map(|id| format!(" yet: `hearth pull {id}` downloads \
        it")).unwrap_or_default(), if .known.is_empty() { "(none yet)".to_owned() } else { .known.join(", ") })]
    Unknown {
        /// The requested name.
        name: String,
        /// The catalog's id, if it has the model.
        pull: Option<String>,
        /// Ids of the library's models.
        known: Vec<String>,
    },
    /// Not in the catalog.
    #[error("The catalog has no model called \u{201c}{name}\u{201d}. It has: {}.", .known.join(", "))]
    NotInCatalog {
        /// The requested name.
        name: String,
        /// Ids of the catalog.
        known: Vec<String>,
    },
    /// The file cannot be read or is not a model.
    #[error("{message}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Whether it exists and can be opened.
        found: bool,
        /// A sentence that names the file.
        message: String,
    },
    /// The path is not valid UTF-8.
    #[error("The path {} has characters that Hearth cannot store. Rename the file or its folder, then add it \
        again.", .0.display())]
    NonUtf8Path(PathBuf),
    /// A bundled model cannot be removed.
    #[error("{name} is bundled with Hearth and cannot be removed.")]
    Bundled {
        /// Its name.
        name: String,
    },
    /// The file was put into the models folder by hand.
    #[error("{} was put into Hearth's models folder by hand, so Hearth does not delete it. Delete the file \
        yourself.", .0.display())]
    AddedByHand(PathBuf),
    /// Deleting failed.
    #[error("{} could not be deleted: {source}.", .path.display())]
    Delete {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The download failed.
    #[error("{name} could not be downloaded from {url}: {why}. The partial download is saved; try again to resume it.")]
    Download {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// Why.
        why: String,
    },
    /// The download's digest is not the catalog's.
    #[error(
        "The download of {name} from {url} does not match the catalog (its sha256 is {found}) and was deleted. Try \
         again; if it happens again, the file on the server has changed and a newer Hearth is needed."
    )]
    HashMismatch {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// The download's sha256.
        found: String,
    },
    /// Downloads are disabled.
    #[error("Downloads are switched off by HF_HUB_OFFLINE. Unset it to download models.")]
    Offline,
    /// Another process is downloading the model.
    #[error("{0} is already being downloaded by another Hearth.")]
    AlreadyDownloading(String),
    /// Cancelled by a person.
    #[error("The download was cancelled. The partial download is saved; start it again to resume.")]
    Cancelled,
    /// Writing failed.
    #[error("{} could not be written: {source}. Check the free disk space and that the folder is \
        writable.", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The list of added models could not be read.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

impl From<LibraryError> for Problem {
    fn from(error: LibraryError) -> Self {
        let code = match &error {
            LibraryError::Unknown { .. } | LibraryError::NotInCatalog { .. } => ProblemCode::NotFound,
            LibraryError::Unreadable { found: false, .. } => ProblemCode::FileUnreadable,
            LibraryError::Unreadable { .. } => ProblemCode::FileInvalid,
            LibraryError::NonUtf8Path(_) | LibraryError::Bundled { .. } | LibraryError::AddedByHand(_) => {
                ProblemCode::BadRequest
            }
            LibraryError::Delete { .. } => ProblemCode::FileUnreadable,
            LibraryError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => ProblemCode::DiskFull,
            LibraryError::Download { .. }
            | LibraryError::HashMismatch { .. }
            | LibraryError::Offline
            | LibraryError::AlreadyDownloading(_)
            | LibraryError::Cancelled
            | LibraryError::Write { .. } => ProblemCode::Download,
            LibraryError::Store(error) => error.code(),
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}
