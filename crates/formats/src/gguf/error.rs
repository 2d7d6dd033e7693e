//! Errors of GGUF files.

use std::path::PathBuf;

/// An error reading or writing a GGUF file, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct GgufError {
    /// The file as passed by the caller.
    pub file: PathBuf,
    /// The problem.
    #[source]
    pub problem: GgufProblem,
}

/// A problem with a GGUF file. Each message is a full sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum GgufProblem {
    /// Opening, mapping or writing failed.
    #[error("the file cannot be read or written ({0}). Check that it exists and that you have permission to use it.")]
    Io(#[from] std::io::Error),
    /// The first four bytes are not `GGUF`.
    #[error("this is not a GGUF file: it does not start with 'GGUF'. Choose a file ending in .gguf.")]
    NotGguf,
    /// The file is big-endian.
    #[error("this GGUF is big-endian, which Hearth does not read. Download the little-endian file of this model.")]
    BigEndian,
    /// The file has no bytes.
    #[error(
        "the file is empty (0 bytes). If another program is downloading it, wait until that is done; else delete it \
         and download it again."
    )]
    Empty,
    /// A web page that a server sent in place of the file.
    #[error(
        "this is a web page, not a GGUF file: the server sent a login or error page in its place. Delete it, open its \
         address in a browser and log in or accept the terms there, then download it again."
    )]
    WebPage,
    /// An unsupported version.
    #[error("this is GGUF version {0}; Hearth reads versions 2 and 3. Download a newer file of this model.")]
    Version(u32),
    /// The file ends within its header.
    #[error(
        "the file is cut off: it ends inside {what}, so it is incomplete. If another program is downloading it, wait \
         until that is done; else download it again."
    )]
    Truncated {
        /// The item being read.
        what: String,
    },
    /// The file ends before its last tensor does.
    #[error(
        "the file is incomplete: it has {has} bytes, and the data of its last tensor, '{tensor}', reaches beyond the \
         end of the file, to byte {needs}. If another program is downloading it, wait until that is done; else \
         download it again."
    )]
    Incomplete {
        /// The tensor whose data ends last.
        tensor: String,
        /// The end of its data.
        needs: u64,
        /// Length of the file in bytes.
        has: u64,
    },
    /// A limit that no known model reaches is exceeded.
    #[error(
        "{what}: more than any known model has ({found}; Hearth reads at most {most}). Download another file of this \
         model."
    )]
    TooLarge {
        /// The item being read.
        what: String,
        /// The size, or claimed size.
        found: String,
        /// The limit.
        most: String,
    },
    /// A string that is not UTF-8.
    #[error("{what} is not valid UTF-8, so the file is corrupt. Download it again.")]
    NotUtf8 {
        /// The string.
        what: String,
    },
    /// A metadata entry with an invalid value.
    #[error("the metadata key '{key}' is invalid: {why}. Download the file again, or another file of this model.")]
    Metadata {
        /// The key.
        key: String,
        /// The reason.
        why: String,
    },
    /// A metadata entry of the wrong type.
    #[error("the metadata key '{key}' should be {expected} but is {found}. Download another file of this model.")]
    WrongType {
        /// The key.
        key: String,
        /// The expected type, with its article.
        expected: &'static str,
        /// The actual type, with its article.
        found: String,
    },
    /// A required metadata entry is missing.
    #[error("the metadata key '{key}' is missing, so the model cannot be loaded. Download another file of this model.")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// An invalid tensor entry.
    #[error("the tensor '{tensor}' is invalid: {why}. Download the file again, or another file of this model.")]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// The reason.
        why: String,
    },
    /// A part of a split model is missing or does not belong to the others.
    #[error("{0}")]
    Split(String),
}

impl GgufProblem {
    /// Whether the file lacks bytes at its end. It may still be downloading.
    pub fn is_incomplete(&self) -> bool {
        matches!(self, Self::Empty | Self::Truncated { .. } | Self::Incomplete { .. })
    }

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
