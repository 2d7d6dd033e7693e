//! Errors of adapters.

use super::ModuleName;
use crate::Architecture;
use crate::gguf::{GgufError, GgufProblem};
use crate::shortened::shortened;
use std::io;
use std::path::{Path, PathBuf};

/// An error reading, writing or matching an adapter, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", path_prefix(.path))]
pub struct AdapterError {
    /// The file or folder as passed by the caller; empty for an adapter made in memory.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: AdapterProblem,
}

impl AdapterError {
    pub(super) fn new(path: &Path, problem: impl Into<AdapterProblem>) -> Self {
        Self {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

/// A problem with an adapter. Each message is a full sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AdapterProblem {
    /// Reading failed.
    #[error("the adapter cannot be read ({0}). Check that it exists and that you have permission to read it.")]
    Read(#[source] io::Error),
    /// Writing failed; no partial file is left.
    #[error("{}", not_written(.0))]
    Write(#[from] io::Error),
    /// Neither a PEFT folder nor a GGUF adapter.
    #[error(
        "this is not an adapter: {0}. Choose a GGUF adapter, or a folder with adapter_config.json and \
         adapter_model.safetensors."
    )]
    NotAnAdapter(String),
    /// The GGUF file is invalid.
    #[error(transparent)]
    Gguf(GgufProblem),
    /// A file of the folder is corrupt or malformed.
    #[error("its {file} is corrupt: {why}. Download the adapter again.")]
    Corrupt {
        /// The file within the folder.
        file: &'static str,
        /// The reason.
        why: String,
    },
    /// A setting of the adapter that cannot be used, and the reason.
    #[error("its settings cannot be used: {0}. Change them in its adapter_config.json, or use another adapter.")]
    Settings(String),
    /// A file of the folder lacks bytes at its end.
    #[error("its {file} is incomplete: {why}. Download the adapter again.")]
    Incomplete {
        /// The file within the folder.
        file: &'static str,
        /// The missing part.
        why: String,
    },
    /// The adapter uses a feature that Hearth does not support.
    #[error(
        "{0} Hearth supports plain LoRA adapters on the attention and feed-forward layers; train or export this one \
         as such."
    )]
    Unsupported(String),
    /// An architecture that Hearth does not support.
    #[error(
        "Hearth does not support adapters for the architecture '{0}' yet, only for {all}.",
        all = Architecture::list()
    )]
    Architecture(String),
    /// The data of one target is inconsistent.
    #[error("its data for {target} is corrupt: {why}. Download the adapter again.")]
    Target {
        /// The target.
        target: ModuleName,
        /// The reason.
        why: String,
    },
    /// The adapter was trained on another model.
    #[error("this adapter does not belong to this model: {0}. Choose the model it was trained on, or another adapter.")]
    OtherModel(String),
}

impl AdapterProblem {
    pub(super) fn target(target: impl Into<ModuleName>, why: impl Into<String>) -> Self {
        Self::Target {
            target: target.into(),
            why: why.into(),
        }
    }

    pub(super) fn corrupt(file: &'static str, why: impl ToString) -> Self {
        Self::Corrupt {
            file,
            why: quotable(&why.to_string()),
        }
    }
}

/// Maximum characters of a file's text in a message.
const MAX_QUOTED_CHARS: usize = 200;

/// A file's text, shortened for a message.
pub(super) fn quotable(text: &str) -> String {
    shortened(text, MAX_QUOTED_CHARS)
}

/// Drops the file's path, which [`AdapterError`] names.
impl From<GgufError> for AdapterProblem {
    fn from(error: GgufError) -> Self {
        Self::Gguf(error.problem)
    }
}

/// The path before a message; empty for an adapter made in memory.
fn path_prefix(path: &Path) -> String {
    if path.as_os_str().is_empty() {
        String::new()
    } else {
        format!("{}: ", path.display())
    }
}

/// The message for a failed write. A full disk has a separate message, which needs no error code.
fn not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full, so it was not written; existing files are unchanged. Free some space and try again."
                .to_owned()
        }
        _ => format!(
            "it cannot be written ({error}); existing files are unchanged. Choose another folder, or \
             check that you have permission to write there."
        ),
    }
}
