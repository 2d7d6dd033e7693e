//! The architectures, one file each: what their layers compute. Their names, and what adapters must
//! know of them, are the table in [`Architecture`].

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod spec;

pub use spec::{DecoderSpec, LayerSpec, NormName, RopeSpec};

use crate::config::Config;
use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::gguf::Gguf;

/// Describes the decoder of a file.
///
/// # Errors
/// If a key of its architecture has another type or is out of range.
pub fn describe(gguf: &Gguf, config: &Config) -> Result<DecoderSpec, LoadError> {
    let describe = match config.architecture {
        Architecture::Llama => llama::describe,
        Architecture::Qwen2 => qwen2::describe,
        Architecture::Qwen3 => qwen3::describe,
        Architecture::Gemma3 => gemma3::describe,
    };
    describe(gguf, config)
}
