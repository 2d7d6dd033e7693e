//! OLMo 2 and 3: norms after attention and feed-forward only, norms of Q and K over all heads, and
//! RoPE over halves. OLMo 3 has a sliding window in three of four layers, whose RoPE is not scaled.
//! <https://arxiv.org/abs/2501.00656>

use super::config::Config;
use super::norms::Norms;
use super::spec::{DecoderSpec, LayerSpec, RopeScaling, RopeSpec};
use crate::error::LoadError;
use crate::header_keys::HeaderKeys;
use hearth_formats::gguf::GgufHeader;
use hearth_formats::shape::LayerShape;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: Norms = Norms {
    before_mixer: None,
    queries: Some("attn_q_norm"),
    keys: Some("attn_k_norm"),
    over_heads: true,
    after_mixer: Some("post_attention_norm"),
    before_feed_forward: None,
    after_feed_forward: Some("post_ffw_norm"),
};

/// The default of `sliding_window_pattern`: every fourth layer has full attention.
const DEFAULT_PATTERN: u32 = 4;

pub(super) fn describe(gguf: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let keys = HeaderKeys {
        gguf,
        architecture: config.architecture,
    };
    let window = keys.window(0)?;
    let is_windowed = match window {
        None => vec![false; config.n_layers()],
        Some(_) => keys.windowed_layers(config, DEFAULT_PATTERN)?,
    };
    let full_rope = RopeSpec::new(config, Pairing::Halves);
    let windowed_rope = RopeSpec {
        scaling: RopeScaling::Linear(1.0),
        magnitude: 1.0,
        ..full_rope
    };
    let layer = |(shape, is_windowed): (&LayerShape, bool)| {
        let rope = if is_windowed { windowed_rope } else { full_rope };
        let layer = LayerSpec {
            norms: NORMS,
            ..LayerSpec::plain(*shape, rope)
        };
        layer.with_window(window.filter(|_| is_windowed))
    };
    Ok(DecoderSpec {
        embedding_scale: 1.0,
        logit_scale: 1.0,
        logit_softcap: None,
        layers: config.layer_shapes.iter().zip(is_windowed).map(layer).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::synthetic;
    use crate::arch::{Yarn, describe};
    use hearth_formats::Architecture;
    use hearth_formats::gguf::Value;

    fn spec(keys: &[(&str, Value)]) -> Result<DecoderSpec, LoadError> {
        let gguf = synthetic::gguf(Architecture::Olmo2, keys, &[]);
        describe(&gguf, &Config::from_gguf(&gguf)?)
    }

    #[test]
    fn norms_are_after_the_halves_and_over_all_heads() {
        let keys = [("attention.head_count_kv", Value::U32(1))];
        let spec = spec(&keys).expect("it is described");
        let layer = &spec.layers[0];
        let expected = [
            ("attn_q_norm", 8),
            ("attn_k_norm", 4),
            ("post_attention_norm", 8),
            ("post_ffw_norm", 8),
        ];
        assert_eq!(layer.norms.lengths(&layer.shape), expected);
    }

    #[test]
    fn only_layers_with_full_attention_have_yarn() {
        let keys = [
            ("block_count", Value::U32(5)),
            ("attention.sliding_window", Value::U32(4)),
            ("rope.scaling.type", "yarn".into()),
            ("rope.scaling.factor", Value::F32(8.0)),
        ];
        let spec = spec(&keys).expect("it is described");
        for (index, layer) in spec.layers.iter().enumerate() {
            let (rope, window) = (layer.rope().expect("RoPE"), layer.heads().expect("attention").window);
            let is_full = index == 3;
            assert_eq!(window, if is_full { None } else { Some(4) }, "{index}");
            assert_eq!(
                matches!(rope.scaling, RopeScaling::Yarn(Yarn { factor: 8.0, .. })),
                is_full
            );
        }
        let without_window = only_rope(&keys[2..]);
        assert!(matches!(without_window.scaling, RopeScaling::Yarn(_)));
    }

    fn only_rope(keys: &[(&str, Value)]) -> RopeSpec {
        let ropes = spec(keys).expect("it is described").ropes();
        assert_eq!(ropes.len(), 1);
        ropes[0]
    }

    #[test]
    fn patterns_of_another_length_are_refused() {
        let window = ("attention.sliding_window", Value::U32(4));
        for pattern in [Value::from(vec![true]), Value::from("4"), Value::I32(-1)] {
            let keys = [window.clone(), ("attention.sliding_window_pattern", pattern)];
            let error = spec(&keys).expect_err("it is refused").to_string();
            assert!(error.contains("sliding_window_pattern"), "{error}");
        }
    }
}
