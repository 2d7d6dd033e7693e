//! Q2_K: 2-bit codes; a 4-bit scale and minimum per 16 weights; a scale of each per 256.

use super::block::{Block, CHUNK, Group, HALF_GROUP, Half};
use super::search::{Steps, affine, affine_scales, code};
use super::two_bits;
use crate::gemv::{Simd, SimdBlock, negate};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit, bits_by_part};

/// Weight `i` is `d * (scales[j] & 15) * q[i] - dmin * (scales[j] >> 4)` with `j = i / 16`.
///
/// Each 32 bytes of `qs` hold four groups of 32 weights, group `g` in bits `2 g` and `2 g + 1`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q2K {
    /// Scale in the low nibble, minimum in the high one.
    pub scales: [u8; CHUNK / HALF_GROUP],
    /// Codes.
    pub qs: [u8; CHUNK / 4],
    /// Scale of the scales.
    pub d: Half,
    /// Scale of the minima.
    pub dmin: Half,
}

const _: () = assert!(size_of::<Q2K>() == 84);

/// Maximum code.
const TOP: u8 = 3;
/// Maximum code of a scale or minimum.
const TOP_SCALE: u8 = 15;

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
        let parts: [&[f32; HALF_GROUP]; CHUNK / HALF_GROUP] = std::array::from_fn(|j| &x.as_chunks().0[j]);
        let fits = parts.map(|part| affine(part, TOP, &Steps { first: -0.5, count: 16 }));
        let d = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.0)) / f32::from(TOP_SCALE));
        let dmin = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.1)) / f32::from(TOP_SCALE));
        let pairs: [(u8, u8); CHUNK / HALF_GROUP] =
            std::array::from_fn(|j| affine_scales(parts[j], fits[j], d.to_f32(), dmin.to_f32(), TOP, TOP_SCALE));
        let codes = std::array::from_fn(|i| {
            let (scale, min) = pairs[i / HALF_GROUP];
            code(x[i], d.to_f32() * f32::from(scale), dmin.to_f32() * f32::from(min), TOP)
        });
        Self {
            scales: pairs.map(|(scale, min)| scale | min << 4),
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
    type Chunk = Self;

    const ZERO_POINT: u8 = 0;

    #[inline(always)]
    fn scales<S: Simd>(s: S, chunk: &Self) -> (S::Floats, Option<S::Floats>) {
        let scale = s.widen_u8(chunk.scales.map(|both| both & 0x0f));
        let min = s.widen_u8(chunk.scales.map(|both| both >> 4));
        let (d, dmin) = (s.splat_f16(chunk.d.bits()), s.splat_f16(chunk.dmin.bits()));
        (s.mul(d, scale), Some(negate(s, s.mul(dmin, min))))
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, chunk: &Self, pair: usize) -> S::Bytes {
        two_bits::codes(s, &chunk.qs, pair)
    }
}

impl Packable for Q2K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::F16(80),
            minimum: Minimum::Subtracted(82),
            parts: Some(Parts {
                halves: true,
                at: 0,
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
    use crate::gpu::bytes::{SEGMENT, byte, half};
    use crate::gpu::decode::segment_by_weight;
    use cubecl::prelude::*;

    segment_by_weight!();

    #[cube]
    pub(crate) fn weight(words: &[u32], at: usize, i: usize) -> f32 {
        let scales = byte(words, at + i / 16);
        let scale = half(words, at + 80) * f32::cast_from(scales & 15u32);
        let minimum = half(words, at + 82) * f32::cast_from(scales >> 4u32);
        scale * f32::cast_from(two_bits(words, at + 16, i)) - minimum
    }
}
