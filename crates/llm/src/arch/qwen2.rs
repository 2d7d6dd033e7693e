//! Qwen 2 and 2.5: Llama's layer with RoPE over halves; the file has a bias for Q, K and V.
//! <https://arxiv.org/abs/2407.10671>

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, RopeSpec};
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

pub(super) fn describe(_: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let rope = RopeSpec::new(config, Pairing::Halves);
    Ok(DecoderSpec::uniform(config, |shape| LayerSpec::plain(shape, rope)))
}
