//! What stands after `|`, as Jinja 2 does it.

use super::arguments::{Arguments, fail};
use super::striptags::striptags;
use super::text::{is_space, one_of, strip};
use super::views::Generator;
use super::{budget, list};
use super::{methods, text};
use crate::tokenizer::NONCHARACTERS;
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use std::borrow::Cow;

/// What a filter of this module is: a value and arguments make a value.
pub(super) type Filter = fn(&Value, &Arguments) -> Result<Value, Error>;

/// Adds the filters that minijinja lacks or has in another way.
pub(super) fn add(environment: &mut Environment<'_>) {
    const PLAIN: [(&str, Filter); 35] = [
        ("abs", abs),
        ("attr", |_, _| Ok(Value::UNDEFINED)),
        ("capitalize", |value, _| of_text(value, methods::capitalize)),
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
        ("lower", |value, _| of_text(value, str::to_lowercase)),
        ("replace", replace),
        ("reverse", reverse),
        ("round", round),
        ("safe", |value, _| Ok(Value::from_safe_string(text::str(value)))),
        ("string", |value, _| of_text(value, str::to_owned)),
        ("striptags", |value, _| {
            let text = text::str(value);
            // Its words are listed.
            budget::room(budget::length(&text).saturating_mul(12))?;
            Ok(Value::from(striptags(&text)))
        }),
        ("title", |value, _| of_text(value, title)),
        ("trim", trim),
        ("truncate", truncate),
        ("upper", |value, _| of_text(value, str::to_uppercase)),
        ("urlencode", urlencode),
        ("wordcount", wordcount),
        ("list", as_list),
        ("pprint", |value, _| Ok(Value::from(text::repr(value)))),
    ];
    const QUICK: [&str; 8] = ["count", "d", "default", "first", "last", "length", "safe", "string"];
    for (name, filter) in PLAIN {
        let quick = QUICK.contains(&name);
        environment.add_filter(name, move |arguments: Rest<ValueOrKwargs>| {
            let (value, arguments) = Arguments::of_filter(arguments)?;
            budget::go_along(&value)?;
            if !quick {
                // They look at each character.
                budget::work(value.as_str().map_or(0, |text| 8 * budget::length(text)));
            }
            for argument in arguments.positional() {
                budget::go_along(argument)?;
            }
            let made = filter(&value, &arguments)?;
            if let Some(text) = made.as_str()
                && value.as_str().map(str::as_ptr) != Some(text.as_ptr())
            {
                budget::spend(2 * budget::length(text))?;
            }
            budget::check()?;
            Ok(made)
        });
    }
    // Jinja 2 has none of these.
    for name in ["split", "lines", "bool", "chain", "zip"] {
        environment.remove_filter(name);
    }
    add_generators(environment);
    add_bounded(environment);
}

/// What a filter of minijinja is called here, where no template can name it.
fn hidden(name: &str) -> String {
    format!("{name}!")
}

/// Filters of minijinja that are charged beforehand. They order values, or make lists of lists.
fn add_bounded(environment: &mut Environment<'_>) {
    environment.add_filter(hidden("sort"), filters::sort);
    environment.add_filter(hidden("min"), filters::min);
    environment.add_filter(hidden("max"), filters::max);
    environment.add_filter(hidden("unique"), filters::unique);
    environment.add_filter(hidden("groupby"), filters::groupby);
    environment.add_filter(hidden("batch"), filters::batch);
    environment.add_filter(hidden("slice"), filters::slice);
    for name in ["sort", "min", "max", "unique", "groupby", "batch", "slice"] {
        let hidden = hidden(name);
        environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            let Some(value) = arguments.first() else {
                return Err(Error::from(ErrorKind::MissingArgument));
            };
            let items = budget::go_along(value)?;
            if matches!(name, "batch" | "slice") {
                let lists = arguments.get(1).and_then(Value::as_usize).unwrap_or(1) as u64;
                // Batches may be filled up, slices are as many as are asked for.
                let lists = if name == "slice" || arguments.len() > 2 {
                    lists
                } else {
                    0
                };
                budget::room(items.saturating_add(lists).saturating_mul(3 * budget::NODE))?;
                budget::work(lists.saturating_mul(32));
            } else {
                // Each value is compared about as often as their number has bits, and put into lower case for that.
                let bytes = arguments.iter().map(budget::go_through).sum::<Result<u64, Error>>()?;
                budget::room(bytes.saturating_mul(3))?;
                let bits = u64::from(u64::BITS - items.leading_zeros());
                budget::work((bytes + 64 * items).saturating_mul(2 * bits));
            }
            budget::check()?;
            let made = state.apply_filter(&hidden, &arguments)?;
            match name {
                "min" | "max" => Ok(made),
                "groupby" => list::list(
                    made.try_iter()?
                        .map(|group| list::GroupTuple::of(&group))
                        .collect::<Result<_, _>>()?,
                ),
                _ => list::own(made),
            }
        });
    }
}

