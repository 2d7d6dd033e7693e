//! Q4_K: 4-bit codes; a 6-bit scale and minimum per 32 weights; a scale of each per 256.

use super::block::{Block, Group, Half, QK_K};
use super::nibble_pairs::{self, SixBits, byte};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Packable, PackedLayout};

/// ggml's `block_q4_K`: weight `i` is `d * s[i / 32] * q[i] - dmin * m[i / 32]`.
///
/// Every 32 bytes of `qs` hold two groups of 32 weights, the first in the low nibbles.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q4K {
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
    /// Scales and minima of the groups.
    pub scales: SixBits,
    /// Codes.
    pub qs: [u8; QK_K / 2],
}

const _: () = assert!(size_of::<Q4K>() == 144);

impl Block for Q4K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (scales, minima) = self.scales.unpack();
        Group::affine(
            self.d.to_f32() * f32::from(byte(scales, g)),
            -(self.dmin.to_f32() * f32::from(byte(minima, g))),
            nibble_pairs::group(&self.qs, g).map(|q| q as i8),
        )
    }

    fn quantize(x: &[f32]) -> Self {
        let fit = nibble_pairs::quantize(x, 15);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: fit.scales,
            qs: nibble_pairs::pack(&fit.codes),
        }
    }

    fn has_bad_scale(&self) -> bool {
        !(self.d.is_finite() && self.dmin.is_finite())
    }
}

impl SimdBlock for Q4K {
    type Blocks = Self;

    const ZERO_POINT: u8 = 0;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        nibble_pairs::scales(s, block.d, block.dmin, &block.scales)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        nibble_pairs::codes(s, &block.qs, pair)
    }
}

impl Packable for Q4K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: nibble_pairs::SCALES,
        bits: 4,
        zero_point: 0,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::nibble_pairs::gpu::{minimum, paired_nibble, scale, weight_of};
    use crate::gpu::bytes::SEGMENT;
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 32;

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        weight_of(words, block, i, paired_nibble(words, block + 16, i))
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let group = 2 * (segment / 8);
        let codes = words[(block + 16 + 4 * segment) / 4];
        #[unroll]
        for high in 0..2usize {
            let scale = scale(words, block, group + high);
            let minimum = minimum(words, block, group + high);
            #[unroll]
            for i in 0..4usize {
                let shift = (8 * i + 4 * high) as u32;
                let code = (codes >> shift) & 15u32;
                out[4 * high + i] = scale * f32::cast_from(code) - minimum;
            }
        }
        out
    }
}
