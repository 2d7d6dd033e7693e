//! Filters (`| …`) with the semantics of Jinja 2.

use super::arguments::{Arguments, fail};
use super::containers::Generator;
use super::striptags::striptags;
use super::text::{is_space, one_of, strip};
use super::{budget, build, size};
use super::{methods, text};
use crate::tokenizer::NONCHARACTERS;
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use std::borrow::Cow;

/// A filter: a function of a value and arguments.
pub(super) type Filter = fn(&Value, &Arguments) -> Result<Value, Error>;

/// Adds the filters that minijinja lacks or defines differently.
pub(super) fn add(environment: &mut Environment<'_>) {
    const PLAIN: [(&str, Filter); 35] = [
        ("abs", abs),
        ("attr", |_, _| Ok(Value::UNDEFINED)),
        ("capitalize", |value, _| map_text(value, methods::capitalize)),
        ("center", center),
        ("count", length),
        ("d", default),
        ("default", default),
        ("dictsort", dictsort),
        ("e", escape),
        ("escape", escape),
        ("first", first),
        ("float", float),
        ("forceescape", |value, _| Ok(escaped(&text::str(value)))),
        ("format", |value, arguments| {
            methods::percent(&text::str(value), arguments)
        }),
        ("indent", indent),
        ("int", int),
        ("items", items),
        ("join", join),
        ("last", last),
        ("length", length),
        ("lower", |value, _| map_text(value, str::to_lowercase)),
        ("replace", replace),
        ("reverse", reverse),
        ("round", round),
        ("safe", |value, _| Ok(Value::from_safe_string(text::str(value)))),
        ("string", |value, _| map_text(value, str::to_owned)),
        ("striptags", |value, _| {
            let text = text::str(value);
            // `striptags` collects a list of words.
            budget::check_bytes(budget::length(&text).saturating_mul(12))?;
            Ok(Value::from(striptags(&text)))
        }),
        ("title", |value, _| map_text(value, title)),
        ("trim", trim),
        ("truncate", truncate),
        ("upper", |value, _| map_text(value, str::to_uppercase)),
        ("urlencode", urlencode),
        ("wordcount", wordcount),
        ("list", as_list),
        ("pprint", |value, _| Ok(Value::from(text::repr(value)))),
    ];
    const CHEAP: [&str; 8] = ["count", "d", "default", "first", "last", "length", "safe", "string"];
    for (name, filter) in PLAIN {
        let is_cheap = CHEAP.contains(&name);
        environment.add_filter(name, move |arguments: Rest<ValueOrKwargs>| {
            let (value, arguments) = Arguments::of_filter(arguments)?;
            budget::charge_scan(&value)?;
            if !is_cheap {
                // The other filters process every character.
                budget::charge_work(value.as_str().map_or(0, |text| 8 * budget::length(text)));
            }
            for argument in arguments.positional() {
                budget::charge_scan(argument)?;
            }
            let result = filter(&value, &arguments)?;
            if let Some(text) = result.as_str()
                && value.as_str().map(str::as_ptr) != Some(text.as_ptr())
            {
                budget::charge(2 * budget::length(text))?;
            }
            budget::check()?;
            Ok(result)
        });
    }
    // Not in Jinja 2.
    for name in ["split", "lines", "bool", "chain", "zip"] {
        environment.remove_filter(name);
    }
    add_generators(environment);
    add_charged(environment);
}

/// The internal name of one of minijinja's filters, which is not valid in a template.
fn internal_name(name: &str) -> String {
    format!("{name}!")
}

