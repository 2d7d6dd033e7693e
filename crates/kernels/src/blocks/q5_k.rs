//! Q5_K: 5-bit codes; a 6-bit scale and minimum per 32 weights; a scale of each per 256.

use super::block::{Block, GROUP, Group, Half, QK_K};
use super::nibble_pairs::{self, SixBits, byte};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Packable, PackedLayout};

/// ggml's `block_q5_K`: weight `i` is `d * s[i / 32] * q[i] - dmin * m[i / 32]`.
///
/// Four bits of a code are in `qs` as in Q4_K; the fifth, of weight `l` of group `g`, is bit `g` of
/// `qh[l]`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q5K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Scales and minima of the groups.
    pub scales: SixBits,
    /// Fifth bits.
    pub qh: [u8; GROUP],
    /// Low four bits of the codes.
    pub qs: [u8; QK_K / 2],
}

const _: () = assert!(size_of::<Q5K>() == 176);

impl Block for Q5K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (scales, minima) = self.scales.unpack();
        let low = nibble_pairs::group(&self.qs, g);
        Group::affine(
            self.d.to_f32() * f32::from(byte(scales, g)),
            -(self.dmin.to_f32() * f32::from(byte(minima, g))),
            std::array::from_fn(|l| (low[l] | (self.qh[l] >> g & 1) << 4) as i8),
        )
    }

    fn quantize(x: &[f32]) -> Self {
        let fit = nibble_pairs::quantize(x, 31);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: fit.scales,
            qh: std::array::from_fn(|l| (0..8).fold(0, |byte, g| byte | (fit.codes[GROUP * g + l] >> 4) << g)),
            qs: nibble_pairs::pack(&fit.codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !(self.d.is_finite() && self.dmin.is_finite())
    }
}

impl SimdBlock for Q5K {
    type Blocks = Self;

    const ZERO_POINT: u8 = 0;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        nibble_pairs::scales(s, block.d, block.dmin, &block.scales)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        let (even, odd) = (1 << (2 * pair), 2 << (2 * pair));
        let high = s.test_bits(s.load_half_twice(&block.qh), [even, even, odd, odd], 0x10);
        s.or(nibble_pairs::codes(s, &block.qs, pair), high)
    }
}

impl Packable for Q5K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: nibble_pairs::SCALES,
        bits: 5,
        zero_point: 0,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::nibble_pairs::gpu::{minimum, paired_nibble, scale, weight_of};
    use crate::gpu::bytes::{SEGMENT, load_u8};
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 32;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let fifth = (load_u8(words, block + 16 + i % 32) >> (i / 32) as u32) & 1u32;
        weight_of(words, block, i, paired_nibble(words, block + 48, i) | (fifth << 4u32))
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let group = 2 * (segment / 8);
        let codes = words[(block + 48 + 4 * segment) / 4];
        let fifths = words[(block + 16) / 4 + segment % 8] >> group as u32;
        #[unroll]
        for high in 0..2usize {
            let scale = scale(words, block, group + high);
            let minimum = minimum(words, block, group + high);
            #[unroll]
            for i in 0..4usize {
                let shift = (8 * i + 4 * high) as u32;
                let code = ((codes >> shift) & 15u32) | (((fifths >> (8 * i + high) as u32) & 1u32) << 4u32);
                out[4 * high + i] = scale * f32::cast_from(code) - minimum;
            }
        }
        out
    }
}
