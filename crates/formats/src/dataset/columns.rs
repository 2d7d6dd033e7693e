//! Detects the column mapping: by column names, or by content if the names are unknown.

use super::fields::{Fields, Name};
use super::turns::is_conversation;
use super::{DatasetProblem, Mapping, shortened};
use serde_json::Value;
use std::collections::HashMap;

/// Common column names, most specific first.
const MESSAGES: &[&str] = &[
    "messages",
    "conversations",
    "conversation",
    "dialogue",
    "dialog",
    "turns",
    "chat",
];
const SYSTEM: &[&str] = &["system", "system_prompt", "system_message"];
const PROMPT: &[&str] = &[
    "instruction",
    "prompt",
    "question",
    "query",
    "user",
    "human",
    "request",
    "problem",
    "task",
    "input",
];
const INPUT: &[&str] = &["input", "context"];
const ANSWER: &[&str] = &[
    "completion",
    "output",
    "response",
    "answer",
    "assistant",
    "chosen",
    "reply",
    "target",
    "solution",
    "gpt",
    "bot",
];
const TEXT: &[&str] = &["text", "content", "document", "body", "markdown"];

/// The example format of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Messages,
    PromptAnswer,
    Text,
}

impl Shape {
    /// The format of a mapping accepted by [`check`] or returned by [`recognize`].
    pub fn from_mapping(mapping: &Mapping) -> Self {
        if mapping.messages.is_some() {
            Self::Messages
        } else if mapping.prompt.is_some() && mapping.answer.is_some() {
            Self::PromptAnswer
        } else {
            Self::Text
        }
    }
}

/// Whether this is a common column name of a dataset.
pub(super) fn is_known(name: &str) -> bool {
    [MESSAGES, SYSTEM, PROMPT, INPUT, ANSWER, TEXT]
        .iter()
        .any(|names| names.contains(&normalized(name).as_str()))
}

/// A normalized name: lower case, without quotes, with underscores.
fn normalized(name: &str) -> String {
    name.trim().trim_matches('"').to_lowercase().replace([' ', '-'], "_")
}

