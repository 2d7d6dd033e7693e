//! What Python gives instead of lists: views of dictionaries, and generators that run once.

use super::budget::Size;
use super::list;
use super::text::repr;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple};
use minijinja::{Error, Value};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a view of a dictionary shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    Keys,
    Values,
    Items,
}

/// The keys, values or items of a dictionary.
#[derive(Debug)]
pub(super) struct View {
    shows: Shows,
    entries: Vec<Value>,
    size: Size,
}

impl View {
    pub fn of(dictionary: &DynObject, shows: Shows) -> Result<Value, Error> {
        let pairs = dictionary.try_iter_pairs().into_iter().flatten();
        let entries = pairs.map(|(key, value)| match shows {
            Shows::Keys => key,
            Shows::Values => value,
            Shows::Items => Value::from(Tuple::from([key, value])),
        });
        let entries: Vec<Value> = entries.collect();
        let size = list::sized(&entries)?;
        Ok(Value::from_object(Self { shows, entries, size }))
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// What Python prints before the entries.
    pub fn name(&self) -> &'static str {
        match self.shows {
            Shows::Keys => "dict_keys",
            Shows::Values => "dict_values",
            Shows::Items => "dict_items",
        }
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let view = Arc::clone(self);
        let entries = (0..view.entries.len()).map(move |place| view.entries[place].clone());
        Enumerator::Iter(Box::new(entries))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

/// What `map`, `select` and their kin give: values that can be gone through once. It counts as true even where it is empty.
#[derive(Debug)]
pub(super) struct Generator {
    name: &'static str,
    values: Mutex<std::vec::IntoIter<Value>>,
    size: Size,
}

impl Generator {
    pub fn of(name: &'static str, values: Vec<Value>) -> Result<Value, Error> {
        let size = list::sized(&values)?;
        Ok(Value::from_object(Self {
            name,
            values: Mutex::new(values.into_iter()),
            size,
        }))
    }

    pub fn size(&self) -> Size {
        self.size
    }

    /// The function that Python would name.
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
