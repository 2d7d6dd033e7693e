//! Qwen 3: Llama's layer with RoPE over halves and head norms on Q and K.
//! <https://arxiv.org/abs/2505.09388>

use super::config::Config;
use super::norms::Norms;
use super::spec::{DecoderSpec, LayerSpec, RopeSpec};
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

/// The norms of a layer.
pub(super) const NORMS: Norms = Norms {
    queries: Some("attn_q_norm"),
    keys: Some("attn_k_norm"),
    ..Norms::PLAIN
};

pub(super) fn describe(_: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let rope = RopeSpec::new(config, Pairing::Halves);
    let layer = |shape| LayerSpec {
        norms: NORMS,
        ..LayerSpec::plain(shape, rope)
    };
    Ok(DecoderSpec::uniform(config, layer))
}
