//! The report of a dataset before a run: statistics and findings.

use super::near_duplicates::{LshIndex, MinHash};
use super::render::{RenderError, Rendered};
use super::{Content, Dataset, Example, secrets, shortened};
use crate::chat_template::{Message, Role};
use std::collections::HashSet;

/// Statistics of a dataset, and findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Usable examples.
    pub examples: u32,
    /// Their tokens including the template, before truncation.
    pub tokens: u64,
    /// Target tokens after truncation.
    pub trained_tokens: u64,
    /// Length in tokens of the median, the 95th-percentile and the longest example.
    pub lengths: [u32; 3],
    /// The requested sequence length, or a suggestion from the data.
    pub sequence: u32,
    /// Examples that are truncated to it. Documents are split into several sequences instead.
    pub truncated: u32,
    /// Examples that are dropped, since truncation leaves nothing of their answers.
    pub dropped: u32,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
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

/// A finding in a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Machine-readable kind: `duplicates`, `near_duplicates`, `truncated`, `dropped`,
    /// `empty_answers`, `secrets`, `leaks`, `few`, `broken`, `refused`, `last_answer`, `unsure`,
    /// `limit`, `retrieve`, `thoughts`, `preferences`.
    pub kind: &'static str,
    /// Severity.
    pub severity: Severity,
    /// The finding and what to do, as full sentences.
    pub message: String,
    /// The first twenty lines concerned.
    pub lines: Vec<u32>,
}

/// Settings of the model and the run.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    /// Maximum sequence length in tokens; `None` to choose it from the data.
    pub sequence: Option<u32>,
    /// Context length of the model in tokens.
    pub context: u32,
}

/// Sequence lengths are multiples of this, so that tiled kernels have no remainder.
const SEQUENCE_MULTIPLE: u32 = 32;

/// Default sequence length for documents: enough context to learn from, small enough for the memory
/// of a laptop.
const DOCUMENT_SEQUENCE: u32 = 512;

/// Number of examples below which to warn, and below [`MODEST`] to give a note.
const FEW: usize = 10;
const MODEST: usize = 50;

/// Maximum number of examples searched for near-duplicates; the bands of more take hundreds of
/// megabytes.
const MAX_COMPARED: usize = 200_000;

/// Maximum number of lines listed by a finding.
const MAX_LISTED: usize = 20;

/// Limits lines to [`MAX_LISTED`].
pub(super) fn lines_of(lines: impl IntoIterator<Item = u32>) -> Vec<u32> {
    lines.into_iter().take(MAX_LISTED).collect()
}

/// The column of the worse answers of preference pairs.
fn unused_rejected(dataset: &Dataset) -> Option<&str> {
    let mapping = &dataset.mapping;
    let is = |name: &str, wanted: &str| name.trim().eq_ignore_ascii_case(wanted);
    let answers = mapping.answer.as_deref().or(mapping.messages.as_deref())?;
    let rejected = dataset.columns.iter().find(|name| is(name, "rejected"))?;
    (is(answers, "chosen") && mapping.columns().all(|used| used != rejected)).then_some(rejected)
}

impl Report {
    /// Creates the report of a dataset and its tokenized examples, one for each example.
    pub fn new(dataset: &Dataset, rendered: &[Result<Rendered, RenderError>], options: ReportOptions) -> Self {
        let (mut report, usable) = Self::from_tokens(dataset, rendered, options);
        // Never cancelled.
        report.check_content(&dataset.examples, &mut || true);
        report.finish(dataset, &usable, options)
    }

    /// As [`Report::new`]. `should_continue` is called for each example; returns `false` to cancel,
    /// and the result is then `None`.
    pub fn new_cancellable(
        dataset: &Dataset,
        rendered: &[Result<Rendered, RenderError>],
        options: ReportOptions,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        let (mut report, usable) = Self::from_tokens(dataset, rendered, options);
        let done = report.check_content(&dataset.examples, should_continue);
        done.then(|| report.finish(dataset, &usable, options))
    }

