//! The methods of Python's `str`.

use super::super::arguments::{Arguments, fail};
use super::super::slice::slice;
use super::super::tests::is_cased;
use super::super::text::{self, is_printable, is_space};
use super::super::{budget, list};
use super::{format, unknown};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use regex::Regex;
use std::sync::LazyLock;

/// A wider text is never meant, and would be a way to fill memory.
const WIDEST: i64 = 1_000_000;

pub(super) fn call(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    // Letters in another case may be three times as long.
    budget::room(4 * budget::length(text))?;
    if matches!(
        method,
        "upper" | "lower" | "casefold" | "capitalize" | "title" | "swapcase" | "expandtabs"
    ) {
        budget::work(8 * budget::length(text));
    }
    if let Some(result) = changed(text, method, arguments)? {
        budget::spend(2 * budget::length(&result))?;
        return Ok(if value.is_safe() {
            Value::from_safe_string(result)
        } else {
            Value::from(result)
        });
    }
    if method.starts_with("is") {
        // Each character is looked up in a table.
        budget::work(64 * budget::length(text));
        budget::check()?;
    }
    if let Some(result) = asked(text, method) {
        arguments.done(0)?;
        return Ok(Value::from(result));
    }
    match method {
        "split" | "rsplit" => split(text, arguments, method == "rsplit"),
        "splitlines" => {
            let keep = arguments.flag(0, "keepends")?.unwrap_or(false);
            arguments.done(1)?;
            budget::room(budget::length(text) + line_count(text).saturating_mul(3 * budget::NODE))?;
            list::list(lines(text, keep).into_iter().map(part_of).collect())
        }
        "partition" | "rpartition" => partition(text, arguments, method == "rpartition"),
        "startswith" => affix(value, arguments, |text, affix| text.starts_with(affix)),
        "endswith" => affix(value, arguments, |text, affix| text.ends_with(affix)),
        "find" | "rfind" | "index" | "rindex" => find(value, arguments, method),
        "count" => {
            let wanted = arguments.text(0, "sub")?;
            let (part, _) = part(value, arguments)?;
            Ok(Value::from(part.matches(&*wanted).count()))
        }
        "join" => {
            let items = arguments.need(0, "iterable")?;
            arguments.done(1)?;
            let mut out = String::new();
            for (place, item) in items.try_iter()?.enumerate() {
                if place > 0 {
                    out.push_str(text);
                }
                budget::spend(budget::length(text))?;
                out.push_str(&text::str(&item));
            }
            budget::spend(budget::length(&out))?;
            Ok(Value::from(out))
        }
        "format" => {
            let made = format::braces(text, arguments)?;
            budget::spend(2 * made.as_str().map_or(0, budget::length))?;
            Ok(made)
        }
        _ => Err(unknown()),
    }
}

/// Methods that make a text of a text.
fn changed(text: &str, method: &str, arguments: &Arguments) -> Result<Option<String>, Error> {
    let result = match method {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" => text.to_lowercase().replace('ß', "ss"),
        "capitalize" => capitalize(text),
        "title" => title(text),
        "swapcase" => swapped(text),
        "strip" | "lstrip" | "rstrip" => stripped(text, method, arguments)?,
        "replace" => {
            let (old, new) = (arguments.text(0, "old")?, arguments.text(1, "new")?);
            replaced(text, &old, &new, arguments.integer(2, "count")?.unwrap_or(-1))?
        }
        "removeprefix" => {
            let prefix = arguments.text(0, "prefix")?;
            text.strip_prefix(&*prefix).unwrap_or(text).to_owned()
        }
        "removesuffix" => {
            let suffix = arguments.text(0, "suffix")?;
            text.strip_suffix(&*suffix).unwrap_or(text).to_owned()
        }
        "zfill" => zero_filled(text, width(arguments)?),
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
                "center" => centered(text, width, fill),
                _ => {
                    let padding: String = std::iter::repeat_n(fill, missing(text, width)).collect();
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
            budget::room(tabs.saturating_mul(size.clamp(0, 1000).unsigned_abs()))?;
            expanded(text, size)
        }
        _ => return Ok(None),
    };
    let most = match method {
        "replace" => 3,
        "ljust" | "rjust" | "center" => 2,
        "strip" | "lstrip" | "rstrip" | "removeprefix" | "removesuffix" | "zfill" | "expandtabs" => 1,
        _ => 0,
    };
    arguments.done(most)?;
    Ok(Some(result))
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}+$").ok());
static DECIMAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{Nd}²³¹⁰⁴-⁹₀-₉①-⑨⑴-⑼⒈-⒐⓪❶-❾➀-➈➊-➒]+$").ok());
static NUMERIC: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{N}+$").ok());
static IDENTIFIER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{XID_Start}_]\p{XID_Continue}*$").ok());

