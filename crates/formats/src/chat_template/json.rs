//! JSON as Python's `json.dumps` writes it, since models have seen it in that form: a space after commas and colons, nothing
//! escaped that need not be.

use super::jinja::{budget, text};
use crate::tokenizer::NONCHARACTERS;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// How deep values may lie in one another; a template can build them as deep as it likes.
const DEEPEST: usize = 128;

/// More spaces are never meant, and would be a way to fill memory.
pub(super) const WIDEST: usize = 16;

/// How JSON is laid out; what `json.dumps` takes.
pub(super) struct Layout {
    /// Whether characters beyond ASCII are escaped.
    pub ascii: bool,
    /// What a level is indented with, on lines of their own.
    pub indent: Option<String>,
    /// What stands between items and after keys.
    pub separators: Option<(String, String)>,
    /// Whether keys are in order.
    pub sort_keys: bool,
}

/// The JSON of a value.
pub(super) fn write(value: &Value, layout: Layout) -> Result<String, Error> {
    let (between, after_key) = layout.separators.unwrap_or_else(|| {
        let between = if layout.indent.is_some() { "," } else { ", " };
        (between.to_owned(), ": ".to_owned())
    });
    let mut writer = Writer {
        out: String::new(),
        ascii: layout.ascii,
        indent: layout.indent,
        between,
        after_key,
        sort_keys: layout.sort_keys,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    ascii: bool,
    indent: Option<String>,
    between: String,
    after_key: String,
    sort_keys: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("tojson: more than {DEEPEST} levels"),
            ));
        }
        budget::spend(32)?;
        match value.kind() {
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => self.out.push_str(&scalar(value)),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.items('{', '}', depth, keys, |writer, key| {
                    match key.as_str() {
                        Some(text) => writer.text(text),
                        None => writer.text(&scalar(&key)),
                    }
                    let after_key = writer.after_key.clone();
                    writer.out.push_str(&after_key);
                    writer.value(&value.get_item(&key)?, depth + 1)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.items('[', ']', depth, items, |writer, item| writer.value(&item, depth + 1))?;
            }
            other => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("tojson: {other} has no JSON"),
                ));
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: Vec<Value>,
        mut write: impl FnMut(&mut Self, Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        let any = !items.is_empty();
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                self.out.push_str(&self.between);
            }
            let indent = self
                .indent
                .as_deref()
                .map_or(0, budget::length)
                .saturating_mul(depth as u64 + 1);
            budget::spend(indent + budget::length(&self.between) + 2 * budget::length(&self.after_key))?;
            self.line(depth + 1);
            write(self, item)?;
        }
        if any {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    /// Begins a line where there are any.
    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn text(&mut self, text: &str) {
        // A character that is escaped takes up to twelve bytes.
        let escaped = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
        let escaped = text.as_bytes().iter().filter(|byte| escaped(byte)).count() as u64;
        if !(budget::take(budget::length(text) + 5 * escaped) && budget::work(32 * escaped)) {
            return;
        }
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                control if control < ' ' => self.out.push_str(&format!("\\u{:04x}", u32::from(control))),
                // One of these may mark texts that are no tokens; it must not become others.
                other if self.ascii && other > '~' && !NONCHARACTERS.contains(&other) => {
                    let mut units = [0; 2];
                    for unit in other.encode_utf16(&mut units) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }
}

/// Neither a text nor made of others.
fn scalar(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".to_owned(),
        // As a text a boolean is capitalised, as in Python.
        ValueKind::Bool => value.is_true().to_string(),
        _ => match &*text::number(value) {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            number => number.to_owned(),
        },
    }
}
