//! `str.format` and the `%` of strings. minijinja formats the values; this module adds what is
//! specific to Python.

use super::super::arguments::{Arguments, fail};
use super::super::{budget, text};
use minijinja::formatting::{FormatStyle, format};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// Maximum width and precision.
const MAX_WIDTH: u64 = 10_000;

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
            return Err(fail("format: unmatched brace"));
        };
        if field.contains('{') {
            return Err(fail("format: nested fields are not supported"));
        }
        budget::check()?;
        out.push_str(&replacement(field, arguments, &mut next)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(Value::from(out))
}

/// The text of a field, which consists of a name, a conversion and a format. `next` is the index of
/// the argument of the next field without a name.
fn replacement(field: &str, arguments: &Arguments, next: &mut usize) -> Result<String, Error> {
    let (name, layout) = field.split_once(':').unwrap_or((field, ""));
    let (name, conversion) = match name.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (name, None),
    };
    let value = field_value(name, arguments, next)?;
    let value = match conversion {
        None => value,
        Some("s") => Value::from(text::str(&value)),
        Some("r" | "a") => Value::from(text::repr(&value)),
        Some(other) => return Err(fail(format!("format: unknown conversion `!{other}`"))),
    };
    if layout.is_empty() {
        return Ok(text::str(&value));
    }
    charge_layout(layout, &value)?;
    if let Some(layout) = layout.strip_suffix('%') {
        let percentage = f64::try_from(value)? * 100.0;
        let layout = if layout.contains('.') {
            layout.to_owned()
        } else {
            format!("{layout}.6")
        };
        return Ok(format(
            FormatStyle::StrFormat,
            &format!("{{:{layout}f}}"),
            &[Value::from(percentage)],
        )? + "%");
    }
    format(FormatStyle::StrFormat, &format!("{{:{layout}}}"), &[value])
}

/// The value of a field, whose name is an argument and a path of attributes and items.
fn field_value(name: &str, arguments: &Arguments, next: &mut usize) -> Result<Value, Error> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(end);
    let missing = || fail(format!("format: no argument for `{{{name}}}`"));
    let index = if first.is_empty() {
        *next += 1;
        Some(*next - 1)
    } else {
        first.parse().ok()
    };
    let mut value = match index {
        Some(index) => arguments.positional().get(index).cloned(),
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
        let name = match field.strip_prefix('(').and_then(|field| field.split_once(')')) {
            Some((name, after)) => {
                field = after;
                Some(name)
            }
            None => None,
        };
        let end = field
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | ' ' | '#' | '.'))
            .ok_or_else(|| fail("format: incomplete format"))?;
        let (layout, conversion) = field.split_at(end);
        let conversion = conversion.chars().next().unwrap_or('s');
        let value = match name {
            Some(name) => arguments.get(usize::MAX, name)?,
            None => {
                next += 1;
                arguments.positional().get(next - 1).cloned()
            }
        };
        let value = value.ok_or_else(|| fail("format: not enough arguments"))?;
        budget::check()?;
        out.push_str(&conversion_text(layout, conversion, value)?);
        rest = &field[end + conversion.len_utf8()..];
    }
    out.push_str(rest);
    if arguments.positional().len() > next {
        return Err(fail("format: too many arguments"));
    }
    Ok(Value::from(out))
}

/// Charges the bytes of a formatted value.
///
/// # Errors
/// If a width or a precision exceeds [`MAX_WIDTH`], or the value is an object.
fn charge_layout(layout: &str, value: &Value) -> Result<(), Error> {
    for number in layout
        .split(|c: char| !c.is_ascii_digit())
        .filter(|number| !number.is_empty())
    {
        let number = number.parse::<u64>().ok().filter(|&number| number <= MAX_WIDTH);
        let number = number.ok_or_else(|| fail(format!("format: widths above {MAX_WIDTH} are not supported")))?;
        // The text may have separators between the digits, and is copied a few times.
        budget::charge(number.saturating_mul(4))?;
    }
    if value.as_object().is_some() {
        return Err(fail(format!("format: a {} cannot have a format", value.kind())));
    }
    budget::charge(256 + 2 * value.as_str().map_or(0, budget::length))
}

fn conversion_text(layout: &str, conversion: char, value: Value) -> Result<String, Error> {
    let (conversion, value) = match conversion {
        's' => ('s', Value::from(text::str(&value))),
        'r' | 'a' => ('s', Value::from(text::repr(&value))),
        #[expect(clippy::cast_possible_truncation, reason = "truncated as in Python")]
        'd' | 'i' | 'u' if value.kind() == ValueKind::Number && !value.is_integer() => {
            ('d', Value::from(f64::try_from(value)?.trunc() as i64))
        }
        'i' | 'u' => ('d', value),
        other => (other, value),
    };
    charge_layout(layout, &value)?;
    format(FormatStyle::Printf, &format!("%{layout}{conversion}"), &[value])
}
