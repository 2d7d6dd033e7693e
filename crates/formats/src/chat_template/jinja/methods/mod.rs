//! Methods of Python's strings, lists and dictionaries. Those that mutate are missing, since
//! Jinja's sandbox forbids them.

mod format;
mod string;

pub(super) use format::percent;
pub(super) use string::{capitalize, center, line_count, lines, replace};

use super::arguments::{Arguments, fail};
use super::containers::ViewKind;
use super::source::names::{ITEM, SLICE};
use super::{budget, build, size, slice, text};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Calls a method that minijinja does not know.
pub(super) fn call(_: &mut State, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    // Methods that only read a part of the value as long as their argument, or a single item.
    let is_cheap = match method {
        "startswith" | "endswith" => true,
        ITEM => matches!(value.kind(), ValueKind::Seq | ValueKind::Map),
        _ => false,
    };
    if !is_cheap {
        budget::charge_scan(value)?;
    }
    for argument in arguments {
        budget::charge_scan(argument)?;
    }
    let arguments = Arguments::new(arguments.to_vec())?;
    match method {
        SLICE => return slice::slice(value, &arguments),
        ITEM => {
            let key = arguments.required(0, "key")?;
            size::charge_deep(&key)?;
            return value.get_item(&key);
        }
        _ => {}
    }
    let result = match value.kind() {
        ValueKind::String => string::call(value, method, &arguments),
        ValueKind::Map if !text::is_namespace(value) => dictionary(value, method, &arguments),
        ValueKind::Seq | ValueKind::Iterable => items(value, method, &arguments),
        _ => Err(unknown_method()),
    };
    budget::check()?;
    result
}

fn unknown_method() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn dictionary(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    let Some(object) = value.as_object() else {
        return Err(unknown_method());
    };
    let view = |kind| {
        arguments.done(0)?;
        budget::check_bytes(budget::charge_scan(value)?.saturating_mul(4 * budget::VALUE_BYTES))?;
        build::view(object, kind)
    };
    match method {
        "keys" => view(ViewKind::Keys),
        "values" => view(ViewKind::Values),
        "items" => view(ViewKind::Items),
        "copy" => {
            arguments.done(0)?;
            budget::check_bytes(budget::charge_scan(value)?.saturating_mul(4 * budget::VALUE_BYTES))?;
            build::dictionary(object.try_iter_pairs().into_iter().flatten().collect())
        }
        "get" => {
            let (&[ref key] | &[ref key, _]) = arguments.positional() else {
                return Err(fail("get: expected one or two arguments"));
            };
            arguments.done(2)?;
            size::charge_deep(key)?;
            let default = arguments.positional().get(1).cloned();
            Ok(object
                .get_value(key)
                .unwrap_or_else(|| default.unwrap_or_else(|| Value::from(()))))
        }
        _ => Err(unknown_method()),
    }
}

fn items(value: &Value, method: &str, arguments: &Arguments) -> Result<Value, Error> {
    match method {
        "copy" => {
            arguments.done(0)?;
            budget::check_bytes(budget::charge_scan(value)?.saturating_mul(budget::VALUE_BYTES))?;
            build::list(value.try_iter()?.collect())
        }
        "count" | "index" => {
            let target = arguments.required(0, "value")?;
            arguments.done(1)?;
            size::charge_deep(value)?;
            let target_bytes = size::charge_deep(&target)?;
            budget::charge_work(target_bytes.saturating_mul(budget::charge_scan(value)?));
            budget::check()?;
            let mut items = value.try_iter()?;
            if method == "count" {
                return Ok(Value::from(items.filter(|item| *item == target).count()));
            }
            let index = items.position(|item| item == target);
            index
                .map(Value::from)
                .ok_or_else(|| fail(format!("{} is not in the list", text::repr(&target))))
        }
        _ => Err(unknown_method()),
    }
}
