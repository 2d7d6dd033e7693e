//! Qwen 3: Llama's layer with RoPE over halves and head norms on Q and K.
//! <https://arxiv.org/abs/2505.09388>

use super::spec::{DecoderSpec, LayerSpec, NormName};
use crate::config::Config;
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: &[NormName] = &[NormName::Attention, NormName::Q, NormName::K, NormName::Ffn];

pub(super) fn describe(_: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let layer = LayerSpec {
        norms: NORMS,
        ..LayerSpec::plain(config, Pairing::Halves)
    };
    Ok(DecoderSpec::uniform(config, layer))
}
