//! Granite 3, and the dense Granite 4: Llama's layer with scales of the embeddings, the scores, the
//! residual stream and the logits.
//! <https://huggingface.co/docs/transformers/model_doc/granite>

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, MixerSpec, RopeSpec, full_attention};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::{AttentionShape, LayerShape};
use hearth_kernels::attention::Heads;
use hearth_kernels::rope::Pairing;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    // As in llama.cpp, this key is the switch of RoPE in all layers.
    let has_rope = gguf.bool(&keys.key("rope.scaling.finetuned"))?.unwrap_or(true);
    let rope = RopeSpec {
        factors: config.rope_factors,
        ..RopeSpec::new(config, Pairing::Interleaved)
    };
    let score_scale = keys.factor("attention.scale")?;
    let residual_scale = keys.factor("residual_scale")?.unwrap_or(1.0);
    let layer = |shape: LayerShape| {
        let attention = |attention: AttentionShape| {
            let full = full_attention(attention);
            MixerSpec::Attention {
                heads: Heads {
                    scale: score_scale.unwrap_or(full.scale),
                    ..full
                },
                rope: has_rope.then_some(rope),
                temperature: None,
            }
        };
        LayerSpec {
            mixer: shape.attention().map(attention),
            residual_scale,
            ..LayerSpec::plain(shape, rope)
        }
    };
    Ok(DecoderSpec {
        embedding_scale: keys.factor("embedding_scale")?.unwrap_or(1.0),
        logit_scale: keys.divisor("logit_scale")?,
        ..DecoderSpec::uniform(config, layer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    fn spec(keys: &[(&str, Value)]) -> DecoderSpec {
        let gguf = synthetic::gguf(Architecture::Granite, keys, &[]);
        let config = Config::from_gguf(&gguf).expect("a model");
        describe(&gguf, &config).expect("it is described")
    }

    #[test]
    fn scales_are_read_and_0_is_none() {
        let number = Value::F32;
        let scaled = spec(&[
            ("attention.scale", number(0.0625)),
            ("embedding_scale", number(12.0)),
            ("residual_scale", number(0.25)),
            ("logit_scale", number(8.0)),
        ]);
        assert_eq!((scaled.embedding_scale, scaled.logit_scale), (12.0, 0.125));
        for layer in &scaled.layers {
            assert_eq!(
                (layer.heads().expect("attention").scale, layer.residual_scale),
                (0.0625, 0.25)
            );
        }
        let unset = ["attention.scale", "embedding_scale", "residual_scale"].map(|key| (key, number(0.0)));
        for keys in [&[][..], &unset] {
            let plain = spec(keys);
            assert_eq!((plain.embedding_scale, plain.logit_scale), (1.0, 1.0));
            // The heads have a width of 4.
            assert_eq!(plain.layers[0].heads().expect("attention").scale, 0.5);
            assert_eq!(plain.layers[0].residual_scale, 1.0);
        }
    }

    #[test]
    fn the_switch_of_rope_is_for_all_layers() {
        for (flag, ropes) in [(None, 1), (Some(true), 1), (Some(false), 0)] {
            let flag = flag.map(|flag| ("rope.scaling.finetuned", Value::Bool(flag)));
            assert_eq!(spec(&flag.into_iter().collect::<Vec<_>>()).ropes().len(), ropes);
        }
    }
}
