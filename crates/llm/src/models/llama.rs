//! Llama: pre-norm layers of rotary attention and SwiGLU. <https://arxiv.org/abs/2302.13971>
//!
//! In the file the rows of Q and K are permuted so that RoPE pairs neighbours.

use super::{Block, Pass};
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

/// One transformer layer, also Qwen's: these differ in RoPE's pairing, in biases (part of a linear)
/// and in head norms.
#[derive(Clone)]
pub(super) struct LlamaBlock {
    pub attention: Arc<AttentionSpec>,
    pub attention_norm: Norm<Dispatch>,
    pub qkv: Linears<Dispatch>,
    pub q_norm: OptionalNorm<Dispatch>,
    pub k_norm: OptionalNorm<Dispatch>,
    pub attention_output: Linear<Dispatch>,
    pub gated: Gated<Dispatch>,
    pub down: Linear<Dispatch>,
}

impl Block for LlamaBlock {
    fn forward(&self, x: Tensor<2>, layer: usize, pass: &Pass) -> Tensor<2> {
        let qkv = norm_linears(x.clone(), &self.attention_norm, &self.qkv, pass.precision);
        let context = attend(qkv, &self.q_norm, &self.k_norm, &self.attention, pass.key_values(layer));
        let x = linear_add(x, context, &self.attention_output, &OptionalNorm::None, pass.precision);
        feed_forward(x, &self.gated, &self.down, &OptionalNorm::None, pass.precision)
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
    Ok(Box::new(load(config, weights, layer, Pairing::Interleaved)?))
}

/// Loads a layer without head norms.
pub(super) fn load(
    config: &Config,
    weights: &mut Weights,
    layer: usize,
    pairing: Pairing,
) -> Result<LlamaBlock, LoadError> {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let (width, eps) = (config.width, config.norm_eps);
    let attention = Arc::new(AttentionSpec {
        heads: Heads {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: (config.head_dim as f32).sqrt().recip(),
            window: None,
        },
        rope: weights.rope(config.rope_dims, pairing, config.rope_base, config.rope_scale)?,
    });
    Ok(LlamaBlock {
        attention_norm: weights.norm(&name("attn_norm"), width, eps)?,
        qkv: super::qkv(config, weights, layer)?,
        q_norm: OptionalNorm::None,
        k_norm: OptionalNorm::None,
        attention_output: weights.linear(&name("attn_output"), width, config.heads * config.head_dim)?,
        gated: Gated {
            norm: weights.norm(&name("ffn_norm"), width, eps)?,
            gate: weights.linear(&name("ffn_gate"), config.ffn_width, width)?,
            up: weights.linear(&name("ffn_up"), config.ffn_width, width)?,
            activation: Activation::Silu,
        },
        down: weights.linear(&name("ffn_down"), width, config.ffn_width)?,
        attention,
    })
}
