//! The report of a dataset before a run: statistics and findings.

use super::finding::{Finding, FindingKind, Refusal, Severity};
use super::near_duplicates::{LshIndex, MinHash};
use super::render::{RenderError, Rendered};
use super::secrets::{self, Secret};
use super::{Content, Dataset, Example, ReadLimit, shortened};
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
const FEW: u32 = 10;
const MODEST: u32 = 50;

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
    let is = |name: &str, expected: &str| name.trim().eq_ignore_ascii_case(expected);
    let answers = mapping.answer.as_deref().or(mapping.messages.as_deref())?;
    let rejected = dataset.columns.iter().find(|name| is(name, "rejected"))?;
    (is(answers, "chosen") && mapping.columns().all(|mapped| mapped != rejected)).then_some(rejected)
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
        let is_complete = report.check_content(&dataset.examples, should_continue);
        is_complete.then(|| report.finish(dataset, &usable, options))
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
    fn note(&mut self, severity: Severity, lines: &[u32], kind: impl FnOnce(u32) -> FindingKind) {
        if !lines.is_empty() {
            self.findings.push(Finding {
                kind: kind(lines.len() as u32),
                severity,
                lines: lines_of(lines.iter().copied()),
            });
        }
    }

    /// Counts truncated and dropped examples.
    fn check_lengths(&mut self, usable: &[&Rendered]) {
        let (mut truncated, mut dropped) = (Vec::new(), Vec::new());
        for rendered in usable {
            let is_truncated = !rendered.is_document && rendered.ids.len() > self.sequence as usize;
            let len = if is_truncated {
                self.sequence as usize
            } else {
                rendered.ids.len()
            };
            let targets = rendered.loss_mask[..len].iter().filter(|&&target| target).count();
            self.trained_tokens += targets as u64;
            if targets == 0 {
                dropped.push(rendered.line);
            } else if is_truncated {
                truncated.push(rendered.line);
            }
        }
        self.truncated = (truncated.len() + dropped.len()) as u32;
        self.dropped = dropped.len() as u32;
        self.examples = (usable.len() - dropped.len()) as u32;
        let sequence = self.sequence;
        self.note(Severity::Warning, &dropped, |count| FindingKind::Dropped {
            count,
            sequence,
        });
        self.note(Severity::Warning, &truncated, |count| FindingKind::Truncated {
            count,
            sequence,
        });
    }

    /// Findings from reading and tokenizing the file.
    fn check_reading(&mut self, dataset: &Dataset, rendered: &[Result<Rendered, RenderError>]) {
        let broken: Vec<u32> = dataset.broken.iter().map(|broken| broken.line).collect();
        if let Some(first) = dataset.broken.first() {
            self.note(Severity::Warning, &broken, |_| FindingKind::Broken {
                count: dataset.broken_total,
                line: first.line,
                broken: first.reason.clone(),
            });
        }
        let refused = || {
            dataset
                .examples
                .iter()
                .zip(rendered)
                .filter_map(|(example, rendered)| Some((example, rendered.as_ref().err()?)))
        };
        let lines: Vec<u32> = refused().map(|(example, _)| example.line).collect();
        if let Some((example, error)) = refused().next() {
            self.note(Severity::Warning, &lines, |count| FindingKind::Refused {
                count,
                line: example.line,
                refusal: Refusal::from(error),
            });
        }
        let last_only = rendered.iter().flatten().filter(|rendered| rendered.last_answer_only);
        let lines: Vec<u32> = last_only.map(|rendered| rendered.line).collect();
        self.note(Severity::Note, &lines, |count| FindingKind::LastAnswer { count });
        self.note(Severity::Note, &dataset.thoughts, |count| FindingKind::Thoughts {
            count,
        });
        if dataset.unsure {
            self.warn(FindingKind::Unsure);
        }
        if let Some(rejected) = unused_rejected(dataset) {
            let column = shortened(rejected).into_owned();
            self.warn(FindingKind::Preferences { column });
        }
        match dataset.limit {
            Some(ReadLimit::Rows { rows, line }) => self.warn(FindingKind::RowLimit { rows, line }),
            Some(ReadLimit::Text { mib, line }) => self.warn(FindingKind::TextLimit { mib, line }),
            None => {}
        }
    }

    /// Adds a warning about the whole dataset.
    fn warn(&mut self, kind: FindingKind) {
        self.findings.push(Finding::without_lines(Severity::Warning, kind));
    }

    /// Checks the number of examples.
    fn check_size(&mut self, usable: &[&Rendered]) {
        // Documents are counted by their sequences.
        let is_document = usable.iter().any(|rendered| rendered.is_document);
        let count = if is_document {
            let sequences = usable
                .iter()
                .map(|rendered| rendered.ids.len().div_ceil(self.sequence as usize));
            sequences.sum::<usize>() as u32
        } else {
            self.examples
        };
        let (severity, kind) = match (count, is_document) {
            (0, _) => (Severity::Error, FindingKind::NoExample),
            (1, _) => (Severity::Warning, FindingKind::OneExample),
            (2..FEW, false) => (Severity::Warning, FindingKind::FewExamples { count }),
            (2..FEW, true) => (Severity::Warning, FindingKind::FewSequences { count }),
            (FEW..MODEST, false) => (Severity::Note, FindingKind::SomeExamples { count }),
            (FEW..MODEST, true) => (Severity::Note, FindingKind::SomeSequences { count }),
            _ => return,
        };
        self.findings.push(Finding::without_lines(severity, kind));
    }

    /// Findings from the text of the examples. Returns `false` if cancelled.
    fn check_content(&mut self, examples: &[Example], should_continue: &mut dyn FnMut() -> bool) -> bool {
        let (mut duplicates, mut near_duplicates, mut empty, mut with_secrets) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut secret_kinds: Vec<Secret> = Vec::new();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut lsh = LshIndex::default();
        let mut compared = 0;
        for (index, example) in examples.iter().enumerate() {
            if !should_continue() {
                return false;
            }
            let kinds_before = secret_kinds.len();
            secret_kinds.extend(example.texts().flat_map(secrets::find));
            if secret_kinds.len() > kinds_before {
                with_secrets.push(example.line);
                secret_kinds.sort_unstable();
                secret_kinds.dedup();
            }
            if has_empty_answer(example) {
                empty.push(example.line);
            }
            if !seen.insert(example.fingerprint()) {
                duplicates.push(example.line);
            } else if index < MAX_COMPARED && !lsh.is_work_exhausted() {
                compared = index + 1;
                let signature = MinHash::new(example);
                match lsh.find(&signature, examples) {
                    Some(_) => near_duplicates.push(example.line),
                    None => lsh.insert(index, &signature),
                }
            }
        }
        self.note(Severity::Warning, &with_secrets, |count| FindingKind::Secrets {
            count,
            secrets: secret_kinds,
        });
        self.note(Severity::Warning, &empty, |count| FindingKind::EmptyAnswers { count });
        self.note(Severity::Warning, &duplicates, |count| FindingKind::Duplicates {
            count,
        });
        self.note(Severity::Note, &near_duplicates, |count| FindingKind::NearDuplicates {
            count,
        });
        if examples.len() > MAX_COMPARED || lsh.is_work_exhausted() {
            let compared = if lsh.is_work_exhausted() {
                compared
            } else {
                MAX_COMPARED
            };
            let kind = FindingKind::ComparedFirst { count: compared as u32 };
            self.findings.push(Finding::without_lines(Severity::Note, kind));
        }
        true
    }

    /// Notes if putting text into the context would work better than fine-tuning.
    fn suggest_retrieval(&mut self, examples: &[Example], usable: &[&Rendered], context: u32) {
        let facts = examples.iter().filter(|example| is_fact(example)).count();
        if facts >= 20 && facts * 5 >= examples.len() * 3 {
            self.findings
                .push(Finding::without_lines(Severity::Note, FindingKind::ShortFacts));
        }
        let long: Vec<u32> = usable
            .iter()
            .filter(|rendered| rendered.is_document && rendered.ids.len() / 4 > context as usize)
            .map(|rendered| rendered.line)
            .collect();
        self.note(Severity::Note, &long, |_| FindingKind::LongDocument);
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
