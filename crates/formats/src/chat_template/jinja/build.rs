//! Builds containers and charges the budget for their items.

use super::arguments::fail;
use super::budget::{self, Size};
use super::containers::{Generator, List, View, ViewKind};
use super::size::{charge_deep, size};
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, Value};
use std::fmt;
use std::sync::Arc;

/// Builds a list from the input of a template, which is not charged.
pub(crate) fn input_list(items: Vec<Value>) -> Value {
    let size = Size::containing(items.iter().map(size));
    Value::from_object(List::new(items, size))
}

/// Builds a list and charges for it.
pub(super) fn list(items: Vec<Value>) -> Result<Value, Error> {
    let size = charge_items(&items)?;
    Ok(Value::from_object(List::new(items, size)))
}

/// Builds a tuple and charges for it.
pub(super) fn tuple(items: Vec<Value>) -> Result<Value, Error> {
    charge_items(&items)?;
    Ok(Value::from(Tuple::from(items)))
}

/// Builds a dictionary and charges for it.
pub(super) fn dictionary(pairs: Vec<(Value, Value)>) -> Result<Value, Error> {
    for (key, value) in &pairs {
        check_nestable(key)?;
        check_nestable(value)?;
        // Hashing the key traverses it.
        charge_deep(key)?;
    }
    let size = Size::containing(pairs.iter().flat_map(|(key, value)| [size(key), size(value)]));
    budget::charge_value(size, pairs.len() * 4)?;
    Ok(Value::from_pairs(pairs))
}

/// Builds a view of a dictionary and charges for it.
pub(super) fn view(dictionary: &DynObject, kind: ViewKind) -> Result<Value, Error> {
    let pairs = dictionary.try_iter_pairs().into_iter().flatten();
    let entries = pairs.map(|(key, value)| match kind {
        ViewKind::Keys => key,
        ViewKind::Values => value,
        ViewKind::Items => Value::from(Tuple::from([key, value])),
    });
    let entries: Vec<Value> = entries.collect();
    let size = charge_items(&entries)?;
    Ok(Value::from_object(View::new(kind, entries, size)))
}

/// Builds a generator, named as in Python, and charges for it.
pub(super) fn generator(name: &'static str, values: Vec<Value>) -> Result<Value, Error> {
    let size = charge_items(&values)?;
    Ok(Value::from_object(Generator::new(name, values, size)))
}

/// Returns an error for a namespace or a loop. These must not be nested in another value, since
/// they could form a cycle.
pub(crate) fn check_nestable(value: &Value) -> Result<(), Error> {
    let name = value.as_object().map_or("", |object| object.type_name());
    if name.ends_with("::Namespace") || name.ends_with("::Loop") {
        return Err(fail("a namespace or a loop cannot be put into another value"));
    }
    Ok(())
}

/// Charges for a container of these items. Returns its size.
pub(super) fn charge_items(items: &[Value]) -> Result<Size, Error> {
    items.iter().try_for_each(check_nestable)?;
    let size = Size::containing(items.iter().map(size));
    budget::charge_value(size, items.len())?;
    Ok(size)
}

/// Converts the result of one of minijinja's filters, which may be a lazy view of other values, to
/// a value that owns its items.
pub(super) fn into_owned(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => {
            budget::charge(budget::length(value.as_str().unwrap_or_default()))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Iterable if !value.is_tuple() => list(value.try_iter()?.collect()),
        _ => Ok(value),
    }
}

/// An item of `groupby`'s result: a named tuple.
pub(super) struct GroupTuple {
    grouper: Value,
    list: Value,
}

impl GroupTuple {
    /// Converts minijinja's group, whose list is traversed again on each access to an item.
    pub fn convert(group: &Value) -> Result<Value, Error> {
        let grouper = group.get_item(&Value::from(0))?;
        let list = into_owned(group.get_item(&Value::from(1))?)?;
        budget::charge(2 * budget::VALUE_BYTES)?;
        Ok(Value::from_object(Self { grouper, list }))
    }
}

impl fmt::Debug for GroupTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupTuple")
    }
}

impl Object for GroupTuple {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_usize(), key.as_str()) {
            (Some(0), None) | (None, Some("grouper")) => Some(self.grouper.clone()),
            (Some(1), None) | (None, Some("list")) => Some(self.list.clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}