/// Methods that say yes or no.
fn asked(text: &str, method: &str) -> Option<bool> {
    let all = |pattern: &LazyLock<Option<Regex>>, text: &str| pattern.as_ref().is_some_and(|p| p.is_match(text));
    Some(match method {
        "isalpha" => all(&LETTER, text),
        "isdecimal" => all(&DECIMAL, text),
        "isdigit" => all(&DIGIT, text),
        "isnumeric" => all(&NUMERIC, text),
        "isidentifier" => all(&IDENTIFIER, text),
        "isalnum" => {
            let mut buffer = [0; 4];
            let mut alone = |c: char| {
                let one = c.encode_utf8(&mut buffer);
                all(&LETTER, one) || all(&NUMERIC, one)
            };
            !text.is_empty() && text.chars().all(&mut alone)
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

/// The first of letters that stand together in upper case, the others in lower case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for character in text.chars() {
        if within {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        within = is_letter_with_case(character);
    }
    out
}

fn swapped(text: &str) -> String {
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

fn stripped(text: &str, method: &str, arguments: &Arguments) -> Result<String, Error> {
    let characters = arguments.optional_text(0, "chars")?;
    let given = characters.as_deref().map(text::one_of);
    let goes = |c: char| given.as_ref().map_or_else(|| is_space(c), |given| given(c));
    Ok(match method {
        "lstrip" => text.trim_start_matches(goes),
        "rstrip" => text.trim_end_matches(goes),
        _ => text.trim_matches(goes),
    }
    .to_owned())
}

/// A text with the first so many of something replaced; all where the number is negative.
pub(crate) fn replaced(text: &str, old: &str, new: &str, count: i64) -> Result<String, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if new.len() > old.len() {
        let found = text.matches(old).take(count).count() as u64;
        budget::room(
            found
                .saturating_mul(budget::length(new))
                .saturating_add(budget::length(text)),
        )?;
    }
    Ok(text.replacen(old, new, count))
}

fn width(arguments: &Arguments) -> Result<i64, Error> {
    arguments
        .integer(0, "width")?
        .ok_or_else(|| fail("`width` is no integer"))
}

/// How many characters a text lacks.
fn missing(text: &str, width: i64) -> usize {
    let width = usize::try_from(width.min(WIDEST)).unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    if budget::take(4 * missing as u64) { missing } else { 0 }
}

/// A text in the middle of its width; where that does not come out even, where Python puts it.
pub(crate) fn centered(text: &str, width: i64, fill: char) -> String {
    let missing = missing(text, width);
    let left = missing / 2 + (missing & usize::try_from(width.max(0)).unwrap_or(0) & 1);
    let fill = |length| std::iter::repeat_n(fill, length);
    fill(left).chain(text.chars()).chain(fill(missing - left)).collect()
}

fn zero_filled(text: &str, width: i64) -> String {
    let zeros = "0".repeat(missing(text, width));
    match text.strip_prefix(['-', '+']) {
        Some(rest) => format!("{}{zeros}{rest}", &text[..1]),
        None => format!("{zeros}{text}"),
    }
}

fn expanded(text: &str, size: i64) -> String {
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

/// How many lines a text has at most.
pub(crate) fn line_count(text: &str) -> u64 {
    1 + text.matches(LINE_ENDS).count() as u64
}

/// The lines of a text, at all the places where Python ends one.
pub(crate) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(LINE_ENDS) {
        let length = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(1, char::len_utf8)
        };
        let kept = if keep_ends { end + length } else { end };
        lines.push(&rest[..kept]);
        rest = &rest[end + length..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn split(text: &str, arguments: &Arguments, from_right: bool) -> Result<Value, Error> {
    let separator = arguments.optional_text(0, "sep")?;
    let most = arguments.integer(1, "maxsplit")?.unwrap_or(-1);
    arguments.done(2)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let ends = match separator.as_deref() {
        Some("") => 0,
        Some(separator) => text.matches(separator).take(most).count(),
        None => text.matches(is_space).take(most).count(),
    };
    budget::room(budget::length(text) + (ends as u64 + 1).saturating_mul(3 * budget::NODE))?;
    let parts: Vec<&str> = match (separator.as_deref(), from_right) {
        (Some(""), _) => return Err(fail("split: the separator is empty")),
        (Some(separator), false) => text.splitn(most + 1, separator).collect(),
        (Some(separator), true) => {
            let mut parts: Vec<&str> = text.rsplitn(most + 1, separator).collect();
            parts.reverse();
            parts
        }
        (None, false) => words(text, most),
        (None, true) => last_words(text, most),
    };
    list::list(parts.into_iter().map(part_of).collect())
}

/// A part of a text as a value.
fn part_of(text: &str) -> Value {
    budget::take(budget::length(text));
    Value::from(text)
}

fn words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if words.len() == most {
            words.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

fn last_words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if words.len() == most {
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
        return Err(fail("partition: the separator is empty"));
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
    list::tuple(parts.map(part_of).to_vec())
}

/// The part of a text that the second and third argument bound, and how many characters stand before it.
fn part(value: &Value, arguments: &Arguments) -> Result<(String, usize), Error> {
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

fn affix(value: &Value, arguments: &Arguments, has: fn(&str, &str) -> bool) -> Result<Value, Error> {
    let wanted = arguments.need(0, "prefix")?;
    if let ([wanted], Some(text)) = (arguments.positional(), value.as_str())
        && let Some(wanted) = wanted.as_str()
    {
        return Ok(Value::from(has(text, wanted)));
    }
    budget::spend(budget::go_along(value)?)?;
    let (part, _) = part(value, arguments)?;
    if let Some(wanted) = wanted.as_str().filter(|_| wanted.kind() == ValueKind::String) {
        return Ok(Value::from(has(&part, wanted)));
    }
    if !matches!(wanted.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(fail("a text or a tuple of texts is expected"));
    }
    let found = wanted
        .try_iter()?
        .any(|wanted| wanted.as_str().is_some_and(|wanted| has(&part, wanted)));
    Ok(Value::from(found))
}

fn find(value: &Value, arguments: &Arguments, method: &str) -> Result<Value, Error> {
    let wanted = arguments.text(0, "sub")?;
    let (part, before) = part(value, arguments)?;
    let found = if method.starts_with('r') {
        part.rfind(&*wanted)
    } else {
        part.find(&*wanted)
    };
    match found {
        Some(at) => Ok(Value::from(before + part[..at].chars().count())),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(fail("substring not found")),
    }
}
