//! The keys of a file's architecture, read and checked.

use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::gguf::GgufHeader;
use std::fmt::Display;

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

    pub fn bad(&self, suffix: &str, value: impl Display) -> LoadError {
        LoadError::bad_value(self.gguf, &self.key(suffix), value)
    }

    /// A finite number above 0, or the default if the file has no such key.
    pub fn positive(&self, suffix: &str, default: f32) -> Result<f32, LoadError> {
        let value = self.gguf.f32(&self.key(suffix))?.unwrap_or(default);
        if value.is_finite() && value > 0.0 {
            Ok(value)
        } else {
            Err(self.bad(suffix, value))
        }
    }
}
