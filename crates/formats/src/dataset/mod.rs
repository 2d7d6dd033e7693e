//! Datasets: examples for fine-tuning, out of the files in which people keep them.
//!
//! A file goes through five steps, each of which can be read alone. [`container`] says what kind of file it is and hands out its
//! rows, one at a time. [`columns`] says what the columns hold. [`gather`] makes examples of the rows. [`render`] makes tokens of
//! the examples, and says which of them are learnt. [`report`] says what a person should know before a run.
//!
//! Nothing is left out in silence: what cannot be read is named by its line, what is cut is counted.

mod answers;
mod columns;
mod container;
mod error;
mod gather;
mod hash;
mod json;
mod json_value;
mod parquet;
mod preview;
mod render;
mod report;
mod secrets;
mod similar;
mod source;
mod split;
mod table;
mod turns;

pub use error::{DatasetError, DatasetProblem};
pub use preview::{Piece, Preview, previews};
pub use render::{RenderError, Rendered, render, render_all};
pub use report::{Finding, Report, ReportOptions, Severity};
pub use split::{Split, leaks, split};

use crate::chat_template::Message;
use container::Container;
use gather::Gather;
use source::Source;
use std::path::Path;

/// How a file is to be read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Which column is what; none: recognised.
    pub mapping: Option<Mapping>,
    /// Leave out lines that cannot be read, instead of refusing the file.
    pub skip_broken: bool,
}

/// Which columns of a table hold what. A column that is none is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Whole conversations (messages or ShareGPT).
    pub messages: Option<String>,
    /// Instructions for the whole example.
    pub system: Option<String>,
    /// What is asked.
    pub prompt: Option<String>,
    /// What the question is about (alpaca's `input`).
    pub input: Option<String>,
    /// What is answered.
    pub answer: Option<String>,
    /// Plain text to go on.
    pub text: Option<String>,
}

impl Mapping {
    /// The columns that are used.
    fn columns(&self) -> impl Iterator<Item = &str> {
        let Self {
            messages,
            system,
            prompt,
            input,
            answer,
            text,
        } = self;
        let columns = [messages, system, prompt, input, answer, text].into_iter();
        columns.flatten().map(String::as_str)
    }
}

/// One thing to learn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Its line or row in the file, from 1.
    pub line: u32,
    /// What it says.
    pub content: Content,
}

/// What an example says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A conversation. It ends with an answer.
    Chat(Vec<Message>),
    /// A question with its answer.
    PromptAnswer {
        /// Instructions for the answer.
        system: Option<String>,
        /// What is asked.
        prompt: String,
        /// What is answered.
        answer: String,
    },
    /// A text to go on.
    Text(String),
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLine {
    /// Its number, from 1.
    pub line: u32,
    /// Why, in one sentence.
    pub why: String,
}

/// The examples of a file, and how they were recognised.
#[derive(Debug)]
pub struct Dataset {
    /// `JSONL`, `CSV` and so on.
    pub container: &'static str,
    /// How the examples are written: `messages`, `ShareGPT`, `alpaca`, `prompt and answer`, `text`.
    pub shape: &'static str,
    /// The columns there are.
    pub columns: Vec<String>,
    /// Which of them is what, as recognised or as asked for.
    pub mapping: Mapping,
    /// Whether a person should confirm the mapping.
    pub unsure: bool,
    /// What can be learnt from, in the order of the file.
    pub examples: Vec<Example>,
    /// Lines that were left out because they cannot be read, the first hundred.
    pub broken: Vec<BrokenLine>,
    /// How many there are in all.
    pub broken_total: u32,
    /// Why reading ended before the file did: a whole sentence.
    pub limit: Option<String>,
}

impl Dataset {
    /// Reads a file. It may be deleted afterwards.
    ///
    /// # Errors
    /// Where it cannot be opened, is no dataset, holds no example, lacks a column that was asked for, or has a line that cannot
    /// be read while [`ReadOptions::skip_broken`] is off.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, DatasetError> {
        Self::open_while(path, options, &mut || true)
    }

    /// As [`Dataset::open`]. `go_on` is called once a megabyte or a few hundred rows; if it says no, reading ends with
    /// [`DatasetProblem::Cancelled`].
    ///
    /// # Errors
    /// As [`Dataset::open`], and if `go_on` says no.
    pub fn open_while(
        path: impl AsRef<Path>,
        options: &ReadOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DatasetError> {
        let path = path.as_ref();
        let in_file = |problem| DatasetError::new(path, problem);
        let source = Source::open(path, go_on).map_err(in_file)?;
        read(&source, path, options).map_err(in_file)
    }

    /// Reads what a file of this name holds.
    ///
    /// # Errors
    /// As [`Dataset::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str, options: &ReadOptions) -> Result<Self, DatasetError> {
        Self::from_bytes_while(bytes, name, options, &mut || true)
    }

    /// As [`Dataset::from_bytes`], and cancelled as [`Dataset::open_while`].
    ///
    /// # Errors
    /// As [`Dataset::open_while`].
    pub fn from_bytes_while(
        bytes: Vec<u8>,
        name: &str,
        options: &ReadOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DatasetError> {
        let path = Path::new(name);
        let source = Source::from_bytes(bytes, go_on);
        read(&source, path, options).map_err(|problem| DatasetError::new(path, problem))
    }
}

fn read(source: &Source, path: &Path, options: &ReadOptions) -> Result<Dataset, DatasetProblem> {
    let container = Container::recognise(source, path)?;
    let mut gather = Gather::new(options.mapping.clone(), source.len()?);
    let read = container.read(source, options.skip_broken, &mut gather);
    // Readers between here and the callback may have taken its no for an error of the file.
    if source.meter.is_cancelled() {
        return Err(DatasetProblem::Cancelled);
    }
    read?;
    gather.finish(container.name(), options.skip_broken)
}

/// A text out of a file, as short as a sentence about it can hold.
fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl Example {
    /// Everything in it that people wrote, piece by piece.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let (messages, rest) = match &self.content {
            Content::Chat(messages) => (messages.as_slice(), [None, None, None]),
            Content::PromptAnswer { system, prompt, answer } => (
                &[][..],
                [system.as_deref(), Some(prompt.as_str()), Some(answer.as_str())],
            ),
            Content::Text(text) => (&[][..], [Some(text.as_str()), None, None]),
        };
        let messages = messages.iter().map(|message| message.content.as_str());
        messages.chain(rest.into_iter().flatten())
    }

    /// The same for the same content, on every machine and in every version.
    pub fn fingerprint(&self) -> u64 {
        hash::texts(self.texts())
    }
}
