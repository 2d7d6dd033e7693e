//! Q8_0: signed 8-bit codes and a scale.

use super::block::{Block, GROUP, Group, Half, first_four};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, ScaleLayout, Unit};

/// ggml's `block_q8_0`: weight `i` is `d * qs[i]`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q8_0 {
    /// Scale.
    pub d: Half,
    /// Codes.
    pub qs: [i8; GROUP],
}

const _: () = assert!(size_of::<Q8_0>() == 34);

impl Block for Q8_0 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        Group::symmetric(self.d.to_f32(), self.qs)
    }

    /// As ggml's `quantize_row_q8_0_ref`.
    fn quantize(x: &[f32]) -> Self {
        let scale = x.iter().fold(0.0_f32, |max, x| max.max(x.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        Self {
            d: Half::from_f32(scale),
            qs: std::array::from_fn(|i| (x[i] * inverse).round() as i8),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Q8_0 {
    type Blocks = [Q8_0; 8];

    const ZERO_POINT: u8 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        // The two bytes after a scale are loaded with it and discarded.
        (s.widen_f16_pairs_twice(blocks.each_ref().map(first_four)).0, None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        let (a, b) = (&blocks[2 * pair], &blocks[2 * pair + 1]);
        s.load_halves(bytemuck::cast_ref(&a.qs), bytemuck::cast_ref(&b.qs))
    }
}

impl Packable for Q8_0 {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::of_block(Unit::F16(0), Minimum::None),
        bits: 8,
        zero_point: 128,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::gpu::bytes::{SEGMENT, load_f16, load_i8, load_u32_even};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 4;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        load_f16(words, block) * f32::cast_from(load_i8(words, block + 2 + i))
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let scale = load_f16(words, block);
        let low = load_u32_even(words, block + 2 + SEGMENT * segment);
        let high = load_u32_even(words, block + 6 + SEGMENT * segment);
        #[unroll]
        for i in 0..SEGMENT {
            let codes = select(i < 4, low, high);
            let shift = (8 * (i % 4)) as u32;
            let code = (((codes >> shift) & 0xffu32) ^ 0x80u32) as i32 - 128i32;
            out[i] = scale * f32::cast_from(code);
        }
        out
    }
}
