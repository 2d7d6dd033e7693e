//! JSON: an array of examples, an object with one such array or with columns, or a single example.

use super::broken_line::{BrokenReason, JsonKind};
use super::builder::DatasetBuilder;
use super::column_wise;
use super::fields::{FIELD, Fields};
use super::json_value::{Bounded, Budget, VALUE, too_large, visit_plain_values};
use super::source::{MAX_ROW_BYTES, Source};
use super::turns::is_turn;
use super::{DatasetProblem, shortened};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::io::BufRead;

/// Parses a line of JSONL. Returns its fields and their size in memory, in bytes.
///
/// # Errors
/// The reason that the line cannot be read.
pub(super) fn row(text: &str) -> Result<(Fields, usize), BrokenReason> {
    let budget = Budget::new();
    let mut json = serde_json::Deserializer::from_str(text);
    let result = ElementOf(&budget).deserialize(&mut json);
    match result.and_then(|element| json.end().map(|()| element)) {
        Ok(Element::Object(fields)) => Ok((fields, budget.begin())),
        Ok(Element::Other(value)) => Err(not_object(&value)),
        Err(_) if budget.is_exceeded() => Err(too_large()),
        Err(error) => Err(BrokenReason::NotJson {
            detail: without_line_number(&error),
        }),
    }
}

fn not_object(value: &Value) -> BrokenReason {
    BrokenReason::NotObject {
        json: JsonKind::from(value),
    }
}

/// serde's message with the column only, since its line number is always 1 for a line of JSONL.
fn without_line_number(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&position) {
        Some(message) => format!("{message} at character {}", error.column()),
        None => message,
    }
}

/// Reads a file, one element at a time.
pub(super) fn read(source: &Source, builder: &mut DatasetBuilder) -> Result<(), DatasetProblem> {
    check_utf8(source)?;
    let budget = Budget::new();
    let mut state = State {
        builder,
        begin_row: &|| source.meter.begin_row(),
        budget: &budget,
        lists: Vec::new(),
        stopped: false,
    };
    let mut json = serde_json::Deserializer::from_reader(source.text()?);
    source.meter.begin_row();
    let result = Top(&mut state).deserialize(&mut json);
    if state.stopped {
        return Ok(());
    }
    if source.meter.is_overlong() || budget.is_exceeded() {
        return Err(too_long(result.err().map_or(0, |error| error.line())));
    }
    if let [first, second, ..] = state.lists.as_slice() {
        return Err(DatasetProblem::Corrupt(format!(
            "the file has two lists of examples, '{}' and '{}'. Remove one of them, or make two files.",
            shortened(first),
            shortened(second)
        )));
    }
    result.and_then(|()| json.end()).map_err(|error| {
        DatasetProblem::Corrupt(if error.is_eof() {
            format!(
                "the file ends in the middle of a value, at line {}. It is probably truncated: download or export it \
                 again.",
                error.line()
            )
        } else {
            format!(
                "the file is not valid JSON: {error}. Correct it there. One object per line (JSONL) is supported \
                 too."
            )
        })
    })
}

/// The error for an example that exceeds the size limits.
fn too_long(line: usize) -> DatasetProblem {
    DatasetProblem::Corrupt(format!(
        "the example that ends at line {line} has more than {} MiB of text, or values that take too much memory. \
         Split it into \
         several examples.",
        MAX_ROW_BYTES >> 20
    ))
}

/// Checks the encoding and reports the line; serde_json only says that the bytes are invalid.
fn check_utf8(source: &Source) -> Result<(), DatasetProblem> {
    let mut reader = source.text()?;
    let (mut line, mut carried) = (1u32, Vec::new());
    loop {
        let bytes = reader.fill_buf()?;
        let length = bytes.len();
        carried.extend_from_slice(bytes);
        reader.consume(length);
        let valid = match std::str::from_utf8(&carried) {
            Ok(text) => text.len(),
            // A character may continue in the next buffer.
            Err(error) if error.error_len().is_none() && length > 0 => error.valid_up_to(),
            Err(error) => {
                line = line.saturating_add(newlines(&carried[..error.valid_up_to()]));
                return Err(DatasetProblem::wrong_encoding(line));
            }
        };
        line = line.saturating_add(newlines(&carried[..valid]));
        carried.drain(..valid);
        if length == 0 {
            return Ok(());
        }
    }
}

fn newlines(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u32
}

