//! What a person should know of a dataset before a run.

use super::render::{RenderError, Rendered};
use super::similar::{Index, Sketch};
use super::{Content, Dataset, Example, secrets};
use crate::chat_template::{Message, Role};
use std::collections::HashSet;

/// A dataset in figures, and what was found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Examples that can be used.
    pub examples: u32,
    /// Their tokens, template included, before anything is cut.
    pub tokens: u64,
    /// Tokens that are learnt, after that.
    pub trained_tokens: u64,
    /// Tokens of the median, the 95th percentile and the longest example.
    pub lengths: [u32; 3],
    /// The sequence length that was asked for, or that suits the data.
    pub sequence: u32,
    /// Examples longer than it, which are cut. Documents are not: they become several sequences.
    pub truncated: u32,
    /// Examples that are left out, since all of their answers would be cut off.
    pub dropped: u32,
    /// What a person should know, most serious first.
    pub findings: Vec<Finding>,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably not meant.
    Warning,
    /// A run would fail or teach the wrong thing.
    Error,
}

/// Something found in a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// For programs: `duplicates`, `near_duplicates`, `truncated`, `dropped`, `empty_answers`, `secrets`, `leaks`, `few`, `broken`,
    /// `refused`, `last_answer`, `unsure`, `limit`, `retrieve`.
    pub kind: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was found and what to do: whole sentences.
    pub message: String,
    /// Lines concerned, the first twenty.
    pub lines: Vec<u32>,
}

/// What a report must know of the model and the run.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    /// Tokens an example may have; none: chosen from the data.
    pub sequence: Option<u32>,
    /// Tokens that fit into the model's context.
    pub context: u32,
}

/// Sequence lengths are multiples of this: work that is done in blocks wastes nothing then.
const STEP: u32 = 32;

/// What a document is cut to where nothing else is asked for: enough to learn from what came before, and small enough for the
/// memory of a laptop.
const DOCUMENT_SEQUENCE: u32 = 512;

/// Fewer examples than this teach next to nothing, and fewer than [`MODEST`] only little.
const FEW: usize = 10;
const MODEST: usize = 50;

/// Examples that are compared with one another; the bands of more would fill hundreds of megabytes.
const COMPARED: usize = 200_000;

/// Lines that a finding names.
const NAMED: usize = 20;

/// The first lines of many.
pub(super) fn lines_of(lines: impl IntoIterator<Item = u32>) -> Vec<u32> {
    lines.into_iter().take(NAMED).collect()
}

impl Report {
    /// Of a dataset and its tokens, one for each example.
    pub fn new(dataset: &Dataset, rendered: &[Result<Rendered, RenderError>], options: ReportOptions) -> Self {
        let (mut report, usable) = Self::begun(dataset, rendered, options);
        // Nothing stops it.
        report.content(&dataset.examples, &mut || true);
        report.ended(dataset, &usable, options)
    }

    /// As [`Report::new`]; none where `go_on`, which is called for each example, says no.
    pub fn new_while(
        dataset: &Dataset,
        rendered: &[Result<Rendered, RenderError>],
        options: ReportOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        let (mut report, usable) = Self::begun(dataset, rendered, options);
        let done = report.content(&dataset.examples, go_on);
        done.then(|| report.ended(dataset, &usable, options))
    }

