//! Findings about a dataset.

use super::broken_line::BrokenReason;
use super::render::{MAX_TOKENS, RenderError};
use super::secrets::Secret;

/// A finding in a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, with the data.
    pub kind: FindingKind,
    /// Severity.
    pub severity: Severity,
    /// The first twenty lines concerned.
    pub lines: Vec<u32>,
}

impl Finding {
    /// A finding about the whole dataset.
    pub(super) fn without_lines(severity: Severity, kind: FindingKind) -> Self {
        Self {
            kind,
            severity,
            lines: Vec::new(),
        }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Informational.
    Note,
    /// Probably unintended.
    Warning,
    /// A run would fail or be useless.
    Error,
}

/// The kind of a finding, with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingKind {
    /// Unreadable lines were skipped.
    Broken {
        /// Their number.
        count: u32,
        /// The first of them.
        line: u32,
        /// Why it cannot be read.
        broken: BrokenReason,
    },
    /// Examples cannot be tokenized.
    Refused {
        /// Their number.
        count: u32,
        /// The line of the first.
        line: u32,
        /// Why it cannot be tokenized.
        refusal: Refusal,
    },
    /// Truncation leaves nothing of the answers of examples.
    Dropped {
        /// Their number.
        count: u32,
        /// The sequence length in tokens.
        sequence: u32,
    },
    /// Examples are truncated.
    Truncated {
        /// Their number.
        count: u32,
        /// The sequence length in tokens.
        sequence: u32,
    },
    /// Only the last answers of conversations are trained on: the template changes earlier turns,
    /// or the conversations are too long.
    LastAnswer {
        /// Their number.
        count: u32,
    },
    /// The thoughts in answers are not trained on.
    Thoughts {
        /// Examples with thoughts.
        count: u32,
    },
    /// The column mapping is a guess.
    Unsure,
    /// The worse answers of preference pairs are not used.
    Preferences {
        /// Their column.
        column: String,
    },
    /// The file has more rows than are read.
    RowLimit {
        /// The maximum.
        rows: u32,
        /// The first line that is ignored.
        line: u32,
    },
    /// The file has more text than is read.
    TextLimit {
        /// The maximum in MiB.
        mib: u32,
        /// The first line that is ignored.
        line: u32,
    },
    /// There is no example.
    NoExample,
    /// There is one example, or one sequence of a document.
    OneExample,
    /// There are fewer than ten examples.
    FewExamples {
        /// Their number.
        count: u32,
    },
    /// Documents have fewer than ten sequences.
    FewSequences {
        /// Their number.
        count: u32,
    },
    /// There are fewer than fifty examples.
    SomeExamples {
        /// Their number.
        count: u32,
    },
    /// Documents have fewer than fifty sequences.
    SomeSequences {
        /// Their number.
        count: u32,
    },
    /// Examples contain secrets.
    Secrets {
        /// Their number.
        count: u32,
        /// The kinds of secrets.
        secrets: Vec<Secret>,
    },
    /// Examples have empty answers.
    EmptyAnswers {
        /// Their number.
        count: u32,
    },
    /// Examples are the same as earlier ones.
    Duplicates {
        /// Their number.
        count: u32,
    },
    /// Examples are nearly the same as earlier ones.
    NearDuplicates {
        /// Their number.
        count: u32,
    },
    /// Not all examples were searched for near-duplicates.
    ComparedFirst {
        /// Number of searched examples, from the first.
        count: u32,
    },
    /// Validation examples are near-duplicates of training examples.
    Leaks {
        /// Their number.
        count: u32,
        /// All validation examples.
        total: u32,
    },
    /// Most examples are factual questions, which the context can answer better.
    ShortFacts,
    /// A document is many times longer than the context.
    LongDocument,
}

/// Why an example cannot be tokenized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another error.
    Detail {
        /// The error, without a full stop.
        detail: String,
    },
    /// Its answer cannot be located in the rendered conversation.
    NoAnswer,
    /// The dataset has more tokens than are used.
    TooManyTokens {
        /// The maximum, in millions of tokens.
        millions: u32,
    },
}

impl From<&RenderError> for Refusal {
    fn from(error: &RenderError) -> Self {
        match error {
            RenderError::NoAnswer => Self::NoAnswer,
            RenderError::TooMany => Self::TooManyTokens {
                millions: (MAX_TOKENS / 1_000_000) as u32,
            },
            RenderError::Template(_) | RenderError::Cancelled => Self::Detail {
                detail: error.to_string().trim_end_matches('.').to_owned(),
            },
        }
    }
}
