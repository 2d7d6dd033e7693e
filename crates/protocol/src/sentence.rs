//! English sentences of values, from the messages of the window.
//!
//! The wire carries codes and data. A value is an object with a `type` and, for problems, an
//! `area`. The key of its sentence is `PREFIX_AREA_TYPE` in snake case, in `ui/messages/LOCALE`;
//! the placeholders are its fields. The prefix of a value within another is the name of its field.
//! The window does the same in its language: `ui/src/lib/text/sentence.ts`.

use hearth_formats::byte_size;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The messages that the window and the CLI share.
const MESSAGE_FILES: [&str; 2] = [
    include_str!("../../../ui/messages/en/problems.json"),
    include_str!("../../../ui/messages/en/sentences.json"),
];

/// The English messages by key, in the format of inlang.
static MESSAGES: LazyLock<BTreeMap<String, Message>> = LazyLock::new(|| {
    let parse = |text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let entries = MESSAGE_FILES.into_iter().flat_map(parse);
    entries
        .filter_map(|(key, message)| Some((key, Message::new(&message)?)))
        .collect()
});

/// A message: a text with placeholders, or two texts, selected by whether a number is 1.
enum Message {
    Text(String),
    Plural {
        /// The input that selects the text.
        count: String,
        one: Option<String>,
        other: String,
        /// Inputs by their other names.
        locals: BTreeMap<String, String>,
    },
}

impl Message {
    /// Reads a message. `None` if it uses a part of the format that is not supported here.
    fn new(message: &Value) -> Option<Self> {
        if let Value::String(text) = message {
            return Some(Self::Text(text.clone()));
        }
        let variants = message.get(0)?;
        let declarations = variants.get("declarations")?.as_array()?;
        let mut locals = BTreeMap::new();
        for declaration in declarations.iter().filter_map(Value::as_str) {
            // `local n = count: number`
            if let Some((name, input)) = declaration
                .strip_prefix("local ")
                .and_then(|rest| rest.split_once(" = "))
            {
                locals.insert(name.to_owned(), input.split(':').next()?.trim().to_owned());
            }
        }
        let selector = variants.get("selectors")?.get(0)?.as_str()?;
        let forms = variants.get("match")?.as_object()?;
        let form = |name: &str| forms.get(&format!("{selector}={name}"))?.as_str().map(str::to_owned);
        Some(Self::Plural {
            count: locals.get(selector)?.clone(),
            one: form("one"),
            other: form("*")?,
            locals,
        })
    }
}

/// The English sentence of a value: an enum with `type` and perhaps `area`.
pub fn sentence(prefix: &str, value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => object_sentence(prefix, &fields),
        Ok(other) => value_text("", &other),
        Err(error) => format!("{prefix} ({error})"),
    }
}

/// The key of a value's sentence.
fn message_key(prefix: &str, fields: &Map<String, Value>) -> String {
    let field = |name| fields.get(name).and_then(Value::as_str).map(to_snake_case);
    let parts = [Some(prefix.to_owned()), field("area"), field("type")];
    parts.into_iter().flatten().collect::<Vec<_>>().join("_")
}

fn object_sentence(prefix: &str, fields: &Map<String, Value>) -> String {
    let key = message_key(prefix, fields);
    match MESSAGES.get(&key) {
        Some(Message::Text(template)) => fill(template, |name| field_text(fields, name)),
        Some(Message::Plural {
            count,
            one,
            other,
            locals,
        }) => {
            let is_one = fields.get(count).and_then(Value::as_u64) == Some(1);
            let template = one.as_ref().filter(|_| is_one).unwrap_or(other);
            fill(template, |name| {
                field_text(fields, locals.get(name).map_or(name, String::as_str))
            })
        }
        // A test finds values without a sentence.
        None => format!("{key} {}", Value::Object(fields.clone())),
    }
}

/// Replaces the placeholders of a template.
fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) = rest
        .split_once('{')
        .and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(&value(name));
        rest = after;
    }
    text + rest
}

fn field_text(fields: &Map<String, Value>, name: &str) -> String {
    fields
        .get(name)
        .map_or_else(String::new, |value| value_text(name, value))
}

/// A field's text: bytes with a unit, lists with commas, a nested value as its own sentence.
fn value_text(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if is_bytes(name) => byte_size(bytes),
            _ => number.to_string(),
        },
        Value::Array(values) => {
            let items: Vec<String> = values.iter().map(|value| value_text(name, value)).collect();
            items.join(", ")
        }
        Value::Object(fields) => match fields.get("reason") {
            Some(Value::Object(reason)) if fields.contains_key("code") => object_sentence("problem", reason),
            _ => object_sentence(&to_snake_case(name), fields),
        },
    }
}

/// Whether a field is a number of bytes.
fn is_bytes(name: &str) -> bool {
    name == "bytes" || name.ends_with("Bytes")
}

/// Converts `noSuchDevice` to `no_such_device`.
fn to_snake_case(name: &str) -> String {
    let mut snake_case = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake_case.push('_');
        }
        snake_case.push(letter.to_ascii_lowercase());
    }
    snake_case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_read() {
        for file in MESSAGE_FILES {
            let messages: Map<String, Value> = serde_json::from_str(file).expect("JSON");
            for (key, message) in &messages {
                assert!(Message::new(message).is_some(), "{key}");
            }
        }
    }

    #[test]
    fn placeholders_are_replaced() {
        let fields = serde_json::json!({"limitBytes": 1_250, "count": 7, "names": ["a", "b"], "path": "{count}"});
        let fields = fields.as_object().expect("an object");
        let actual = fill("{path}: {count} of {names}, {limitBytes}{", |name| {
            field_text(fields, name)
        });
        assert_eq!(actual, "{count}: 7 of a, b, 1.3 kB{");
        assert_eq!(to_snake_case("noSuchDevice"), "no_such_device");
    }

    #[test]
    fn a_plural_is_chosen_by_its_number() {
        let message = serde_json::json!([{
            "declarations": ["input count", "local form = count: plural", "local n = count: number"],
            "selectors": ["form"],
            "match": {"form=one": "{n} layer", "form=*": "{n} layers"},
        }]);
        let Some(Message::Plural {
            count,
            one,
            other,
            locals,
        }) = Message::new(&message)
        else {
            panic!("not a plural")
        };
        assert_eq!(
            (count.as_str(), one.as_deref(), other.as_str()),
            ("count", Some("{n} layer"), "{n} layers")
        );
        assert_eq!(locals["n"], "count");
    }
}