/// Checks a requested mapping.
///
/// # Errors
/// If a column is missing, or the mapping is incomplete.
pub(super) fn check(mapping: &Mapping, columns: &[Name]) -> Result<(), DatasetProblem> {
    let is_missing = |name: &&str| !columns.iter().any(|column| **column == **name);
    if let Some(missing) = mapping.columns().find(is_missing) {
        let columns = listed(columns);
        return Err(DatasetProblem::Columns(format!(
            "the file has no column '{}', only {columns}. Choose one of these.",
            shortened(missing)
        )));
    }
    let has_pair = mapping.prompt.is_some() && mapping.answer.is_some();
    if mapping.messages.is_none() && mapping.text.is_none() && !has_pair {
        return Err(DatasetProblem::Columns(
            "the chosen columns are not enough to train on. Choose a column of conversations, one of prompts and one \
             of answers, \
             or one of texts."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Detects the mapping. Returns also whether it is a guess to be confirmed.
///
/// # Errors
/// If no column has text to train on.
pub(super) fn recognize(columns: &[Name], sample: &[(u32, Fields)]) -> Result<(Mapping, bool), DatasetProblem> {
    let columns = sampled(columns, sample);
    let messages = find(&columns, MESSAGES, |column| column.lists > 0);
    // A column with a known name but unusable content is still chosen, so that the line is
    // reported.
    let by_name =
        |names| find(&columns, names, |column| column.may_be_text()).or_else(|| find(&columns, names, |_| true));
    let (prompt, answer) = (by_name(PROMPT), by_name(ANSWER));
    let text = find(&columns, TEXT, |column| column.texts > 0);
    // If lines differ, the format of most lines wins; on a tie the first of these.
    let rows = |column: Option<&Column>| column.map_or(0, |column| column.rows);
    let pair_rows = rows(prompt).min(rows(answer));
    let max_rows = rows(messages).max(pair_rows).max(rows(text));
    let name = |column: Option<&Column>| column.map(|column| column.name.to_owned());
    let prompt_answer = |prompt: &Column, answer: &Column| Mapping {
        system: name(find(&columns, SYSTEM, |column| column.may_be_text())),
        input: name(find(&columns, INPUT, |column| {
            column.may_be_text() && column.name != prompt.name && column.name != answer.name
        })),
        prompt: Some(prompt.name.to_owned()),
        answer: Some(answer.name.to_owned()),
        ..Mapping::default()
    };
    let from_messages = |messages: &Column| Mapping {
        messages: Some(messages.name.to_owned()),
        system: name(find(&columns, SYSTEM, |column| column.may_be_text())),
        ..Mapping::default()
    };
    let from_text = |text: &Column| Mapping {
        text: Some(text.name.to_owned()),
        ..Mapping::default()
    };
    if let Some(messages) = messages.filter(|column| column.rows == max_rows) {
        return Ok((from_messages(messages), false));
    }
    if let (Some(prompt), Some(answer)) = (prompt, answer)
        && pair_rows == max_rows
    {
        return Ok((prompt_answer(prompt, answer), false));
    }
    // A text column beside a prompt is its answer rather than a document.
    if let Some(text) = text
        && text.rows == max_rows
        && rows(prompt).max(rows(answer)) < max_rows
    {
        return Ok((from_text(text), false));
    }
    if let Some(conversations) = columns.iter().find(|column| column.conversations > 0) {
        return Ok((from_messages(conversations), true));
    }
    // The two columns with the most text, in file order: the prompt precedes the answer.
    let mut by_length: Vec<&Column> = columns.iter().filter(|column| column.texts > 0).collect();
    by_length.sort_by_key(|column| std::cmp::Reverse(column.bytes));
    let longest_except = |excluded: &Column| by_length.iter().find(|column| column.name != excluded.name).copied();
    let mapping = match (prompt, answer) {
        (Some(prompt), None) => longest_except(prompt).map(|answer| prompt_answer(prompt, answer)),
        (None, Some(answer)) => longest_except(answer).map(|prompt| prompt_answer(prompt, answer)),
        _ => match by_length.as_slice() {
            [longest, second, ..] => {
                let mut pair = columns
                    .iter()
                    .filter(|column| column.name == longest.name || column.name == second.name);
                pair.next()
                    .zip(pair.next())
                    .map(|(prompt, answer)| prompt_answer(prompt, answer))
            }
            _ => None,
        },
    };
    match mapping.or_else(|| by_length.first().map(|column| from_text(column))) {
        Some(mapping) => Ok((mapping, true)),
        None => {
            let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
            Err(DatasetProblem::Columns(format!(
                "no column has text to train on, only {}. Name the columns 'prompt' and 'answer', 'messages' or \
                 'text'.",
                listed(&names)
            )))
        }
    }
}

/// Statistics of a column over the sample.
struct Column<'n> {
    name: &'n str,
    /// The normalized name.
    normalized: String,
    /// Rows with the column.
    rows: usize,
    /// Number of these rows with text; with a list; with a conversation; with another scalar or
    /// null.
    texts: usize,
    lists: usize,
    conversations: usize,
    others: usize,
    /// Total length of the texts.
    bytes: usize,
}

/// Computes the statistics of all columns in one pass.
fn sampled<'n>(names: &'n [Name], sample: &[(u32, Fields)]) -> Vec<Column<'n>> {
    let mut columns: Vec<Column> = names.iter().map(|name| Column::new(name)).collect();
    let indices: HashMap<&str, usize> = names.iter().map(|name| &**name).zip(0..).collect();
    for (name, value) in sample.iter().flat_map(|(_, fields)| fields) {
        if let Some(&index) = indices.get(&**name) {
            columns[index].add(value);
        }
    }
    columns
}

impl<'n> Column<'n> {
    fn new(name: &'n str) -> Self {
        Self {
            name,
            normalized: normalized(name),
            rows: 0,
            texts: 0,
            lists: 0,
            conversations: 0,
            others: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, value: &Value) {
        self.rows += 1;
        match value {
            Value::String(text) => {
                self.texts += 1;
                self.bytes += text.len();
                // Tables store conversations as text. One that does not parse still counts as a
                // list.
                self.lists += usize::from(text.starts_with("[{"));
            }
            Value::Array(_) => {
                self.lists += 1;
                self.conversations += usize::from(is_conversation(value));
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => self.others += 1,
            Value::Object(_) => {}
        }
    }

    fn may_be_text(&self) -> bool {
        self.texts + self.conversations + self.others > 0
    }
}

/// Returns the column with the first of these names that satisfies `accept`.
fn find<'c, 'n>(columns: &'c [Column<'n>], names: &[&str], accept: impl Fn(&Column) -> bool) -> Option<&'c Column<'n>> {
    let named = |name: &&str| {
        columns
            .iter()
            .find(|column| column.normalized == *name && accept(column))
    };
    names.iter().find_map(named)
}

/// Formats names for a sentence: `'a'`, `'b'` and `'c'`.
pub(super) fn listed(names: &[impl AsRef<str>]) -> String {
    let quoted = |name: &_| format!("'{}'", shortened(AsRef::<str>::as_ref(name)));
    let joined = |names: &[_]| names.iter().map(quoted).collect::<Vec<_>>().join(", ");
    match names {
        [] => "no column".to_owned(),
        [name] => quoted(name),
        // A corrupt table may have thousands.
        [first @ .., last] if first.len() < 12 => format!("{} and {}", joined(first), quoted(last)),
        _ => format!("{} and {} more", joined(&names[..12]), names.len() - 12),
    }
}