/// Those that give a generator, and nothing for whatever counts as false.
fn add_generators(environment: &mut Environment<'_>) {
    type More = Rest<ValueOrKwargs>;
    environment.add_filter("map", |state: &mut State, value: Value, more: More| {
        let more = more.into_values();
        if more
            .first()
            .and_then(Value::as_str)
            .is_some_and(|name| name.ends_with('!'))
        {
            return Err(Error::from(ErrorKind::UnknownFilter));
        }
        generator("sync_do_map", &value, |value| filters::map(state, value, rest(more)))
    });
    environment.add_filter("select", |state: &mut State, value: Value, more: More| {
        let (test, more) = word(more.into_values())?;
        generator("select_or_reject", &value, |value| {
            filters::select(state, value, test, more)
        })
    });
    environment.add_filter("reject", |state: &mut State, value: Value, more: More| {
        let (test, more) = word(more.into_values())?;
        generator("select_or_reject", &value, |value| {
            filters::reject(state, value, test, more)
        })
    });
    environment.add_filter("selectattr", |state: &mut State, value: Value, more: More| {
        let (field, test, more) = field_and_test(more)?;
        generator("select_or_reject", &value, |value| {
            filters::selectattr(state, value, field, test, more)
        })
    });
    environment.add_filter("rejectattr", |state: &mut State, value: Value, more: More| {
        let (field, test, more) = field_and_test(more)?;
        generator("select_or_reject", &value, |value| {
            filters::rejectattr(state, value, field, test, more)
        })
    });
}

type Word = Option<Cow<'static, str>>;

fn rest(values: Vec<Value>) -> Rest<ValueOrKwargs> {
    Rest(values.into_iter().map(ValueOrKwargs::from).collect())
}

/// The name that arguments begin with, if any, and the others. Nothing else is made a text of, which could take any time.
fn word(mut arguments: Vec<Value>) -> Result<(Word, Rest<ValueOrKwargs>), Error> {
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
                "the name of a test or a field is expected, not a {}",
                other.kind()
            )));
        }
    };
    Ok((name, rest(arguments)))
}

fn field_and_test(arguments: Rest<ValueOrKwargs>) -> Result<(Cow<'static, str>, Word, Rest<ValueOrKwargs>), Error> {
    let (field, arguments) = word(arguments.into_values())?;
    let field = field.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    let (test, arguments) = word(arguments.into_values())?;
    Ok((field, test, arguments))
}

fn generator(
    name: &'static str,
    value: &Value,
    values: impl FnOnce(Value) -> Result<Vec<Value>, Error>,
) -> Result<Value, Error> {
    budget::room(budget::go_along(value)?.saturating_mul(budget::NODE))?;
    let values = if value.is_true() {
        values(value.clone())?
    } else {
        Vec::new()
    };
    Generator::of(name, values)
}

/// A text made of a value's text; safe text stays safe.
fn of_text<T: Into<String>>(value: &Value, make: impl FnOnce(&str) -> T) -> Result<Value, Error> {
    // Letters in another case may be three times as long.
    budget::room(4 * value.as_str().map_or(0, budget::length))?;
    let made = make(&text::str(value)).into();
    Ok(if value.is_safe() {
        Value::from_safe_string(made)
    } else {
        Value::from(made)
    })
}

pub(super) fn is_text(value: &Value) -> bool {
    value.kind() == ValueKind::String
}

/// A text with values in it.
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
    // A list may stand where nothing asks for it.
    let pattern = text::str(value);
    let unused =
        !pattern.replace("%%", "").contains('%') && !matches!(right.kind(), ValueKind::String | ValueKind::Number);
    let arguments = if unused { Vec::new() } else { vec![arguments] };
    methods::percent(&pattern, &Arguments::new(arguments)?)
}

/// A number, as which a boolean counts too.
fn numeric(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number => Ok(value.clone()),
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        other => Err(fail(format!("a {other} is no number"))),
    }
}

fn abs(value: &Value, _: &Arguments) -> Result<Value, Error> {
    filters::abs(numeric(value)?)
}

