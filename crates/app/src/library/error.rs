//! Errors of the library.

use super::hub::without_query;
use crate::wire::{Problem, ProblemCode};
use hearth_formats::byte_size;
use std::{fmt, io, path::PathBuf};

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
    /// The file is an adapter.
    #[error("{}: this is a LoRA adapter, not a model. Import it as an adapter.", .0.display())]
    IsAdapter(PathBuf),
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
    #[error("{name} could not be downloaded from {url}: {why}. {kept}")]
    Download {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// Whether it may succeed later.
        is_temporary: bool,
        /// Why.
        why: String,
        /// Whether a retry reuses the bytes received so far.
        kept: Kept,
    },
    /// The file changed while it was downloaded.
    #[error("{name} changed at {url} while it was being downloaded, so what had arrived is discarded. Try again.")]
    Changed {
        /// Its name.
        name: String,
        /// Source.
        url: String,
    },
    /// The file on the server is of no use.
    #[error("{name} could not be downloaded from {url}: {flaw}")]
    Flawed {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// Why.
        flaw: Flaw,
    },
    /// The download's digest is not the expected one.
    #[error(
        "The download of {name} from {url} is not the expected file (its sha256 is {found}) and was deleted. Try again; \
         if it happens again, the file on the server was changed or damaged: choose another source."
    )]
    HashMismatch {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// The download's sha256.
        found: String,
    },
    /// A request to the hub or another server failed.
    #[error("{what}: {why}.")]
    Hub {
        /// The requested item.
        what: String,
        /// Whether it may succeed later.
        is_temporary: bool,
        /// Why.
        why: String,
    },
    /// A repository has no such model.
    #[error("{repository} has no {}{}.", match .wanted { Some(name) => format!("model called {name}"), None => "GGUF \
        file or LoRA adapter".to_owned() }, if .known.is_empty() { String::new() } else { format!(". It has: {}", .known.join(", ")) })]
    NoVariant {
        /// `owner/name`.
        repository: String,
        /// The requested name.
        wanted: Option<String>,
        /// The names in it.
        known: Vec<String>,
    },
    /// A name from a server cannot be a file's name on every system.
    #[error(
        "The file name \u{201c}{0}\u{201d} cannot be used on every system, so Hearth does not download it. Download \
        the file yourself under another name, and add it."
    )]
    UnsafeName(String),
    /// Not a name of a model on the network.
    #[error(
        "\u{201c}{0}\u{201d} is no model that Hearth can download. Use a name of the catalog, \
        hf.co/OWNER/REPO[:QUANT], ollama://NAME[:TAG], or an address that ends in .gguf."
    )]
    BadReference(String),
    /// A file over an unencrypted connection could be replaced on its way.
    #[error("{0} is not encrypted, so the file could be replaced on its way. Use an address with https://.")]
    Unencrypted(String),
    /// The disk is too full.
    #[error("{name} needs {} on the disk of {}, which has {} free. Free some space, and try \
        again.", byte_size(*.needed), .folder.display(), byte_size(*.free))]
    NoSpace {
        /// Display name.
        name: String,
        /// Folder of downloads.
        folder: PathBuf,
        /// Bytes that are missing, with a margin.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file is another program's.
    #[error("{} belongs to another program or folder, so Hearth does not delete it.", .0.display())]
    Foreign(PathBuf),
    /// Downloads are disabled.
    #[error("The network is switched off by {0}. Switch it on to search for and download models.")]
    Offline(&'static str),
    /// Another process is downloading the model.
    #[error("{0} is already being downloaded.")]
    AlreadyDownloading(String),
    /// A model that is being downloaded is not deleted.
    #[error("{0} is being downloaded. Pause or remove its download, then delete it.")]
    Loading(String),
    /// A complete file was not put in place.
    #[error("{} could not be put in place: {why}. Try again.", .path.display())]
    NotPlaced {
        /// The file.
        path: PathBuf,
        /// Why, as a part of a sentence.
        why: &'static str,
    },
    /// The user cancelled it.
    #[error("The download was cancelled.")]
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

/// Whether a retry of a failed download reuses the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The next try goes on where this one ended.
    Resumes,
    /// The server has no ranges, or no version by which the rest can be told from another file's.
    Restarts,
    /// Nothing has arrived.
    Nothing,
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Resumes => "The partial download is saved; try again to resume it.",
            Self::Restarts => {
                "Try again; the download may start from the beginning, since this server does not promise to resume it."
            }
            Self::Nothing => "Nothing has arrived yet; try again.",
        })
    }
}

/// Why a file on a server is of no use. Each message is a text of full sentences.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It has no bytes.
    #[error(
        "the file there is empty (0 bytes). Choose another file, or try again once it has been uploaded \
        completely."
    )]
    Empty,
    /// HTML came in its place.
    #[error(
        "a web page came instead of the file. Perhaps this network or the server asks you to log in first: open the \
         address in a browser, then try again."
    )]
    WebPage,
    /// It is of another format.
    #[error("the file there is not a GGUF file, the format of models that Hearth runs. Check the address.")]
    NotGguf,
    /// It has its promised length, but lacks bytes at its end.
    #[error(
        "the file there is incomplete: it has its promised {has} bytes, but {needs}. What was downloaded is deleted. \
         Choose another file or source, or try again once it has been uploaded completely."
    )]
    Incomplete {
        /// Its length in bytes.
        has: u64,
        /// The expected content, as the end of a sentence.
        needs: String,
    },
}

impl LibraryError {
    /// The error of a file of no use; the address loses its query, which may hold a password.
    pub(super) fn flawed(name: &str, url: &str, flaw: Flaw) -> Self {
        Self::Flawed {
            name: name.to_owned(),
            url: without_query(url).to_owned(),
            flaw,
        }
    }

    /// Whether the same request may succeed later, without any action by the user.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Hub { is_temporary: true, .. } | Self::Download { is_temporary: true, .. } | Self::Changed { .. }
        )
    }
}

impl From<LibraryError> for Problem {
    fn from(error: LibraryError) -> Self {
        let code = match &error {
            LibraryError::Unknown { .. } | LibraryError::NotInCatalog { .. } | LibraryError::NoVariant { .. } => {
                ProblemCode::NotFound
            }
            LibraryError::Unreadable { found: false, .. } => ProblemCode::FileUnreadable,
            LibraryError::Unreadable { .. } => ProblemCode::FileInvalid,
            LibraryError::IsAdapter(_) => ProblemCode::IsAdapter,
            LibraryError::NonUtf8Path(_)
            | LibraryError::Bundled { .. }
            | LibraryError::AddedByHand(_)
            | LibraryError::Foreign(_)
            | LibraryError::BadReference(_)
            | LibraryError::Unencrypted(_) => ProblemCode::BadRequest,
            LibraryError::NoSpace { .. } => ProblemCode::DiskFull,
            LibraryError::Delete { .. } => ProblemCode::FileUnreadable,
            LibraryError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => ProblemCode::DiskFull,
            LibraryError::Download { .. }
            | LibraryError::Changed { .. }
            | LibraryError::Flawed { .. }
            | LibraryError::HashMismatch { .. }
            | LibraryError::Offline(_)
            | LibraryError::Hub { .. }
            | LibraryError::UnsafeName(_)
            | LibraryError::AlreadyDownloading(_)
            | LibraryError::Loading(_)
            | LibraryError::NotPlaced { .. }
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
