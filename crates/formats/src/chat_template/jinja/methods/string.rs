//! Methods of Python's `str`.

use super::super::arguments::{Arguments, fail};
use super::super::slice::slice;
use super::super::tests::is_cased;
use super::super::text::{self, is_printable, is_space};
use super::super::{budget, build};
use super::{format, unknown_method};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use regex::Regex;
use std::sync::LazyLock;

/// Maximum width of padded strings. Bounds the memory that a template can use.
const MAX_WIDTH: i64 = 1_000_000;

pub(super) fn call(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    // Changing the case can make a letter three times as long.
    budget::check_bytes(4 * budget::length(text))?;
    if matches!(
        method,
        "upper" | "lower" | "casefold" | "capitalize" | "title" | "swapcase" | "expandtabs"
    ) {
        budget::charge_work(8 * budget::length(text));
    }
    if let Some(result) = transformed(text, method, arguments)? {
        budget::charge(2 * budget::length(&result))?;
        return Ok(if value.is_safe() {
            Value::from_safe_string(result)
        } else {
            Value::from(result)
        });
    }
    if method.starts_with("is") {
        // The predicates look up each character in a table.
        budget::charge_work(64 * budget::length(text));
        budget::check()?;
    }
    if let Some(result) = predicate(text, method) {
        arguments.done(0)?;
        return Ok(Value::from(result));
    }
    match method {
        "split" | "rsplit" => split(text, arguments, method == "rsplit"),
        "splitlines" => {
            let keep_ends = arguments.flag(0, "keepends")?.unwrap_or(false);
            arguments.done(1)?;
            budget::check_bytes(budget::length(text) + line_count(text).saturating_mul(3 * budget::VALUE_BYTES))?;
            build::list(lines(text, keep_ends).into_iter().map(substring).collect())
        }
        "partition" | "rpartition" => partition(text, arguments, method == "rpartition"),
        "startswith" => affix(value, arguments, |text, affix| text.starts_with(affix)),
        "endswith" => affix(value, arguments, |text, affix| text.ends_with(affix)),
        "find" | "rfind" | "index" | "rindex" => find(value, arguments, method),
        "count" => {
            let target = arguments.text(0, "sub")?;
            let (part, _) = bounded_slice(value, arguments)?;
            Ok(Value::from(part.matches(&*target).count()))
        }
        "join" => {
            let items = arguments.required(0, "iterable")?;
            arguments.done(1)?;
            let mut out = String::new();
            for (index, item) in items.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(text);
                }
                budget::charge(budget::length(text))?;
                out.push_str(&text::str(&item));
            }
            budget::charge(budget::length(&out))?;
            Ok(Value::from(out))
        }
        "format" => {
            let result = format::braces(text, arguments)?;
            budget::charge(2 * result.as_str().map_or(0, budget::length))?;
            Ok(result)
        }
        _ => Err(unknown_method()),
    }
}

/// Methods that return a string. `None` if the method is not one of them.
fn transformed(text: &str, method: &str, arguments: &Arguments) -> Result<Option<String>, Error> {
    let result = match method {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" => text.to_lowercase().replace('ß', "ss"),
        "capitalize" => capitalize(text),
        "title" => title(text),
        "swapcase" => swapcase(text),
        "strip" | "lstrip" | "rstrip" => strip(text, method, arguments)?,
        "replace" => {
            let (old, new) = (arguments.text(0, "old")?, arguments.text(1, "new")?);
            replace(text, &old, &new, arguments.integer(2, "count")?.unwrap_or(-1))?
        }
        "removeprefix" => {
            let prefix = arguments.text(0, "prefix")?;
            text.strip_prefix(&*prefix).unwrap_or(text).to_owned()
        }
        "removesuffix" => {
            let suffix = arguments.text(0, "suffix")?;
            text.strip_suffix(&*suffix).unwrap_or(text).to_owned()
        }
        "zfill" => zfill(text, width(arguments)?),
        "ljust" | "rjust" | "center" => {
            let fill = arguments
                .optional_text(1, "fillchar")?
                .unwrap_or_else(|| " ".to_owned());
            let mut characters = fill.chars();
            let (Some(fill), None) = (characters.next(), characters.next()) else {
                return Err(fail("the fill character must be exactly one character long"));
            };
            let width = width(arguments)?;
            match method {
                "center" => center(text, width, fill),
                _ => {
                    let padding: String = std::iter::repeat_n(fill, padding_len(text, width)).collect();
                    if method == "ljust" {
                        format!("{text}{padding}")
                    } else {
                        format!("{padding}{text}")
                    }
                }
            }
        }
        "expandtabs" => {
            let size = arguments.integer(0, "tabsize")?.unwrap_or(8);
            let tabs = text.bytes().filter(|&byte| byte == b'\t').count() as u64;
            budget::check_bytes(tabs.saturating_mul(size.clamp(0, 1000).unsigned_abs()))?;
            expandtabs(text, size)
        }
        _ => return Ok(None),
    };
    let max_arguments = match method {
        "replace" => 3,
        "ljust" | "rjust" | "center" => 2,
        "strip" | "lstrip" | "rstrip" | "removeprefix" | "removesuffix" | "zfill" | "expandtabs" => 1,
        _ => 0,
    };
    arguments.done(max_arguments)?;
    Ok(Some(result))
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}+$").ok());
static DECIMAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{Nd}²³¹⁰⁴-⁹₀-₉①-⑨⑴-⑼⒈-⒐⓪❶-❾➀-➈➊-➒]+$").ok());
static NUMERIC: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{N}+$").ok());
static IDENTIFIER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{XID_Start}_]\p{XID_Continue}*$").ok());

