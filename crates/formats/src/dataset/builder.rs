//! Converts rows to examples.

use super::columns::{self, Shape, listed};
use super::fields::{Fields, Name};
use super::turns::{conversation, has_thoughts, is_conversation, is_share_gpt};
use super::{
    BrokenLine, BrokenReason, Container, Content, Dataset, DatasetProblem, Example, ExampleShape, JsonKind, Mapping,
    ReadLimit, shortened,
};
use crate::chat_template::{Message, Role};
use serde_json::Value;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Maximum bytes of text in memory: more than is practical to train on at home, less than the
/// memory of a home computer.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 30;

/// Rows sampled to detect the column mapping.
const SAMPLE: usize = 256;

/// Maximum bytes of sampled rows; the mapping is then detected from fewer rows.
const MAX_SAMPLE_BYTES: usize = 256 << 20;

/// Maximum number of columns.
pub(super) const MAX_COLUMNS: usize = 100_000;

/// Maximum ratio of text to file size; only crafted or highly repetitive files exceed it.
const MAX_EXPANSION: usize = 1000;

/// Text limit for small files, in bytes.
const MIN_TEXT_BYTES: usize = 32 << 20;

/// Memory overhead per example, in bytes.
const EXAMPLE_OVERHEAD: usize = 128;

/// Maximum number of rows read, whether or not they yield an example.
const MAX_ROWS: u32 = (MAX_TEXT_BYTES / EXAMPLE_OVERHEAD) as u32;

/// Maximum number of listed lines; the rest is counted.
const MAX_LISTED: usize = 100;

/// Maximum number of columns that a reason names.
const MAX_NAMED: usize = 12;

/// Collects rows, detects their mapping and converts them to examples.
pub(super) struct DatasetBuilder {
    requested: Option<Mapping>,
    max_text: usize,
    max_rows: u32,
    columns: Vec<Name>,
    known_columns: HashSet<Name>,
    /// Rows received before the mapping is decided, and their size in bytes.
    pending: Vec<(u32, Fields)>,
    pending_bytes: usize,
    rows: u32,
    decision: Option<Decision>,
    examples: Vec<Example>,
    text_bytes: usize,
    limit: Option<ReadLimit>,
    broken: Vec<BrokenLine>,
    broken_total: u32,
    /// Lines whose answers have thoughts.
    thoughts: Vec<u32>,
    problem: Option<DatasetProblem>,
}

/// The detected or requested mapping.
struct Decision {
    mapping: Mapping,
    unsure: bool,
    shape: Shape,
    example_shape: ExampleShape,
}

impl DatasetBuilder {
    /// Creates a builder for a file of `size` bytes.
    pub fn new(requested: Option<Mapping>, size: u64) -> Self {
        let unpacked = usize::try_from(size)
            .unwrap_or(usize::MAX)
            .saturating_mul(MAX_EXPANSION);
        Self {
            requested: requested.filter(|mapping| *mapping != Mapping::default()),
            max_text: unpacked.clamp(MIN_TEXT_BYTES, MAX_TEXT_BYTES),
            max_rows: MAX_ROWS,
            columns: Vec::new(),
            known_columns: HashSet::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            rows: 0,
            decision: None,
            examples: Vec::new(),
            text_bytes: 0,
            limit: None,
            broken: Vec::new(),
            broken_total: 0,
            thoughts: Vec::new(),
            problem: None,
        }
    }

    /// Adds column names before the first row.
    pub fn columns(&mut self, names: &[Name]) {
        for name in names {
            self.column(name);
        }
    }

    fn column(&mut self, name: &Name) {
        if self.known_columns.insert(name.clone()) {
            self.columns.push(name.clone());
        }
    }

    /// Whether a column may be used; `true` until the mapping is decided.
    pub fn needs(&self, name: &str) -> bool {
        self.decision
            .as_ref()
            .is_none_or(|decision| name == HISTORY || decision.mapping.columns().any(|column| column == name))
    }

    /// Whether the mapping is decided.
    pub fn is_decided(&self) -> bool {
        self.decision.is_some()
    }

