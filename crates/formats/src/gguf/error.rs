//! What can be wrong with a GGUF file.

use std::path::PathBuf;

/// An error of reading or writing a GGUF file: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct GgufError {
    /// The file, as it was named by whoever opened it.
    pub file: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: GgufProblem,
}

/// What is wrong with a GGUF file. The texts are whole sentences that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum GgufProblem {
    /// The system could not open, map or write it.
    #[error("the file cannot be read or written ({0}). Check that it is there and that you may use it.")]
    Io(#[from] std::io::Error),
    /// The first four bytes are not `GGUF`.
    #[error("this is no GGUF file: it does not begin with 'GGUF'. Choose a file ending in .gguf.")]
    NotGguf,
    /// The file was written for big-endian machines.
    #[error("this GGUF is big-endian, which Hearth does not read. Get the little-endian file of this model.")]
    BigEndian,
    /// Neither version 2 nor 3.
    #[error("this is GGUF version {0}; Hearth reads versions 2 and 3. Get a newer file of this model.")]
    Version(u32),
    /// The file ends in the middle of something.
    #[error("the file is cut off: it ends inside {what}. Download it again.")]
    Truncated {
        /// What was being read.
        what: String,
    },
    /// More than any known model has, at which reading ends.
    #[error(
        "{what}: more than any known model has ({found}, and Hearth reads at most {most}). Get another file of this model."
    )]
    TooLarge {
        /// What was being read.
        what: String,
        /// How large it is, or claims to be.
        found: String,
        /// The limit.
        most: String,
    },
    /// A text that is not UTF-8.
    #[error("{what} is not valid UTF-8, so the file is damaged. Download it again.")]
    NotUtf8 {
        /// Which text.
        what: String,
    },
    /// A metadata entry that cannot be right.
    #[error("the metadata key '{key}' is invalid: {why}. Download the file again or get another one of this model.")]
    Metadata {
        /// Its key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A metadata entry of another type than its meaning asks for.
    #[error("the metadata key '{key}' should be {expected} but is {found}. Get another file of this model.")]
    WrongType {
        /// Its key.
        key: String,
        /// The type that was asked for, with its article.
        expected: &'static str,
        /// The type that is there, with its article.
        found: String,
    },
    /// A metadata entry that a model cannot do without.
    #[error("the metadata key '{key}' is missing, so the model cannot be understood. Get another file of this model.")]
    MissingKey {
        /// Its key.
        key: String,
    },
    /// A tensor whose entry cannot be right.
    #[error("the tensor '{tensor}' is invalid: {why}. Download the file again or get another one of this model.")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What is wrong.
        why: String,
    },
    /// A part of a split model is missing or does not belong to the others.
    #[error("{0}")]
    Split(String),
}

impl GgufProblem {
    pub(super) fn metadata(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Metadata {
            key: key.into(),
            why: why.into(),
        }
    }

    pub(super) fn tensor(tensor: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Tensor {
            tensor: tensor.into(),
            why: why.into(),
        }
    }
}
