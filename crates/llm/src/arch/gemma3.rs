//! Gemma 3: norms before and after attention and feed-forward, head norms, GeGLU, scaled
//! embeddings, and five sliding-window layers per full-attention layer.
//! <https://arxiv.org/abs/2503.19786>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::config::Config;
use super::norms::Norms;
use super::qwen3;
use super::softcap::softcap;
use super::spec::{DecoderSpec, FeedForwardSpec, LayerSpec, MixerSpec, RopeScaling, RopeSpec, full_attention};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::{AttentionShape, LayerShape};
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: Norms = Norms {
    after_mixer: Some("post_attention_norm"),
    after_feed_forward: Some("post_ffw_norm"),
    ..qwen3::NORMS
};

/// The default of `sliding_window_pattern`: every sixth layer has full attention.
const DEFAULT_PATTERN: u32 = 6;
/// The key of the softcap of logits. Gemma 3 has none, but llama.cpp applies it if a file has it.
const LOGIT_SOFTCAP: &str = "gemma3.final_logit_softcapping";
/// The default RoPE base of sliding-window layers.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// The number of layers that identifies the 27B model. It alone scales scores by
/// `1 / sqrt(width / heads)`; other sizes scale them by `1 / sqrt(head_dim)`.
const LAYERS_OF_27B: usize = 62;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    let window = keys.window(0)?;
    let is_local = match window {
        None => vec![false; config.n_layers()],
        Some(_) => keys.windowed_layers(config, DEFAULT_PATTERN)?,
    };
    let full_rope = RopeSpec::new(config, Pairing::Halves);
    let local_rope = match window {
        None => full_rope,
        Some(_) => RopeSpec {
            base: keys.positive("rope.freq_base_swa", LOCAL_ROPE_BASE)?,
            scaling: RopeScaling::Linear(1.0),
            ..full_rope
        },
    };
    let layer = |(shape, is_local): (&LayerShape, bool)| -> Result<_, LoadError> {
        let attention = |attention| -> Result<_, LoadError> {
            let full = Heads {
                scale: score_scale(gguf, config, attention, LAYERS_OF_27B)?,
                ..full_attention(attention)
            };
            let local = Heads { window, ..full };
            let (heads, rope) = if is_local {
                (local, local_rope)
            } else {
                (full, full_rope)
            };
            Ok(MixerSpec::Attention {
                heads,
                rope: Some(rope),
                temperature: None,
            })
        };
        Ok(LayerSpec {
            shape: *shape,
            mixer: shape.attention().map(attention).transpose()?,
            feed_forward: FeedForwardSpec::gated(shape, Activation::GeluTanh),
            norms: NORMS,
            residual_scale: 1.0,
        })
    };
    let layers = config.layer_shapes.iter().zip(is_local).map(layer);
    Ok(DecoderSpec {
        embedding_scale: (config.width as f32).sqrt(),
        logit_scale: 1.0,
        logit_softcap: softcap(gguf, LOGIT_SOFTCAP, None)?,
        layers: layers.collect::<Result<_, _>>()?,
    })
}