/// Methods that return a boolean. `None` if the method is not one of them.
fn predicate(text: &str, method: &str) -> Option<bool> {
    let matches = |pattern: &LazyLock<Option<Regex>>, text: &str| pattern.as_ref().is_some_and(|p| p.is_match(text));
    Some(match method {
        "isalpha" => matches(&LETTER, text),
        "isdecimal" => matches(&DECIMAL, text),
        "isdigit" => matches(&DIGIT, text),
        "isnumeric" => matches(&NUMERIC, text),
        "isidentifier" => matches(&IDENTIFIER, text),
        "isalnum" => {
            let mut buffer = [0; 4];
            let mut is_alphanumeric = |c: char| {
                let character = c.encode_utf8(&mut buffer);
                matches(&LETTER, character) || matches(&NUMERIC, character)
            };
            !text.is_empty() && text.chars().all(&mut is_alphanumeric)
        }
        "isascii" => text.is_ascii(),
        "isspace" => !text.is_empty() && text.chars().all(is_space),
        "isprintable" => text.chars().all(is_printable),
        "islower" => is_cased(text, char::is_uppercase, char::is_lowercase),
        "isupper" => is_cased(text, char::is_lowercase, char::is_uppercase),
        "istitle" => text.chars().any(is_letter_with_case) && title(text) == text,
        _ => return None,
    })
}

fn is_letter_with_case(character: char) -> bool {
    character.is_lowercase() || character.is_uppercase()
}

/// The first letter in upper case, all others in lower case.
pub(crate) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next();
    let first: String = first.into_iter().flat_map(char::to_uppercase).collect();
    first + &characters.as_str().to_lowercase()
}

/// Title case: the first of consecutive letters in upper case, the others in lower case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for character in text.chars() {
        if in_word {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        in_word = is_letter_with_case(character);
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_uppercase() {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
    }
    out
}

fn strip(text: &str, method: &str, arguments: &Arguments) -> Result<String, Error> {
    let characters = arguments.optional_text(0, "chars")?;
    let set = characters.as_deref().map(text::one_of);
    let is_stripped = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set(c));
    Ok(match method {
        "lstrip" => text.trim_start_matches(is_stripped),
        "rstrip" => text.trim_end_matches(is_stripped),
        _ => text.trim_matches(is_stripped),
    }
    .to_owned())
}

/// Replaces the first `count` occurrences of `old`; all of them if `count` is negative.
pub(crate) fn replace(text: &str, old: &str, new: &str, count: i64) -> Result<String, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if new.len() > old.len() {
        let occurrences = text.matches(old).take(count).count() as u64;
        budget::check_bytes(
            occurrences
                .saturating_mul(budget::length(new))
                .saturating_add(budget::length(text)),
        )?;
    }
    Ok(text.replacen(old, new, count))
}

fn width(arguments: &Arguments) -> Result<i64, Error> {
    arguments
        .integer(0, "width")?
        .ok_or_else(|| fail("`width` must be an integer"))
}

/// The number of characters by which a string is shorter than `width`. 0 if the budget is exceeded.
fn padding_len(text: &str, width: i64) -> usize {
    let width = usize::try_from(width.min(MAX_WIDTH)).unwrap_or(0);
    let padding = width.saturating_sub(text.chars().count());
    if budget::charge_bytes(4 * padding as u64) {
        padding
    } else {
        0
    }
}

/// Centers a string. An odd padding is split as in Python.
pub(crate) fn center(text: &str, width: i64, fill: char) -> String {
    let padding = padding_len(text, width);
    let left = padding / 2 + (padding & usize::try_from(width.max(0)).unwrap_or(0) & 1);
    let fill = |length| std::iter::repeat_n(fill, length);
    fill(left).chain(text.chars()).chain(fill(padding - left)).collect()
}

fn zfill(text: &str, width: i64) -> String {
    let zeros = "0".repeat(padding_len(text, width));
    match text.strip_prefix(['-', '+']) {
        Some(rest) => format!("{}{zeros}{rest}", &text[..1]),
        None => format!("{zeros}{text}"),
    }
}

fn expandtabs(text: &str, size: i64) -> String {
    let size = usize::try_from(size.min(1000)).unwrap_or(0);
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for character in text.chars() {
        match character {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(character);
                column = 0;
            }
            other => {
                out.push(other);
                column += 1;
            }
        }
    }
    out
}

const LINE_ENDS: [char; 10] = [
    '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}',
];

