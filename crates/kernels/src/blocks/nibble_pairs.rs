//! Common layout of Q4_K and Q5_K: the low four bits of each code, and the scales and minima of
//! their groups.

use super::block::{GROUP, Half, QK_K};
use super::search::{GridCodes, Steps, affine, affine_scales, code};
use crate::gemv::{Simd, negate};
use crate::packed::layout::{Minimum, PartCode, Parts, ScaleLayout, Unit, bits_by_part};

/// Maximum code of a group's scale or minimum, which have six bits.
const MAX_SCALE: u8 = 63;

/// Unpacks the low four bits of the codes of group `g`: 32 bytes hold an even group in their low
/// nibbles and the next group in their high nibbles.
pub(super) fn group(packed: &[u8; QK_K / 2], g: usize) -> [u8; GROUP] {
    let bytes = &packed[GROUP * (g / 2)..][..GROUP];
    std::array::from_fn(|i| bytes[i] >> (4 * (g % 2)) & 0x0f)
}

/// Inverse of [`group`] for all eight groups; stores only the low four bits of each code.
pub(super) fn pack(codes: &[u8; QK_K]) -> [u8; QK_K / 2] {
    std::array::from_fn(|index| {
        let first = 2 * GROUP * (index / GROUP) + index % GROUP;
        (codes[first] & 0x0f) | codes[first + GROUP] << 4
    })
}

/// Six-bit scales and minima of eight groups in 12 bytes.
///
/// Bytes 0 to 3 hold scales 0 to 3 and bytes 4 to 7 minima 0 to 3, in their low six bits. Scales 4
/// to 7 have their low four bits in the low nibbles of bytes 8 to 11 and their top two bits in the
/// top two bits of bytes 0 to 3; minima 4 to 7 in the high nibbles of bytes 8 to 11 and the top two
/// bits of bytes 4 to 7.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct SixBits([u8; 12]);

impl SixBits {
    /// Unpacks scales and minima, byte `g` for group `g`, as ggml's `get_scale_min_k4`.
    #[inline(always)]
    pub fn unpack(&self) -> (u64, u64) {
        let [a, b, c] = std::array::from_fn(|i| {
            u32::from_le_bytes([self.0[4 * i], self.0[4 * i + 1], self.0[4 * i + 2], self.0[4 * i + 3]])
        });
        let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        (
            join(a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | (a >> 2 & 0x3030_3030)),
            join(b & 0x3f3f_3f3f, (c >> 4 & 0x0f0f_0f0f) | (b >> 2 & 0x3030_3030)),
        )
    }

    /// Inverse of [`SixBits::unpack`].
    fn pack(scales: [u8; 8], minima: [u8; 8]) -> Self {
        Self(std::array::from_fn(|index| {
            let i = index % 4;
            match index / 4 {
                0 => scales[i] | (scales[i + 4] >> 4) << 6,
                1 => minima[i] | (minima[i + 4] >> 4) << 6,
                _ => (scales[i + 4] & 0x0f) | minima[i + 4] << 4,
            }
        }))
    }
}

/// 256 quantized weights with a scale and a minimum per group.
pub(super) struct Quantized {
    pub d: Half,
    pub dmin: Half,
    pub scales: SixBits,
    pub codes: [u8; QK_K],
}

/// Quantizes 256 weights to codes `0..=max_code`.
pub(super) fn quantize(x: &[f32], max_code: u8) -> Quantized {
    let groups: [&[f32; GROUP]; 8] = std::array::from_fn(|g| &x.as_chunks().0[g]);
    let fits = groups.map(|group| affine(group, max_code, &Steps { first: -1.0, count: 21 }));
    let d = Half::from_f32(fits.iter().fold(0.0_f32, |max, fit| max.max(fit.scale)) / f32::from(MAX_SCALE));
    let dmin = Half::from_f32(fits.iter().fold(0.0_f32, |max, fit| max.max(fit.min)) / f32::from(MAX_SCALE));
    let grids: [GridCodes; 8] =
        std::array::from_fn(|g| affine_scales(groups[g], fits[g], d.to_f32(), dmin.to_f32(), max_code, MAX_SCALE));
    let codes = std::array::from_fn(|i| {
        let GridCodes { scale, min } = grids[i / GROUP];
        code(
            x[i],
            d.to_f32() * f32::from(scale),
            dmin.to_f32() * f32::from(min),
            max_code,
        )
    });
    let scales = SixBits::pack(grids.map(|grid| grid.scale), grids.map(|grid| grid.min));
    Quantized { d, dmin, scales, codes }
}

