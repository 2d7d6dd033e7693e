//! What can be wrong with a dataset.

use super::BrokenLine;
use std::path::{Path, PathBuf};

/// An error of reading a dataset: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct DatasetError {
    /// The file, as it was named by whoever opened it.
    pub file: PathBuf,
    /// What is wrong.
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

/// What is wrong with a dataset. The texts are whole sentences that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatasetProblem {
    /// The system could not open or read it.
    #[error("the file cannot be read ({0}). Check that it is there and that you may use it.")]
    Io(#[from] std::io::Error),
    /// The cancel callback said no.
    #[error("reading was stopped. Choose the file again to go on.")]
    Cancelled,
    /// There is nothing in it.
    #[error("the file is empty. Choose one with examples in it.")]
    Empty,
    /// There is no example in it.
    #[error("there is no example in the file: {0}.")]
    NoExamples(String),
    /// It is something else.
    #[error(
        "this is {0}, which is no dataset. Choose a file of JSONL, JSON, CSV, TSV, Parquet, Markdown or plain text."
    )]
    NotADataset(&'static str),
    /// Its text is written in another encoding than UTF-8.
    #[error(
        "{place} is not UTF-8 but {encoding}. Save the file as UTF-8 in the program that it comes from, then choose it again."
    )]
    Encoding {
        /// Where this shows.
        place: String,
        /// What it probably is.
        encoding: &'static str,
    },
    /// It contradicts its own format as a whole.
    #[error("{0}")]
    Damaged(String),
    /// Its columns hold nothing that could be learnt.
    #[error("{0}")]
    Columns(String),
    /// Lines that cannot be read.
    #[error("{}", say(.broken, *.total))]
    Broken {
        /// The first hundred; at least one.
        broken: Vec<BrokenLine>,
        /// How many there are in all.
        total: u32,
    },
}

fn say(broken: &[BrokenLine], total: u32) -> String {
    let first = broken.first().map_or_else(String::new, |first| {
        let more = match total {
            0 | 1 => String::new(),
            2 => " So it is with one more line.".to_owned(),
            _ => format!(" {} more lines cannot be read either.", total - 1),
        };
        format!("line {} cannot be read: {}{more}", first.line, first.why)
    });
    format!("{first} Correct the file, or choose to leave such lines out.")
}