fn center(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let width = arguments.integer(0, "width")?.unwrap_or(80);
    of_text(value, |text| methods::centered(text, width, ' '))
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
        Some(_) => return Err(fail("dictsort sorts by \"key\" or \"value\"")),
    };
    let reverse = arguments.flag(2, "reverse")?.unwrap_or(false);
    arguments.done(3)?;
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let pairs = object.and_then(|object| object.try_iter_pairs());
    let pairs = pairs.ok_or_else(|| fail(format!("dictsort: a {} is no dictionary", value.kind())))?;
    let bytes = budget::go_through(value)?;
    budget::room(bytes.saturating_mul(4))?;
    budget::work(bytes.saturating_mul(32));
    budget::check()?;
    let mut keyed: Vec<(Value, Value)> = pairs
        .map(|(key, value)| {
            let by = if by_value { &value } else { &key };
            let by = match by.as_str() {
                Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
                _ => by.clone(),
            };
            (by, Value::from(Tuple::from([key, value])))
        })
        .collect();
    // Equal ones stay in order when the order is reversed, too.
    keyed.sort_by(|(one, _), (other, _)| if reverse { other.cmp(one) } else { one.cmp(other) });
    list::list(keyed.into_iter().map(|(_, pair)| pair).collect())
}

/// A text as HTML, with Python's names for the signs.
pub(super) fn escaped(text: &str) -> Value {
    if budget::room(budget::length(text).saturating_mul(6)).is_err() {
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
    Ok(iterated(value)?.next().unwrap_or_default())
}

fn last(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    Ok(iterated(value)?.last().unwrap_or_default())
}

/// What Python iterates over, which none is not.
fn iterated(value: &Value) -> Result<impl Iterator<Item = Value>, Error> {
    if value.is_none() {
        return Err(fail("none is not iterable"));
    }
    value.try_iter()
}

fn as_list(value: &Value, _: &Arguments) -> Result<Value, Error> {
    budget::room(budget::go_along(value)?.saturating_mul(budget::NODE))?;
    list::list(value.try_iter()?.collect())
}

fn float(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let default = arguments.get(0, "default")?.unwrap_or_else(|| Value::from(0.0));
    arguments.done(1)?;
    Ok(as_float(value).map_or(default, Value::from))
}

/// A number as Python's `float` reads it.
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
    let read = value.as_str().filter(|_| is_text(value));
    if let Some(integer) = read.and_then(|text| as_integer(text, base)) {
        return Ok(i64::try_from(integer).map_or_else(|_| Value::from(integer), Value::from));
    }
    match as_float(value) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within the bounds, and cut off as Python does"
        )]
        Some(float) if float.abs() < 1e38 => Ok(match float.trunc() as i128 {
            small if i64::try_from(small).is_ok() => Value::from(small as i64),
            large => Value::from(large),
        }),
        _ => Ok(default),
    }
}

/// An integer as Python's `int` reads it in a base.
fn as_integer(text: &str, base: i64) -> Option<i128> {
    let text = strip(text);
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let digits = digits.to_lowercase().replace('_', "");
    let (prefix, of_prefix) = match digits.get(..2) {
        Some("0x") => (2, 16),
        Some("0o") => (2, 8),
        Some("0b") => (2, 2),
        _ => (0, 10),
    };
    let (digits, base) = match base {
        0 => (&digits[prefix..], of_prefix),
        base if base == i64::from(of_prefix) => (&digits[prefix..], of_prefix),
        base => (
            &digits[..],
            u32::try_from(base).ok().filter(|base| (2..=36).contains(base))?,
        ),
    };
    let integer = i128::from_str_radix(digits, base)
        .ok()
        .filter(|_| !digits.starts_with(['-', '+']))?;
    Some(if negative { -integer } else { integer })
}

fn indent(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let width = arguments.get(0, "width")?.unwrap_or_else(|| Value::from(4));
    let first = arguments.flag(1, "first")?.unwrap_or(false);
    let blank = arguments.flag(2, "blank")?.unwrap_or(false);
    arguments.done(3)?;
    if !is_text(value) && !value.is_undefined() {
        return Err(fail(format!("indent: a {} is no text", value.kind())));
    }
    let indention = match width.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(width.as_i64().unwrap_or(0)).unwrap_or(0).min(1000)),
    };
    let (length, lines) = value
        .as_str()
        .map_or((0, 0), |text| (budget::length(text), methods::line_count(text)));
    let each = budget::length(&indention).saturating_add(32);
    budget::room(lines.saturating_mul(each).saturating_add(length * 2))?;
    of_text(value, |text| {
        let mut out = String::new();
        for (place, line) in methods::lines(&format!("{text}\n"), false).iter().enumerate() {
            if place > 0 {
                out.push('\n');
            }
            let indented = if place == 0 { first } else { blank || !line.is_empty() };
            if indented {
                out.push_str(&indention);
            }
            out.push_str(line);
        }
        out
    })
}

fn items(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() {
        return Generator::of("do_items", Vec::new());
    }
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let pairs = object.and_then(|object| object.try_iter_pairs());
    let pairs = pairs.ok_or_else(|| fail("Can only get item pairs from a mapping."))?;
    let pairs = pairs.map(|(key, value)| Value::from(Tuple::from([key, value])));
    budget::room(budget::go_along(value)?.saturating_mul(3 * budget::NODE))?;
    Generator::of("do_items", pairs.collect())
}