    /// Adds a row of `size` bytes in memory. Returns `Break` if no more rows are needed.
    pub fn row(&mut self, line: u32, fields: Fields, size: usize) -> ControlFlow<()> {
        self.rows += 1;
        if self.rows > self.max_rows {
            let rows = self.max_rows;
            self.limit = Some(ReadLimit::Rows { rows, line });
            return ControlFlow::Break(());
        }
        if self.decision.is_some() {
            return self.add(line, fields);
        }
        for (name, _) in &fields {
            self.column(name);
        }
        if self.columns.len() > MAX_COLUMNS {
            self.problem = Some(too_many_columns());
            return ControlFlow::Break(());
        }
        self.pending.push((line, fields));
        self.pending_bytes += size;
        if self.pending.len() < SAMPLE && self.pending_bytes < MAX_SAMPLE_BYTES {
            return ControlFlow::Continue(());
        }
        self.decide()
    }

    /// Adds an unreadable line.
    pub fn broken(&mut self, line: u32, reason: BrokenReason) {
        self.broken_total = self.broken_total.saturating_add(1);
        if self.broken.len() < MAX_LISTED {
            self.broken.push(BrokenLine { line, reason });
        }
    }

    /// Adds a plain-text file as one example; `whole` is `false` if it was truncated.
    pub fn document(&mut self, text: String, whole: bool) {
        self.decision = Some(Decision {
            mapping: Mapping::default(),
            unsure: false,
            shape: Shape::Text,
            example_shape: ExampleShape::Text,
        });
        if !whole {
            self.set_text_limit(text.lines().count() as u32);
        }
        if !text.trim().is_empty() {
            let content = Content::Text(text);
            self.examples.push(Example { line: 1, content });
        }
    }

    /// Returns the dataset.
    ///
    /// # Errors
    /// If there is no example, or a line is unreadable and `skip_broken` is off.
    pub fn finish(mut self, container: Container, skip_broken: bool) -> Result<Dataset, DatasetProblem> {
        if self.decision.is_none() && self.problem.is_none() && !self.pending.is_empty() {
            // There are no more rows, so `Break` is ignored.
            let _ = self.decide();
        }
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.broken.sort_by_key(|broken| broken.line);
        let (broken, total) = (self.broken, self.broken_total);
        if let Some(first) = broken.first()
            && !skip_broken
        {
            let first = first.clone();
            return Err(DatasetProblem::Broken { first, total });
        }
        if self.examples.is_empty() {
            return Err(match broken.into_iter().next() {
                Some(first) => DatasetProblem::NoReadableLine { first },
                None if self.columns.is_empty() => {
                    DatasetProblem::NoExamples("the list of examples is empty".to_owned())
                }
                None => {
                    let columns = listed(&self.columns);
                    DatasetProblem::NoExamples(format!("after the header with {columns} there are no rows"))
                }
            });
        }
        let (mapping, unsure, shape) = match self.decision {
            Some(decision) => (decision.mapping, decision.unsure, decision.example_shape),
            None => (Mapping::default(), false, ExampleShape::Text),
        };
        Ok(Dataset {
            container,
            shape,
            columns: self.columns.iter().map(|name| name.to_string()).collect(),
            mapping,
            unsure,
            examples: self.examples,
            broken,
            broken_total: total,
            thoughts: self.thoughts,
            limit: self.limit,
        })
    }

    /// Decides the mapping, then adds the pending rows.
    fn decide(&mut self) -> ControlFlow<()> {
        let mapping = match self.requested.take() {
            Some(mapping) => columns::check(&mapping, &self.columns).map(|()| (mapping, false)),
            None => columns::recognize(&self.columns, &self.pending),
        };
        match mapping {
            Ok((mapping, unsure)) => {
                let shape = Shape::from_mapping(&mapping);
                let example_shape = self.example_shape(&mapping, shape);
                self.decision = Some(Decision {
                    mapping,
                    unsure,
                    shape,
                    example_shape,
                });
            }
            Err(problem) => {
                self.problem = Some(problem);
                return ControlFlow::Break(());
            }
        }
        for (line, fields) in std::mem::take(&mut self.pending) {
            self.add(line, fields)?;
        }
        ControlFlow::Continue(())
    }

