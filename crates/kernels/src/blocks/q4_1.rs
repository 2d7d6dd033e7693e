//! Q4_1: 4-bit codes, a scale and a minimum.

use super::block::{Block, GROUP, Group, Half, first_four, nibbles, pack_nibbles, quantize_affine};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, ScaleLayout, Unit};

/// ggml's `block_q4_1`: weight `i` is `d * q[i] + m`. Low nibbles hold weights 0 to 15, high
/// nibbles 16 to 31.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q4_1 {
    /// Scale.
    pub d: Half,
    /// Minimum.
    pub m: Half,
    /// Codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Q4_1>() == 20);

impl Block for Q4_1 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::affine(self.d.to_f32(), self.m.to_f32(), nibbles(&self.qs).map(|q| q as i8))
    }

    /// As ggml's `quantize_row_q4_1_ref`.
    fn quantize(x: &[f32]) -> Self {
        let (scale, min, codes) = quantize_affine(x, 15);
        Self {
            d: Half::from_f32(scale),
            m: Half::from_f32(min),
            qs: pack_nibbles(&codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !(self.d.is_finite() && self.m.is_finite())
    }
}

impl SimdBlock for Q4_1 {
    type Blocks = [Q4_1; 8];

    const ZERO_POINT: u8 = 0;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        let (scale, offset) = s.widen_f16_pairs_twice(blocks.each_ref().map(first_four));
        (scale, Some(offset))
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        let (a, b) = (&blocks[2 * pair], &blocks[2 * pair + 1]);
        s.and(s.shift_right(s.load_quarters_twice(&a.qs, &b.qs), [0, 4, 0, 4]), 0x0f)
    }
}

impl Packable for Q4_1 {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::of_block(Unit::F16(0), Minimum::Added(2)),
        bits: 4,
        zero_point: 0,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::gpu::bytes::{SEGMENT, load_f16, load_nibble, load_u32_even};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 16;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        load_f16(words, block) * f32::cast_from(load_nibble(words, block + 4, i)) + load_f16(words, block + 2)
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let codes = load_u32_even(words, block + 4 + 4 * segment);
        let scale = load_f16(words, block);
        let offset = load_f16(words, block + 2);
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            let code = (codes >> shift) & 15u32;
            out[i] = scale * f32::cast_from(code) + offset;
        }
        out
    }
}