    /// The part that depends on tokens and lines only.
    fn from_tokens<'r>(
        dataset: &Dataset,
        rendered: &'r [Result<Rendered, RenderError>],
        options: ReportOptions,
    ) -> (Self, Vec<&'r Rendered>) {
        let usable: Vec<&Rendered> = rendered.iter().flatten().collect();
        let mut lengths: Vec<u32> = usable.iter().map(|rendered| rendered.ids.len() as u32).collect();
        lengths.sort_unstable();
        let sequence = match options.sequence {
            Some(sequence) => sequence.max(2),
            None => suggested_sequence(&usable, options.context),
        };
        let mut report = Self {
            examples: 0,
            tokens: lengths.iter().map(|&length| u64::from(length)).sum(),
            trained_tokens: 0,
            lengths: [
                percentile(&lengths, 50),
                percentile(&lengths, 95),
                percentile(&lengths, 100),
            ],
            sequence,
            truncated: 0,
            dropped: 0,
            findings: Vec::new(),
        };
        report.check_lengths(&usable);
        report.check_reading(dataset, rendered);
        report.check_size(&usable);
        (report, usable)
    }

    fn finish(mut self, dataset: &Dataset, usable: &[&Rendered], options: ReportOptions) -> Self {
        self.suggest_retrieval(&dataset.examples, usable, options.context);
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self
    }

    /// Inserts a finding by its severity.
    pub fn add(&mut self, finding: Finding) {
        let index = self
            .findings
            .partition_point(|other| other.severity >= finding.severity);
        self.findings.insert(index, finding);
    }

    /// Adds a finding if it concerns any line.
    fn note(&mut self, kind: &'static str, severity: Severity, lines: &[u32], message: impl FnOnce(usize) -> String) {
        if !lines.is_empty() {
            self.findings.push(Finding {
                kind,
                severity,
                message: message(lines.len()),
                lines: lines_of(lines.iter().copied()),
            });
        }
    }

    /// Counts truncated and dropped examples.
    fn check_lengths(&mut self, usable: &[&Rendered]) {
        let (mut truncated, mut dropped) = (Vec::new(), Vec::new());
        for rendered in usable {
            let cut = !rendered.is_document && rendered.ids.len() > self.sequence as usize;
            let len = if cut {
                self.sequence as usize
            } else {
                rendered.ids.len()
            };
            let targets = rendered.loss_mask[..len].iter().filter(|&&target| target).count();
            self.trained_tokens += targets as u64;
            if targets == 0 {
                dropped.push(rendered.line);
            } else if cut {
                truncated.push(rendered.line);
            }
        }
        self.truncated = (truncated.len() + dropped.len()) as u32;
        self.dropped = dropped.len() as u32;
        self.examples = (usable.len() - dropped.len()) as u32;
        let sequence = self.sequence;
        self.note("dropped", Severity::Warning, &dropped, |count| {
            format!(
                "{} left out: at a sequence length of {sequence} tokens nothing of the answer remains. Choose a \
                 longer sequence, or \
                 shorten the questions.",
                examples_are(count)
            )
        });
        self.note("truncated", Severity::Warning, &truncated, |count| {
            format!(
                "{} longer than {sequence} tokens and truncated. A longer sequence length keeps more of them but \
                 takes more memory.",
                examples_are(count)
            )
        });
    }

    /// Findings from reading and tokenizing the file.
    fn check_reading(&mut self, dataset: &Dataset, rendered: &[Result<Rendered, RenderError>]) {
        let broken: Vec<u32> = dataset.broken.iter().map(|broken| broken.line).collect();
        if let Some(first) = dataset.broken.first() {
            self.note("broken", Severity::Warning, &broken, |_| {
                let lines = match dataset.broken_total {
                    1 => "1 line cannot be read and is".to_owned(),
                    total => format!("{total} lines cannot be read and are"),
                };
                format!("{lines} left out. Line {} for example: {}", first.line, first.why)
            });
        }
        let refused = || {
            dataset
                .examples
                .iter()
                .zip(rendered)
                .filter_map(|(example, r)| Some((example, r.as_ref().err()?)))
        };
        let lines: Vec<u32> = refused().map(|(example, _)| example.line).collect();
        if let Some((example, error)) = refused().next() {
            self.note("refused", Severity::Warning, &lines, |count| {
                let error = error.to_string();
                let error = error.trim_end_matches('.');
                format!(
                    "{} left out. Line {} for example: {error}.",
                    examples_are(count),
                    example.line
                )
            });
        }
        let last_only = rendered.iter().flatten().filter(|rendered| rendered.last_answer_only);
        let lines: Vec<u32> = last_only.map(|rendered| rendered.line).collect();
        self.note("last_answer", Severity::Note, &lines, |count| {
            format!(
                "In {} only the last answer is trained on: the model's chat template changes earlier turns when a \
                 conversation continues, or the conversation is too long to find the others in it.",
                examples(count)
            )
        });
        self.note("thoughts", Severity::Note, &dataset.thoughts, |count| {
            format!(
                "{} the model's thoughts ('reasoning_content'). They are not trained on: only what the answers say is.",
                match count {
                    1 => "1 example has".to_owned(),
                    count => format!("{count} examples have"),
                }
            )
        });
        if dataset.unsure {
            self.findings.push(Finding {
                kind: "unsure",
                severity: Severity::Warning,
                message: "The columns have unknown names, so their roles were guessed from their content. Check in \
                 the preview \
                          that prompts and answers are right, or choose the columns."
                    .to_owned(),
                lines: Vec::new(),
            });
        }
        if let Some(rejected) = unused_rejected(dataset) {
            self.findings.push(Finding {
                kind: "preferences",
                severity: Severity::Warning,
                message: format!(
                    "The column '{}' is not used yet: a run learns the preferred answers only, not what to avoid.",
                    shortened(rejected)
                ),
                lines: Vec::new(),
            });
        }
        if let Some(limit) = &dataset.limit {
            self.findings.push(Finding {
                kind: "limit",
                severity: Severity::Warning,
                message: limit.clone(),
                lines: Vec::new(),
            });
        }
    }

    /// Checks the number of examples.
    fn check_size(&mut self, usable: &[&Rendered]) {
        // Documents are counted by their sequences.
        let (count, unit) = if usable.iter().any(|rendered| rendered.is_document) {
            let sequences = usable
                .iter()
                .map(|rendered| rendered.ids.len().div_ceil(self.sequence as usize));
            (sequences.sum(), "sequences")
        } else {
            (self.examples as usize, "examples")
        };
        let (severity, message) = match count {
            0 => (Severity::Error, "There is no example to train on.".to_owned()),
            1 => (
                Severity::Warning,
                "There is only one example, which the model will learn to repeat. Add more: start with about fifty."
                    .to_owned(),
            ),
            2..FEW => (
                Severity::Warning,
                format!(
                    "There are only {count} {unit}. With fewer than ten, a model repeats them rather than learns; \
                     start with about fifty."
                ),
            ),
            FEW..MODEST => (
                Severity::Note,
                format!("There are {count} {unit}. That can teach a tone; for more, use fifty to a few hundred."),
            ),
            _ => return,
        };
        self.findings.push(Finding {
            kind: "few",
            severity,
            message,
            lines: Vec::new(),
        });
    }

    /// Findings from the text of the examples. Returns `false` if cancelled.
    fn check_content(&mut self, all: &[Example], should_continue: &mut dyn FnMut() -> bool) -> bool {
        let (mut duplicates, mut near_duplicates, mut empty, mut secret) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut kinds: Vec<&'static str> = Vec::new();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut lsh = LshIndex::default();
        let mut compared = 0;
        for (index, example) in all.iter().enumerate() {
            if !should_continue() {
                return false;
            }
            let mut found: Vec<&'static str> = Vec::new();
            for what in example.texts().flat_map(secrets::find) {
                if !found.contains(&what) {
                    found.push(what);
                }
            }
            if !found.is_empty() {
                secret.push(example.line);
                kinds.append(&mut found);
                kinds.sort_unstable();
                kinds.dedup();
            }
            if has_empty_answer(example) {
                empty.push(example.line);
            }
            if !seen.insert(example.fingerprint()) {
                duplicates.push(example.line);
            } else if index < MAX_COMPARED && !lsh.is_work_exhausted() {
                compared = index + 1;
                let signature = MinHash::new(example);
                match lsh.find(&signature, all) {
                    Some(_) => near_duplicates.push(example.line),
                    None => lsh.insert(index, &signature),
                }
            }
        }
        self.note("secrets", Severity::Warning, &secret, |count| {
            format!(
                "{} what looks like {}. A model can reveal its training data to anyone who uses it: remove it from \
                 the file.",
                if count == 1 {
                    "1 example holds".to_owned()
                } else {
                    format!("{count} examples hold")
                },
                join_or(&kinds)
            )
        });
        self.note("empty_answers", Severity::Warning, &empty, |count| {
            format!(
                "{} without an answer, so the model would learn to say nothing. Fill them in or remove them.",
                examples_are(count)
            )
        });
        self.note("duplicates", Severity::Warning, &duplicates, |count| {
            format!(
                "{} exactly the same as an earlier one and counted again. Remove them, unless this is intended.",
                examples_are(count)
            )
        });
        self.note("near_duplicates", Severity::Note, &near_duplicates, |count| {
            format!(
                "{} nearly the same as an earlier one. Many near-duplicates make a model repeat itself.",
                examples_are(count)
            )
        });
        if all.len() > MAX_COMPARED || lsh.is_work_exhausted() {
            let compared = if lsh.is_work_exhausted() {
                compared
            } else {
                MAX_COMPARED
            };
            self.findings.push(Finding {
                kind: "near_duplicates",
                severity: Severity::Note,
                message: format!("Only the first {compared} examples were searched for near-duplicates."),
                lines: Vec::new(),
            });
        }
        true
    }

    /// Notes if putting text into the context would work better than fine-tuning.
    fn suggest_retrieval(&mut self, all: &[Example], usable: &[&Rendered], context: u32) {
        let facts = all.iter().filter(|example| is_fact(example)).count();
        if facts >= 20 && facts * 5 >= all.len() * 3 {
            self.findings.push(Finding {
                kind: "retrieve",
                severity: Severity::Note,
                message: "Most examples are short factual questions. Fine-tuning teaches style far better than facts; \
                          facts are more reliable when they are put into the conversation, for example as attached \
                          notes."
                    .to_owned(),
                lines: Vec::new(),
            });
        }
        let long: Vec<u32> = usable
            .iter()
            .filter(|rendered| rendered.is_document && rendered.ids.len() / 4 > context as usize)
            .map(|rendered| rendered.line)
            .collect();
        self.note("retrieve", Severity::Note, &long, |_| {
            "A document is many times longer than the model's context. Training on it teaches its language and tone, \
             but \
             not reliably its content; to ask about it, put the relevant passages into the conversation."
                .to_owned()
        });
    }
}