/// Upper bound of the number of lines in a string.
pub(crate) fn line_count(text: &str) -> u64 {
    1 + text.matches(LINE_ENDS).count() as u64
}

/// Splits a string at all line boundaries of Python's `str.splitlines`.
pub(crate) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(LINE_ENDS) {
        let length = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(1, char::len_utf8)
        };
        let line_end = if keep_ends { end + length } else { end };
        lines.push(&rest[..line_end]);
        rest = &rest[end + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn split(text: &str, arguments: &Arguments, from_right: bool) -> Result<Value, Error> {
    let separator = arguments.optional_text(0, "sep")?;
    let max_splits = arguments.integer(1, "maxsplit")?.unwrap_or(-1);
    arguments.done(2)?;
    let max_splits = usize::try_from(max_splits).unwrap_or(usize::MAX - 1);
    let separators = match separator.as_deref() {
        Some("") => 0,
        Some(separator) => text.matches(separator).take(max_splits).count(),
        None => text.matches(is_space).take(max_splits).count(),
    };
    budget::check_bytes(budget::length(text) + (separators as u64 + 1).saturating_mul(3 * budget::VALUE_BYTES))?;
    let parts: Vec<&str> = match (separator.as_deref(), from_right) {
        (Some(""), _) => return Err(fail("split: empty separator")),
        (Some(separator), false) => text.splitn(max_splits + 1, separator).collect(),
        (Some(separator), true) => {
            let mut parts: Vec<&str> = text.rsplitn(max_splits + 1, separator).collect();
            parts.reverse();
            parts
        }
        (None, false) => split_white_space(text, max_splits),
        (None, true) => rsplit_white_space(text, max_splits),
    };
    build::list(parts.into_iter().map(substring).collect())
}

/// A substring as a value. Charges its bytes.
fn substring(text: &str) -> Value {
    budget::charge_bytes(budget::length(text));
    Value::from(text)
}

/// `str.split` without a separator.
fn split_white_space(text: &str, max_splits: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if words.len() == max_splits {
            words.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

/// `str.rsplit` without a separator.
fn rsplit_white_space(text: &str, max_splits: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if words.len() == max_splits {
            words.push(rest);
            break;
        }
        let start = rest.rfind(is_space).map_or(0, |space| {
            space + rest[space..].chars().next().map_or(1, char::len_utf8)
        });
        words.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    words.reverse();
    words
}

fn partition(text: &str, arguments: &Arguments, from_right: bool) -> Result<Value, Error> {
    let separator = arguments.text(0, "sep")?;
    arguments.done(1)?;
    if separator.is_empty() {
        return Err(fail("partition: empty separator"));
    }
    let parts = if from_right {
        text.rsplit_once(&*separator)
    } else {
        text.split_once(&*separator)
    };
    let parts = match parts {
        Some((before, after)) => [before, &separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    build::tuple(parts.map(substring).to_vec())
}

/// The slice of a string that the arguments `start` and `end` select, and the number of characters
/// before it.
fn bounded_slice(value: &Value, arguments: &Arguments) -> Result<(String, usize), Error> {
    let (start, stop) = (arguments.integer(1, "start")?, arguments.integer(2, "end")?);
    arguments.done(3)?;
    let text = value.as_str().unwrap_or_default();
    if start.is_none() && stop.is_none() {
        return Ok((text.to_owned(), 0));
    }
    let bounds = [start, stop].map(|bound| bound.map_or_else(|| Value::from(()), Value::from));
    let part = slice(value, &Arguments::new(bounds.to_vec())?)?;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let start = start.unwrap_or(0);
    let before = if start < 0 { start.saturating_add(length) } else { start };
    Ok((text::str(&part), usize::try_from(before).unwrap_or(0)))
}

/// `str.startswith` and `str.endswith`.
fn affix(value: &Value, arguments: &Arguments, has_affix: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let affixes = arguments.required(0, "prefix")?;
    if let ([affix], Some(text)) = (arguments.positional(), value.as_str())
        && let Some(affix) = affix.as_str()
    {
        return Ok(Value::from(has_affix(text, affix)));
    }
    budget::charge(budget::charge_scan(value)?)?;
    let (part, _) = bounded_slice(value, arguments)?;
    if let Some(affix) = affixes.as_str().filter(|_| affixes.kind() == ValueKind::String) {
        return Ok(Value::from(has_affix(&part, affix)));
    }
    if !matches!(affixes.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(fail("expected a string or a tuple of strings"));
    }
    let has_any = affixes
        .try_iter()?
        .any(|affix| affix.as_str().is_some_and(|affix| has_affix(&part, affix)));
    Ok(Value::from(has_any))
}

fn find(value: &Value, arguments: &Arguments, method: &str) -> Result<Value, Error> {
    let target = arguments.text(0, "sub")?;
    let (part, before) = bounded_slice(value, arguments)?;
    let offset = if method.starts_with('r') {
        part.rfind(&*target)
    } else {
        part.find(&*target)
    };
    match offset {
        Some(offset) => Ok(Value::from(before + part[..offset].chars().count())),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(fail("substring not found")),
    }
}
