//! JSON in the format of Python's `json.dumps`, on which models were trained: a space after commas
//! and colons, and no unnecessary escapes.

use super::jinja::{budget, text};
use crate::tokenizer::NONCHARACTERS;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Maximum nesting depth. Templates can build values of any depth.
const MAX_DEPTH: usize = 128;

/// Maximum spaces of indentation per level. Bounds the memory that a template can use.
pub(super) const MAX_INDENT: usize = 16;

/// Formatting options of `json.dumps`.
pub(super) struct Layout {
    /// Escape non-ASCII characters (`ensure_ascii`).
    pub ascii: bool,
    /// Indentation per level. `None` puts everything on one line.
    pub indent: Option<String>,
    /// Separators between items and after keys.
    pub separators: Option<(String, String)>,
    /// Sort keys.
    pub sort_keys: bool,
}

/// Serializes a value.
pub(super) fn write(value: &Value, layout: Layout) -> Result<String, Error> {
    let (item_separator, key_separator) = layout.separators.unwrap_or_else(|| {
        let item_separator = if layout.indent.is_some() { "," } else { ", " };
        (item_separator.to_owned(), ": ".to_owned())
    });
    let mut writer = Writer {
        out: String::new(),
        ascii: layout.ascii,
        indent: layout.indent,
        item_separator,
        key_separator,
        sort_keys: layout.sort_keys,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("tojson: more than {MAX_DEPTH} levels"),
            ));
        }
        budget::charge(32)?;
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
                    writer.out.push_str(&writer.key_separator);
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
                    format!("tojson: {other} cannot be serialized"),
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
        let is_empty = items.is_empty();
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push_str(&self.item_separator);
            }
            let indent = self
                .indent
                .as_deref()
                .map_or(0, budget::length)
                .saturating_mul(depth as u64 + 1);
            budget::charge(indent + budget::length(&self.item_separator) + 2 * budget::length(&self.key_separator))?;
            self.start_line(depth + 1);
            write(self, item)?;
        }
        if !is_empty {
            self.start_line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    /// Starts an indented line, unless all output is on one line.
    fn start_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    fn text(&mut self, text: &str) {
        // An escaped character takes up to twelve bytes.
        let may_be_escaped = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
        let escaped = text.as_bytes().iter().filter(|byte| may_be_escaped(byte)).count() as u64;
        if !(budget::charge_bytes(budget::length(text) + 5 * escaped) && budget::charge_work(32 * escaped)) {
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
                // May be a marker that breaks up a token in the text, so it must stay intact.
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

/// The JSON of null, a boolean or a number.
fn scalar(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".to_owned(),
        // `text::str` capitalizes booleans, as Python does.
        ValueKind::Bool => value.is_true().to_string(),
        _ => match &*text::number(value) {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            number => number.to_owned(),
        },
    }
}
