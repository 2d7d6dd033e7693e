//! Containers that cache their size, which is expensive to compute. `build` creates them. Their
//! `Debug` shows no items: only `text` prints them, since it charges the budget.

use super::arguments::Arguments;
use super::budget::Size;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A list.
pub(crate) struct List {
    items: Vec<Value>,
    size: Size,
}

impl List {
    pub fn new(items: Vec<Value>, size: Size) -> Self {
        Self { items, size }
    }

    pub fn size(&self) -> Size {
        self.size
    }

    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

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

/// The kind of a dictionary view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViewKind {
    Keys,
    Values,
    Items,
}

/// A view of the keys, values or items of a dictionary.
#[derive(Debug)]
pub(super) struct View {
    kind: ViewKind,
    entries: Vec<Value>,
    size: Size,
}

impl View {
    pub fn new(kind: ViewKind, entries: Vec<Value>, size: Size) -> Self {
        Self { kind, entries, size }
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// The type name that `repr` prints.
    pub fn name(&self) -> &'static str {
        match self.kind {
            ViewKind::Keys => "dict_keys",
            ViewKind::Values => "dict_values",
            ViewKind::Items => "dict_items",
        }
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let view = Arc::clone(self);
        let entries = (0..view.entries.len()).map(move |index| view.entries[index].clone());
        Enumerator::Iter(Box::new(entries))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// The result of `map`, `select` and similar filters: values that can be iterated once. Always
/// true, even if empty.
#[derive(Debug)]
pub(super) struct Generator {
    name: &'static str,
    values: Mutex<std::vec::IntoIter<Value>>,
    size: Size,
}

impl Generator {
    pub fn new(name: &'static str, values: Vec<Value>, size: Size) -> Self {
        let values = Mutex::new(values.into_iter());
        Self { name, values, size }
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// The Python function that `repr` names.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Iter(Box::new(Remaining(Arc::clone(self))))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// Takes the values of a generator. Unlike the generator, it has a size hint, so that a loop knows
/// its length and its last item, as in Jinja 2.
struct Remaining(Arc<Generator>);

impl Remaining {
    fn values(&self) -> MutexGuard<'_, std::vec::IntoIter<Value>> {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Iterator for Remaining {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        self.values().next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values().size_hint()
    }
}

/// Returns its items cyclically.
pub(super) struct Cycler {
    items: Vec<Value>,
    size: Size,
    /// Number of items returned.
    count: AtomicUsize,
}

impl Cycler {
    /// `items` must not be empty.
    pub fn new(items: Vec<Value>, size: Size) -> Self {
        let count = AtomicUsize::new(0);
        Self { items, size, count }
    }

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
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Ok(self.items[count % self.items.len()].clone())
    }
}