fn join(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let between = arguments
        .get(0, "d")?
        .map(|between| text::str(&between))
        .unwrap_or_default();
    let attribute = arguments.get(1, "attribute")?;
    arguments.done(2)?;
    let mut out = String::new();
    for (place, item) in iterated(value)?.enumerate() {
        if place > 0 {
            out.push_str(&between);
        }
        budget::spend(budget::length(&between))?;
        match &attribute {
            Some(path) => out.push_str(&text::str(&field(&item, path)?)),
            None => out.push_str(&text::str(&item)),
        }
    }
    Ok(Value::from(out))
}

/// A field by its name, by a path with dots or by its place.
pub(super) fn field(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else {
        return item.get_item(path);
    };
    path.split('.')
        .try_fold(item.clone(), |value, part| match part.parse::<usize>() {
            Ok(place) => value.get_item(&Value::from(place)),
            Err(_) => value.get_attr(part),
        })
}

fn replace(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let old = text::str(&arguments.need(0, "old")?);
    let new = text::str(&arguments.need(1, "new")?);
    let count = arguments.integer(2, "count")?;
    arguments.done(3)?;
    methods::replaced(&text::str(value), &old, &new, count.unwrap_or(-1)).map(Value::from)
}

fn reverse(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if is_text(value) {
        return of_text(value, |text| text.chars().rev().collect::<String>());
    }
    budget::room(budget::go_along(value)?.saturating_mul(budget::NODE))?;
    let mut values: Vec<Value> = iterated(value)?.collect();
    values.reverse();
    if value.downcast_object_ref::<Generator>().is_some() {
        return list::list(values);
    }
    Generator::of("reversed", values)
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
                // The digits of the number itself decide, not those of a product.
                format!("{float:.*}", precision.unsigned_abs() as usize)
                    .parse()
                    .unwrap_or(float)
            } else {
                (float * scale).round_ties_even() / scale
            };
            #[expect(clippy::cast_possible_truncation, reason = "an integer that was rounded stays one")]
            Ok(if number.is_integer() {
                Value::from(rounded as i64)
            } else {
                Value::from(rounded)
            })
        }
        Some(_) => Err(fail("method must be common, ceil or floor")),
    }
}

/// Upper case after white space, hyphens and opening brackets, lower case elsewhere.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for character in text.chars() {
        if begins {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        begins = is_space(character) || matches!(character, '-' | '(' | '{' | '[' | '<');
    }
    out
}

fn trim(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let characters = arguments.optional_text(0, "chars")?;
    arguments.done(1)?;
    of_text(value, |text| match &characters {
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
    budget::room(2 * budget::length(&whole) + budget::length(&end))?;
    let count = |text: &str| i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let kept = length.saturating_sub(count(&end));
    if kept < 0 || leeway < 0 {
        return Err(fail("truncate: the length is less than that of the end"));
    }
    if count(&whole) <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let kept: String = whole.chars().take(usize::try_from(kept).unwrap_or(0)).collect();
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !kill_words => words,
        _ => &kept,
    };
    Ok(Value::from(format!("{kept}{end}")))
}

fn urlencode(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if let Some(object) = value.as_object().filter(|_| value.kind() == ValueKind::Map) {
        let pairs = object.try_iter_pairs().into_iter().flatten();
        let pairs: Vec<String> = pairs
            .map(|(key, value)| format!("{}={}", quoted(&key, true), quoted(&value, true)))
            .collect();
        return Ok(Value::from(pairs.join("&")));
    }
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let pair = |pair: Value| -> Result<String, Error> {
            let pair: Vec<Value> = pair.try_iter()?.collect();
            let [key, value] = &pair[..] else {
                return Err(fail("urlencode: pairs are expected"));
            };
            Ok(format!("{}={}", quoted(key, true), quoted(value, true)))
        };
        let pairs: Result<Vec<String>, Error> = value.try_iter()?.map(pair).collect();
        return Ok(Value::from(pairs?.join("&")));
    }
    Ok(Value::from(quoted(value, false)))
}

fn quoted(value: &Value, in_query: bool) -> String {
    let text = text::str(value);
    if budget::room(budget::length(&text).saturating_mul(3)).is_err() || !budget::work(64 * budget::length(&text)) {
        return String::new();
    }
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' | '.' | '-' | '~' => out.push(character),
            '/' if !in_query => out.push('/'),
            ' ' if in_query => out.push('+'),
            // One of these may mark texts that are no tokens; it must not become others.
            _ if NONCHARACTERS.contains(&character) => out.push(character),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    budget::take(budget::length(&out));
    out
}

fn wordcount(value: &Value, _: &Arguments) -> Result<Value, Error> {
    let text = text::str(value);
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(Value::from(words.filter(|word| !word.is_empty()).count()))
}
