//! JSON values of bounded size: a value in memory can be eighty times as large as its text.

use super::broken_line::BrokenReason;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// Maximum memory of a row, in bytes.
const MAX_ROW_MEMORY: usize = 256 << 20;

/// Estimated bytes of a value in a list, and of an object node without its contents: vectors grow
/// by doubling, and a map node has a capacity of eleven members.
pub(super) const VALUE: usize = 2 * size_of::<Value>();
pub(super) const OBJECT: usize = 11 * (size_of::<Value>() + size_of::<String>());

/// Memory budget of one row.
#[derive(Debug)]
pub(super) struct Budget {
    remaining: Cell<usize>,
    exceeded: Cell<bool>,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            remaining: Cell::new(MAX_ROW_MEMORY),
            exceeded: Cell::new(false),
        }
    }

    /// Begins a row. Returns the bytes used by the previous one.
    pub fn begin(&self) -> usize {
        MAX_ROW_MEMORY - self.remaining.replace(MAX_ROW_MEMORY)
    }

    /// Takes bytes from the budget; returns `false` if the row exceeds it.
    pub fn takes(&self, bytes: usize) -> bool {
        let remaining = self.remaining.get().checked_sub(bytes);
        self.remaining.set(remaining.unwrap_or(0));
        self.exceeded.set(self.exceeded.get() || remaining.is_none());
        remaining.is_some()
    }

    /// As [`Budget::takes`], for deserializers.
    pub fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        if self.takes(bytes) {
            Ok(())
        } else {
            Err(E::custom("too many values"))
        }
    }

    /// Whether a row exceeded the budget.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.get()
    }

    /// As [`Budget::is_exceeded`], and resets the flag for the next row.
    pub fn reset_exceeded(&self) -> bool {
        self.exceeded.replace(false)
    }
}

/// The reason for refusing a row.
pub(super) fn too_large() -> BrokenReason {
    BrokenReason::TooMuchMemory {
        mib: (MAX_ROW_MEMORY >> 20) as u32,
    }
}

/// Parses a value; `None` if it is not valid JSON or too large.
pub(super) fn parse(text: &str, budget: &Budget) -> Option<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Bounded(budget).deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(value)
}

/// Deserializes a value within a budget.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'b>(pub &'b Budget);

impl Bounded<'_> {
    fn budget(&self) -> &Budget {
        self.0
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Visitor methods for scalar values, wrapped by `$wrap`.
macro_rules! visit_plain_values {
    ($wrap:expr) => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("any value")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            self.budget().take(text.len())?;
            Ok($wrap(Value::from(text)))
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(value)))
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(value)))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(value)))
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            Ok($wrap(Value::from(value)))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($wrap(Value::Null))
        }
    };
}
pub(super) use visit_plain_values;

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    visit_plain_values!(std::convert::identity);

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(self)? {
            self.0.take(VALUE)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.len().is_multiple_of(6) {
                self.0.take(OBJECT)?;
            }
            self.0.take(key.len())?;
            let value = members.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
