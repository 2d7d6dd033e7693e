//! What can be wrong with an adapter.

use super::TargetName;
use crate::gguf::{GgufError, GgufProblem};
use std::io;
use std::path::{Path, PathBuf};

/// An error of reading, writing or fitting an adapter: which one, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", at(.path))]
pub struct AdapterError {
    /// The file or folder, as it was named by whoever opened it; empty for an adapter that was made in memory.
    pub path: PathBuf,
    /// What is wrong.
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

/// What is wrong with an adapter. The texts are whole sentences that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AdapterProblem {
    /// The system could not read it.
    #[error("the adapter cannot be read ({0}). Check that it is there and that you may use it.")]
    Read(#[source] io::Error),
    /// The system could not write it; nothing was left half-written.
    #[error("{}", not_written(.0))]
    Write(#[from] io::Error),
    /// It is neither a folder of PEFT's nor a GGUF.
    #[error(
        "this is no adapter: {0}. Choose a GGUF adapter, or a folder with adapter_config.json and adapter_model.safetensors."
    )]
    NotAnAdapter(String),
    /// The GGUF itself is at fault.
    #[error(transparent)]
    Gguf(GgufProblem),
    /// A file of the folder contradicts itself or cannot be understood.
    #[error("its {file} is damaged: {why}. Get the adapter again.")]
    Damaged {
        /// The file within the folder.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
    /// An adapter that does what Hearth cannot do.
    #[error(
        "{0} Hearth uses plain LoRA adapters on the attention and feed-forward layers; train or export this one as such."
    )]
    Unsupported(String),
    /// A model of an architecture for which Hearth does not know how an adapter's rows lie.
    #[error("Hearth cannot use adapters for the architecture '{0}' yet; it knows llama, qwen2, qwen3 and gemma3.")]
    Architecture(String),
    /// A target's numbers contradict each other.
    #[error("its part for {target} is damaged: {why}. Get the adapter again.")]
    Target {
        /// Which one.
        target: TargetName,
        /// What is wrong.
        why: String,
    },
    /// It was made for another model.
    #[error(
        "this adapter does not belong to this model: {0}. Choose the model that it was made for, or another adapter."
    )]
    OtherModel(String),
}

impl AdapterProblem {
    pub(super) fn target(target: TargetName, why: impl Into<String>) -> Self {
        Self::Target {
            target,
            why: why.into(),
        }
    }

    pub(super) fn damaged(file: &'static str, why: impl ToString) -> Self {
        Self::Damaged {
            file,
            why: why.to_string(),
        }
    }
}

/// The file is named once, by [`AdapterError`].
impl From<GgufError> for AdapterProblem {
    fn from(error: GgufError) -> Self {
        Self::Gguf(error.problem)
    }
}

fn at(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => String::new(),
        false => format!("{}: ", path.display()),
    }
}

/// A full disk is the one failure that a person can do something about without knowing its name.
fn not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full, so it was not written; what was there before is unchanged. Free some space and try again.".to_owned()
        }
        _ => format!("it cannot be written ({error}); what was there before is unchanged. Choose another place or check that you may write there."),
    }
}
