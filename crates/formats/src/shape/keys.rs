//! Reads the numbers of a model's shape: one for the model, or one for each layer.

use crate::Architecture;
use crate::gguf::{GgufError, GgufHeader, GgufProblem, Value};

/// The keys of an architecture in a file; `suffix` is a key without `ARCHITECTURE.`.
pub(super) struct Keys<'a> {
    pub gguf: &'a GgufHeader,
    pub architecture: Architecture,
}

impl Keys<'_> {
    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    /// The error for a key with an invalid value.
    pub fn invalid(&self, suffix: &str, why: String) -> GgufError {
        let key = self.key(suffix);
        self.gguf.error(GgufProblem::Metadata { key, why })
    }

    fn missing(&self, suffix: &str) -> GgufError {
        let key = self.key(suffix);
        self.gguf.error(GgufProblem::MissingKey { key })
    }

    /// A number from 1 to `max`.
    pub fn required(&self, suffix: &str, max: u32) -> Result<usize, GgufError> {
        self.optional(suffix, max)?.ok_or_else(|| self.missing(suffix))
    }

    /// A number from 1 to `max`; `None` if the file has no such key.
    pub fn optional(&self, suffix: &str, max: u32) -> Result<Option<usize>, GgufError> {
        let value = self.gguf.u32(&self.key(suffix))?;
        value.map(|value| self.in_range(suffix, value, max, "")).transpose()
    }

    /// A count; 0 if the file has no such key.
    pub fn count(&self, suffix: &str) -> Result<usize, GgufError> {
        Ok(self.gguf.u32(&self.key(suffix))?.unwrap_or(0) as usize)
    }

    /// A number for each layer; see [`Keys::optional_per_layer`].
    pub fn per_layer(&self, suffix: &str, layers: usize, max: u32) -> Result<Vec<usize>, GgufError> {
        let values = self.optional_per_layer(suffix, layers, max)?;
        values.ok_or_else(|| self.missing(suffix))
    }

    /// A number from 1 to `max` for each of `layers` layers: the file has an array with one for
    /// each, or one number for all. `None` if it has no such key.
    pub fn optional_per_layer(&self, suffix: &str, layers: usize, max: u32) -> Result<Option<Vec<usize>>, GgufError> {
        let key = self.key(suffix);
        let is_array = matches!(self.gguf.metadata().get(&key), Some(Value::Array(_)));
        if !is_array {
            return Ok(self.optional(suffix, max)?.map(|value| vec![value; layers]));
        }
        let values = self.gguf.required_u32s(&key)?;
        if values.len() != layers {
            return Err(self.invalid(
                suffix,
                format!("it has {} values, but the model has {layers} layers", values.len()),
            ));
        }
        let in_range =
            |(layer, value): (usize, &u32)| self.in_range(suffix, *value, max, &format!(" for layer {layer}"));
        values
            .iter()
            .enumerate()
            .map(in_range)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn in_range(&self, suffix: &str, value: u32, max: u32, place: &str) -> Result<usize, GgufError> {
        if (1..=max).contains(&value) {
            Ok(value as usize)
        } else {
            Err(self.invalid(
                suffix,
                format!("its value{place} is {value}, but must be from 1 to {max}"),
            ))
        }
    }
}
