//! Mistral 3 (Ministral 3): Llama's layer with the temperature of attention by position, and YaRN
//! by the keys of RoPE. <https://huggingface.co/docs/transformers/model_doc/ministral3>

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, MixerSpec, RopeSpec};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::attention::Temperature;
use hearth_kernels::rope::Pairing;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let rope = RopeSpec {
        factors: config.rope_factors,
        ..RopeSpec::new(config, Pairing::Interleaved)
    };
    let temperature_of_model = temperature(gguf, config)?;
    Ok(DecoderSpec::uniform(config, |shape| {
        let mut layer = LayerSpec::plain(shape, rope);
        if let Some(MixerSpec::Attention { temperature, .. }) = &mut layer.mixer {
            *temperature = temperature_of_model;
        }
        layer
    }))
}

/// The temperature of attention. Its steps are as long as the context before the extension.
fn temperature(gguf: &GgufHeader, config: &Config) -> Result<Option<Temperature>, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    // Unlike in llama.cpp, it is not negative: Q would vanish at some position and change its sign.
    let Some(scale) = keys.factor("attention.temperature_scale")? else {
        return Ok(None);
    };
    let length = keys.original_context(config.context_trained)?;
    Ok(Some(Temperature { scale, length }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    /// The temperatures of the layers of a model with these keys and a training context of 8.
    fn temperatures(keys: &[(&str, Value)]) -> Vec<Option<Temperature>> {
        let gguf = synthetic::gguf(Architecture::Mistral3, keys, &[]);
        let config = Config::from_gguf(&gguf).expect("a model");
        let spec = describe(&gguf, &config).expect("it is described");
        let temperature = |layer: &LayerSpec| {
            let MixerSpec::Attention { temperature, .. } = layer.mixer.expect("attention");
            temperature
        };
        spec.layers.iter().map(temperature).collect()
    }

    #[test]
    fn the_temperature_has_the_length_of_the_original_context() {
        let scale = ("attention.temperature_scale", Value::F32(0.1));
        let expected = |length| [Some(Temperature { scale: 0.1, length }); 2];
        assert_eq!(temperatures(&[]), [None; 2]);
        assert_eq!(
            temperatures(&[("attention.temperature_scale", Value::F32(0.0))]),
            [None; 2]
        );
        assert_eq!(temperatures(std::slice::from_ref(&scale)), expected(8));
        let context = ("rope.scaling.original_context_length", Value::U32(4));
        assert_eq!(temperatures(&[scale, context]), expected(4));
    }
}
