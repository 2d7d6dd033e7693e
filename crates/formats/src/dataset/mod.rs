//! Datasets: reads examples for fine-tuning from common file formats. A file passes through five
//! independent steps. [`container`] detects the file format and yields rows one at a time.
//! [`columns`] maps the columns. [`builder`] converts rows to examples. [`render`] tokenizes
//! examples and computes their loss mask. [`report`] lists statistics and findings to review before
//! a run. Nothing is dropped silently: unreadable lines are listed, truncated examples are counted.

mod answer_spans;
mod broken_line;
mod builder;
mod column_wise;
mod columns;
mod container;
mod error;
mod fields;
mod finding;
mod hash;
mod json;
mod json_value;
mod near_duplicates;
mod parquet;
mod preview;
mod render;
mod report;
mod secrets;
mod source;
mod split;
mod table;
mod turns;

pub use broken_line::{BrokenLine, BrokenReason, Delimiter, JsonKind};
pub use container::Container;
pub use error::{DatasetError, DatasetProblem};
pub use finding::{Finding, FindingKind, Refusal, Severity};
pub use preview::{Piece, Preview, previews};
pub use render::{RenderError, Rendered, render, render_all};
pub use report::{Report, ReportOptions};
pub use secrets::Secret;
pub use split::{Split, leaks, split};

use crate::chat_template::{Message, Role};
use builder::DatasetBuilder;
use source::Source;
use std::path::Path;

/// Options for reading a file.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Column mapping; `None` detects it.
    pub mapping: Option<Mapping>,
    /// Whether unreadable lines are skipped; otherwise they refuse the file.
    pub skip_broken: bool,
}

/// Column mapping: the column name for each role; `None` if the role is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Conversations (messages or ShareGPT).
    pub messages: Option<String>,
    /// System prompt.
    pub system: Option<String>,
    /// Prompt.
    pub prompt: Option<String>,
    /// Additional input to the prompt (Alpaca's `input`).
    pub input: Option<String>,
    /// Completion.
    pub answer: Option<String>,
    /// Plain text, for continued pre-training.
    pub text: Option<String>,
}

impl Mapping {
    /// Names of the columns in use.
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

/// A training example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Line or row in the file, from 1.
    pub line: u32,
    /// Content.
    pub content: Content,
}

/// Content of an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A conversation with at least one assistant message.
    Chat(Vec<Message>),
    /// A prompt with its completion.
    PromptAnswer {
        /// System prompt.
        system: Option<String>,
        /// Prompt.
        prompt: String,
        /// Completion.
        answer: String,
    },
    /// Plain text.
    Text(String),
}

impl Content {
    /// Sets the system prompt, unless there is one.
    fn set_system_prompt(&mut self, text: &str) {
        match self {
            Self::Chat(messages) if messages.iter().all(|message| message.role != Role::System) => {
                let message = Message {
                    role: Role::System,
                    content: text.to_owned(),
                };
                messages.insert(0, message);
            }
            Self::PromptAnswer { system, .. } if system.is_none() => *system = Some(text.to_owned()),
            _ => {}
        }
    }
}

/// The format of examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExampleShape {
    /// Conversations in OpenAI's format.
    Messages,
    /// Conversations in ShareGPT's format.
    ShareGpt,
    /// Prompts and answers with Alpaca's column names.
    Alpaca,
    /// Prompts and answers.
    PromptAnswer,
    /// Plain text.
    Text,
}

/// The limit at which reading stopped before the end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLimit {
    /// The maximum number of rows.
    Rows {
        /// The maximum.
        rows: u32,
        /// The first line that is ignored.
        line: u32,
    },
    /// The maximum size of the text.
    Text {
        /// The maximum in MiB.
        mib: u32,
        /// The first line that is ignored.
        line: u32,
    },
}

