//! The methods that Python's texts, lists and dictionaries have, but for those that change what they are called on: Jinja's
//! sandbox forbids them.

mod format;
mod string;

pub(super) use format::percent;
pub(super) use string::{capitalize, centered, lines, replaced};

use super::arguments::{Arguments, fail};
use super::source::SLICE;
use super::views::{Shows, View};
use super::{slice, text};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Calls a method that a value itself does not have.
pub(super) fn call(_: &mut State, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    let arguments = Arguments::new(arguments.to_vec())?;
    if method == SLICE {
        return slice::slice(value, &arguments);
    }
    match value.kind() {
        ValueKind::String => string::call(value, method, &arguments),
        ValueKind::Map if !text::is_namespace(value) => dictionary(value, method, &arguments),
        ValueKind::Seq | ValueKind::Iterable => list(value, method, &arguments),
        _ => Err(unknown()),
    }
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
        Ok(View::of(object, shows))
    };
    match method {
        "keys" => view(Shows::Keys),
        "values" => view(Shows::Values),
        "items" => view(Shows::Items),
        "copy" => {
            arguments.done(0)?;
            Ok(Value::from_pairs(object.try_iter_pairs().into_iter().flatten()))
        }
        "get" => {
            let (&[ref key] | &[ref key, _]) = arguments.positional() else {
                return Err(fail("get: one or two arguments are expected"));
            };
            arguments.done(2)?;
            let default = arguments.positional().get(1).cloned();
            Ok(object
                .get_value(key)
                .unwrap_or_else(|| default.unwrap_or_else(|| Value::from(()))))
        }
        _ => Err(unknown()),
    }
}

fn list(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    match method {
        "copy" => {
            arguments.done(0)?;
            Ok(value.try_iter()?.collect())
        }
        "count" | "index" => {
            let wanted = arguments.need(0, "value")?;
            arguments.done(1)?;
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
