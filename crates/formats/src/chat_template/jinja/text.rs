//! Python's `str` and `repr` of values.

use super::budget;
use super::containers::{Generator, View};
use crate::tokenizer::NONCHARACTERS;
use minijinja::Value;
use minijinja::value::ValueKind;
use regex::Regex;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// Maximum nesting depth that is printed. Templates can build values of any depth.
const MAX_DEPTH: usize = 128;

/// `str(value)`, as printed by `{{ }}`. Truncated if the budget is exceeded.
pub(crate) fn str(value: &Value) -> String {
    match value.as_str() {
        Some(text) if value.kind() == ValueKind::String => {
            if budget::charge_bytes(budget::length(text)) {
                text.to_owned()
            } else {
                String::new()
            }
        }
        _ if value.is_undefined() => String::new(),
        _ => repr(value),
    }
}

/// `repr(value)`, as inside a printed list.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, depth: usize) {
    // Quotes, brackets and separators.
    if !(budget::charge_bytes(32) && budget::charge_work(64)) {
        return;
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => write_quoted(out, value),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable if depth > MAX_DEPTH => out.push_str("..."),
        ValueKind::Map if is_namespace(value) => {
            out.push_str("<Namespace ");
            write_map(out, value, depth);
            out.push('>');
        }
        ValueKind::Map if is_macro(value) => {
            let name = value.get_attr("name").unwrap_or_default();
            let _ = write!(out, "<Macro {}>", repr(&name));
        }
        ValueKind::Map => write_map(out, value, depth),
        ValueKind::Seq | ValueKind::Iterable => {
            if let Some(generator) = value.downcast_object_ref::<Generator>() {
                let _ = write!(out, "<generator object {}>", generator.name());
            } else if let Some(view) = value.downcast_object_ref::<View>() {
                let _ = write!(out, "{}([", view.name());
                write_items(out, value, depth);
                out.push_str("])");
            } else if value.is_tuple() || is_group(value) {
                out.push('(');
                let length = write_items(out, value, depth);
                out.push_str(if length == 1 { ",)" } else { ")" });
            } else {
                out.push('[');
                write_items(out, value, depth);
                out.push(']');
            }
        }
        _ => out.push_str(&value.to_string()),
    }
}

fn write_map(out: &mut String, value: &Value, depth: usize) {
    out.push('{');
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
    for (index, (key, value)) in pairs.into_iter().flatten().enumerate() {
        if !budget::is_within() {
            break;
        }
        if index > 0 {
            out.push_str(", ");
        }
        write(out, &key, depth + 1);
        out.push_str(": ");
        write(out, &value, depth + 1);
    }
    out.push('}');
}

/// Writes the items without brackets. Returns their number.
fn write_items(out: &mut String, value: &Value, depth: usize) -> usize {
    let mut length = 0;
    for item in value.try_iter().into_iter().flatten() {
        if !budget::is_within() {
            break;
        }
        if length > 0 {
            out.push_str(", ");
        }
        write(out, &item, depth + 1);
        length += 1;
    }
    length
}

/// `repr` of a number: the shortest digits of a float, with an exponent below 1e-4 and from 1e16
/// on.
pub(crate) fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => self::float(float),
        _ => value.to_string(),
    }
}

fn float(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    // Rust switches to an exponent at the same magnitudes, but writes it without a plus sign and
    // unpadded.
    let text = format!("{float:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// Characters that Python's `repr` escapes: all except letters, marks, numbers, punctuation,
/// symbols and the plain space.
static UNPRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{C}\p{Z}]$").ok());

pub(super) fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        // May be a marker that breaks up a token in the text, so it must stay intact.
        _ if NONCHARACTERS.contains(&character) => true,
        _ => {
            let mut buffer = [0; 4];
            let text = &*character.encode_utf8(&mut buffer);
            UNPRINTABLE.as_ref().is_some_and(|pattern| !pattern.is_match(text))
        }
    }
}

fn write_quoted(out: &mut String, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let length = budget::length(text);
    // A non-ASCII character is looked up in a table, and an escape takes up to ten bytes.
    let unusual = text.bytes().filter(|byte| !matches!(byte, b' '..=b'~')).count() as u64;
    if !(budget::charge_bytes(length + 4 * unusual) && budget::charge_work(8 * length + 64 * unusual)) {
        return;
    }
    if value.is_safe() {
        out.push_str("Markup(");
    }
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        let code = u32::from(character);
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            _ => {
                let _ = match code {
                    0..0x100 => write!(out, "\\x{code:02x}"),
                    0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
    if value.is_safe() {
        out.push(')');
    }
}

/// Whether a value is a macro, which minijinja treats as a mapping.
pub(super) fn is_macro(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("::Macro"))
}

/// Whether a value is an item of `groupby`'s result, which is a tuple.
fn is_group(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("::GroupTuple"))
}

/// Whether a value is a result of `namespace()`, which is not a mapping.
pub(super) fn is_namespace(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// Whether Python's `str.strip` and `str.split` treat a character as white space.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// `str.strip()`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A test for a character of `characters`. Uses a set, since both `characters` and the searched
/// string may be long.
pub(super) fn one_of(characters: &str) -> impl Fn(char) -> bool + use<> {
    let characters: HashSet<char> = characters.chars().collect();
    move |character| characters.contains(&character)
}
