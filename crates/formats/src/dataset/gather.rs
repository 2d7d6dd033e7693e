//! Makes examples of rows.

use super::columns::{self, Shape, listed};
use super::json::{Fields, Name};
use super::turns::{conversation, is_conversation, is_share_gpt};
use super::{BrokenLine, Content, Dataset, DatasetProblem, Example, Mapping, shortened};
use crate::chat_template::{Message, Role};
use serde_json::Value;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Bytes of text that are held. Far more than anyone trains on a computer at home, far less than its memory.
pub(super) const LARGEST_TEXT: usize = 1 << 30;

/// Rows that are looked at before it is decided what the columns hold.
const SAMPLE: usize = 256;

/// Bytes of these rows, after which it is decided by as many as there are.
const LARGEST_SAMPLE: usize = 256 << 20;

/// Columns that a file may name.
pub(super) const MOST_COLUMNS: usize = 100_000;

/// How many times the size of a file its text may be: more than any text grows that is not made to, or repeats itself.
const MOST_GROWTH: usize = 1000;

/// Bytes of text that are read of any file, however small.
const LEAST_TEXT: usize = 32 << 20;

/// Bytes that an example takes beside its text.
const OVERHEAD: usize = 128;

/// Rows that are read, with or without an example in them: as many as examples could be held.
const MOST_ROWS: u32 = (LARGEST_TEXT / OVERHEAD) as u32;

/// Lines that are named; the rest is counted.
const NAMED: usize = 100;

/// Takes rows, and knows what was recognised so far.
pub(super) struct Gather {
    asked: Option<Mapping>,
    largest: usize,
    most_rows: u32,
    columns: Vec<Name>,
    known: HashSet<Name>,
    /// Rows that came before the mapping was known, and the bytes that they take.
    waiting: Vec<(u32, Fields)>,
    waiting_bytes: usize,
    rows: u32,
    plan: Option<Plan>,
    examples: Vec<Example>,
    held: usize,
    limit: Option<String>,
    broken: Vec<BrokenLine>,
    broken_total: u32,
    problem: Option<DatasetProblem>,
}

struct Plan {
    mapping: Mapping,
    unsure: bool,
    shape: Shape,
    name: &'static str,
}

impl Gather {
    /// For a file of `size` bytes.
    pub fn new(asked: Option<Mapping>, size: u64) -> Self {
        let unpacked = usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(MOST_GROWTH);
        Self {
            asked: asked.filter(|mapping| *mapping != Mapping::default()),
            largest: unpacked.clamp(LEAST_TEXT, LARGEST_TEXT),
            most_rows: MOST_ROWS,
            columns: Vec::new(),
            known: HashSet::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            rows: 0,
            plan: None,
            examples: Vec::new(),
            held: 0,
            limit: None,
            broken: Vec::new(),
            broken_total: 0,
            problem: None,
        }
    }

    /// Names columns before there are rows.
    pub fn columns(&mut self, names: &[Name]) {
        for name in names {
            self.column(name);
        }
    }

    fn column(&mut self, name: &Name) {
        if self.known.insert(name.clone()) {
            self.columns.push(name.clone());
        }
    }

    /// Whether a column's values are used, as far as that is known.
    pub fn needs(&self, name: &str) -> bool {
        self.plan
            .as_ref()
            .is_none_or(|plan| name == HISTORY || plan.mapping.columns().any(|used| used == name))
    }

