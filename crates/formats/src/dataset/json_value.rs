//! JSON values of bounded size. A value in memory can take eighty times its text, and a row of it has to stay small.

use super::json::Name;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// Bytes of memory that a row may take.
const LARGEST_ROW: usize = 256 << 20;

/// Bytes that a value takes in a list, and a list or an object beside what is in it: vectors grow by doubling, and a node of a
/// map has room for eleven members.
pub(super) const VALUE: usize = 2 * size_of::<Value>();
pub(super) const OBJECT: usize = 11 * (size_of::<Value>() + size_of::<String>());

/// Counts the memory of one row.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
    exceeded: Cell<bool>,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            left: Cell::new(LARGEST_ROW),
            exceeded: Cell::new(false),
        }
    }

    /// Begins another row; the bytes of the last one.
    pub fn begin(&self) -> usize {
        LARGEST_ROW - self.left.replace(LARGEST_ROW)
    }

    /// Takes bytes off; false: the row takes more than it may.
    pub fn takes(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or(0));
        self.exceeded.set(self.exceeded.get() || left.is_none());
        left.is_some()
    }

    /// As [`Budget::takes`], for readers of JSON.
    pub fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        match self.takes(bytes) {
            true => Ok(()),
            false => Err(E::custom("too many values")),
        }
    }

    /// Whether a row took more than it may.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.get()
    }

    /// As [`Budget::is_exceeded`], for the row under way alone.
    pub fn take_exceeded(&self) -> bool {
        self.exceeded.replace(false)
    }
}

/// Why a row is not taken: a part of a sentence about its line.
pub(super) fn too_large() -> String {
    format!(
        "its values take more than {} MiB of memory; make several examples of it.",
        LARGEST_ROW >> 20
    )
}

/// A value out of a text; none where it is no JSON, or too large.
pub(super) fn parse(text: &str, budget: &Budget) -> Option<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Bounded(budget).deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(value)
}

/// Reads a value.
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

/// The values that are neither lists nor objects, of which `$wrap` makes something.
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

/// Bytes that one field of a row takes beside its text.
pub(super) const FIELD: usize = 2 * (size_of::<(Name, Value)>() + 2 * size_of::<usize>());
