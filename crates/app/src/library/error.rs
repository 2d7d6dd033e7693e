//! Errors of the library.

use super::hub::without_query;
use crate::{
    store::StoreError,
    wire::{Problem, ProblemCode, Reason},
};
use hearth_protocol::{FetchFailure, Flaw, Kept, ModelsReason};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// An error of finding, adding, removing or downloading a model. Its `Display` is the sentence of
/// its [`Problem`].
#[derive(Debug)]
pub enum LibraryError {
    /// There is no such model, here or on a server.
    NotFound(ModelsReason),
    /// The file cannot be read or is not a model.
    Unreadable(Problem),
    /// The file is an adapter.
    IsAdapter(PathBuf),
    /// The path is not valid UTF-8.
    NonUtf8Path(PathBuf),
    /// A bundled model cannot be removed.
    Bundled {
        /// Its name.
        name: String,
    },
    /// The file was put into the models folder by hand.
    AddedByHand(PathBuf),
    /// Deleting failed.
    Delete {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The download failed.
    Download {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// Whether it may succeed later.
        is_temporary: bool,
        /// Why.
        failure: FetchFailure,
        /// Whether a retry reuses the bytes received so far.
        kept: Kept,
    },
    /// The file changed while it was downloaded.
    Changed {
        /// Its name.
        name: String,
        /// Source.
        url: String,
    },
    /// The file on the server is unusable.
    Flawed {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// Why.
        flaw: Flaw,
    },
    /// The download's digest is not the expected one.
    HashMismatch {
        /// Its name.
        name: String,
        /// Source.
        url: String,
        /// The download's sha256.
        found: String,
    },
    /// A request to the hub or another server failed.
    Hub {
        /// The requested item. `None` means a search.
        item: Option<String>,
        /// Whether it may succeed later.
        is_temporary: bool,
        /// Why.
        failure: FetchFailure,
    },
    /// A name from a server cannot be a file's name on every system.
    UnsafeName(String),
    /// The text is no reference to a model on the network.
    BadReference(String),
    /// The address is not encrypted, so that the file could be replaced in transit.
    Unencrypted(String),
    /// The disk is too full.
    NoSpace {
        /// Display name.
        name: String,
        /// Folder of downloads.
        folder: PathBuf,
        /// Bytes that the download needs, with a margin.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
    /// The file belongs to another program.
    Foreign(PathBuf),
    /// The setting Offline disables downloads.
    OfflineBySetting,
    /// This environment variable disables downloads.
    OfflineByVariable(&'static str),
    /// Another process is downloading the model.
    AlreadyDownloading(String),
    /// The model cannot be deleted while it is downloaded.
    Loading(String),
    /// A complete update was not put in place, because the model was deleted.
    DeletedMeanwhile(PathBuf),
    /// A complete file was not put in place, because another program changed it.
    AlteredMeanwhile(PathBuf),
    /// The user cancelled it.
    Cancelled,
    /// Writing failed.
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The list of added models could not be read.
    Store(StoreError),
}

impl LibraryError {
    /// The error of an unusable file. The address is stored without its query, which may contain a
    /// password.
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

    fn code(&self) -> ProblemCode {
        match self {
            Self::NotFound(_) => ProblemCode::NotFound,
            Self::Unreadable(problem) => problem.code,
            Self::IsAdapter(_) => ProblemCode::IsAdapter,
            Self::NonUtf8Path(_)
            | Self::Bundled { .. }
            | Self::AddedByHand(_)
            | Self::Foreign(_)
            | Self::BadReference(_)
            | Self::Unencrypted(_) => ProblemCode::BadRequest,
            Self::NoSpace { .. } => ProblemCode::DiskFull,
            Self::Delete { .. } => ProblemCode::FileUnreadable,
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => ProblemCode::DiskFull,
            Self::Download { .. }
            | Self::Changed { .. }
            | Self::Flawed { .. }
            | Self::HashMismatch { .. }
            | Self::OfflineBySetting
            | Self::OfflineByVariable(_)
            | Self::Hub { .. }
            | Self::UnsafeName(_)
            | Self::AlreadyDownloading(_)
            | Self::Loading(_)
            | Self::DeletedMeanwhile(_)
            | Self::AlteredMeanwhile(_)
            | Self::Cancelled
            | Self::Write { .. } => ProblemCode::Download,
            Self::Store(error) => error.code(),
        }
    }

    fn reason(&self) -> Reason {
        let display = |path: &Path| path.display().to_string();
        let reason = match self {
            Self::Unreadable(problem) => return (*problem.reason).clone(),
            Self::Store(error) => {
                let detail = error.to_string();
                return Reason::Detail { detail };
            }
            Self::NotFound(reason) => reason.clone(),
            Self::IsAdapter(path) => ModelsReason::IsAdapter { path: display(path) },
            Self::NonUtf8Path(path) => ModelsReason::NonUtf8Path { path: display(path) },
            Self::Bundled { name } => ModelsReason::Bundled { name: name.clone() },
            Self::AddedByHand(path) => ModelsReason::AddedByHand { path: display(path) },
            Self::Foreign(path) => ModelsReason::Foreign { path: display(path) },
            Self::Delete { path, source } => ModelsReason::NotDeleted {
                path: display(path),
                detail: source.to_string(),
            },
            Self::Write { path, source } => ModelsReason::NotWritten {
                path: display(path),
                detail: source.to_string(),
            },
            Self::UnsafeName(name) => ModelsReason::UnsafeName { name: name.clone() },
            Self::BadReference(reference) => ModelsReason::BadReference {
                reference: reference.clone(),
            },
            Self::Unencrypted(url) => ModelsReason::Unencrypted { url: url.clone() },
            Self::NoSpace {
                name,
                folder,
                needed,
                free,
            } => ModelsReason::NoSpace {
                name: name.clone(),
                folder: display(folder),
                needed_bytes: *needed,
                free_bytes: *free,
            },
            Self::OfflineBySetting => ModelsReason::OfflineBySetting,
            Self::OfflineByVariable(variable) => ModelsReason::OfflineByVariable {
                variable: (*variable).to_owned(),
            },
            Self::AlreadyDownloading(name) => ModelsReason::AlreadyDownloading { name: name.clone() },
            Self::Loading(name) => ModelsReason::DownloadInProgress { name: name.clone() },
            Self::DeletedMeanwhile(path) => ModelsReason::DeletedMeanwhile { path: display(path) },
            Self::AlteredMeanwhile(path) => ModelsReason::AlteredMeanwhile { path: display(path) },
            Self::Cancelled => ModelsReason::DownloadCancelled,
            Self::Download {
                name,
                url,
                failure,
                kept,
                ..
            } => ModelsReason::DownloadFailed {
                name: name.clone(),
                url: url.clone(),
                fetch_failure: failure.clone(),
                kept: *kept,
            },
            Self::Changed { name, url } => ModelsReason::ChangedMeanwhile {
                name: name.clone(),
                url: url.clone(),
            },
            Self::Flawed { name, url, flaw } => ModelsReason::Flawed {
                name: name.clone(),
                url: url.clone(),
                flaw: flaw.clone(),
            },
            Self::HashMismatch { name, url, found } => ModelsReason::HashMismatch {
                name: name.clone(),
                url: url.clone(),
                found: found.clone(),
            },
            Self::Hub { item, failure, .. } => request_failed(item.clone(), failure.clone()),
        };
        reason.into()
    }
}

/// The reason of a failed request for `item`, or of a failed search if it is `None`.
fn request_failed(item: Option<String>, fetch_failure: FetchFailure) -> ModelsReason {
    match item {
        Some(item) => ModelsReason::RequestFailed { item, fetch_failure },
        None => ModelsReason::SearchFailed { fetch_failure },
    }
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Problem::new(self.code(), self.reason()))
    }
}

impl std::error::Error for LibraryError {}

impl From<StoreError> for LibraryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LibraryError> for Problem {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::Store(error) => error.into(),
            error => Self::new(error.code(), error.reason()),
        }
    }
}
