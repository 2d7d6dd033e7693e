//! JSON as Python's `json.dumps` writes it, since models have seen it in that form: a space after commas and colons, nothing
//! escaped that need not be.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// How deep values may lie in one another; a template can build them as deep as it likes.
const DEEPEST: usize = 64;

/// More spaces are never meant, and would be a way to fill memory.
const WIDEST: usize = 16;

/// The JSON of a value; on lines of their own, with so many spaces a level, where `indent` is given.
pub(super) fn write(value: &Value, indent: Option<usize>, sort_keys: bool) -> Result<String, Error> {
    let mut writer = Writer {
        out: String::new(),
        indent: indent.map(|width| width.min(WIDEST)),
        sort_keys,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    indent: Option<usize>,
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
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            // As a text a boolean is capitalised, as in Python.
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&value.to_string()),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort_by_key(Value::to_string);
                }
                self.items('{', '}', depth, keys, |writer, key| {
                    writer.text(&key.to_string());
                    writer.out.push_str(": ");
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
            match (place, self.indent) {
                (0, None) => {}
                (_, None) => self.out.push_str(", "),
                (0, Some(_)) => self.line(depth + 1),
                (_, Some(_)) => {
                    self.out.push(',');
                    self.line(depth + 1);
                }
            }
            write(self, item)?;
        }
        if any && self.indent.is_some() {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        self.out.push('\n');
        self.out
            .extend(std::iter::repeat_n(' ', self.indent.unwrap_or(0) * depth));
    }

    fn text(&mut self, text: &str) {
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
                control if (control as u32) < 0x20 => self.out.push_str(&format!("\\u{:04x}", control as u32)),
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }
}
