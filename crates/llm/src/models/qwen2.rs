//! Qwen 2 and 2.5: Llama's layer with RoPE over halves and a bias on Q, K and V.
//! <https://arxiv.org/abs/2407.10671>

use super::{Block, llama};
use crate::config::Config;
use crate::error::LoadError;
use crate::weights::Weights;
use hearth_kernels::rope::Pairing;

pub(super) fn block(config: &Config, weights: &mut Weights, layer: usize) -> Result<Box<dyn Block>, LoadError> {
    Ok(Box::new(llama::load(config, weights, layer, Pairing::Halves)?))
}
