//! Q5_0: 5-bit codes and a scale.

use super::block::{Block, GROUP, Group, Half, first_four, nibbles, pack_fifth_bits, pack_nibbles, quantize_symmetric};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, ScaleLayout, Unit};

/// ggml's `block_q5_0`: weight `i` is `d * (q[i] - 16)`. Four bits of a code are stored as in Q4_0;
/// the fifth is bit `i` of `qh`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q5_0 {
    /// Scale.
    pub d: Half,
    /// Fifth bits, a little-endian u32.
    pub qh: [u8; 4],
    /// Low four bits of the codes.
    pub qs: [u8; GROUP / 2],
}

const _: () = assert!(size_of::<Q5_0>() == 22);

/// Zero point of the codes.
const ZERO_POINT: u8 = 16;

impl Block for Q5_0 {
    const GROUPS: usize = 1;

    fn group(&self, _: usize) -> Group {
        let (low, high) = (nibbles(&self.qs), u32::from_le_bytes(self.qh));
        let code = |i: usize| (low[i] | ((high >> i) as u8 & 1) << 4) as i8 - ZERO_POINT as i8;
        Group::symmetric(self.d.to_f32(), std::array::from_fn(code))
    }

    /// As ggml's `quantize_row_q5_0_ref`.
    fn quantize(x: &[f32]) -> Self {
        let (scale, codes) = quantize_symmetric(x, ZERO_POINT);
        Self {
            d: Half::from_f32(scale),
            qh: pack_fifth_bits(&codes),
            qs: pack_nibbles(&codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Q5_0 {
    type Blocks = [Q5_0; 8];

    const ZERO_POINT: u8 = ZERO_POINT;

    #[inline(always)]
    fn scales<S: Simd>(s: S, blocks: &Self::Blocks) -> (S::Floats, Option<S::Floats>) {
        // The two bytes after a scale are loaded with it and discarded.
        (s.widen_f16_pairs_twice(blocks.each_ref().map(first_four)).0, None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, blocks: &Self::Blocks, pair: usize) -> S::Bytes {
        let (a, b) = (&blocks[2 * pair], &blocks[2 * pair + 1]);
        let low = s.and(s.shift_right(s.load_quarters_twice(&a.qs, &b.qs), [0, 4, 0, 4]), 0x0f);
        let high = u64::from(u32::from_le_bytes(a.qh)) | u64::from(u32::from_le_bytes(b.qh)) << 32;
        s.or(low, s.expand_bits(high, 0x10))
    }
}

impl Packable for Q5_0 {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout::of_block(Unit::F16(0), Minimum::None),
        bits: 5,
        zero_point: ZERO_POINT,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::gpu::bytes::{SEGMENT, load_bit, load_f16, load_nibble, load_u32_even};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 16;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let q = load_nibble(words, block + 6, i) | (load_bit(words, block + 2, i) << 4u32);
        load_f16(words, block) * f32::cast_from(q as i32 - 16i32)
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let codes = load_u32_even(words, block + 6 + 4 * segment);
        let fifth_bits = load_u32_even(words, block + 2) >> (4 * segment) as u32;
        let scale = load_f16(words, block);
        let offset = -16.0f32 * scale;
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            let fifth = (fifth_bits >> (i % 4 + 16 * (i / 4)) as u32) & 1u32;
            let code = ((codes >> shift) & 15u32) | (fifth << 4u32);
            out[i] = scale * f32::cast_from(code) + offset;
        }
        out
    }
}