    fn example_shape(&self, mapping: &Mapping, shape: Shape) -> ExampleShape {
        let share_gpt = || {
            let fields = self.pending.iter().flat_map(|(_, fields)| fields);
            let mut conversations = fields.filter(|(name, _)| Some(&**name) == mapping.messages.as_deref());
            conversations.any(|(_, value)| is_share_gpt(value))
        };
        match shape {
            Shape::Messages if share_gpt() => ExampleShape::ShareGpt,
            Shape::Messages => ExampleShape::Messages,
            Shape::PromptAnswer if mapping.prompt.as_deref() == Some("instruction") => ExampleShape::Alpaca,
            Shape::PromptAnswer => ExampleShape::PromptAnswer,
            Shape::Text => ExampleShape::Text,
        }
    }

    fn add(&mut self, line: u32, fields: Fields) -> ControlFlow<()> {
        let Some(decision) = &self.decision else {
            return ControlFlow::Continue(());
        };
        let thinks = fields.iter().any(|(_, value)| has_thoughts(value));
        match decision.content(fields) {
            Ok(content) => {
                if thinks {
                    self.thoughts.push(line);
                }
                let example = Example { line, content };
                self.text_bytes += EXAMPLE_OVERHEAD + example.texts().map(str::len).sum::<usize>();
                if let Content::Chat(messages) = &example.content {
                    self.text_bytes += size_of::<Message>() * messages.len();
                }
                if self.text_bytes > self.max_text {
                    self.set_text_limit(line);
                    return ControlFlow::Break(());
                }
                self.examples.push(example);
            }
            Err(reason) => self.broken(line, reason),
        }
        ControlFlow::Continue(())
    }

    fn set_text_limit(&mut self, line: u32) {
        let mib = (self.max_text >> 20) as u32;
        self.limit = Some(ReadLimit::Text { mib, line });
    }
}

impl Decision {
    /// Converts a row to the content of an example.
    ///
    /// # Errors
    /// The reason that its line cannot be read.
    fn content(&self, fields: Fields) -> Result<Content, BrokenReason> {
        let mut row = Row(fields);
        match self.shape {
            Shape::Messages => {
                let mut messages = conversation(row.required(&self.mapping.messages)?)?;
                let system = row.text(&self.mapping.system)?;
                if !system.is_empty() && messages.first().is_none_or(|first| first.role != Role::System) {
                    messages.insert(0, message(Role::System, system));
                }
                require_answer(messages)
            }
            Shape::PromptAnswer => self.prompt_answer(row),
            Shape::Text => {
                let text = text(row.required(&self.mapping.text)?, &self.mapping.text)?;
                if text.trim().is_empty() {
                    return Err(BrokenReason::EmptyText);
                }
                Ok(Content::Text(text))
            }
        }
    }

    fn prompt_answer(&self, mut row: Row) -> Result<Content, BrokenReason> {
        let prompt = row.required(&self.mapping.prompt)?;
        let answer = row.required(&self.mapping.answer)?;
        let system = row.text(&self.mapping.system)?;
        let input = row.text(&self.mapping.input)?;
        let history = history(row.remove(HISTORY));
        let mut messages: Vec<Message> = Vec::new();
        if !system.is_empty() {
            messages.push(message(Role::System, system.clone()));
        }
        messages.extend(history);
        // Some datasets have conversations in both columns; an answer may then include its prompt.
        let listed = is_conversation(&prompt) || is_conversation(&answer);
        if is_conversation(&answer) {
            let answer = conversation(answer)?;
            if answer.first().is_some_and(|first| first.role == Role::Assistant) {
                messages.extend(prompt_messages(prompt, input, &self.mapping.prompt)?);
            }
            messages.extend(answer);
        } else {
            let answer = text(answer, &self.mapping.answer)?;
            let mut prompts = prompt_messages(prompt, input, &self.mapping.prompt)?;
            let is_single_turn = messages.iter().all(|message| message.role == Role::System) && !listed;
            match prompts.pop() {
                Some(Message { content: prompt, .. }) if is_single_turn => {
                    if prompt.trim().is_empty() && answer.trim().is_empty() {
                        return Err(BrokenReason::Empty);
                    }
                    let system = Some(system).filter(|system| !system.is_empty());
                    return Ok(Content::PromptAnswer { system, prompt, answer });
                }
                last => {
                    messages.extend(prompts);
                    messages.extend(last);
                    messages.push(message(Role::Assistant, answer));
                }
            }
        }
        require_answer(messages)
    }
}

