//! JSON values of imported files, bounded in number and depth. Objects keep the order of the file,
//! and lone surrogates are replaced.

use super::hearth;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::{borrow::Cow, cell::Cell, fmt};

/// Most values of one element of a file: up to 90 bytes each.
const MAX_VALUES: usize = 2_000_000;

/// Most values of a conversation of Hearth, whose messages have about 40 values each.
const MAX_HEARTH_VALUES: usize = 8_000_000;

/// The error message of an element with too many values, by which it is recognized in serde's
/// error.
const TOO_MANY: &str = "too many values";

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    /// Entries in the order of the file; the first of a repeated key counts.
    Object(Vec<(String, Json)>),
}

/// The reason why an element cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseError {
    /// It is not JSON, or is nested deeper than 128 levels.
    Malformed,
    /// It has more values than this.
    TooManyValues(usize),
}

static NULL: Json = Json::Null;

impl Json {
    /// Parses one element. Lone surrogates and invalid UTF-8 become U+FFFD.
    pub fn parse(bytes: &mut [u8]) -> Result<Self, ParseError> {
        replace_lone_surrogates(bytes);
        let (text, max_values) = if bytes.starts_with(hearth::BEGIN) {
            // The element may be large, and Hearth writes valid UTF-8, so it is not copied. A lossy
            // copy could be three times as long.
            (
                Cow::Borrowed(str::from_utf8(bytes).map_err(|_| ParseError::Malformed)?),
                MAX_HEARTH_VALUES,
            )
        } else {
            (String::from_utf8_lossy(bytes), MAX_VALUES)
        };
        let remaining = Cell::new(max_values);
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        let result = Bounded(&remaining)
            .deserialize(&mut deserializer)
            .and_then(|value| deserializer.end().map(|()| value));
        result.map_err(|error| {
            if error.to_string().contains(TOO_MANY) {
                ParseError::TooManyValues(max_values)
            } else {
                ParseError::Malformed
            }
        })
    }

    /// The value of a key; [`Json::Null`] if it has none or is no object.
    pub fn get(&self, key: &str) -> &Self {
        let entry = self.entries().iter().find(|(name, _)| name == key);
        entry.map_or(&NULL, |(_, value)| value)
    }

    /// The entries of an object; empty for other values.
    pub fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Object(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; empty for other values.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a list under a key.
    pub fn list(&self, key: &str) -> &[Self] {
        self.get(key).items()
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// A text that is not empty.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// A text under a key that is not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).as_text()
    }

    /// A number, or a text that is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// An id under a key: a text or a number.
    pub fn id(&self, key: &str) -> Option<Cow<'_, str>> {
        match self.get(key) {
            Self::Text(text) if !text.is_empty() => Some(Cow::Borrowed(text)),
            Self::Number(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        }
    }

    /// Converts the value to serde's.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(entries) => {
                let entries = entries.iter().rev();
                Value::Object(entries.map(|(key, value)| (key.clone(), value.to_value())).collect())
            }
        }
    }
}

/// Reads values and decrements the remaining number for each.
struct Bounded<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let remaining = self.0.get();
        if remaining == 0 {
            return Err(D::Error::custom(TOO_MANY));
        }
        self.0.set(remaining - 1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Bounded(self.0))? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(key) = entries.next_key()? {
            object.push((key, entries.next_value_seed(Bounded(self.0))?));
        }
        Ok(Json::Object(object))
    }
}

/// Replaces escapes of lone surrogates, which serde refuses, by `\ufffd` of the same length.
fn replace_lone_surrogates(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match surrogate(bytes, at) {
            Some(Surrogate::High) if matches!(surrogate(bytes, at + 6), Some(Surrogate::Low)) => at += 12,
            Some(_) => {
                bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            // Skips the escaped character, which may be a backslash.
            None => at += 2,
        }
    }
}

enum Surrogate {
    High,
    Low,
}

/// The surrogate whose escape begins at an offset.
fn surrogate(bytes: &[u8], at: usize) -> Option<Surrogate> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(br"\u")?;
    let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    match code {
        0xd800..0xdc00 => Some(Surrogate::High),
        0xdc00..0xe000 => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Json, ParseError> {
        Json::parse(&mut text.as_bytes().to_vec())
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        for (text, expected) in [
            (r#""\ud83d\ude42""#, "\u{1f642}"),
            (r#""a\ud83db""#, "a\u{fffd}b"),
            (r#""\ude42\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude42""#, "\u{fffd}\u{1f642}"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\ud8""#, ""),
        ] {
            match parse(text) {
                Ok(value) => assert_eq!(value, Json::Text(expected.to_owned()), "{text}"),
                Err(error) => assert_eq!((error, expected), (ParseError::Malformed, ""), "{text}"),
            }
        }
    }

    #[test]
    fn values_and_depth_are_bounded() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(parse(&deep), Err(ParseError::Malformed));
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert_eq!(parse(&many), Err(ParseError::TooManyValues(MAX_VALUES)));
        assert_eq!(parse("[1] 2"), Err(ParseError::Malformed));
    }

    #[test]
    fn objects_keep_their_order_and_the_first_of_a_key() {
        let value = parse(r#"{"b":1,"a":"x","b":2}"#).unwrap();
        assert_eq!(value.entries()[0].0, "b");
        assert_eq!((value.id("b").as_deref(), value.text("a")), (Some("1"), Some("x")));
        assert_eq!(value.to_value(), serde_json::json!({"a": "x", "b": 1}));
        assert_eq!(value.get("c"), &Json::Null);
    }
}
