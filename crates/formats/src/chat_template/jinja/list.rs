//! Lists that cache their size, and other containers that charge the budget for their items.

use super::arguments::{Arguments, fail};
use super::budget::{self, Size};
use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A list that caches its size.
pub(crate) struct List {
    items: Vec<Value>,
    size: Size,
}

impl List {
    pub fn size(&self) -> Size {
        self.size
    }

    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// A list from the input of a template, which is not charged.
    pub fn from_input(items: Vec<Value>) -> Value {
        let size = Size::containing(items.iter().map(budget::size));
        Value::from_object(Self { items, size })
    }
}

/// Printing is done by `text` alone, which charges the budget.
impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("List")
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

/// Builds a list and charges for it.
pub(super) fn list(items: Vec<Value>) -> Result<Value, Error> {
    let size = charge_items(&items)?;
    Ok(Value::from_object(List { items, size }))
}

/// Builds a tuple and charges for it.
pub(super) fn tuple(items: Vec<Value>) -> Result<Value, Error> {
    charge_items(&items)?;
    Ok(Value::from(Tuple::from(items)))
}

/// Builds a dictionary and charges for it.
pub(super) fn dictionary(pairs: Vec<(Value, Value)>) -> Result<Value, Error> {
    for (key, value) in &pairs {
        budget::check_nestable(key)?;
        budget::check_nestable(value)?;
        // It will be hashed.
        budget::charge_deep(key)?;
    }
    let size = Size::containing(
        pairs
            .iter()
            .flat_map(|(key, value)| [budget::size(key), budget::size(value)]),
    );
    budget::charge_value(size, pairs.len() * 4)?;
    Ok(Value::from_pairs(pairs))
}

/// Charges a container of these items. Returns its size.
pub(super) fn charge_items(items: &[Value]) -> Result<Size, Error> {
    items.iter().try_for_each(budget::check_nestable)?;
    let size = Size::containing(items.iter().map(budget::size));
    budget::charge_value(size, items.len())?;
    Ok(size)
}

/// Converts a result of one of minijinja's filters, whose lists may refer to other values lazily,
/// into a value of Hearth's.
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

/// An item of `groupby`: a named tuple.
pub(super) struct GroupTuple {
    grouper: Value,
    list: Value,
}

impl GroupTuple {
    /// Converts minijinja's group, whose list is traversed again on each access to an item.
    pub fn of(group: &Value) -> Result<Value, Error> {
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

/// Returns its values in turn, cyclically.
pub(super) struct Cycler {
    items: Vec<Value>,
    size: Size,
    at: AtomicUsize,
}

impl Cycler {
    pub fn size(&self) -> Size {
        self.size
    }
}

impl fmt::Debug for Cycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cycler")
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call_method(self: &Arc<Self>, _: &mut State, method: &str, arguments: &[Value]) -> Result<Value, Error> {
        if method != "next" {
            return Err(Error::from(ErrorKind::UnknownMethod));
        }
        Arguments::new(arguments.to_vec())?.done(0)?;
        let at = self.at.fetch_add(1, Ordering::Relaxed);
        Ok(self.items[at % self.items.len()].clone())
    }
}

/// The function `cycler`.
pub(super) fn cycler(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = Arguments::new(arguments.into_values())?;
    let items = arguments.positional().to_vec();
    arguments.done(items.len())?;
    if items.is_empty() {
        return Err(fail("cycler: expected at least one value"));
    }
    let size = charge_items(&items)?;
    let at = AtomicUsize::new(0);
    Ok(Value::from_object(Cycler { items, size, at }))
}

/// Returns an empty string the first time, then its separator.
struct Joiner {
    between: Value,
    used: AtomicBool,
}

impl fmt::Debug for Joiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Joiner")
    }
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State, arguments: &[Value]) -> Result<Value, Error> {
        Arguments::new(arguments.to_vec())?.done(0)?;
        Ok(if self.used.swap(true, Ordering::Relaxed) {
            self.between.clone()
        } else {
            Value::from("")
        })
    }
}

/// The function `joiner`.
pub(super) fn joiner(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = Arguments::new(arguments.into_values())?;
    let between = arguments.get(0, "sep")?.unwrap_or_else(|| Value::from(", "));
    arguments.done(1)?;
    if between.as_object().is_some() {
        return Err(fail("joiner: `sep` must be a string"));
    }
    budget::charge(budget::VALUE_BYTES)?;
    let used = AtomicBool::new(false);
    Ok(Value::from_object(Joiner { between, used }))
}