    /// Whether it is known what the columns hold.
    pub fn is_decided(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes a row and the bytes that it holds in memory. Break: no more are wanted.
    pub fn row(&mut self, line: u32, fields: Fields, size: usize) -> ControlFlow<()> {
        self.rows += 1;
        if self.rows > self.most_rows {
            self.limit = Some(format!(
                "The file holds more than {} rows, which are all that are read: what comes from line {line} on is not used. Make \
                 several files of it.",
                self.most_rows
            ));
            return ControlFlow::Break(());
        }
        if self.plan.is_some() {
            return self.take(line, fields);
        }
        for (name, _) in &fields {
            self.column(name);
        }
        if self.columns.len() > MOST_COLUMNS {
            self.problem = Some(too_many_columns());
            return ControlFlow::Break(());
        }
        self.waiting.push((line, fields));
        self.waiting_bytes += size;
        if self.waiting.len() < SAMPLE && self.waiting_bytes < LARGEST_SAMPLE {
            return ControlFlow::Continue(());
        }
        self.decide()
    }

    /// Takes a line that is no row.
    pub fn broken(&mut self, line: u32, why: impl Into<String>) {
        self.broken_total = self.broken_total.saturating_add(1);
        if self.broken.len() < NAMED {
            self.broken.push(BrokenLine { line, why: why.into() });
        }
    }

    /// Takes a file that is one text, or as much of it as is held.
    pub fn document(&mut self, text: String, whole: bool) {
        self.plan = Some(Plan {
            mapping: Mapping::default(),
            unsure: false,
            shape: Shape::Text,
            name: "text",
        });
        if !whole {
            self.stop(text.lines().count() as u32);
        }
        if !text.trim().is_empty() {
            let content = Content::Text(text);
            self.examples.push(Example { line: 1, content });
        }
    }

    /// What came of it.
    ///
    /// # Errors
    /// Where there is no example, or a line that cannot be read and should not be left out.
    pub fn finish(mut self, container: &'static str, skip_broken: bool) -> Result<Dataset, DatasetProblem> {
        if self.plan.is_none() && self.problem.is_none() && !self.waiting.is_empty() {
            // Whether more is wanted does not matter any more.
            let _ = self.decide();
        }
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.broken.sort_by_key(|broken| broken.line);
        let (broken, total) = (self.broken, self.broken_total);
        if total > 0 && !skip_broken {
            return Err(DatasetProblem::Broken { broken, total });
        }
        if self.examples.is_empty() {
            return Err(DatasetProblem::NoExamples(match broken.first() {
                Some(first) => format!(
                    "none of its lines can be read (line {}: {})",
                    first.line,
                    first.why.trim_end_matches('.')
                ),
                None if self.columns.is_empty() => "nothing follows where they should be".to_owned(),
                None => format!(
                    "after the names of the columns, {}, nothing follows",
                    listed(&self.columns)
                ),
            }));
        }
        let (mapping, unsure, shape) = match self.plan {
            Some(plan) => (plan.mapping, plan.unsure, plan.name),
            None => (Mapping::default(), false, "text"),
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
            limit: self.limit,
        })
    }

    /// Decides what the columns hold, and takes the rows that waited for it.
    fn decide(&mut self) -> ControlFlow<()> {
        let decided = match self.asked.take() {
            Some(asked) => columns::check(&asked, &self.columns).map(|()| (asked, false)),
            None => columns::recognise(&self.columns, &self.waiting),
        };
        match decided {
            Ok((mapping, unsure)) => {
                let shape = Shape::of(&mapping);
                let name = self.shape_name(&mapping, shape);
                self.plan = Some(Plan {
                    mapping,
                    unsure,
                    shape,
                    name,
                });
            }
            Err(problem) => {
                self.problem = Some(problem);
                return ControlFlow::Break(());
            }
        }
        for (line, fields) in std::mem::take(&mut self.waiting) {
            self.take(line, fields)?;
        }
        ControlFlow::Continue(())
    }

