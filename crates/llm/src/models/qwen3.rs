//! Qwen 3: Llama's block with halves paired in the rotation and each head of Q and K normalised.
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
