//! Python's slices of strings, lists and tuples: `a[start:stop:step]`.

use super::arguments::{Arguments, fail};
use super::budget;
use super::build;
use super::containers::List;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// A slice of a value. Undefined for values without slices, as in Jinja 2.
pub(super) fn slice(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let start = arguments.integer(0, "start")?;
    let stop = arguments.integer(1, "stop")?;
    let step = arguments.integer(2, "step")?.unwrap_or(1);
    if step == 0 {
        return Err(fail("slice step cannot be 0"));
    }
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            budget::check_bytes(budget::length(text).saturating_mul(6))?;
            let characters: Vec<char> = text.chars().collect();
            let part: String = indices(characters.len(), start, stop, step)
                .map(|index| characters[index])
                .collect();
            budget::charge(budget::length(&part))?;
            Ok(if value.is_safe() {
                Value::from_safe_string(part)
            } else {
                Value::from(part)
            })
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let collected: Vec<Value>;
            let items = match value.downcast_object_ref::<List>() {
                Some(list) => list.items(),
                None => {
                    collected = value.try_iter()?.collect();
                    &collected
                }
            };
            let part = indices(items.len(), start, stop, step).map(|index| items[index].clone());
            if value.is_tuple() {
                build::tuple(part.collect())
            } else {
                build::list(part.collect())
            }
        }
        ValueKind::Undefined => Err(fail("an undefined value cannot be sliced")),
        _ => Ok(Value::UNDEFINED),
    }
}

/// The indices that a slice of `length` items selects.
fn indices(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // A negative step ends before index 0.
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |index: i64| {
        let from_start = if index < 0 { index.saturating_add(length) } else { index };
        from_start.clamp(lowest, highest)
    };
    let start = start.map_or(if step > 0 { lowest } else { highest }, bound);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, bound);
    let mut next = start;
    std::iter::from_fn(move || {
        let index = next;
        let is_inside = if step > 0 { index < stop } else { index > stop };
        next = index.saturating_add(step);
        is_inside.then_some(index).and_then(|index| usize::try_from(index).ok())
    })
}