/// A sequence length at which 95 % of the examples are not truncated.
fn suggested_sequence(usable: &[&Rendered], context: u32) -> u32 {
    let length = |rendered: &&Rendered| {
        let length = rendered.ids.len() as u32;
        if rendered.is_document {
            length.min(DOCUMENT_SEQUENCE)
        } else {
            length
        }
    };
    let mut lengths: Vec<u32> = usable.iter().map(length).collect();
    lengths.sort_unstable();
    percentile(&lengths, 95)
        .max(1)
        .next_multiple_of(SEQUENCE_MULTIPLE)
        .min(context.max(2))
}

/// The nearest-rank percentile of sorted values; 0 if empty.
fn percentile(sorted: &[u32], percent: usize) -> u32 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn has_empty_answer(example: &Example) -> bool {
    match &example.content {
        Content::Chat(messages) => messages
            .iter()
            .any(|m| m.role == Role::Assistant && m.content.trim().is_empty()),
        Content::PromptAnswer { answer, .. } => answer.trim().is_empty(),
        Content::Text(_) => false,
    }
}

/// Whether an example is a factual question with an answer of a few words.
fn is_fact(example: &Example) -> bool {
    let (prompt, answer) = match &example.content {
        Content::Chat(messages) => match messages.iter().filter(|m| m.role != Role::System).collect::<Vec<_>>()[..] {
            [Message { content: prompt, .. }, Message { content: answer, .. }] => (prompt, answer),
            _ => return false,
        },
        Content::PromptAnswer { prompt, answer, .. } => (prompt, answer),
        Content::Text(_) => return false,
    };
    let first = prompt.split_whitespace().next().unwrap_or_default().to_lowercase();
    let asks = ["who", "when", "where", "which", "what", "whose", "how"].contains(&first.as_str());
    asks && (1..=8).contains(&answer.split_whitespace().count())
}

fn examples(count: usize) -> String {
    match count {
        1 => "1 example".to_owned(),
        _ => format!("{count} examples"),
    }
}

fn examples_are(count: usize) -> String {
    format!("{} {}", examples(count), if count == 1 { "is" } else { "are" })
}

/// Formats items for a sentence: `a`, `b or c`, `a, b or c`.
fn join_or(items: &[&str]) -> String {
    match items {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => items.concat(),
    }
}