/// Adds minijinja's filters that sort values or build lists of lists. They charge in advance.
fn add_charged(environment: &mut Environment<'_>) {
    environment.add_filter(internal_name("sort"), filters::sort);
    environment.add_filter(internal_name("min"), filters::min);
    environment.add_filter(internal_name("max"), filters::max);
    environment.add_filter(internal_name("unique"), filters::unique);
    environment.add_filter(internal_name("groupby"), filters::groupby);
    environment.add_filter(internal_name("batch"), filters::batch);
    environment.add_filter(internal_name("slice"), filters::slice);
    for name in ["sort", "min", "max", "unique", "groupby", "batch", "slice"] {
        let internal = internal_name(name);
        environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            let Some(value) = arguments.first() else {
                return Err(Error::from(ErrorKind::MissingArgument));
            };
            let items = budget::charge_scan(value)?;
            if matches!(name, "batch" | "slice") {
                let lists = arguments.get(1).and_then(Value::as_usize).unwrap_or(1) as u64;
                // With a third argument the last batch is filled up. The number of slices is an
                // argument.
                let lists = if name == "slice" || arguments.len() > 2 {
                    lists
                } else {
                    0
                };
                budget::check_bytes(items.saturating_add(lists).saturating_mul(3 * budget::VALUE_BYTES))?;
                budget::charge_work(lists.saturating_mul(32));
            } else {
                // Each value is lower-cased and compared about log2(items) times.
                let bytes = arguments.iter().map(size::charge_deep).sum::<Result<u64, Error>>()?;
                budget::check_bytes(bytes.saturating_mul(3))?;
                let bits = u64::from(u64::BITS - items.leading_zeros());
                budget::charge_work((bytes + 64 * items).saturating_mul(2 * bits));
            }
            budget::check()?;
            let result = state.apply_filter(&internal, &arguments)?;
            match name {
                "min" | "max" => Ok(result),
                "groupby" => build::list(
                    result
                        .try_iter()?
                        .map(|group| build::GroupTuple::convert(&group))
                        .collect::<Result<_, _>>()?,
                ),
                _ => build::into_owned(result),
            }
        });
    }
}

/// Adds the filters that return a generator, which is empty for a false value.
fn add_generators(environment: &mut Environment<'_>) {
    type Args = Rest<ValueOrKwargs>;
    environment.add_filter("map", |state: &mut State, value: Value, args: Args| {
        let args = args.into_values();
        // The name of a filter must not be an internal one.
        if args
            .first()
            .and_then(Value::as_str)
            .is_some_and(|name| name.ends_with('!'))
        {
            return Err(Error::from(ErrorKind::UnknownFilter));
        }
        generator("sync_do_map", &value, |value| filters::map(state, value, rest(args)))
    });
    environment.add_filter("select", |state: &mut State, value: Value, args: Args| {
        let (test, args) = leading_name(args.into_values())?;
        generator("select_or_reject", &value, |value| {
            filters::select(state, value, test, args)
        })
    });
    environment.add_filter("reject", |state: &mut State, value: Value, args: Args| {
        let (test, args) = leading_name(args.into_values())?;
        generator("select_or_reject", &value, |value| {
            filters::reject(state, value, test, args)
        })
    });
    environment.add_filter("selectattr", |state: &mut State, value: Value, args: Args| {
        let (field, test, args) = field_and_test(args)?;
        generator("select_or_reject", &value, |value| {
            filters::selectattr(state, value, field, test, args)
        })
    });
    environment.add_filter("rejectattr", |state: &mut State, value: Value, args: Args| {
        let (field, test, args) = field_and_test(args)?;
        generator("select_or_reject", &value, |value| {
            filters::rejectattr(state, value, field, test, args)
        })
    });
}

type Name = Option<Cow<'static, str>>;

fn rest(values: Vec<Value>) -> Rest<ValueOrKwargs> {
    Rest(values.into_iter().map(ValueOrKwargs::from).collect())
}

/// The name in the first argument, if any, and the other arguments. Values that are not strings or
/// integers are refused, since converting them to a string could take unbounded time.
fn leading_name(mut arguments: Vec<Value>) -> Result<(Name, Rest<ValueOrKwargs>), Error> {
    if arguments.first().is_none_or(Value::is_kwargs) {
        return Ok((None, rest(arguments)));
    }
    let name = match arguments.remove(0) {
        name if name.as_str().is_some_and(|name| name.len() <= 1000) => {
            name.as_str().map(|name| Cow::Owned(name.to_owned()))
        }
        name if name.is_integer() => Some(Cow::Owned(name.to_string())),
        other => {
            return Err(fail(format!(
                "expected the name of a test or a field, got {}",
                other.kind()
            )));
        }
    };
    Ok((name, rest(arguments)))
}