    fn shape_name(&self, mapping: &Mapping, shape: Shape) -> &'static str {
        let share_gpt = || {
            let fields = self.waiting.iter().flat_map(|(_, fields)| fields);
            let mut conversations = fields.filter(|(name, _)| Some(&**name) == mapping.messages.as_deref());
            conversations.any(|(_, value)| is_share_gpt(value))
        };
        match shape {
            Shape::Messages if share_gpt() => "ShareGPT",
            Shape::Messages => "messages",
            Shape::PromptAnswer if mapping.prompt.as_deref() == Some("instruction") => "alpaca",
            Shape::PromptAnswer => "prompt and answer",
            Shape::Text => "text",
        }
    }

    fn take(&mut self, line: u32, fields: Fields) -> ControlFlow<()> {
        let Some(plan) = &self.plan else {
            return ControlFlow::Continue(());
        };
        match plan.content(fields) {
            Ok(content) => {
                let example = Example { line, content };
                self.held += OVERHEAD + example.texts().map(str::len).sum::<usize>();
                if let Content::Chat(messages) = &example.content {
                    self.held += size_of::<Message>() * messages.len();
                }
                if self.held > self.largest {
                    self.stop(line);
                    return ControlFlow::Break(());
                }
                self.examples.push(example);
            }
            Err(why) => self.broken(line, why),
        }
        ControlFlow::Continue(())
    }

    fn stop(&mut self, line: u32) {
        self.limit = Some(format!(
            "The file holds more than {} MiB of text, which is all that is read: what comes from line {line} on is not used. Make \
             several files of it.",
            self.largest >> 20
        ));
    }
}

impl Plan {
    /// What a row says.
    ///
    /// # Errors
    /// Why it says nothing: a part of a sentence about its line.
    fn content(&self, fields: Fields) -> Result<Content, String> {
        let mut row = Row(fields);
        match self.shape {
            Shape::Messages => {
                let mut messages = conversation(row.required(&self.mapping.messages)?)?;
                let system = row.text(&self.mapping.system)?;
                if !system.is_empty() && messages.first().is_none_or(|first| first.role != Role::System) {
                    messages.insert(0, says(Role::System, system));
                }
                with_an_answer(messages)
            }
            Shape::PromptAnswer => self.pair(row),
            Shape::Text => {
                let text = text(row.required(&self.mapping.text)?, &self.mapping.text)?;
                if text.trim().is_empty() {
                    return Err("its text is empty.".to_owned());
                }
                Ok(Content::Text(text))
            }
        }
    }

    fn pair(&self, mut row: Row) -> Result<Content, String> {
        let prompt = row.required(&self.mapping.prompt)?;
        let answer = row.required(&self.mapping.answer)?;
        let system = row.text(&self.mapping.system)?;
        let input = row.text(&self.mapping.input)?;
        let history = history(row.remove(HISTORY));
        let mut messages: Vec<Message> = Vec::new();
        if !system.is_empty() {
            messages.push(says(Role::System, system.clone()));
        }
        messages.extend(history);
        // Some datasets have conversations in both columns; answers may then bring their questions with them.
        let listed = is_conversation(&prompt) || is_conversation(&answer);
        if is_conversation(&answer) {
            let answer = conversation(answer)?;
            if answer.first().is_some_and(|first| first.role == Role::Assistant) {
                messages.extend(asked(prompt, input, &self.mapping.prompt)?);
            }
            messages.extend(answer);
        } else {
            let answer = text(answer, &self.mapping.answer)?;
            let mut asked = asked(prompt, input, &self.mapping.prompt)?;
            let alone = messages.iter().all(|message| message.role == Role::System) && !listed;
            match asked.pop() {
                Some(Message { content: prompt, .. }) if alone => {
                    if prompt.trim().is_empty() && answer.trim().is_empty() {
                        return Err("it is empty.".to_owned());
                    }
                    let system = Some(system).filter(|system| !system.is_empty());
                    return Ok(Content::PromptAnswer { system, prompt, answer });
                }
                last => {
                    messages.extend(asked);
                    messages.extend(last);
                    messages.push(says(Role::Assistant, answer));
                }
            }
        }
        with_an_answer(messages)
    }
}

