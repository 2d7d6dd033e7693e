//! Python's lazy sequences: dictionary views, and generators, which can be iterated once.

use super::budget::Size;
use super::list;
use super::text::repr;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple};
use minijinja::{Error, Value};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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
    pub fn of(dictionary: &DynObject, kind: ViewKind) -> Result<Value, Error> {
        let pairs = dictionary.try_iter_pairs().into_iter().flatten();
        let entries = pairs.map(|(key, value)| match kind {
            ViewKind::Keys => key,
            ViewKind::Values => value,
            ViewKind::Items => Value::from(Tuple::from([key, value])),
        });
        let entries: Vec<Value> = entries.collect();
        let size = list::charge_items(&entries)?;
        Ok(Value::from_object(Self { kind, entries, size }))
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

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&repr(&Value::from_dyn_object(Arc::clone(self))))
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
    pub fn of(name: &'static str, values: Vec<Value>) -> Result<Value, Error> {
        let size = list::charge_items(&values)?;
        Ok(Value::from_object(Self {
            name,
            values: Mutex::new(values.into_iter()),
            size,
        }))
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
        let generator = Arc::clone(self);
        Enumerator::Iter(Box::new(std::iter::from_fn(move || {
            let mut values = generator.values.lock().unwrap_or_else(PoisonError::into_inner);
            values.next()
        })))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}
