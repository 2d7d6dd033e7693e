//! IQ4_XS: 4-bit codes into a non-linear codebook; a signed 6-bit scale per 32 weights; a scale of
//! the scales per 256.

use super::block::{Block, GROUP, Group, Half, QK_K};
use super::search::{signed_code, symmetric_unit};
use super::{codebook, iq4};
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit, bits_by_part};

/// ggml's `block_iq4_xs`: weight `i` is `d * (s[i / 32] - 32) * value[q[i]]`.
///
/// Every 16 bytes of `qs` hold a group of 32 weights, the first 16 in the low nibbles.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Iq4Xs {
    /// Scale of the scales.
    pub d: Half,
    /// Top two bits of the scales: group `g` in bits `2 g` and `2 g + 1`, little-endian.
    pub scales_h: [u8; 2],
    /// Low four bits of the scales: an even group in the low nibble, the next in the high one.
    pub scales_l: [u8; 4],
    /// Codes.
    pub qs: [[u8; GROUP / 2]; QK_K / GROUP],
}

const _: () = assert!(size_of::<Iq4Xs>() == 136);

/// Zero point of the scales.
const ZERO_SCALE: u8 = 32;

impl Iq4Xs {
    /// The unsigned scale of group `g`.
    fn scale(&self, g: usize) -> u8 {
        let low = self.scales_l[g / 2] >> (4 * (g % 2)) & 0x0f;
        let high = (u16::from_le_bytes(self.scales_h) >> (2 * g)) as u8 & 3;
        low | high << 4
    }

    /// All unsigned scales, byte `g` for group `g`.
    #[inline(always)]
    fn all_scales(&self) -> u64 {
        // Spreads nibbles, and below bit pairs, to bytes: moves the upper half, then the upper half
        // of each half, then of each quarter.
        let mut low = u64::from(u32::from_le_bytes(self.scales_l));
        low = (low | low << 16) & 0x0000_ffff_0000_ffff;
        low = (low | low << 8) & 0x00ff_00ff_00ff_00ff;
        low = (low | low << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let mut high = u64::from(u16::from_le_bytes(self.scales_h));
        high = (high | high << 24) & 0x0000_00ff_0000_00ff;
        high = (high | high << 12) & 0x000f_000f_000f_000f;
        high = (high | high << 6) & 0x0303_0303_0303_0303;
        low | high << 4
    }
}

impl Block for Iq4Xs {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let scale = f32::from(self.scale(g) as i8 - ZERO_SCALE as i8);
        Group::symmetric(self.d.to_f32() * scale, codebook::group(&iq4::VALUES, &self.qs[g]))
    }

    fn quantize(x: &[f32]) -> Self {
        let groups: [&[f32; GROUP]; 8] = std::array::from_fn(|g| &x.as_chunks().0[g]);
        let fits = groups.map(iq4::fit);
        let d = Half::from_f32(symmetric_unit(&fits, ZERO_SCALE));
        let scales = fits.map(|fit| signed_code(fit, d.to_f32(), ZERO_SCALE));
        let qs = std::array::from_fn(|g| iq4::pack(groups[g], d.to_f32() * f32::from(scales[g])));
        let scales = scales.map(|s| (s + ZERO_SCALE as i8) as u8);
        let high = (0..8).fold(0, |bits, g| bits | u16::from(scales[g] >> 4) << (2 * g));
        Self {
            d,
            scales_h: high.to_le_bytes(),
            scales_l: std::array::from_fn(|i| (scales[2 * i] & 0x0f) | scales[2 * i + 1] << 4),
            qs,
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Iq4Xs {
    type Blocks = Self;

    const ZERO_POINT: u8 = 0;
    const SIGNED: bool = true;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        let scale = s.add(s.widen_u8_twice(block.all_scales()), s.splat(-f32::from(ZERO_SCALE)));
        (s.mul(s.splat_f16(block.d.bits()), scale), None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        codebook::codes(
            s,
            bytemuck::cast_ref(&iq4::VALUES),
            &block.qs[2 * pair],
            &block.qs[2 * pair + 1],
        )
    }
}

impl Packable for Iq4Xs {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::F16(0),
            minimum: Minimum::None,
            parts: Some(Parts {
                halves: false,
                offset: 2,
                bytes: 6,
                code: PartCode::Minus32,
                scale: bits_by_part!(g => Bits::new(2 + g % 8 / 2, 4 * (g % 2), 15).and_top(g % 8 / 4, 2 * (g % 4))),
                minimum: Parts::NO_MINIMA,
            }),
            tiles: 8,
        },
        bits: 4,
        zero_point: 128,
        codebook: Some(&iq4::VALUES),
    };
}

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(crate) mod gpu {
    use crate::blocks::iq4;
    use crate::gpu::bytes::{
        SEGMENT, codebook_words, load_f16, load_nibble, load_u8, load_u16, load_u32_even, look_up,
    };
    use cubecl::prelude::*;

    /// See [`weight_index`](crate::gpu::decode::weight_index).
    pub(crate) const DISTANCE: usize = 16;

    /// The scale of group `g` of the block at byte `block`.
    #[cube]
    fn scale(words: &[u32], block: usize, g: usize) -> f32 {
        let low = (load_u8(words, block + 4 + g / 2) >> (4u32 * (g % 2) as u32)) & 15u32;
        let high = (load_u16(words, block + 2) >> (2u32 * g as u32)) & 3u32;
        load_f16(words, block) * f32::cast_from((low | (high << 4u32)) as i32 - 32i32)
    }

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let g = i / 32;
        scale(words, block, g)
            * look_up(
                load_nibble(words, block + 8 + 16 * g, i % 32),
                comptime!(codebook_words(&iq4::VALUES)),
            )
    }

    #[cube]
    pub(crate) fn segment(words: &[u32], block: usize, segment: usize) -> Array<f32> {
        let mut out = Array::<f32>::new(SEGMENT);
        let codes = load_u32_even(words, block + 8 + 4 * segment);
        let scale = scale(words, block, segment / 4);
        #[unroll]
        for i in 0..SEGMENT {
            let shift = (8 * (i % 4) + 4 * (i / 4)) as u32;
            out[i] = scale * look_up((codes >> shift) & 15u32, comptime!(codebook_words(&iq4::VALUES)));
        }
        out
    }
}
