//! The description of a model by its file: the hyperparameters that all architectures have, and the
//! architectures, one file each: the computation of their layers. Their names, and the properties
//! that adapters depend on, are in [`Architecture`].

mod activations;
mod config;
mod gemma2;
mod gemma3;
mod granite;
mod keys;
mod llama;
mod mistral3;
mod neutral;
mod norms;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod rope;
mod rope_keys;
mod scales;
mod smollm3;
mod softcap;
mod spec;
#[cfg(test)]
mod synthetic;
mod tensors;
mod windows;

pub use config::Config;
pub use keys::{UnknownKeys, unknown_keys};
pub use norms::Norms;
pub use rope::RopeIdentity;
pub(crate) use rope_keys::RopeKeys;
pub use spec::{DecoderSpec, FeedForwardSpec, LayerSpec, MixerSpec, RopeFactors, RopeScaling, RopeSpec, Yarn};

use crate::error::LoadError;
use hearth_formats::Architecture;
use hearth_formats::gguf::GgufHeader;

/// Describes the decoder of a file.
///
/// # Errors
/// If a key of its architecture has another type or is out of range, or the file has a tensor that
/// the architecture does not have.
pub fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let describe = match config.architecture {
        Architecture::Llama => llama::describe,
        Architecture::Qwen2 => qwen2::describe,
        Architecture::Qwen3 => qwen3::describe,
        Architecture::Gemma3 => gemma3::describe,
        Architecture::Mistral3 => mistral3::describe,
        Architecture::Phi3 => phi3::describe,
        Architecture::Granite => granite::describe,
        Architecture::SmolLm3 => smollm3::describe,
        Architecture::Gemma2 => gemma2::describe,
        Architecture::Olmo2 => olmo2::describe,
    };
    let spec = describe(gguf, config)?;
    tensors::check(gguf, config, &spec)?;
    Ok(spec)
}

/// The norms of each layer of an architecture.
pub const fn norms(architecture: Architecture) -> Norms {
    match architecture {
        Architecture::Llama
        | Architecture::Qwen2
        | Architecture::Mistral3
        | Architecture::Phi3
        | Architecture::Granite
        | Architecture::SmolLm3 => Norms::PLAIN,
        Architecture::Qwen3 => qwen3::NORMS,
        Architecture::Gemma2 => gemma2::NORMS,
        Architecture::Gemma3 => gemma3::NORMS,
        Architecture::Olmo2 => olmo2::NORMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::Gguf;
    use std::path::Path;

    #[test]
    fn layers_with_a_window_have_a_rope_of_their_own() {
        let spec = |name: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
            let gguf = Gguf::open(folder.join(name)).expect("the fixture opens");
            let config = Config::from_gguf(&gguf).expect("a model");
            describe(&gguf, &config).expect("it is described")
        };
        let gemma = spec("gemma3.gguf");
        let windows: Vec<_> = gemma
            .layers
            .iter()
            .filter_map(LayerSpec::heads)
            .map(|heads| heads.window)
            .collect();
        assert_eq!(windows, [Some(8), Some(8), Some(8), Some(8), Some(8), None]);
        assert_eq!((gemma.ropes().len(), spec("llama.gguf").ropes().len()), (2, 1));
    }
}
