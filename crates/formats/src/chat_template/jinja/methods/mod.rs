//! The methods that Python's texts, lists and dictionaries have, but for those that change what they are called on: Jinja's
//! sandbox forbids them.

mod format;
mod string;

pub(super) use format::percent;
pub(super) use string::{capitalize, centered, line_count, lines, replaced};

use super::arguments::{Arguments, fail};
use super::source::names::{ITEM, SLICE};
use super::views::{Shows, View};
use super::{budget, list, slice, text};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Calls a method that a value itself does not have.
pub(super) fn call(_: &mut State, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    // These look at no more than the length of their argument, or at one place.
    let quick = match method {
        "startswith" | "endswith" => true,
        ITEM => matches!(value.kind(), ValueKind::Seq | ValueKind::Map),
        _ => false,
    };
    if !quick {
        budget::go_along(value)?;
    }
    for argument in arguments {
        budget::go_along(argument)?;
    }
    let arguments = Arguments::new(arguments.to_vec())?;
    match method {
        SLICE => return slice::slice(value, &arguments),
        ITEM => {
            let key = arguments.need(0, "key")?;
            budget::go_through(&key)?;
            return value.get_item(&key);
        }
        _ => {}
    }
    let made = match value.kind() {
        ValueKind::String => string::call(value, method, &arguments),
        ValueKind::Map if !text::is_namespace(value) => dictionary(value, method, &arguments),
        ValueKind::Seq | ValueKind::Iterable => items(value, method, &arguments),
        _ => Err(unknown()),
    };
    budget::check()?;
    made
}

fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn dictionary(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let Some(object) = value.as_object() else {
        return Err(unknown());
    };
    let view = |shows| {
        arguments.done(0)?;
        budget::room(budget::go_along(value)?.saturating_mul(4 * budget::NODE))?;
        View::of(object, shows)
    };
    match method {
        "keys" => view(Shows::Keys),
        "values" => view(Shows::Values),
        "items" => view(Shows::Items),
        "copy" => {
            arguments.done(0)?;
            budget::room(budget::go_along(value)?.saturating_mul(4 * budget::NODE))?;
            list::dictionary(object.try_iter_pairs().into_iter().flatten().collect())
        }
        "get" => {
            let (&[ref key] | &[ref key, _]) = arguments.positional() else {
                return Err(fail("get: one or two arguments are expected"));
            };
            arguments.done(2)?;
            budget::go_through(key)?;
            let default = arguments.positional().get(1).cloned();
            Ok(object
                .get_value(key)
                .unwrap_or_else(|| default.unwrap_or_else(|| Value::from(()))))
        }
        _ => Err(unknown()),
    }
}

fn items(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    match method {
        "copy" => {
            arguments.done(0)?;
            budget::room(budget::go_along(value)?.saturating_mul(budget::NODE))?;
            list::list(value.try_iter()?.collect())
        }
        "count" | "index" => {
            let wanted = arguments.need(0, "value")?;
            arguments.done(1)?;
            budget::go_through(value)?;
            let each = budget::go_through(&wanted)?;
            budget::work(each.saturating_mul(budget::go_along(value)?));
            budget::check()?;
            let mut items = value.try_iter()?;
            if method == "count" {
                return Ok(Value::from(items.filter(|item| *item == wanted).count()));
            }
            let place = items.position(|item| item == wanted);
            place
                .map(Value::from)
                .ok_or_else(|| fail(format!("{} is not in the list", text::repr(&wanted))))
        }
        _ => Err(unknown()),
    }
}