/// The examples of a file, and its detected format.
#[derive(Debug)]
pub struct Dataset {
    /// File format.
    pub container: Container,
    /// Example format.
    pub shape: ExampleShape,
    /// All column names.
    pub columns: Vec<String>,
    /// The column mapping, detected or as requested.
    pub mapping: Mapping,
    /// Whether the detected mapping is a guess that should be confirmed.
    pub unsure: bool,
    /// The examples in file order.
    pub examples: Vec<Example>,
    /// The first hundred unreadable lines that were skipped.
    pub broken: Vec<BrokenLine>,
    /// Total number of skipped lines.
    pub broken_total: u32,
    /// Lines of conversations whose answers have thoughts (`reasoning_content`), which are not
    /// read.
    pub thoughts: Vec<u32>,
    /// The limit at which reading stopped; `None` if the whole file was read.
    pub limit: Option<ReadLimit>,
}

impl Dataset {
    /// Adds a copy of a system prompt to each conversation that has none. Plain texts are
    /// unchanged.
    pub fn set_system_prompt(&mut self, text: &str) {
        for example in &mut self.examples {
            example.content.set_system_prompt(text);
        }
    }

    /// Reads a file completely; it is not needed afterwards.
    ///
    /// # Errors
    /// If it cannot be opened, is not a dataset, has no examples, lacks a requested column, or has
    /// an unreadable line and [`ReadOptions::skip_broken`] is off.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, DatasetError> {
        Self::open_cancellable(path, options, &mut || true)
    }

    /// As for [`Dataset::open`]. `should_continue` is called every megabyte or few hundred rows;
    /// returns `false` to cancel.
    ///
    /// # Errors
    /// As for [`Dataset::open`]; [`DatasetProblem::Cancelled`] if `should_continue` returned
    /// `false`.
    pub fn open_cancellable(
        path: impl AsRef<Path>,
        options: &ReadOptions,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DatasetError> {
        let path = path.as_ref();
        let in_file = |problem| DatasetError::new(path, problem);
        let source = Source::open(path, should_continue).map_err(in_file)?;
        read(&source, path, options).map_err(in_file)
    }

    /// Reads a file from memory; `name` is its file name.
    ///
    /// # Errors
    /// As for [`Dataset::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str, options: &ReadOptions) -> Result<Self, DatasetError> {
        Self::from_bytes_cancellable(bytes, name, options, &mut || true)
    }

    /// As [`Dataset::from_bytes`], cancellable as [`Dataset::open_cancellable`].
    ///
    /// # Errors
    /// As for [`Dataset::open_cancellable`].
    pub fn from_bytes_cancellable(
        bytes: Vec<u8>,
        name: &str,
        options: &ReadOptions,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DatasetError> {
        let path = Path::new(name);
        let source = Source::from_bytes(bytes, should_continue);
        read(&source, path, options).map_err(|problem| DatasetError::new(path, problem))
    }
}

fn read(source: &Source, path: &Path, options: &ReadOptions) -> Result<Dataset, DatasetProblem> {
    let container = Container::recognize(source, path)?;
    let mut builder = DatasetBuilder::new(options.mapping.clone(), source.len()?);
    let result = container.read(source, options.skip_broken, &mut builder);
    // Parsers between here and the callback may report the cancellation as an error of the file.
    if source.meter.is_cancelled() {
        return Err(DatasetProblem::Cancelled);
    }
    result?;
    builder.finish(container, options.skip_broken)
}

/// Truncates a text from a file for use in an error message.
fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    const MAX_LEN: usize = 120;
    match text.char_indices().nth(MAX_LEN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl Example {
    /// All texts of the example, in order.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let (messages, texts) = match &self.content {
            Content::Chat(messages) => (messages.as_slice(), [None, None, None]),
            Content::PromptAnswer { system, prompt, answer } => (
                &[][..],
                [system.as_deref(), Some(prompt.as_str()), Some(answer.as_str())],
            ),
            Content::Text(text) => (&[][..], [Some(text.as_str()), None, None]),
        };
        let messages = messages.iter().map(|message| message.content.as_str());
        messages.chain(texts.into_iter().flatten())
    }

    /// A hash of the content that is stable across machines and versions.
    pub fn fingerprint(&self) -> u64 {
        hash::texts(self.texts())
    }
}
