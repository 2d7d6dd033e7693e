//! SmolLM3: Llama's layer, without RoPE in every fourth layer (NoPE).
//! <https://huggingface.co/blog/smollm3>

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, MixerSpec, RopeSpec};
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

/// The last of this number of layers has no RoPE. The file has no key for it.
const PERIOD: usize = 4;

pub(super) fn describe(_: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let rope = RopeSpec::new(config, Pairing::Interleaved);
    let mut spec = DecoderSpec::uniform(config, |shape| LayerSpec::plain(shape, rope));
    for layer in spec.layers.iter_mut().skip(PERIOD - 1).step_by(PERIOD) {
        if let Some(MixerSpec::Attention { rope, .. }) = &mut layer.mixer {
            *rope = None;
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    #[test]
    fn every_fourth_layer_has_no_rope() {
        let gguf = synthetic::gguf(Architecture::SmolLm3, &[("block_count", Value::U32(9))], &[]);
        let config = Config::from_gguf(&gguf).expect("a model");
        let spec = describe(&gguf, &config).expect("it is described");
        let without_rope: Vec<usize> = (0..9).filter(|layer| spec.layers[*layer].rope().is_none()).collect();
        assert_eq!(without_rope, [3, 7]);
    }
}
