//! Gemma 3: norms before and after attention and feed-forward, head norms, GeGLU, scaled
//! embeddings, and five sliding-window layers per full-attention layer.
//! <https://arxiv.org/abs/2503.19786>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::spec::{DecoderSpec, LayerSpec, NormName, RopeSpec};
use crate::config::Config;
use crate::error::LoadError;
use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// Every sixth layer has full attention.
const PATTERN: usize = 6;
/// RoPE base of sliding-window layers.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// The number of layers that identifies the 27B model; it alone scales scores by width / heads.
const LAYERS_OF_27B: usize = 62;

pub(super) fn describe(gguf: &Gguf, config: &Config) -> Result<DecoderSpec, LoadError> {
    let plain = LayerSpec::plain(config, Pairing::Halves);
    let per_head = match config.n_layers {
        LAYERS_OF_27B => config.width / config.heads,
        _ => config.head_dim,
    };
    let full = LayerSpec {
        heads: Heads {
            scale: (per_head as f32).sqrt().recip(),
            ..plain.heads
        },
        norms: &NormName::ALL,
        activation: Activation::GeluTanh,
        ..plain
    };
    let window = gguf
        .u32("gemma3.attention.sliding_window")?
        .filter(|window| *window > 0);
    let local = match window {
        None => full.clone(),
        Some(window) => LayerSpec {
            heads: Heads {
                window: Some(window as usize),
                ..full.heads
            },
            rope: RopeSpec {
                base: local_rope_base(gguf)?,
                scale: 1.0,
                ..full.rope
            },
            ..full.clone()
        },
    };
    let layer = |layer: usize| match (layer + 1).is_multiple_of(PATTERN) {
        true => full.clone(),
        false => local.clone(),
    };
    Ok(DecoderSpec {
        embedding_scale: (config.width as f32).sqrt(),
        layers: (0..config.n_layers).map(layer).collect(),
    })
}

fn local_rope_base(gguf: &Gguf) -> Result<f32, LoadError> {
    let key = "gemma3.rope.freq_base_swa";
    match gguf.f32(key)? {
        None => Ok(LOCAL_ROPE_BASE),
        Some(base) if base.is_finite() && base > 0.0 => Ok(base),
        Some(base) => Err(LoadError::bad_value(gguf, key, base)),
    }
}