    /// With what tokens and lines say.
    fn begun<'r>(
        dataset: &Dataset,
        rendered: &'r [Result<Rendered, RenderError>],
        options: ReportOptions,
    ) -> (Self, Vec<&'r Rendered>) {
        let usable: Vec<&Rendered> = rendered.iter().flatten().collect();
        let mut lengths: Vec<u32> = usable.iter().map(|rendered| rendered.ids.len() as u32).collect();
        lengths.sort_unstable();
        let sequence = match options.sequence {
            Some(sequence) => sequence.max(2),
            None => chosen_sequence(&usable, options.context),
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
        report.measure(&usable);
        report.reading(dataset, rendered);
        report.size(&usable);
        (report, usable)
    }

    fn ended(mut self, dataset: &Dataset, usable: &[&Rendered], options: ReportOptions) -> Self {
        self.retrieval(&dataset.examples, usable, options.context);
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self
    }

    /// Adds what was found elsewhere, in its place.
    pub fn add(&mut self, finding: Finding) {
        let place = self
            .findings
            .partition_point(|other| other.severity >= finding.severity);
        self.findings.insert(place, finding);
    }

    /// Notes a finding if any line is concerned.
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

    /// What the sequence length leaves.
    fn measure(&mut self, usable: &[&Rendered]) {
        let (mut truncated, mut dropped) = (Vec::new(), Vec::new());
        for rendered in usable {
            let cut = !rendered.document && rendered.ids.len() > self.sequence as usize;
            let kept = if cut {
                self.sequence as usize
            } else {
                rendered.ids.len()
            };
            let learnt = rendered.trained[..kept].iter().filter(|&&trained| trained).count();
            self.trained_tokens += learnt as u64;
            if learnt == 0 {
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
                "{} left out: with {sequence} tokens a sequence, nothing of the answer remains. Choose a longer sequence, or \
                 shorten the questions.",
                examples_are(count)
            )
        });
        self.note("truncated", Severity::Warning, &truncated, |count| {
            format!(
                "{} longer than {sequence} tokens and cut off there. A longer sequence keeps more of them and takes more memory.",
                examples_are(count)
            )
        });
    }

    /// What happened on the way from the file to the tokens.
    fn reading(&mut self, dataset: &Dataset, rendered: &[Result<Rendered, RenderError>]) {
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
                "Of {} only the last answer is learnt, since the model's chat template changes earlier turns when a conversation \
                 goes on.",
                examples(count)
            )
        });
        if dataset.unsure {
            self.findings.push(Finding {
                kind: "unsure",
                severity: Severity::Warning,
                message: "The columns have unusual names, so what they hold was guessed from their content. Check in the preview \
                          that questions and answers are where they belong, or choose the columns."
                    .to_owned(),
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

    /// Whether there is enough.
    fn size(&mut self, usable: &[&Rendered]) {
        // Of documents it is the sequences that count.
        let (count, unit) = if usable.iter().any(|rendered| rendered.document) {
            let sequences = usable
                .iter()
                .map(|rendered| rendered.ids.len().div_ceil(self.sequence as usize));
            (sequences.sum(), "sequences")
        } else {
            (self.examples as usize, "examples")
        };
        let (severity, message) = match count {
            0 => (
                Severity::Error,
                "There is no example that could be learnt from.".to_owned(),
            ),
            1 => (
                Severity::Warning,
                "There is a single example, which the model will learn to repeat. Add more, fifty or so to begin with."
                    .to_owned(),
            ),
            2..FEW => (
                Severity::Warning,
                format!(
                    "There are only {count} {unit}. Below ten, a model repeats rather than learns; fifty are a beginning."
                ),
            ),
            FEW..MODEST => (
                Severity::Note,
                format!("There are {count} {unit}. That can teach a tone; for more, fifty to a few hundred are usual."),
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

    /// What the examples say; false: `go_on` said no.
    fn content(&mut self, all: &[Example], go_on: &mut dyn FnMut() -> bool) -> bool {
        let (mut same, mut alike, mut empty, mut secret) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut kinds: Vec<&'static str> = Vec::new();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut index = Index::default();
        let mut compared = 0;
        for (place, example) in all.iter().enumerate() {
            if !go_on() {
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
                same.push(example.line);
            } else if place < COMPARED && !index.is_exhausted() {
                compared = place + 1;
                let sketch = Sketch::new(example);
                match index.find(&sketch, all) {
                    Some(_) => alike.push(example.line),
                    None => index.insert(place, &sketch),
                }
            }
        }
        self.note("secrets", Severity::Warning, &secret, |count| {
            format!(
                "{} what looks like {}. A model can repeat what it has learnt to anyone it is given to: remove it from the file.",
                if count == 1 { "1 example holds".to_owned() } else { format!("{count} examples hold") },
                either(&kinds)
            )
        });
        self.note("empty_answers", Severity::Warning, &empty, |count| {
            format!(
                "{} without an answer, so that the model learns to say nothing. Fill them in or remove them.",
                examples_are(count)
            )
        });
        self.note("duplicates", Severity::Warning, &same, |count| {
            format!(
                "{} exactly the same as an earlier one and count twice. Remove them, unless this is meant.",
                examples_are(count)
            )
        });
        self.note("near_duplicates", Severity::Note, &alike, |count| {
            format!(
                "{} nearly the same as an earlier one. Many of them make a model repeat itself.",
                examples_are(count)
            )
        });
        if all.len() > COMPARED || index.is_exhausted() {
            let compared = if index.is_exhausted() { compared } else { COMPARED };
            self.findings.push(Finding {
                kind: "near_duplicates",
                severity: Severity::Note,
                message: format!("Only the first {compared} examples were searched for near-duplicates."),
                lines: Vec::new(),
            });
        }
        true
    }

    /// Whether looking things up would serve better than learning them.
    fn retrieval(&mut self, all: &[Example], usable: &[&Rendered], context: u32) {
        let facts = all.iter().filter(|example| is_fact(example)).count();
        if facts >= 20 && facts * 5 >= all.len() * 3 {
            self.findings.push(Finding {
                kind: "retrieve",
                severity: Severity::Note,
                message: "Most examples are short questions of fact. Fine-tuning teaches how to answer far better than what is true; \
                          facts are more reliable when they are put into the conversation, as attached notes."
                    .to_owned(),
                lines: Vec::new(),
            });
        }
        let long: Vec<u32> = usable
            .iter()
            .filter(|rendered| rendered.document && rendered.ids.len() / 4 > context as usize)
            .map(|rendered| rendered.line)
            .collect();
        self.note("retrieve", Severity::Note, &long, |_| {
            "A document is many times longer than what the model reads at once. Training on it teaches its language and tone, but \
             not reliably what it says; to ask about it, put the passages that matter into the conversation."
                .to_owned()
        });
    }
}

/// The sequence length that suits the data: nearly all examples fit whole.
fn chosen_sequence(usable: &[&Rendered], context: u32) -> u32 {
    let length = |rendered: &&Rendered| {
        let length = rendered.ids.len() as u32;
        if rendered.document {
            length.min(DOCUMENT_SEQUENCE)
        } else {
            length
        }
    };
    let mut lengths: Vec<u32> = usable.iter().map(length).collect();
    lengths.sort_unstable();
    percentile(&lengths, 95)
        .max(1)
        .next_multiple_of(STEP)
        .min(context.max(2))
}

/// The nearest-rank percentile of sorted numbers; 0 of none.
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

/// Whether an example is a question of fact with a few words for an answer.
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

/// Things as a sentence has them: `a`, `b or c`, `a, b or c`.
fn either(things: &[&str]) -> String {
    match things {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => things.concat(),
    }
}