/// The messages of a prompt with its additional input.
fn prompt_messages(prompt: Value, input: String, column: &Option<String>) -> Result<Vec<Message>, BrokenReason> {
    if is_conversation(&prompt) {
        return conversation(prompt);
    }
    let mut prompt = text(prompt, column)?;
    if !input.trim().is_empty() {
        prompt = format!("{prompt}\n\n{input}");
    }
    Ok(vec![message(Role::User, prompt)])
}

/// The column of earlier turns in Alpaca datasets.
const HISTORY: &str = "history";

/// Earlier turns in Alpaca's format: pairs of prompt and answer.
fn history(value: Option<Value>) -> Vec<Message> {
    let Some(Value::Array(pairs)) = value else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    for pair in pairs {
        if let Value::Array(pair) = pair
            && let [Value::String(prompt), Value::String(answer)] = pair.as_slice()
        {
            messages.push(message(Role::User, prompt.clone()));
            messages.push(message(Role::Assistant, answer.clone()));
        }
    }
    messages
}

fn message(role: Role, content: String) -> Message {
    Message { role, content }
}

/// Checks that a conversation has an assistant message.
fn require_answer(messages: Vec<Message>) -> Result<Content, BrokenReason> {
    if messages.is_empty() {
        return Err(BrokenReason::EmptyConversation);
    }
    if messages.iter().all(|message| message.role != Role::Assistant) {
        return Err(BrokenReason::NoAnswer);
    }
    Ok(Content::Chat(messages))
}

/// The error for a file with too many columns.
pub(super) fn too_many_columns() -> DatasetProblem {
    DatasetProblem::Columns(format!(
        "the file has more than {MAX_COLUMNS} columns. Remove those that are not used for training."
    ))
}

struct Row(Fields);

impl Row {
    fn remove(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(key, _)| &**key == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// Removes and returns the value of a required column.
    fn required(&mut self, column: &Option<String>) -> Result<Value, BrokenReason> {
        let name = column.as_deref().unwrap_or_default();
        self.remove(name).ok_or_else(|| self.without(name))
    }

    /// The reason for refusing a row without a required column.
    fn without(&self, column: &str) -> BrokenReason {
        let column = shortened(column).into_owned();
        if self.0.is_empty() {
            return BrokenReason::NoColumns { column };
        }
        let names = self.0.iter().take(MAX_NAMED).map(|(name, _)| shortened(name));
        let mut columns: Vec<String> = names.map(|name| name.into_owned()).collect();
        if self.0.len() > MAX_NAMED {
            columns.push("…".to_owned());
        }
        BrokenReason::OtherColumns { column, columns }
    }

    /// Removes and returns the text of an optional column.
    fn text(&mut self, column: &Option<String>) -> Result<String, BrokenReason> {
        let value = column.as_deref().and_then(|name| self.remove(name));
        text(value.unwrap_or_default(), column)
    }
}

/// Converts a scalar value to text; null becomes an empty text.
fn text(value: Value, column: &Option<String>) -> Result<String, BrokenReason> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(BrokenReason::NotText {
            column: shortened(column.as_deref().unwrap_or_default()).into_owned(),
            json: JsonKind::from(&value),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_the_text_limit_and_reports_it() {
        let mut builder = DatasetBuilder::new(None, u64::MAX);
        builder.max_text = 3 << 20;
        let row = |size: usize| vec![("text".into(), Value::from("x".repeat(size)))];
        let lines = (1u32..=1000)
            .take_while(|&line| builder.row(line, row(9000), 9000).is_continue())
            .count();
        let dataset = builder.finish(Container::JsonLines, false).unwrap();
        assert_eq!((lines, dataset.examples.len()), (344, 344));
        assert_eq!(dataset.limit, Some(ReadLimit::Text { mib: 3, line: 345 }));
    }

    #[test]
    fn rows_without_an_example_count_towards_the_row_limit() {
        let mut builder = DatasetBuilder::new(None, u64::MAX);
        builder.max_rows = 500;
        let text = |line| if line == 7 { "a" } else { "" };
        let row = |line| vec![("text".into(), Value::from(text(line)))];
        let lines = (1u32..=1000).take_while(|&line| builder.row(line, row(line), 1).is_continue());
        assert_eq!(lines.count(), 500);
        let dataset = builder.finish(Container::JsonLines, true).unwrap();
        assert_eq!((dataset.examples.len(), dataset.broken_total), (1, 499));
        assert_eq!(dataset.limit, Some(ReadLimit::Rows { rows: 500, line: 501 }));
    }
}
