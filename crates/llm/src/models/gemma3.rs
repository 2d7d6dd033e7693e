//! Gemma 3: norms before and after attention and feed-forward, head norms, GeGLU, scaled
//! embeddings, and five sliding-window layers per full-attention layer.
//! <https://arxiv.org/abs/2503.19786>
//!
//! The norm weights in the file already include the "1 +" of the reference code.

use super::{Block, Pass, head_norm};
use crate::config::Config;
use crate::error::LoadError;
use crate::ops::{
    Activation, AttentionSpec, Gated, Linear, Linears, Norm, OptionalNorm, attend, feed_forward, linear_add,
    norm_linears,
};
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use hearth_kernels::attention::Heads;
use hearth_kernels::rope::Pairing;
use std::sync::Arc;

/// Every sixth layer has full attention.
const PATTERN: usize = 6;
/// RoPE base of sliding-window layers.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// The number of layers that identifies the 27B model; it alone scales scores by width / heads.
const LAYERS_OF_27B: usize = 62;

pub(super) fn embedding_scale(config: &Config) -> f32 {
    (config.width as f32).sqrt()
}

#[derive(Clone)]
struct GemmaBlock {
    attention: Arc<AttentionSpec>,
    attention_norm: Norm<Dispatch>,
    qkv: Linears<Dispatch>,
    q_norm: OptionalNorm<Dispatch>,
    k_norm: OptionalNorm<Dispatch>,
    attention_output: Linear<Dispatch>,
    after_attention_norm: OptionalNorm<Dispatch>,
    gated: Gated<Dispatch>,
    down: Linear<Dispatch>,
    after_ffn_norm: OptionalNorm<Dispatch>,
}

impl Block for GemmaBlock {
    fn forward(&self, x: Tensor<2>, layer: usize, pass: &Pass) -> Tensor<2> {
        let qkv = norm_linears(x.clone(), &self.attention_norm, &self.qkv, pass.precision);
        let context = attend(qkv, &self.q_norm, &self.k_norm, &self.attention, pass.key_values(layer));
        let x = linear_add(
            x,
            context,
            &self.attention_output,
            &self.after_attention_norm,
            pass.precision,
        );
        feed_forward(x, &self.gated, &self.down, &self.after_ffn_norm, pass.precision)
    }

    fn linears_mut(&mut self) -> Vec<(&'static str, &mut Linear<Dispatch>)> {
        let mut linears = super::qkv_mut(&mut self.qkv);
        linears.extend([
            ("attn_output", &mut self.attention_output),
            ("ffn_gate", &mut self.gated.gate),
            ("ffn_up", &mut self.gated.up),
            ("ffn_down", &mut self.down),
        ]);
        linears
    }

    fn share(&self) -> Box<dyn Block> {
        Box::new(self.clone())
    }
}

pub(super) fn block(config: &Config, weights: &mut Weights, layer: usize) -> Result<Box<dyn Block>, LoadError> {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let (width, eps) = (config.width, config.norm_eps);
    let window = weights
        .gguf()
        .u32("gemma3.attention.sliding_window")?
        .filter(|window| *window > 0);
    let local = window.is_some() && !(layer + 1).is_multiple_of(PATTERN);
    let (base, scale) = match local {
        true => (local_base(weights)?, 1.0),
        false => (config.rope_base, config.rope_scale),
    };
    let per_head = match config.n_layers {
        LAYERS_OF_27B => config.width / config.heads,
        _ => config.head_dim,
    };
    let attention = Arc::new(AttentionSpec {
        heads: Heads {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: (per_head as f32).sqrt().recip(),
            window: window.filter(|_| local).map(|window| window as usize),
        },
        rope: weights.rope(config.rope_dims, Pairing::Halves, base, scale)?,
    });
    let after = |norm: Norm<Dispatch>| OptionalNorm::Norm(norm.weight, norm.eps);
    Ok(Box::new(GemmaBlock {
        attention_norm: weights.norm(&name("attn_norm"), width, eps)?,
        qkv: super::qkv(config, weights, layer)?,
        q_norm: head_norm(config, weights, layer, "attn_q_norm")?,
        k_norm: head_norm(config, weights, layer, "attn_k_norm")?,
        attention_output: weights.linear(&name("attn_output"), width, config.heads * config.head_dim)?,
        after_attention_norm: after(weights.norm(&name("post_attention_norm"), width, eps)?),
        gated: Gated {
            norm: weights.norm(&name("ffn_norm"), width, eps)?,
            gate: weights.linear(&name("ffn_gate"), config.ffn_width, width)?,
            up: weights.linear(&name("ffn_up"), config.ffn_width, width)?,
            activation: Activation::GeluTanh,
        },
        down: weights.linear(&name("ffn_down"), width, config.ffn_width)?,
        after_ffn_norm: after(weights.norm(&name("post_ffw_norm"), width, eps)?),
        attention,
    }))
}

fn local_base(weights: &Weights) -> Result<f32, LoadError> {
    let key = "gemma3.rope.freq_base_swa";
    match weights.gguf().f32(key)? {
        None => Ok(LOCAL_ROPE_BASE),
        Some(base) if base.is_finite() && base > 0.0 => Ok(base),
        Some(base) => Err(LoadError::bad_value(weights.gguf(), key, base)),
    }
}