struct State<'a> {
    builder: &'a mut DatasetBuilder,
    /// Notifies the source that an example begins.
    begin_row: &'a dyn Fn(),
    budget: &'a Budget,
    /// Keys of the arrays read as lists of examples.
    lists: Vec<String>,
    stopped: bool,
}

impl State<'_> {
    /// Adds the elements of an array as rows; `first` was already read.
    fn rows<'de, A: SeqAccess<'de>>(&mut self, first: Option<Element>, mut elements: A) -> Result<(), A::Error> {
        let mut next = first;
        for number in 1u32.. {
            let element = match next.take() {
                Some(element) => element,
                None => {
                    (self.begin_row)();
                    match elements.next_element_seed(ElementOf(self.budget))? {
                        Some(element) => element,
                        None => break,
                    }
                }
            };
            let size = self.budget.begin();
            match element {
                Element::Object(fields) => {
                    if self.builder.row(number, fields, size).is_break() {
                        self.stopped = true;
                        return Err(A::Error::custom("stopped"));
                    }
                }
                Element::Other(value) => self.builder.broken(number, not_object(&value)),
            }
        }
        Ok(())
    }
}

/// The outermost value.
struct Top<'s, 'g>(&'s mut State<'g>);

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of examples, or an object with one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<(), A::Error> {
        self.0.rows(None, elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Fields::new();
        while let Some(key) = map.next_key::<String>()? {
            let budget: &Budget = self.0.budget;
            budget.take(FIELD + key.len())?;
            if let Some(value) = map.next_value_seed(Member(self.0, &key))? {
                fields.push((key.into(), value));
            }
        }
        let size = self.0.budget.begin();
        if !self.0.lists.is_empty() {
            return Ok(());
        }
        let rows = column_wise::rows(fields).unwrap_or_else(|example| vec![example]);
        let size = size / rows.len().max(1);
        for (number, row) in (1u32..).zip(rows) {
            if self.0.builder.row(number, row, size).is_break() {
                self.0.stopped = true;
                break;
            }
        }
        Ok(())
    }
}

/// A member of the outermost object: a list of examples, which is read as rows, or a field of the
/// only example.
struct Member<'s, 'g>(&'s mut State<'g>, &'s str);

impl<'de> DeserializeSeed<'de> for Member<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Member<'_, '_> {
    fn budget(&self) -> &Budget {
        self.0.budget
    }
}

impl<'de> Visitor<'de> for Member<'_, '_> {
    type Value = Option<Value>;

    visit_plain_values!(Some);

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let budget = self.0.budget;
        let first: Option<Element> = elements.next_element_seed(ElementOf(budget))?;
        match first {
            Some(Element::Object(fields)) if !is_turn(|name| fields.iter().any(|(key, _)| &**key == name)) => {
                self.0.lists.push(self.1.to_owned());
                if self.0.lists.len() > 1 {
                    return Err(A::Error::custom("two lists"));
                }
                self.0.rows(Some(Element::Object(fields)), elements)?;
                Ok(None)
            }
            first => {
                let mut values: Vec<Value> = first.map(Element::into_value).into_iter().collect();
                while let Some(value) = elements.next_element_seed(Bounded(budget))? {
                    budget.take(VALUE)?;
                    values.push(value);
                }
                Ok(Some(Value::Array(values)))
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Bounded(self.0.budget).visit_map(map).map(Some)
    }
}

/// One element of a list, or one line.
enum Element {
    Object(Fields),
    Other(Value),
}

impl Element {
    fn into_value(self) -> Value {
        match self {
            Self::Object(fields) => {
                let members = fields.into_iter().map(|(name, value)| (name.to_string(), value));
                Value::Object(members.collect())
            }
            Self::Other(value) => value,
        }
    }
}

/// Deserializes an [`Element`].
struct ElementOf<'b>(&'b Budget);

impl ElementOf<'_> {
    fn budget(&self) -> &Budget {
        self.0
    }
}

impl<'de> DeserializeSeed<'de> for ElementOf<'_> {
    type Value = Element;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Element, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ElementOf<'_> {
    type Value = Element;

    visit_plain_values!(Element::Other);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        let mut fields = Fields::new();
        while let Some(key) = map.next_key::<String>()? {
            self.0.take(FIELD + key.len())?;
            fields.push((key.into(), map.next_value_seed(Bounded(self.0))?));
        }
        Ok(Element::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Element, A::Error> {
        Bounded(self.0).visit_seq(elements).map(Element::Other)
    }
}
