//! The keys of a file's architecture, read and checked.

use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::gguf::GgufHeader;
use std::fmt::Display;

/// Describes the values of [`HeaderKeys::positive`].
pub(crate) const POSITIVE: &str = "a finite number above 0";

/// The keys of an architecture in a file; `suffix` is a key without `ARCHITECTURE.`.
#[derive(Clone, Copy)]
pub(crate) struct HeaderKeys<'a> {
    pub gguf: &'a GgufHeader,
    pub architecture: Architecture,
}

impl HeaderKeys<'_> {
    pub fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture)
    }

    /// The error for a key whose value must be as `expected` says: `at least 1`.
    pub fn bad(&self, suffix: &str, value: impl Display, expected: &str) -> LoadError {
        LoadError::bad_value(self.gguf, &self.key(suffix), value, expected)
    }

    /// A finite number above 0, or the default if the file has no such key. Subnormal numbers are
    /// refused: for some GPUs they are 0, and their reciprocals may be infinite.
    pub fn positive(&self, suffix: &str, default: f32) -> Result<f32, LoadError> {
        let value = self.gguf.f32(&self.key(suffix))?.unwrap_or(default);
        if value.is_normal() && value > 0.0 {
            Ok(value)
        } else {
            Err(self.bad(suffix, value, POSITIVE))
        }
    }
}