fn field_and_test(arguments: Rest<ValueOrKwargs>) -> Result<(Cow<'static, str>, Name, Rest<ValueOrKwargs>), Error> {
    let (field, arguments) = leading_name(arguments.into_values())?;
    let field = field.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    let (test, arguments) = leading_name(arguments.into_values())?;
    Ok((field, test, arguments))
}

fn generator(
    name: &'static str,
    value: &Value,
    values: impl FnOnce(Value) -> Result<Vec<Value>, Error>,
) -> Result<Value, Error> {
    budget::check_bytes(budget::charge_scan(value)?.saturating_mul(budget::VALUE_BYTES))?;
    let values = if value.is_true() {
        values(value.clone())?
    } else {
        Vec::new()
    };
    build::generator(name, values)
}

/// Applies a function to a value's text. Safe text stays safe.
fn map_text<T: Into<String>>(value: &Value, map: impl FnOnce(&str) -> T) -> Result<Value, Error> {
    // Changing the case can make a letter three times as long.
    budget::check_bytes(4 * value.as_str().map_or(0, budget::length))?;
    let text = map(&text::str(value)).into();
    Ok(if value.is_safe() {
        Value::from_safe_string(text)
    } else {
        Value::from(text)
    })
}

pub(super) fn is_string(value: &Value) -> bool {
    value.kind() == ValueKind::String
}

/// Python's `%` of a string.
pub(super) fn modulo(value: &Value, right: &Value) -> Result<Value, Error> {
    let arguments = match right.kind() {
        ValueKind::Map => Kwargs::from_iter(
            right
                .as_object()
                .and_then(|object| object.try_iter_pairs())
                .into_iter()
                .flatten()
                .map(|(key, value)| (text::str(&key), value)),
        )
        .into(),
        _ if right.is_tuple() => {
            return methods::percent(&text::str(value), &Arguments::new(right.try_iter()?.collect())?);
        }
        _ => right.clone(),
    };
    // Python allows an unused argument that is not a string or a number.
    let pattern = text::str(value);
    let may_be_unused = !matches!(right.kind(), ValueKind::String | ValueKind::Number);
    let is_unused = !pattern.replace("%%", "").contains('%') && may_be_unused;
    let arguments = if is_unused { Vec::new() } else { vec![arguments] };
    methods::percent(&pattern, &Arguments::new(arguments)?)
}

/// A value as a number. Booleans count as numbers.
fn numeric(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number => Ok(value.clone()),
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        other => Err(fail(format!("expected a number, got {other}"))),
    }
}

fn abs(value: &Value, _: &Arguments) -> Result<Value, Error> {
    filters::abs(numeric(value)?)
}

fn center(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let width = arguments.integer(0, "width")?.unwrap_or(80);
    map_text(value, |text| methods::center(text, width, ' '))
}

fn length(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(0));
    }
    filters::length(value).map(Value::from)
}

fn default(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let default = arguments.get(0, "default_value")?;
    let boolean = arguments.flag(1, "boolean")?.unwrap_or(false);
    arguments.done(2)?;
    Ok(if value.is_undefined() || (boolean && !value.is_true()) {
        default.unwrap_or_else(|| Value::from(""))
    } else {
        value.clone()
    })
}

