//! How Q4_K and Q5_K lay out the low four bits of each code, and the scales and minimums of their groups.

use super::block::{CHUNK, GROUP, Half};
use super::search::{Steps, affine, affine_scales, code};
use crate::dot::{Simd, negate};

/// The greatest scale or minimum of a group: six bits.
const TOP_SCALE: u8 = 63;

/// The low four bits of each code of group `g`: 32 bytes hold an even group in low nibbles, the next in high ones.
pub(super) fn group(packed: &[u8; CHUNK / 2], g: usize) -> [u8; GROUP] {
    let bytes = &packed[GROUP * (g / 2)..][..GROUP];
    std::array::from_fn(|i| bytes[i] >> (4 * (g % 2)) & 0x0f)
}

/// The inverse for all eight groups; only the low four bits of each code are kept.
pub(super) fn pack(codes: &[u8; CHUNK]) -> [u8; CHUNK / 2] {
    std::array::from_fn(|at| {
        let first = 2 * GROUP * (at / GROUP) + at % GROUP;
        (codes[first] & 0x0f) | codes[first + GROUP] << 4
    })
}

/// Six-bit scales and minimums of eight groups in 12 bytes.
///
/// Bytes 0 to 3 hold scales 0 to 3, bytes 4 to 7 minimums 0 to 3, in their low six bits. Scales 4 to 7 have their low
/// four bits in the low nibbles of bytes 8 to 11 and their top two in the top of bytes 0 to 3; minimums 4 to 7 in the
/// high nibbles of bytes 8 to 11 and the top of bytes 4 to 7.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct SixBits([u8; 12]);

impl SixBits {
    /// The scales and the minimums, byte `g` for group `g`.
    #[inline(always)]
    pub fn unpack(&self) -> (u64, u64) {
        let [a, b, c] = std::array::from_fn(|i| {
            u32::from_le_bytes([self.0[4 * i], self.0[4 * i + 1], self.0[4 * i + 2], self.0[4 * i + 3]])
        });
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        (
            both(a & 0x3f3f_3f3f, (c & 0x0f0f_0f0f) | (a >> 2 & 0x3030_3030)),
            both(b & 0x3f3f_3f3f, (c >> 4 & 0x0f0f_0f0f) | (b >> 2 & 0x3030_3030)),
        )
    }

    /// The inverse of [`SixBits::unpack`].
    fn pack(scales: [u8; 8], minimums: [u8; 8]) -> Self {
        Self(std::array::from_fn(|at| {
            let i = at % 4;
            match at / 4 {
                0 => scales[i] | (scales[i + 4] >> 4) << 6,
                1 => minimums[i] | (minimums[i + 4] >> 4) << 6,
                _ => (scales[i + 4] & 0x0f) | minimums[i + 4] << 4,
            }
        }))
    }
}

/// What quantising 256 weights to codes `0..=top` with one scale and minimum a group gives.
pub(super) struct Quantized {
    pub d: Half,
    pub dmin: Half,
    pub scales: SixBits,
    pub codes: [u8; CHUNK],
}

/// Quantises 256 weights to codes `0..=top`.
pub(super) fn quantize(x: &[f32], top: u8) -> Quantized {
    let parts: [&[f32; GROUP]; 8] = std::array::from_fn(|g| &x.as_chunks().0[g]);
    let fits = parts.map(|part| affine(part, top, &Steps { first: -1.0, count: 21 }));
    let d = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.0)) / f32::from(TOP_SCALE));
    let dmin = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.1)) / f32::from(TOP_SCALE));
    let pairs: [(u8, u8); 8] =
        std::array::from_fn(|g| affine_scales(parts[g], fits[g], d.to_f32(), dmin.to_f32(), top, TOP_SCALE));
    let codes = std::array::from_fn(|i| {
        let (scale, least) = pairs[i / GROUP];
        code(
            x[i],
            d.to_f32() * f32::from(scale),
            dmin.to_f32() * f32::from(least),
            top,
        )
    });
    let scales = SixBits::pack(pairs.map(|pair| pair.0), pairs.map(|pair| pair.1));
    Quantized { d, dmin, scales, codes }
}

/// Byte `i` of `bytes`.
#[inline]
pub(super) fn byte(bytes: u64, i: usize) -> u8 {
    bytes.to_le_bytes()[i]
}

/// The low four bits of each code of groups `2 pair` and `2 pair + 1`.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, packed: &[u8; CHUNK / 2], pair: usize) -> S::Bytes {
    let packed: &[[u8; GROUP]; 4] = bytemuck::cast_ref(packed);
    s.and(s.shift_right(s.twice(&packed[pair]), [0, 0, 4, 4]), 0x0f)
}

/// The scales and offsets of a block's halves of groups.
#[inline(always)]
pub(super) fn scales<S: Simd>(s: S, d: Half, dmin: Half, scales: &SixBits) -> (S::Floats, Option<S::Floats>) {
    let (scales, minimums) = scales.unpack();
    let scale = s.mul(s.splat_f16(d.bits()), s.widen_u8_twice(scales));
    (
        scale,
        Some(negate(s, s.mul(s.splat_f16(dmin.bits()), s.widen_u8_twice(minimums)))),
    )
}
