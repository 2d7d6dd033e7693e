//! Q3_K: 3-bit codes; a signed 6-bit scale per 16 weights; a scale of the scales per 256.

use super::block::{Block, GROUP, Group, HALF_GROUP, Half, QK_K};
use super::search::{signed_code, symmetric, symmetric_unit};
use super::two_bits;
use crate::gemv::{Simd, SimdBlock};
use crate::packed::layout::{Minimum, Packable, PackedLayout, PartCode, Parts, ScaleLayout, Unit, bits_by_part};

/// ggml's `block_q3_K`: weight `i` is `d * (s[i / 16] - 32) * (q[i] - 4)`.
///
/// Two bits of a code are in `qs` as in Q2_K; the third, of weight `l` of group `g`, is bit `g`
/// of `hmask[l]`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Q3K {
    /// Third bits.
    pub hmask: [u8; GROUP],
    /// Low two bits of the codes.
    pub qs: [u8; QK_K / 4],
    /// Sixteen scales. Bytes 0 to 7 hold the low four bits: scales 0 to 7 in the low nibbles, 8 to
    /// 15 in the high ones. The top two bits of scale `j` are bits `2 (j / 4)` and `2 (j / 4) + 1`
    /// of byte `8 + j % 4`.
    pub scales: [u8; 12],
    /// Scale of the scales.
    pub d: Half,
}

const _: () = assert!(size_of::<Q3K>() == 110);

/// Zero point of the codes.
const ZERO_POINT: u8 = 4;
/// Zero point of the scales.
const ZERO_SCALE: u8 = 32;

impl Q3K {
    /// Unsigned scale `j`, of weights `16 j` to `16 j + 15`.
    fn scale(&self, j: usize) -> u8 {
        let low = self.scales[j % 8] >> (4 * (j / 8)) & 0x0f;
        let high = self.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
        low | high << 4
    }

    /// All unsigned scales, unpacked eight at a time.
    #[inline(always)]
    fn all_scales(&self) -> [u8; QK_K / HALF_GROUP] {
        const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        const HIGH: u64 = 0x3030_3030_3030_3030;
        let [a, b, c] = bytemuck::cast::<[u8; 12], [[u8; 4]; 3]>(self.scales).map(u32::from_le_bytes);
        let low = u64::from(a) | u64::from(b) << 32;
        let high = u64::from(c);
        // Scales 0 to 3 of each half have their top bits in one bit pair of the last four bytes,
        // scales 4 to 7 in the next pair.
        let first = (low & LOW) | (high << 4 | high << 34) & HIGH;
        let second = (low >> 4 & LOW) | (high | high << 30) & HIGH;
        bytemuck::cast([first.to_le_bytes(), second.to_le_bytes()])
    }
}

impl Block for Q3K {
    const GROUPS: usize = 8;

    fn group(&self, g: usize) -> Group {
        let (d, low) = (self.d.to_f32(), two_bits::group(&self.qs, g));
        let scale = |j| d * f32::from(self.scale(j) as i8 - ZERO_SCALE as i8);
        Group {
            codes: std::array::from_fn(|l| (low[l] | (self.hmask[l] >> g & 1) << 2) as i8 - ZERO_POINT as i8),
            scale: [scale(2 * g), scale(2 * g + 1)],
            offset: [0.0; 2],
        }
    }

    fn quantize(x: &[f32]) -> Self {
        let fits: [f32; QK_K / HALF_GROUP] =
            std::array::from_fn(|j| symmetric::<HALF_GROUP>(&x.as_chunks().0[j], ZERO_POINT));
        let d = Half::from_f32(symmetric_unit(&fits, ZERO_SCALE));
        let scales = fits.map(|fit| signed_code(fit, d.to_f32(), ZERO_SCALE));
        let codes: [u8; QK_K] = std::array::from_fn(|i| {
            let step = d.to_f32() * f32::from(scales[i / HALF_GROUP]);
            (signed_code(x[i], step, ZERO_POINT) + ZERO_POINT as i8) as u8
        });
        let scales = scales.map(|s| (s + ZERO_SCALE as i8) as u8);
        Self {
            hmask: std::array::from_fn(|l| (0..8).fold(0, |byte, g| byte | (codes[GROUP * g + l] >> 2) << g)),
            qs: two_bits::pack(&codes),
            scales: std::array::from_fn(|index| match index {
                0..8 => (scales[index] & 0x0f) | (scales[index + 8] & 0x0f) << 4,
                _ => (0..4).fold(0, |byte, k| byte | (scales[index - 8 + 4 * k] >> 4) << (2 * k)),
            }),
            d,
        }
    }

    fn has_bad_scale(&self) -> bool {
        !self.d.is_finite()
    }
}

impl SimdBlock for Q3K {
    type Blocks = Self;

    const ZERO_POINT: u8 = ZERO_POINT;

    #[inline(always)]
    fn scales<S: Simd>(s: S, block: &Self) -> (S::Floats, Option<S::Floats>) {
        let scale = s.add(s.widen_u8(block.all_scales()), s.splat(-f32::from(ZERO_SCALE)));
        (s.mul(s.splat_f16(block.d.bits()), scale), None)
    }

    #[inline(always)]
    fn codes<S: Simd>(s: S, block: &Self, pair: usize) -> S::Bytes {
        let (even, odd) = (1 << (2 * pair), 2 << (2 * pair));
        let high = s.test_bits(s.load_half_twice(&block.hmask), [even, even, odd, odd], 4);
        s.or(two_bits::codes(s, &block.qs, pair), high)
    }
}

impl Packable for Q3K {
    const LAYOUT: PackedLayout = PackedLayout {
        scales: ScaleLayout {
            unit: Unit::F16(108),
            minimum: Minimum::None,
            parts: Some(Parts {
                halves: true,
                offset: 96,
                bytes: 12,
                code: PartCode::Minus32,
                scale: bits_by_part!(j => Bits::new(j % 8, 4 * (j / 8), 15).and_top(8 + j % 4, 2 * (j / 4))),
                minimum: Parts::NO_MINIMA,
            }),
            tiles: 8,
        },
        bits: 3,
        zero_point: ZERO_POINT,
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

    /// The scale of half group `j`, from the twelve bytes at `scales`.
    #[cube]
    fn scale(words: &[u32], scales: usize, j: usize) -> i32 {
        let low = (load_u8(words, scales + j % 8) >> (4u32 * (j / 8) as u32)) & 15u32;
        let high = (load_u8(words, scales + 8 + j % 4) >> (2u32 * (j / 4) as u32)) & 3u32;
        (low | (high << 4u32)) as i32 - 32i32
    }

    #[cube]
    pub(crate) fn weight(words: &[u32], block: usize, i: usize) -> f32 {
        let third_bit = (load_u8(words, block + i % 32) >> (i / 32) as u32) & 1u32;
        let q = two_bits(words, block + 32, i) | (third_bit << 2u32);
        let scale = load_f16(words, block + 108) * f32::cast_from(scale(words, block + 96, i / 16));
        scale * f32::cast_from(q as i32 - 4i32)
    }
}
