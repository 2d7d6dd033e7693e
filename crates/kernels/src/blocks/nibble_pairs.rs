//! How Q4_K and Q5_K lay out the low four bits of each code, and the scales and minimums of their groups.

use super::block::{CHUNK, GROUP, Half};
use super::search::{Steps, affine, code};

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
    let fits: [(f32, f32); 8] =
        std::array::from_fn(|g| affine(&x[GROUP * g..][..GROUP], top, Steps { first: -1.0, count: 21 }));
    let d = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.0)) / f32::from(TOP_SCALE));
    let dmin = Half::from_f32(fits.iter().fold(0.0_f32, |most, fit| most.max(fit.1)) / f32::from(TOP_SCALE));
    let scales = fits.map(|fit| code(fit.0, d.to_f32(), 0.0, TOP_SCALE));
    let minimums = fits.map(|fit| code(fit.1, dmin.to_f32(), 0.0, TOP_SCALE));
    let codes = std::array::from_fn(|i| {
        let g = i / GROUP;
        code(
            x[i],
            d.to_f32() * f32::from(scales[g]),
            dmin.to_f32() * f32::from(minimums[g]),
            top,
        )
    });
    Quantized {
        d,
        dmin,
        scales: SixBits::pack(scales, minimums),
        codes,
    }
}

/// Byte `i` of `bytes`.
#[inline]
pub(super) fn byte(bytes: u64, i: usize) -> u8 {
    bytes.to_le_bytes()[i]
}
