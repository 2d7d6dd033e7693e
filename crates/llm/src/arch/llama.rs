//! Llama: pre-norm layers of rotary attention and SwiGLU. <https://arxiv.org/abs/2302.13971>
//!
//! In the file the rows of Q and K are permuted so that RoPE pairs neighbors.

use super::config::Config;
use super::spec::{DecoderSpec, LayerSpec, RopeSpec};
use crate::error::LoadError;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::rope::Pairing;

pub(super) fn describe(_: &GgufHeader, config: &Config) -> Result<DecoderSpec, LoadError> {
    let rope = RopeSpec {
        factors: config.rope_factors,
        ..RopeSpec::new(config, Pairing::Interleaved)
    };
    Ok(DecoderSpec::uniform(config, |shape| LayerSpec::plain(shape, rope)))
}
