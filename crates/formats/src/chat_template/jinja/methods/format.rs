//! `str.format` and the `%` of texts. minijinja formats numbers; what is Python's alone is done here.

use super::super::arguments::{Arguments, fail};
use super::super::{budget, text};
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// A wider text is never meant.
const WIDEST: u64 = 10_000;

/// `'{} {name!r:>5}'.format(...)`.
pub(super) fn braces(pattern: &str, arguments: &Arguments) -> Result<Value, Error> {
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    while let Some(start) = rest.find(['{', '}']) {
        out.push_str(&rest[..start]);
        let sign = &rest[start..=start];
        if rest[start + 1..].starts_with(sign) {
            out.push_str(sign);
            rest = &rest[start + 2..];
            continue;
        }
        let field = rest[start + 1..].split_once('}').filter(|_| sign == "{");
        let Some((field, after)) = field else {
            return Err(fail("format: a brace stands alone"));
        };
        if field.contains('{') {
            return Err(fail("format: a field inside a field is not supported"));
        }
        budget::check()?;
        out.push_str(&replacement(field, arguments, &mut next)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(Value::from(out))
}

/// What stands for a field: a name, how it becomes text, and its format.
fn replacement(field: &str, arguments: &Arguments, next: &mut usize) -> Result<String, Error> {
    let (name, layout) = field.split_once(':').unwrap_or((field, ""));
    let (name, conversion) = match name.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (name, None),
    };
    let value = named(name, arguments, next)?;
    let value = match conversion {
        None => value,
        Some("s") => Value::from(text::str(&value)),
        Some("r" | "a") => Value::from(text::repr(&value)),
        Some(other) => return Err(fail(format!("format: `!{other}` is unknown"))),
    };
    if layout.is_empty() {
        return Ok(text::str(&value));
    }
    bounded(layout, &value)?;
    if let Some(layout) = layout.strip_suffix('%') {
        let share = f64::try_from(value)? * 100.0;
        let layout = if layout.contains('.') {
            layout.to_owned()
        } else {
            format!("{layout}.6")
        };
        return Ok(format(
            FormatStyle::StrFormat,
            &format!("{{:{layout}f}}"),
            &[Value::from(share)],
        )? + "%");
    }
    format(FormatStyle::StrFormat, &format!("{{:{layout}}}"), &[value])
}

/// The argument that a field names, with a path of attributes and items.
fn named(name: &str, arguments: &Arguments, next: &mut usize) -> Result<Value, Error> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(end);
    let missing = || fail(format!("format: there is no argument for `{{{name}}}`"));
    let place = if first.is_empty() {
        *next += 1;
        Some(*next - 1)
    } else {
        first.parse().ok()
    };
    let mut value = match place {
        Some(place) => arguments.positional().get(place).cloned(),
        None => arguments.get(usize::MAX, first)?,
    }
    .ok_or_else(missing)?;
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix('[') {
            let (key, rest) = rest.split_once(']').ok_or_else(missing)?;
            let key = key.parse::<i64>().map_or_else(|_| Value::from(key), Value::from);
            value = value.get_item(&key)?;
            path = rest;
        } else {
            let rest = path.strip_prefix('.').ok_or_else(missing)?;
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            value = value.get_attr(&rest[..end])?;
            path = &rest[end..];
        }
    }
    Ok(value)
}

/// `'%s %(name)05d'|format(...)`.
pub(crate) fn percent(pattern: &str, arguments: &Arguments) -> Result<Value, Error> {
    let mut out = String::new();
    let mut rest = pattern;
    let mut next = 0;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let mut field = &rest[start + 1..];
        if let Some(after) = field.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let name = match field.strip_prefix('(').and_then(|named| named.split_once(')')) {
            Some((name, after)) => {
                field = after;
                Some(name)
            }
            None => None,
        };
        let end = field
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | ' ' | '#' | '.'))
            .ok_or_else(|| fail("format: a format is cut short"))?;
        let (layout, conversion) = field.split_at(end);
        let conversion = conversion.chars().next().unwrap_or('s');
        let value = match name {
            Some(name) => arguments.get(usize::MAX, name)?,
            None => {
                next += 1;
                arguments.positional().get(next - 1).cloned()
            }
        };
        let value = value.ok_or_else(|| fail("format: there are not enough arguments"))?;
        budget::check()?;
        out.push_str(&one(layout, conversion, value)?);
        rest = &field[end + conversion.len_utf8()..];
    }
    out.push_str(rest);
    if arguments.positional().len() > next {
        return Err(fail("format: not all arguments are used"));
    }
    Ok(Value::from(out))
}

/// Charges what a value takes in a layout.
///
/// # Errors
/// Where a width or a precision is larger than [`WIDEST`].
fn bounded(layout: &str, value: &Value) -> Result<(), Error> {
    for number in layout
        .split(|c: char| !c.is_ascii_digit())
        .filter(|number| !number.is_empty())
    {
        let number = number.parse::<u64>().ok().filter(|&number| number <= WIDEST);
        let number = number.ok_or_else(|| fail(format!("format: {WIDEST} is the largest width")))?;
        // With signs between the digits, and copied a few times.
        budget::spend(number.saturating_mul(4))?;
    }
    if value.as_object().is_some() {
        return Err(fail(format!("format: a {} has no layout", value.kind())));
    }
    budget::spend(256 + 2 * value.as_str().map_or(0, budget::length))
}

fn one(layout: &str, conversion: char, value: Value) -> Result<String, Error> {
    let (conversion, value) = match conversion {
        's' => ('s', Value::from(text::str(&value))),
        'r' | 'a' => ('s', Value::from(text::repr(&value))),
        #[expect(clippy::cast_possible_truncation, reason = "cut off as Python does")]
        'd' | 'i' | 'u' if value.kind() == ValueKind::Number && !value.is_integer() => {
            ('d', Value::from(f64::try_from(value)?.trunc() as i64))
        }
        'i' | 'u' => ('d', value),
        other => (other, value),
    };
    bounded(layout, &value)?;
    format(FormatStyle::Printf, &format!("%{layout}{conversion}"), &[value])
}
