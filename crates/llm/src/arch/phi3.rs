//! Phi 3, 3.5 and 4: Llama's layer with RoPE over halves of the first elements of a head, LongRoPE,
//! and a sliding window in all layers. The file has fused linears.
//! <https://arxiv.org/abs/2404.14219>
//!
//! llama.cpp has disabled the window. Here it follows transformers, as the models were trained
//! with it: after as many tokens the logits differ from llama.cpp's. A window of the whole context,
//! as in most of these models, changes nothing.

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, RopeFactors, RopeSpec};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    // The file has no type of scaling: LongRoPE is recognized by its tensors.
    let rope = RopeSpec {
        factors: RopeFactors::Long {
            original_context: keys.original_context(config.context_trained)?,
        },
        ..RopeSpec::new(config, Pairing::Halves)
    };
    let window = keys.window(0)?.filter(|window| *window < config.context_trained);
    let layer = |shape| LayerSpec::plain(shape, rope).with_window(window);
    Ok(DecoderSpec::uniform(config, layer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    #[test]
    fn windows_of_less_than_the_context_are_in_all_layers() {
        // The training context has 8 tokens.
        for (window, expected) in [(None, None), (Some(0), None), (Some(7), Some(7)), (Some(8), None)] {
            let keys: Vec<_> = window
                .map(|window| ("attention.sliding_window", Value::U32(window)))
                .into_iter()
                .collect();
            let gguf = synthetic::gguf(Architecture::Phi3, &keys, &[]);
            let config = Config::from_gguf(&gguf).expect("a model");
            let spec = describe(&gguf, &config).expect("it is described");
            let windows = spec.layers.iter().map(|layer| layer.heads().expect("attention").window);
            assert!(windows.eq([expected; 2]), "{window:?}");
        }
    }

    #[test]
    fn a_part_of_each_head_is_rotated_with_the_factors_of_longrope() {
        let keys = [
            ("rope.dimension_count", Value::U32(2)),
            ("rope.scaling.original_context_length", Value::U32(4)),
            ("rope.scaling.attn_factor", Value::F32(1.25)),
        ];
        let gguf = synthetic::gguf(Architecture::Phi3, &keys, &["rope_factors_long.weight"]);
        let config = Config::from_gguf(&gguf).expect("a model");
        let ropes = describe(&gguf, &config).expect("it is described").ropes();
        let [rope] = *ropes else {
            panic!("{ropes:?}");
        };
        assert_eq!((rope.pairing, rope.dims, rope.magnitude), (Pairing::Halves, 2, 1.25));
        assert_eq!(rope.factors, RopeFactors::Long { original_context: 4 });
    }
}