/// The scale of attention scores: `1 / sqrt(head_dim)`, but `1 / sqrt(width / heads)` in the model
/// with `layers_of_27b` layers.
pub(super) fn score_scale(
    gguf: &GgufHeader,
    config: &Config,
    attention: AttentionShape,
    layers_of_27b: usize,
) -> Result<f32, LoadError> {
    let scale_dim = if config.n_layers() == layers_of_27b {
        config.width / attention.heads
    } else {
        attention.head_dim
    };
    if scale_dim == 0 {
        let key = format!("{}.attention.head_count", config.architecture);
        let expected = format!("at most its width of {}", config.width);
        return Err(LoadError::bad_value(gguf, &key, attention.heads, &expected));
    }
    Ok((scale_dim as f32).sqrt().recip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    /// The scale of attention scores in a model with a width of 32.
    fn score_scale(layers: usize, heads: u32) -> Result<f32, LoadError> {
        let keys = [
            ("block_count", Value::U32(layers as u32)),
            ("embedding_length", Value::U32(32)),
            ("attention.head_count", Value::U32(heads)),
        ];
        let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
        let spec = describe(&gguf, &Config::from_gguf(&gguf)?)?;
        Ok(spec.layers[0].heads().expect("attention").scale)
    }

    #[test]
    fn scores_have_a_finite_scale() {
        assert_eq!(score_scale(1, 64).expect("a model"), 0.5);
        assert_eq!(score_scale(LAYERS_OF_27B, 2).expect("a model"), 0.25);
        for (layers, heads) in [(1, 0), (LAYERS_OF_27B, 0), (LAYERS_OF_27B, 33)] {
            let error = score_scale(layers, heads).expect_err("it is refused").to_string();
            assert!(error.contains("head_count"), "{error}");
        }
    }

    #[test]
    fn logits_have_the_softcap_of_the_file() {
        let logit_softcap = |cap: Option<f32>| {
            let keys: Vec<_> = cap
                .map(|cap| ("final_logit_softcapping", Value::F32(cap)))
                .into_iter()
                .collect();
            let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
            let spec = describe(&gguf, &Config::from_gguf(&gguf)?)?;
            Ok::<_, LoadError>((
                spec.logit_softcap,
                spec.layers[0].heads().and_then(|heads| heads.softcap),
            ))
        };
        assert_eq!(logit_softcap(None).expect("a model"), (None, None));
        assert_eq!(logit_softcap(Some(0.0)).expect("a model"), (None, None));
        assert_eq!(logit_softcap(Some(30.0)).expect("a model"), (Some(30.0), None));
        let error = logit_softcap(Some(f32::NAN)).expect_err("it is refused").to_string();
        assert!(error.contains(LOGIT_SOFTCAP) && error.contains("NaN"), "{error}");
    }

    /// The layers of an eight-layer model with this pattern: `w` for a sliding window, `-` for full
    /// attention.
    fn windows(pattern: Option<Value>) -> Result<String, LoadError> {
        let mut keys = vec![
            ("block_count", Value::U32(8)),
            ("attention.sliding_window", Value::U32(4)),
        ];
        keys.extend(pattern.map(|pattern| ("attention.sliding_window_pattern", pattern)));
        let gguf = synthetic::gguf(Architecture::Gemma3, &keys, &[]);
        let spec = describe(&gguf, &Config::from_gguf(&gguf)?)?;
        let has_window = |layer: &LayerSpec| layer.heads().is_some_and(|heads| heads.window.is_some());
        let symbol = |layer: &LayerSpec| if has_window(layer) { 'w' } else { '-' };
        Ok(spec.layers.iter().map(symbol).collect())
    }

    #[test]
    fn the_pattern_of_windows_is_that_of_llama_cpp() {
        let all_local = |length| vec![true; length];
        for (pattern, expected) in [
            (None, "wwwww-ww"),
            (Some(Value::U32(6)), "wwwww-ww"),
            (Some(Value::U32(2)), "w-w-w-w-"),
            (Some(Value::U32(1)), "--------"),
            (Some(Value::U32(0)), "wwwwwwww"),
            (Some([false, true].repeat(4).into()), "-w-w-w-w"),
            (Some(all_local(8).into()), "wwwwwwww"),
            (Some([1u32, 0].repeat(4).into()), "w-w-w-w-"),
        ] {
            assert_eq!(windows(pattern.clone()).expect("a model"), expected, "{pattern:?}");
        }
        for pattern in [
            all_local(7).into(),
            all_local(9).into(),
            Value::from("6"),
            Value::I32(-1),
        ] {
            let error = windows(Some(pattern)).expect_err("it is refused").to_string();
            assert!(error.contains("sliding_window_pattern"), "{error}");
        }
    }
}
