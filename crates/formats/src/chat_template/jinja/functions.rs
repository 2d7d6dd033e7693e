//! The functions `cycler` and `joiner`.

use super::arguments::{Arguments, fail};
use super::containers::Cycler;
use super::{budget, build};
use minijinja::value::{Object, ObjectRepr, Rest, ValueOrKwargs};
use minijinja::{Error, State, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The function `cycler`.
pub(super) fn cycler(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = Arguments::new(arguments.into_values())?;
    let items = arguments.positional().to_vec();
    arguments.done(items.len())?;
    if items.is_empty() {
        return Err(fail("cycler: expected at least one value"));
    }
    let size = build::charge_items(&items)?;
    Ok(Value::from_object(Cycler::new(items, size)))
}

/// Returns an empty string the first time, then its separator.
struct Joiner {
    separator: Value,
    was_called: AtomicBool,
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
        Ok(if self.was_called.swap(true, Ordering::Relaxed) {
            self.separator.clone()
        } else {
            Value::from("")
        })
    }
}

/// The function `joiner`.
pub(super) fn joiner(arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = Arguments::new(arguments.into_values())?;
    let separator = arguments.get(0, "sep")?.unwrap_or_else(|| Value::from(", "));
    arguments.done(1)?;
    if separator.as_object().is_some() {
        return Err(fail("joiner: `sep` must be a string"));
    }
    budget::charge(budget::VALUE_BYTES)?;
    let was_called = AtomicBool::new(false);
    Ok(Value::from_object(Joiner { separator, was_called }))
}
