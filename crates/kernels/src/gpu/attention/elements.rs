//! Elements of keys and values.

use super::{Config, Source};
use crate::attention::BLOCK;
use crate::gpu::f16::from_bits;
use cubecl::prelude::*;

/// The lowest byte of a word, minus 128.
#[cube]
pub(super) fn signed_byte(word: u32) -> f32 {
    f32::cast_from(word & 0xffu32) - 128.0f32
}

/// Element `i` of the head that begins at `head` in `words`.
#[cube]
pub(super) fn element(words: &[u32], head: usize, i: usize, #[comptime] config: Config) -> f32 {
    match config.source {
        Source::Batch => f32::reinterpret(words[head + i]),
        Source::F16 => from_bits((words[(head + i) / 2] >> (16u32 * ((head + i) % 2) as u32)) & 0xffffu32),
        Source::Q8_0 => {
            let scale = f32::reinterpret(words[head + comptime!(config.head_dim.div_ceil(4)) + i / BLOCK]);
            scale * signed_byte(words[head + i / 4] >> (8u32 * (i % 4) as u32))
        }
    }
}
