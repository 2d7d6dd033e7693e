//! Lists that know their size, and the other values that are made here: each holds others only as far as the budget allows.

use super::arguments::{Arguments, fail};
use super::budget::{self, Size};
use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A list that knows how much is in it.
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

    /// A list of what is no template's own, which nothing is charged for.
    pub fn of_input(items: Vec<Value>) -> Value {
        let size = Size::around(items.iter().map(budget::size));
        Value::from_object(Self { items, size })
    }
}

/// Objects are printed by `text` alone, which charges for it.
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

/// A list, within the budget.
pub(super) fn list(items: Vec<Value>) -> Result<Value, Error> {
    let size = sized(&items)?;
    Ok(Value::from_object(List { items, size }))
}

/// A tuple, within the budget.
pub(super) fn tuple(items: Vec<Value>) -> Result<Value, Error> {
    sized(&items)?;
    Ok(Value::from(Tuple::from(items)))
}

/// A dictionary, within the budget.
pub(super) fn dictionary(pairs: Vec<(Value, Value)>) -> Result<Value, Error> {
    for (key, value) in &pairs {
        budget::part(key)?;
        budget::part(value)?;
        // It is hashed.
        budget::go_through(key)?;
    }
    let size = Size::around(
        pairs
            .iter()
            .flat_map(|(key, value)| [budget::size(key), budget::size(value)]),
    );
    budget::made(size, pairs.len() * 4)?;
    Ok(Value::from_pairs(pairs))
}

/// Charges what is about to hold these.
pub(super) fn sized(items: &[Value]) -> Result<Size, Error> {
    items.iter().try_for_each(budget::part)?;
    let size = Size::around(items.iter().map(budget::size));
    budget::made(size, items.len())?;
    Ok(size)
}

/// What a filter of minijinja made, as a value of ours: it makes lists that look back at others, and dictionaries too.
pub(super) fn own(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => {
            budget::spend(budget::length(value.as_str().unwrap_or_default()))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Iterable if !value.is_tuple() => list(value.try_iter()?.collect()),
        _ => Ok(value),
    }
}

/// What `groupby` makes: a tuple whose parts have names.
pub(super) struct GroupTuple {
    grouper: Value,
    list: Value,
}

impl GroupTuple {
    /// A group of minijinja's, whose list is gone through again whenever one of its values is asked for.
    pub fn of(group: &Value) -> Result<Value, Error> {
        let grouper = group.get_item(&Value::from(0))?;
        let list = own(group.get_item(&Value::from(1))?)?;
        budget::spend(2 * budget::NODE)?;
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

/// What gives one value after the other, and then the first again.
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
        return Err(fail("cycler: at least one value is expected"));
    }
    let size = sized(&items)?;
    let at = AtomicUsize::new(0);
    Ok(Value::from_object(Cycler { items, size, at }))
}

/// What gives nothing at first, and then a text.
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
        return Err(fail("joiner: `sep` is no text"));
    }
    budget::spend(budget::NODE)?;
    let used = AtomicBool::new(false);
    Ok(Value::from_object(Joiner { between, used }))
}
