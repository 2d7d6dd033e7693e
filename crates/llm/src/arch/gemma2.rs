//! Gemma 2: norms before and after attention and feed-forward, GeGLU, scaled embeddings, softcaps
//! of scores and logits, and a sliding window in every second layer.
//! <https://arxiv.org/abs/2408.00118>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::config::Config;
use super::gemma3;
use super::norms::Norms;
use super::softcap::softcap;
use super::spec::{DecoderSpec, FeedForwardSpec, LayerSpec, MixerSpec, RopeScaling, RopeSpec, full_attention};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::LayerShape;
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: Norms = Norms {
    after_mixer: Some("post_attention_norm"),
    after_feed_forward: Some("post_ffw_norm"),
    ..Norms::PLAIN
};

/// The key of the RoPE base of layers with a window.
const WINDOWED_BASE: &str = "rope.freq_base_swa";
/// The defaults of keys, as in llama.cpp.
const DEFAULT_WINDOW: u32 = 4096;
const DEFAULT_PATTERN: u32 = 2;
const DEFAULT_SCORE_SOFTCAP: f32 = 50.0;
const DEFAULT_LOGIT_SOFTCAP: f32 = 30.0;
/// The number of layers that identifies the 27B model, which has another scale of scores.
const LAYERS_OF_27B: usize = 46;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    let window = keys.window(DEFAULT_WINDOW)?;
    let is_windowed = keys.windowed_layers(config, DEFAULT_PATTERN)?;
    let score_softcap = softcap(gguf, &keys.key("attn_logit_softcapping"), Some(DEFAULT_SCORE_SOFTCAP))?;
    let full_rope = RopeSpec::new(config, Pairing::Halves);
    let windowed_base = keys.positive(WINDOWED_BASE, config.rope_base)?;
    if let RopeScaling::Yarn(_) = full_rope.scaling {
        keys.check_yarn_base(WINDOWED_BASE, windowed_base)?;
    }
    let windowed_rope = RopeSpec {
        base: windowed_base,
        ..full_rope
    };
    let layer = |(shape, is_windowed): (&LayerShape, bool)| -> Result<_, LoadError> {
        let attention = |attention| -> Result<_, LoadError> {
            let heads = Heads {
                scale: gemma3::score_scale(gguf, config, attention, LAYERS_OF_27B)?,
                softcap: score_softcap,
                window: window.filter(|_| is_windowed),
                ..full_attention(attention)
            };
            let rope = if is_windowed { windowed_rope } else { full_rope };
            Ok(MixerSpec::Attention {
                heads,
                rope: Some(rope),
                temperature: None,
            })
        };
        Ok(LayerSpec {
            mixer: shape.attention().map(attention).transpose()?,
            feed_forward: FeedForwardSpec::gated(shape, Activation::GeluTanh),
            norms: NORMS,
            ..LayerSpec::plain(*shape, full_rope)
        })
    };
    let layers = config.layer_shapes.iter().zip(is_windowed).map(layer);
    Ok(DecoderSpec {
        embedding_scale: (config.width as f32).sqrt(),
        logit_scale: 1.0,
        logit_softcap: softcap(gguf, &keys.key("final_logit_softcapping"), Some(DEFAULT_LOGIT_SOFTCAP))?,
        layers: layers.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    fn spec(keys: &[(&str, Value)]) -> DecoderSpec {
        let gguf = synthetic::gguf(Architecture::Gemma2, keys, &[]);
        let config = Config::from_gguf(&gguf).expect("a model");
        describe(&gguf, &config).expect("it is described")
    }

    fn heads(spec: &DecoderSpec) -> Vec<Heads> {
        let heads = spec.layers.iter().map(|layer| *layer.heads().expect("attention"));
        heads.collect()
    }

    #[test]
    fn missing_keys_have_the_defaults_of_llama_cpp() {
        let spec = spec(&[("block_count", Value::U32(3))]);
        let windows: Vec<_> = heads(&spec).iter().map(|heads| heads.window).collect();
        assert_eq!(windows, [Some(4096), None, Some(4096)]);
        assert!(heads(&spec).iter().all(|heads| heads.softcap == Some(50.0)));
        assert_eq!((spec.logit_softcap, spec.embedding_scale), (Some(30.0), 8.0_f32.sqrt()));
        assert_eq!(spec.ropes().len(), 1);
    }

    #[test]
    fn keys_are_read() {
        let spec = spec(&[
            ("attn_logit_softcapping", Value::F32(4.0)),
            ("final_logit_softcapping", Value::F32(2.5)),
            ("attention.sliding_window", Value::U32(8)),
            ("attention.sliding_window_pattern", vec![false, true].into()),
            ("rope.freq_base_swa", Value::F32(5000.0)),
        ]);
        let [full, windowed] = *heads(&spec) else {
            panic!("two layers");
        };
        assert_eq!((full.window, windowed.window, full.softcap), (None, Some(8), Some(4.0)));
        assert_eq!(spec.logit_softcap, Some(2.5));
        let bases = spec.ropes().into_iter().map(|rope| rope.base);
        assert!(bases.eq([10_000.0, 5000.0]));
    }

    /// The number of rotations of a pair is a logarithm to the base.
    #[test]
    fn bases_of_at_most_1_are_refused_with_yarn() {
        let windowed = |base: f32, method: &str| {
            let keys = [
                (WINDOWED_BASE, Value::F32(base)),
                ("rope.scaling.type", method.into()),
                ("rope.scaling.factor", Value::F32(4.0)),
            ];
            let gguf = synthetic::gguf(Architecture::Gemma2, &keys, &[]);
            describe(&gguf, &Config::from_gguf(&gguf)?)
        };
        for base in [1.0, 0.5] {
            let error = windowed(base, "yarn").expect_err("it is refused").to_string();
            assert!(error.contains(WINDOWED_BASE), "{error}");
            assert!(windowed(base, "linear").is_ok());
        }
        assert!(windowed(2.0, "yarn").is_ok());
    }

    #[test]
    fn the_27b_model_has_another_scale_of_scores() {
        let keys = |layers: usize| {
            [
                ("block_count", Value::U32(layers as u32)),
                ("embedding_length", Value::U32(32)),
            ]
        };
        assert_eq!(heads(&spec(&keys(45)))[0].scale, 0.5);
        assert_eq!(heads(&spec(&keys(LAYERS_OF_27B)))[0].scale, 0.25);
    }
}
