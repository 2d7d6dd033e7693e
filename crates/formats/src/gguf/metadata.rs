//! The metadata of a GGUF file: values by key, in file order, with typed getters.

use super::{Array, GgufProblem, Strings, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Values by key, in file order.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index_by_name: HashMap<String, usize>,
}

/// Result of a typed getter: `None` if the key is absent, an error if the value has another type.
pub type Found<T> = Result<Option<T>, GgufProblem>;

impl Metadata {
    /// Creates empty metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. An existing value is replaced at its position.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.index_by_name.get(&key) {
            Some(&index) => self.entries[index].1 = value,
            None => {
                self.index_by_name.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    /// The value of a key, of any type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index_by_name.get(key).map(|&index| &self.entries[index].1)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// An integer of any width whose value fits `u32`.
    pub fn u32(&self, key: &str) -> Found<u32> {
        self.integer(key, "a non-negative integer of at most 32 bits")
    }

    /// A non-negative integer of any width.
    pub fn u64(&self, key: &str) -> Found<u64> {
        self.integer(key, "a non-negative integer")
    }

    /// A float of either width.
    pub fn f32(&self, key: &str) -> Found<f32> {
        self.typed(key, "a float", |value| match *value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        })
    }

    /// A boolean.
    pub fn bool(&self, key: &str) -> Found<bool> {
        self.typed(key, "a boolean", |value| match *value {
            Value::Bool(v) => Some(v),
            _ => None,
        })
    }

    /// A string.
    pub fn str(&self, key: &str) -> Found<&str> {
        self.typed(key, "a string", |value| match value {
            Value::Str(v) => Some(v.as_str()),
            _ => None,
        })
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Found<&Strings> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::Str(v)) => Some(v),
            _ => None,
        })
    }

    /// An array of floats of either width.
    pub fn f32s(&self, key: &str) -> Found<Cow<'_, [f32]>> {
        self.typed(key, "an array of floats", |value| match value {
            Value::Array(Array::F32(v)) => Some(Cow::Borrowed(v.as_slice())),
            Value::Array(Array::F64(v)) => Some(v.iter().map(|&x| x as f32).collect()),
            _ => None,
        })
    }

    /// An array of integers of any width whose values fit `i32`.
    pub fn i32s(&self, key: &str) -> Found<Cow<'_, [i32]>> {
        self.typed(key, "an array of integers of at most 32 bits", |value| match value {
            Value::Array(Array::I32(v)) => Some(Cow::Borrowed(v.as_slice())),
            Value::Array(array) => integers(array).map(Cow::Owned),
            _ => None,
        })
    }

    /// An array of integers of any width whose values fit `u32`.
    pub fn u32s(&self, key: &str) -> Found<Cow<'_, [u32]>> {
        self.typed(
            key,
            "an array of non-negative integers of at most 32 bits",
            |value| match value {
                Value::Array(Array::U32(v)) => Some(Cow::Borrowed(v.as_slice())),
                Value::Array(array) => integers(array).map(Cow::Owned),
                _ => None,
            },
        )
    }

    /// An array of booleans.
    pub fn bools(&self, key: &str) -> Found<&[bool]> {
        self.typed(key, "an array of booleans", |value| match value {
            Value::Array(Array::Bool(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Found<T> {
        self.typed(key, expected, |value| value.integer().and_then(|v| T::try_from(v).ok()))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Found<T> {
        let Some(value) = self.get(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| {
            // The value of an integer is shown, since it may be out of range.
            let found = match value.integer() {
                Some(number) => format!("{} ({number})", value.type_name()),
                None => value.type_name().to_owned(),
            };
            GgufProblem::WrongType {
                key: key.to_owned(),
                expected,
                found,
            }
        })
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut metadata = Self::new();
        for (key, value) in entries {
            metadata.insert(key, value);
        }
        metadata
    }
}

/// Converts an integer array to another width; `None` if a value does not fit, or the elements are
/// not integers.
fn integers<T>(array: &Array) -> Option<Vec<T>>
where
    T: TryFrom<u8>
        + TryFrom<i8>
        + TryFrom<u16>
        + TryFrom<i16>
        + TryFrom<u32>
        + TryFrom<i32>
        + TryFrom<u64>
        + TryFrom<i64>,
{
    match array {
        Array::U8(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::I8(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::U16(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::I16(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::U32(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::I32(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::U64(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        Array::I64(v) => v.iter().map(|&x| T::try_from(x).ok()).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn getters_accept_any_width_that_fits_and_name_the_key_otherwise() {
        let metadata: Metadata = [
            ("small", Value::U8(7)),
            ("large", Value::U64(1 << 40)),
            ("minus", Value::I32(-1)),
            ("text", Value::from("x")),
            ("ids", Value::from(vec![1i64, 2])),
        ]
        .into_iter()
        .collect();
        assert_eq!(metadata.u32("small").unwrap(), Some(7));
        assert_eq!(metadata.u64("large").unwrap(), Some(1 << 40));
        assert_eq!(metadata.u32("absent").unwrap(), None);
        assert_eq!(metadata.i32s("ids").unwrap().unwrap().as_ref(), [1, 2]);
        for key in ["large", "minus", "text", "ids"] {
            let message = metadata.u32(key).unwrap_err().to_string();
            assert!(message.contains(&format!("'{key}'")), "{message}");
        }
        assert!(metadata.u32("minus").unwrap_err().to_string().contains("(-1)"));
    }

    #[test]
    fn a_key_set_twice_keeps_its_position() {
        let mut metadata: Metadata = [("a", 1u32), ("b", 2)].into_iter().collect();
        metadata.insert("a", 3u32);
        let keys: Vec<_> = metadata.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b"]);
        assert_eq!(metadata.u32("a").unwrap(), Some(3));
    }
}