/// The turns of a prompt, with what it is about.
fn asked(prompt: Value, input: String, column: &Option<String>) -> Result<Vec<Message>, String> {
    if is_conversation(&prompt) {
        return conversation(prompt);
    }
    let mut prompt = text(prompt, column)?;
    if !input.trim().is_empty() {
        prompt = format!("{prompt}\n\n{input}");
    }
    Ok(vec![says(Role::User, prompt)])
}

/// The column of alpaca's earlier turns.
const HISTORY: &str = "history";

/// Alpaca's earlier turns: pairs of what was asked and answered.
fn history(value: Option<Value>) -> Vec<Message> {
    let Some(Value::Array(pairs)) = value else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    for pair in pairs {
        if let Value::Array(pair) = pair
            && let [Value::String(prompt), Value::String(answer)] = pair.as_slice()
        {
            messages.push(says(Role::User, prompt.clone()));
            messages.push(says(Role::Assistant, answer.clone()));
        }
    }
    messages
}

fn says(role: Role, content: String) -> Message {
    Message { role, content }
}

fn with_an_answer(messages: Vec<Message>) -> Result<Content, String> {
    if messages.is_empty() {
        return Err("its conversation is empty.".to_owned());
    }
    if messages.iter().all(|message| message.role != Role::Assistant) {
        return Err("its conversation has no answer to learn from.".to_owned());
    }
    Ok(Content::Chat(messages))
}

/// The error for a file with more columns than anyone can choose from.
pub(super) fn too_many_columns() -> DatasetProblem {
    DatasetProblem::Columns(format!(
        "the file names more than {MOST_COLUMNS} columns. Leave those out of it that are not for learning."
    ))
}

struct Row(Fields);

impl Row {
    fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.0.iter().position(|(key, _)| &**key == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// What a column holds that every row must have.
    fn required(&mut self, column: &Option<String>) -> Result<Value, String> {
        let name = column.as_deref().unwrap_or_default();
        self.remove(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
            format!(
                "it has no '{}', as other lines have, but {}. All lines must be of one kind.",
                shortened(name),
                listed(&names)
            )
        })
    }

    /// The text of a column that need not be there.
    fn text(&mut self, column: &Option<String>) -> Result<String, String> {
        let value = column.as_deref().and_then(|name| self.remove(name));
        text(value.unwrap_or_default(), column)
    }
}

/// The text that a value is; nothing is an empty one.
fn text(value: Value, column: &Option<String>) -> Result<String, String> {
    let column = column.as_deref().unwrap_or_default();
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) => Err(format!(
            "its '{}' holds a list where a text is needed.",
            shortened(column)
        )),
        Value::Object(_) => Err(format!(
            "its '{}' holds an object where a text is needed.",
            shortened(column)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_at_the_limit_and_says_so() {
        let mut gather = Gather::new(None, u64::MAX);
        gather.largest = 3 << 20;
        let row = |size: usize| vec![("text".into(), Value::from("x".repeat(size)))];
        let lines = (1u32..=1000)
            .take_while(|&line| gather.row(line, row(9000), 9000).is_continue())
            .count();
        let dataset = gather.finish("JSONL", false).unwrap();
        assert_eq!((lines, dataset.examples.len()), (344, 344));
        assert!(
            dataset
                .limit
                .unwrap()
                .contains("more than 3 MiB of text, which is all that is read: what comes from line 345")
        );
    }

    #[test]
    fn rows_without_an_example_count_towards_a_limit() {
        let mut gather = Gather::new(None, u64::MAX);
        gather.most_rows = 500;
        let text = |line| if line == 7 { "a" } else { "" };
        let row = |line| vec![("text".into(), Value::from(text(line)))];
        let lines = (1u32..=1000).take_while(|&line| gather.row(line, row(line), 1).is_continue());
        assert_eq!(lines.count(), 500);
        let dataset = gather.finish("JSONL", true).unwrap();
        assert_eq!((dataset.examples.len(), dataset.broken_total), (1, 499));
        assert!(dataset.limit.unwrap().contains("more than 500 rows"));
    }
}
