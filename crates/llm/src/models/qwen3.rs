//! Qwen 3: Llama's layer with RoPE over halves and head norms on Q and K.
//! <https://arxiv.org/abs/2505.09388>

use super::{Block, head_norm, llama};
use crate::config::Config;
use crate::error::LoadError;
use crate::weights::Weights;
use hearth_kernels::rope::Pairing;

pub(super) fn block(config: &Config, weights: &mut Weights, layer: usize) -> Result<Box<dyn Block>, LoadError> {
    let mut block = llama::load(config, weights, layer, Pairing::Halves)?;
    block.q_norm = head_norm(config, weights, layer, "attn_q_norm")?;
    block.k_norm = head_norm(config, weights, layer, "attn_k_norm")?;
    Ok(Box::new(block))
}