/// Byte `i` of `bytes`.
#[inline]
pub(super) fn byte(bytes: u64, i: usize) -> u8 {
    bytes.to_le_bytes()[i]
}

/// Unpacks the low four bits of the codes of groups `2 pair` and `2 pair + 1`.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, packed: &[u8; QK_K / 2], pair: usize) -> S::Bytes {
    let packed: &[[u8; GROUP]; 4] = bytemuck::cast_ref(packed);
    s.and(s.shift_right(s.load_half_twice(&packed[pair]), [0, 0, 4, 4]), 0x0f)
}

/// Scales and offsets of each half group of a block.
#[inline(always)]
pub(super) fn scales<S: Simd>(s: S, d: Half, dmin: Half, scales: &SixBits) -> (S::Floats, Option<S::Floats>) {
    let (scales, minima) = scales.unpack();
    let scale = s.mul(s.splat_f16(d.bits()), s.widen_u8_twice(scales));
    (
        scale,
        Some(negate(s, s.mul(s.splat_f16(dmin.bits()), s.widen_u8_twice(minima)))),
    )
}

/// Scales of packed blocks; see [`SixBits`].
pub(super) const SCALES: ScaleLayout = ScaleLayout {
    unit: Unit::F16(0),
    minimum: Minimum::Subtracted(2),
    parts: Some(Parts {
        halves: false,
        offset: 4,
        bytes: 12,
        code: PartCode::Unsigned,
        scale: bits_by_part!(g => match g {
            0..4 => Bits::new(g, 0, 63),
            _ => Bits::new(8 + g % 4, 0, 15).and_top(g % 4, 6),
        }),
        minimum: bits_by_part!(g => match g {
            0..4 => Bits::new(4 + g, 0, 63),
            _ => Bits::new(8 + g % 4, 4, 15).and_top(4 + g % 4, 6),
        }),
    }),
    tiles: 8,
};

/// Decodes blocks on a GPU.
#[cfg(feature = "gpu")]
pub(super) mod gpu {
    use crate::gpu::bytes::{load_f16, load_u8};
    use cubecl::prelude::*;

    /// The low four bits of the code of weight `i` of the block whose codes begin at byte `codes`;
    /// see [`group`](super::group).
    #[cube]
    pub(crate) fn paired_nibble(words: &[u32], codes: usize, i: usize) -> u32 {
        (load_u8(words, codes + 32 * (i / 64) + i % 32) >> (4u32 * ((i / 32) % 2) as u32)) & 15u32
    }

    /// The six-bit scale or minimum of group `g`. Groups 0 to 3 have it in the four bytes at
    /// `bytes`; groups 4 to 7 have four bits in the nibbles at `nibbles`, low or high by `shift`,
    /// and the top two bits in the top bits of the bytes at `bytes`.
    #[cube]
    fn six_bits(words: &[u32], bytes: usize, nibbles: usize, g: usize, shift: u32) -> u32 {
        let first = load_u8(words, bytes + g % 4);
        let packed = ((load_u8(words, nibbles + g % 4) >> shift) & 15u32) | ((first >> 6u32) << 4u32);
        select(g < 4, first & 63u32, packed)
    }

    /// The scale of group `g` of the block at byte `block`.
    #[cube]
    pub(crate) fn scale(words: &[u32], block: usize, g: usize) -> f32 {
        load_f16(words, block) * f32::cast_from(six_bits(words, block + 4, block + 12, g, 0u32))
    }

    /// The minimum of group `g` of the block at byte `block`.
    #[cube]
    pub(crate) fn minimum(words: &[u32], block: usize, g: usize) -> f32 {
        load_f16(words, block + 2) * f32::cast_from(six_bits(words, block + 8, block + 12, g, 4u32))
    }

    /// Weight `i`, whose code is `q`, of the block at byte `block`.
    #[cube]
    pub(crate) fn weight_of(words: &[u32], block: usize, i: usize, q: u32) -> f32 {
        scale(words, block, i / 32) * f32::cast_from(q) - minimum(words, block, i / 32)
    }
}