fn dictsort(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let case_sensitive = arguments.flag(0, "case_sensitive")?.unwrap_or(false);
    let by_value = match arguments.optional_text(1, "by")?.as_deref() {
        None | Some("key") => false,
        Some("value") => true,
        Some(_) => return Err(fail("dictsort: `by` must be \"key\" or \"value\"")),
    };
    let reverse = arguments.flag(2, "reverse")?.unwrap_or(false);
    arguments.done(3)?;
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let pairs = object.and_then(|object| object.try_iter_pairs());
    let pairs = pairs.ok_or_else(|| fail(format!("dictsort: expected a dictionary, got {}", value.kind())))?;
    let bytes = size::charge_deep(value)?;
    budget::check_bytes(bytes.saturating_mul(4))?;
    budget::charge_work(bytes.saturating_mul(32));
    budget::check()?;
    let mut keyed: Vec<(Value, Value)> = pairs
        .map(|(key, value)| {
            let sort_key = if by_value { &value } else { &key };
            let sort_key = match sort_key.as_str() {
                Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
                _ => sort_key.clone(),
            };
            (sort_key, Value::from(Tuple::from([key, value])))
        })
        .collect();
    // Stable in both directions, as in Python.
    keyed.sort_by(|(a, _), (b, _)| if reverse { b.cmp(a) } else { a.cmp(b) });
    build::list(keyed.into_iter().map(|(_, pair)| pair).collect())
}

/// Escapes a string for HTML, with the same entities as MarkupSafe.
pub(super) fn escaped(text: &str) -> Value {
    if budget::check_bytes(budget::length(text).saturating_mul(6)).is_err() {
        return Value::from_safe_string(String::new());
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    Value::from_safe_string(out)
}

fn escape(value: &Value, _: &Arguments) -> Result<Value, Error> {
    Ok(if value.is_safe() {
        value.clone()
    } else {
        escaped(&text::str(value))
    })
}

fn first(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    Ok(iterate(value)?.next().unwrap_or_default())
}

fn last(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    Ok(iterate(value)?.last().unwrap_or_default())
}

/// Iterates over a value as Python does: `none` is an error.
fn iterate(value: &Value) -> Result<impl Iterator<Item = Value>, Error> {
    if value.is_none() {
        return Err(fail("none is not iterable"));
    }
    value.try_iter()
}

fn as_list(value: &Value, _: &Arguments) -> Result<Value, Error> {
    budget::check_bytes(budget::charge_scan(value)?.saturating_mul(budget::VALUE_BYTES))?;
    build::list(value.try_iter()?.collect())
}

fn float(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let default = arguments.get(0, "default")?.unwrap_or_else(|| Value::from(0.0));
    arguments.done(1)?;
    Ok(as_float(value).map_or(default, Value::from))
}

/// Parses a number as Python's `float` does.
fn as_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::String => {
            let text = strip(value.as_str()?).replace('_', "");
            text.parse().ok()
        }
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => f64::try_from(value.clone()).ok(),
    }
}

fn int(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let default = arguments.get(0, "default")?.unwrap_or_else(|| Value::from(0));
    let base = arguments.integer(1, "base")?.unwrap_or(10);
    arguments.done(2)?;
    if value.is_integer() && value.kind() == ValueKind::Number {
        return Ok(value.clone());
    }
    let text = value.as_str().filter(|_| is_string(value));
    if let Some(integer) = text.and_then(|text| as_integer(text, base)) {
        return Ok(i64::try_from(integer).map_or_else(|_| Value::from(integer), Value::from));
    }
    match as_float(value) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within the bounds, and truncated as in Python"
        )]
        Some(float) if float.abs() < 1e38 => Ok(match float.trunc() as i128 {
            small if i64::try_from(small).is_ok() => Value::from(small as i64),
            large => Value::from(large),
        }),
        _ => Ok(default),
    }
}

