//! `a[start:stop:step]`, as Python cuts texts, lists and tuples.

use super::arguments::{Arguments, fail};
use super::budget;
use super::list::{self, List};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// A part of a value; of what cannot be cut undefined, as Jinja 2 has it.
pub(super) fn slice(value: &Value, arguments: &Arguments) -> Result<Value, Error> {
    let start = arguments.integer(0, "start")?;
    let stop = arguments.integer(1, "stop")?;
    let step = arguments.integer(2, "step")?.unwrap_or(1);
    if step == 0 {
        return Err(fail("a slice cannot have steps of 0"));
    }
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            budget::room(budget::length(text).saturating_mul(6))?;
            let characters: Vec<char> = text.chars().collect();
            let part: String = places(characters.len(), start, stop, step)
                .map(|place| characters[place])
                .collect();
            budget::spend(budget::length(&part))?;
            Ok(if value.is_safe() {
                Value::from_safe_string(part)
            } else {
                Value::from(part)
            })
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let gathered: Vec<Value>;
            let items = match value.downcast_object_ref::<List>() {
                Some(list) => list.items(),
                None => {
                    gathered = value.try_iter()?.collect();
                    &gathered
                }
            };
            let part = places(items.len(), start, stop, step).map(|place| items[place].clone());
            if value.is_tuple() {
                list::tuple(part.collect())
            } else {
                list::list(part.collect())
            }
        }
        ValueKind::Undefined => Err(fail("what is undefined cannot be sliced")),
        _ => Ok(Value::UNDEFINED),
    }
}

/// The places that a slice takes of so many.
fn places(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // Backwards it ends before the first one.
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |place: i64| {
        let from_start = if place < 0 { place.saturating_add(length) } else { place };
        from_start.clamp(lowest, highest)
    };
    let start = start.map_or(if step > 0 { lowest } else { highest }, bound);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, bound);
    let mut next = start;
    std::iter::from_fn(move || {
        let place = next;
        let inside = if step > 0 { place < stop } else { place > stop };
        next = place.saturating_add(step);
        inside.then_some(place).and_then(|place| usize::try_from(place).ok())
    })
}
