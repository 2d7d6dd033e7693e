//! Q2_K: 2-bit codes; a 4-bit scale and minimum per 16 weights; a scale of each per 256.

use super::block::{Block, Group, HALF_GROUP, Half, QK_K};
use super::search::{GridCodes, Steps, affine, affine_scales, code};
use super::two_bits;
use crate::gemv::{Simd, SimdBlock, negate};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit, bits_by_part};

/// ggml's `block_q2_K`: weight `i` is `d * (scales[j] & 15) * q[i] - dmin * (scales[j] >> 4)` with
/// `j = i / 16`.
///
/// Every 32 bytes of `qs` hold four groups of 32 weights, group `g` in bits `2 g` and `2 g + 1`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q2K {
    /// Scale in the low nibble, minimum in the high one.
    pub scales: [u8; QK_K / HALF_GROUP],
    /// Codes.
    pub qs: [u8; QK_K / 4],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

const _: () = assert!(size_of::<Q2K>() == 84);

/// Maximum code.
const MAX_CODE: u8 = 3;
/// Maximum code of a scale or minimum.
const MAX_SCALE: u8 = 15;

impl Block for Q2K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let scales = [self.scales[2 * g], self.scales[2 * g + 1]];
        Group {
            codes: two_bits::group(&self.qs, g).map(|q| q as i8),
            scale: scales.map(|s| d * f32::from(s & 0x0f)),
            offset: scales.map(|s| -(dmin * f32::from(s >> 4))),
        }
    }

    fn quantize(x: &[f32]) -> Self {
        let halves: [&[f32; HALF_GROUP]; QK_K / HALF_GROUP] = std::array::from_fn(|j| &x.as_chunks().0[j]);
        let fits = halves.map(|half| affine(half, MAX_CODE, &Steps { first: -0.5, count: 16 }));
        let d = Half::from_f32(fits.iter().fold(0.0_f32, |max, fit| max.max(fit.scale)) / f32::from(MAX_SCALE));
        let dmin = Half::from_f32(fits.iter().fold(0.0_f32, |max, fit| max.max(fit.min)) / f32::from(MAX_SCALE));
        let grids: [GridCodes; QK_K / HALF_GROUP] =
            std::array::from_fn(|j| affine_scales(halves[j], fits[j], d.to_f32(), dmin.to_f32(), MAX_CODE, MAX_SCALE));
        let codes = std::array::from_fn(|i| {
            let GridCodes { scale, min } = grids[i / HALF_GROUP];
            code(
                x[i],
                d.to_f32() * f32::from(scale),
                dmin.to_f32() * f32::from(min),
                MAX_CODE,
            )
        });
        Self {
            scales: grids.map(|grid| grid.scale | grid.min << 4),
            qs: two_bits::pack(&codes),
            d,
            dmin,
        }
    }

    fn has_bad_scale(&self) -> bool {
        !(self.d.is_finite() && self.dmin.is_finite())
    }
}

impl SimdBlock for Q2K {
    type Blocks = Self;

    const ZERO_POINT: u8 = 0;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        let scale = s.widen_u8(block.scales.map(|byte| byte & 0x0f));
        let min = s.widen_u8(block.scales.map(|byte| byte >> 4));
        let (d, dmin) = (s.splat_f16(block.d.bits()), s.splat_f16(block.dmin.bits()));
        (s.mul(d, scale), Some(negate(s, s.mul(dmin, min))))
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        two_bits::codes(s, &block.qs, pair)
    }
}

impl Packable for Q2K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::F16(80),
            minimum: Minimum::Subtracted(82),
            parts: Some(Parts {
                halves: true,
                offset: 0,
                bytes: 16,
                code: PartCode::Unsigned,
                scale: bits_by_part!(half => Bits::new(half, 0, 15)),
                minimum: bits_by_part!(half => Bits::new(half, 4, 15)),
            }),
            tiles: 8,
        },
        bits: 2,
        zero_point: 0,
        codebook: None,
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::two_bits::gpu::two_bits;
    use crate::gpu::bytes::{SEGMENT, load_f16, load_u8};
    use crate::gpu::decode::segment_by_weight;
    use cubecl::prelude::*;

    segment_by_weight!();

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let scales = load_u8(words, block + i / 16);
        let scale = load_f16(words, block + 80) * f32::cast_from(scales & 15u32);
        let minimum = load_f16(words, block + 82) * f32::cast_from(scales >> 4u32);
        scale * f32::cast_from(two_bits(words, block + 16, i)) - minimum
    }
}