/// Parses an integer in a base as Python's `int` does.
fn as_integer(text: &str, base: i64) -> Option<i128> {
    let text = strip(text);
    let (is_negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let digits = digits.to_lowercase().replace('_', "");
    let (prefix_len, prefix_base) = match digits.get(..2) {
        Some("0x") => (2, 16),
        Some("0o") => (2, 8),
        Some("0b") => (2, 2),
        _ => (0, 10),
    };
    let (digits, base) = match base {
        0 => (&digits[prefix_len..], prefix_base),
        base if base == i64::from(prefix_base) => (&digits[prefix_len..], prefix_base),
        base => (
            &digits[..],
            u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?,
        ),
    };
    let integer = i128::from_str_radix(digits, base)
        .ok()
        .filter(|_| !digits.starts_with(['-', '+']))?;
    Some(if is_negative { -integer } else { integer })
}

fn indent(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let width = arguments.get(0, "width")?.unwrap_or_else(|| Value::from(4));
    let first = arguments.flag(1, "first")?.unwrap_or(false);
    let blank = arguments.flag(2, "blank")?.unwrap_or(false);
    arguments.done(3)?;
    if !is_string(value) && !value.is_undefined() {
        return Err(fail(format!("indent: expected a string, got {}", value.kind())));
    }
    let indentation = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(width.as_i64().unwrap_or(0)).unwrap_or(0).min(1000)),
    };
    let (length, lines) = value
        .as_str()
        .map_or((0, 0), |text| (budget::length(text), methods::line_count(text)));
    let bytes_per_line = budget::length(&indentation).saturating_add(32);
    budget::check_bytes(lines.saturating_mul(bytes_per_line).saturating_add(length * 2))?;
    map_text(value, |text| {
        let mut out = String::new();
        for (index, line) in methods::lines(&format!("{text}\n"), false).iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
            if is_indented {
                out.push_str(&indentation);
            }
            out.push_str(line);
        }
        out
    })
}

fn items(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return build::generator("do_items", Vec::new());
    }
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let pairs = object.and_then(|object| object.try_iter_pairs());
    let pairs = pairs.ok_or_else(|| fail("Can only get item pairs from a mapping."))?;
    let pairs = pairs.map(|(key, value)| Value::from(Tuple::from([key, value])));
    budget::check_bytes(budget::charge_scan(value)?.saturating_mul(3 * budget::VALUE_BYTES))?;
    build::generator("do_items", pairs.collect())
}

fn join(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let separator = arguments
        .get(0, "d")?
        .map(|separator| text::str(&separator))
        .unwrap_or_default();
    let attribute = arguments.get(1, "attribute")?;
    arguments.done(2)?;
    let mut out = String::new();
    for (index, item) in iterate(value)?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        budget::charge(budget::length(&separator))?;
        match &attribute {
            Some(path) => out.push_str(&text::str(&field(&item, path)?)),
            None => out.push_str(&text::str(&item)),
        }
    }
    Ok(Value::from(out))
}

/// A field of an item, given by name, dotted path or index.
pub(super) fn field(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else {
        return item.get_item(path);
    };
    path.split('.')
        .try_fold(item.clone(), |value, part| match part.parse::<usize>() {
            Ok(index) => value.get_item(&Value::from(index)),
            Err(_) => value.get_attr(part),
        })
}

fn replace(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let old = text::str(&arguments.required(0, "old")?);
    let new = text::str(&arguments.required(1, "new")?);
    let count = arguments.integer(2, "count")?;
    arguments.done(3)?;
    methods::replace(&text::str(value), &old, &new, count.unwrap_or(-1)).map(Value::from)
}

fn reverse(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if is_string(value) {
        return map_text(value, |text| text.chars().rev().collect::<String>());
    }
    budget::check_bytes(budget::charge_scan(value)?.saturating_mul(budget::VALUE_BYTES))?;
    let mut values: Vec<Value> = iterate(value)?.collect();
    values.reverse();
    if value.downcast_object_ref::<Generator>().is_some() {
        return build::list(values);
    }
    build::generator("reversed", values)
}

