//! What can go wrong with the library, in sentences.

use crate::wire::{Code, Problem};
use std::{io, path::PathBuf};

/// Why a model was not found, added, forgotten or downloaded.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No path and no known name.
    #[error("There is no model called \u{201c}{name}\u{201d} here{}. Give the path of a GGUF file, or one of these names: {}.", .pull.as_ref().map(|id| format!(" yet: `hearth pull {id}` downloads it")).unwrap_or_default(), if .known.is_empty() { "(none yet)".to_owned() } else { .known.join(", ") })]
    Unknown {
        /// What was asked for.
        name: String,
        /// The catalog's id, if it knows it.
        pull: Option<String>,
        /// Names that are here.
        known: Vec<String>,
    },
    /// The catalog does not know it, so it cannot be downloaded.
    #[error("The catalog has no model called \u{201c}{name}\u{201d}. It has: {}.", .known.join(", "))]
    NotInCatalog {
        /// What was asked for.
        name: String,
        /// The catalog's ids.
        known: Vec<String>,
    },
    /// The file cannot be read, or is no model.
    #[error("{message}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Whether it is there and can be opened.
        found: bool,
        /// A whole sentence that names the file.
        message: String,
    },
    /// Its path cannot be kept.
    #[error("The name of {} has letters that Hearth cannot keep. Rename the file or its folder, then add it again.", .0.display())]
    StrangePath(PathBuf),
    /// It belongs to the app, or lies where the app does not delete.
    #[error("{name} came with Hearth and stays with it.")]
    Bundled {
        /// Its name.
        name: String,
    },
    /// It was put into the models folder by hand.
    #[error("{} was put into Hearth's models folder by hand, so Hearth does not delete it. Delete the file yourself.", .0.display())]
    ByHand(PathBuf),
    /// Deleting failed.
    #[error("{} could not be deleted: {source}.", .path.display())]
    Delete {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The network did not deliver.
    #[error("{name} could not be downloaded from {url}: {why}. What has come so far is kept; try again to go on.")]
    Download {
        /// Its name.
        name: String,
        /// From where.
        url: String,
        /// Why.
        why: String,
    },
    /// What came is not what the catalog names.
    #[error(
        "What came from {url} is not {name} as the catalog knows it (its sha256 is {found}), and was deleted. Try again; if it comes again, the file there has changed and a newer Hearth is needed."
    )]
    WrongHash {
        /// Its name.
        name: String,
        /// From where.
        url: String,
        /// What was found.
        found: String,
    },
    /// The environment forbids it.
    #[error("Downloads are switched off by HF_HUB_OFFLINE. Unset it to download models.")]
    Offline,
    /// Somebody else is at it.
    #[error("{0} is already being downloaded by another Hearth.")]
    AlreadyDownloading(String),
    /// A person ended it.
    #[error("The download was stopped. What has come so far is kept; start it again to go on.")]
    Cancelled,
    /// The disk did not take it.
    #[error("{} could not be written: {source}. Check the space that is left and that the folder can be written.", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The list of added files could not be read.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

impl From<LibraryError> for Problem {
    fn from(error: LibraryError) -> Self {
        let code = match &error {
            LibraryError::Unknown { .. } | LibraryError::NotInCatalog { .. } => Code::NotFound,
            LibraryError::Unreadable { found: false, .. } => Code::FileUnreadable,
            LibraryError::Unreadable { .. } => Code::FileInvalid,
            LibraryError::StrangePath(_) | LibraryError::Bundled { .. } | LibraryError::ByHand(_) => Code::BadRequest,
            LibraryError::Delete { .. } => Code::FileUnreadable,
            LibraryError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => Code::DiskFull,
            LibraryError::Download { .. }
            | LibraryError::WrongHash { .. }
            | LibraryError::Offline
            | LibraryError::AlreadyDownloading(_)
            | LibraryError::Cancelled
            | LibraryError::Write { .. } => Code::Download,
            LibraryError::Store(error) => error.code(),
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}
