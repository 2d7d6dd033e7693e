//! Errors of datasets.

use super::broken_line::BrokenLine;
use std::path::{Path, PathBuf};

/// An error reading a dataset, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct DatasetError {
    /// The file as passed by the caller.
    pub file: PathBuf,
    /// The problem.
    #[source]
    pub problem: DatasetProblem,
}

impl DatasetError {
    pub(super) fn new(file: &Path, problem: DatasetProblem) -> Self {
        Self {
            file: file.to_owned(),
            problem,
        }
    }
}

/// A problem with a dataset. Each message is a full sentence that says what to do, except for
/// unreadable lines.
#[derive(Debug, thiserror::Error)]
pub enum DatasetProblem {
    /// Opening or reading failed.
    #[error("the file cannot be read ({0}). Check that it exists and that you have permission to read it.")]
    Io(#[from] std::io::Error),
    /// Cancelled by the callback.
    #[error("reading was cancelled. Choose the file again to continue.")]
    Cancelled,
    /// The file is empty.
    #[error("the file is empty. Choose one with examples in it.")]
    Empty,
    /// The file has no examples.
    #[error("the file has no examples: {0}.")]
    NoExamples(String),
    /// No line of the file can be read.
    #[error("no line can be read, first {first:?}")]
    NoReadableLine {
        /// The first line.
        first: BrokenLine,
    },
    /// The file is not a dataset.
    #[error("this is {0}, not a dataset. Choose a file of JSONL, JSON, CSV, TSV, Parquet, Markdown or plain text.")]
    NotADataset(&'static str),
    /// The text is not UTF-8.
    #[error(
        "{place} is not UTF-8 but {encoding}. Save the file as UTF-8 in the program that created it, then choose it \
         again."
    )]
    Encoding {
        /// The first place: a line or the file.
        place: String,
        /// The probable encoding.
        encoding: &'static str,
    },
    /// The file is corrupt or malformed.
    #[error("{0}")]
    Corrupt(String),
    /// The columns have nothing to train on.
    #[error("{0}")]
    Columns(String),
    /// Unreadable lines.
    #[error("{total} lines cannot be read, first {first:?}")]
    Broken {
        /// The first line.
        first: BrokenLine,
        /// Total number.
        total: u32,
    },
}

impl DatasetProblem {
    /// The error for text that is not UTF-8.
    pub(super) fn wrong_encoding(line: u32) -> Self {
        Self::Encoding {
            place: format!("line {line}"),
            encoding: "probably Latin-1 or Windows-1252",
        }
    }
}