fn round(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let precision = arguments.integer(0, "precision")?.unwrap_or(0);
    let method = arguments.optional_text(1, "method")?;
    arguments.done(2)?;
    let number = numeric(value)?;
    let precision = i32::try_from(precision.clamp(-400, 400)).unwrap_or(0);
    let float = f64::try_from(number.clone())?;
    let scale = 10_f64.powi(precision);
    match method.as_deref() {
        Some("floor") => Ok(Value::from((float * scale).floor() / scale)),
        Some("ceil") => Ok(Value::from((float * scale).ceil() / scale)),
        None | Some("common") if number.is_integer() && precision >= 0 => Ok(number),
        None | Some("common") => {
            let rounded = if precision >= 0 {
                // Rounds the decimal digits, since scaling the number would add an error.
                format!("{float:.*}", precision.unsigned_abs() as usize)
                    .parse()
                    .unwrap_or(float)
            } else {
                (float * scale).round_ties_even() / scale
            };
            #[expect(clippy::cast_possible_truncation, reason = "a rounded integer is an integer")]
            Ok(if number.is_integer() {
                Value::from(rounded as i64)
            } else {
                Value::from(rounded)
            })
        }
        Some(_) => Err(fail("method must be common, ceil or floor")),
    }
}

/// Title case: upper case after white space, hyphens and opening brackets, lower case elsewhere.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut starts_word = true;
    for character in text.chars() {
        if starts_word {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        starts_word = is_space(character) || matches!(character, '-' | '(' | '{' | '[' | '<');
    }
    out
}

fn trim(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let characters = arguments.optional_text(0, "chars")?;
    arguments.done(1)?;
    map_text(value, |text| match &characters {
        Some(characters) => text.trim_matches(one_of(characters)).to_owned(),
        None => strip(text).to_owned(),
    })
}

fn truncate(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let length = arguments.integer(0, "length")?.unwrap_or(255);
    let kill_words = arguments.flag(1, "killwords")?.unwrap_or(false);
    let end = arguments.optional_text(2, "end")?.unwrap_or_else(|| "...".to_owned());
    let leeway = arguments.integer(3, "leeway")?.unwrap_or(5);
    arguments.done(4)?;
    let whole = text::str(value);
    budget::check_bytes(2 * budget::length(&whole) + budget::length(&end))?;
    let count = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let max_chars = length.saturating_sub(count(&end));
    if max_chars < 0 || leeway < 0 {
        return Err(fail("truncate: the length is less than the length of `end`"));
    }
    if count(&whole) <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let head: String = whole.chars().take(usize::try_from(max_chars).unwrap_or(0)).collect();
    let head = match head.rsplit_once(' ') {
        Some((words, _)) if !kill_words => words,
        _ => &head,
    };
    Ok(Value::from(format!("{head}{end}")))
}

fn urlencode(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if let Some(object) = value.as_object().filter(|_| value.kind() == ValueKind::Map) {
        let pairs = object.try_iter_pairs().into_iter().flatten();
        let pairs: Vec<String> = pairs
            .map(|(key, value)| format!("{}={}", percent_encode(&key, true), percent_encode(&value, true)))
            .collect();
        return Ok(Value::from(pairs.join("&")));
    }
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let pair = |pair: Value| -> Result<String, Error> {
            let pair: Vec<Value> = pair.try_iter()?.collect();
            let [key, value] = &pair[..] else {
                return Err(fail("urlencode: expected pairs"));
            };
            Ok(format!("{}={}", percent_encode(key, true), percent_encode(value, true)))
        };
        let pairs: Result<Vec<String>, Error> = value.try_iter()?.map(pair).collect();
        return Ok(Value::from(pairs?.join("&")));
    }
    Ok(Value::from(percent_encode(value, false)))
}

fn percent_encode(value: &Value, in_query: bool) -> String {
    let text = text::str(value);
    if budget::check_bytes(budget::length(&text).saturating_mul(3)).is_err()
        || !budget::charge_work(64 * budget::length(&text))
    {
        return String::new();
    }
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' | '.' | '-' | '~' => out.push(character),
            '/' if !in_query => out.push('/'),
            ' ' if in_query => out.push('+'),
            // May be a marker that breaks up a token in the text, so it must stay intact.
            _ if NONCHARACTERS.contains(&character) => out.push(character),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    budget::charge_bytes(budget::length(&out));
    out
}

fn wordcount(value: &Value, _: &Arguments) -> Result<Value, Error> {
    let text = text::str(value);
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
}
