//! Common parts of the quantized formats: a block consists of groups of 32 weights.

use bytemuck::Pod;
use half::f16;

use super::search::symmetric_unit;

/// Weights in a group; activations are quantized in groups of the same size.
pub const GROUP: usize = 32;
/// Weights that share a scale in Q2_K, Q3_K and Q6_K: half a group.
pub const HALF_GROUP: usize = 16;
/// Weights in a superblock, as in ggml. The SIMD loops process this many weights, or activations,
/// per iteration in every format.
pub const QK_K: usize = 256;

/// A stored f16: little-endian, unaligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Half([u8; 2]);

impl Half {
    /// The f16 nearest to `value`; infinity if out of range.
    pub fn from_f32(value: f32) -> Self {
        Self(f16::from_f32(value).to_bits().to_le_bytes())
    }

    /// The value as f32, exactly.
    pub fn to_f32(self) -> f32 {
        f16::from_bits(self.bits()).to_f32()
    }

    /// The bits of the value.
    #[inline(always)]
    pub fn bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// Returns `true` if the value is neither infinite nor NaN.
    #[inline]
    pub fn is_finite(self) -> bool {
        f16::from_bits(self.bits()).is_finite()
    }
}

/// Thirty-two unpacked weights: weight `i` is `scale[i / 16] * codes[i] + offset[i / 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Integer codes; the zero point of symmetric formats is already subtracted.
    pub codes: [i8; GROUP],
    /// Scale of each half of the group.
    pub scale: [f32; 2],
    /// Offset of each half of the group.
    pub offset: [f32; 2],
}

impl Group {
    /// A group with one scale and no offset.
    pub(super) fn symmetric(scale: f32, codes: [i8; GROUP]) -> Self {
        Self {
            codes,
            scale: [scale; 2],
            offset: [0.0; 2],
        }
    }

    /// A group with one scale and one offset.
    pub(super) fn affine(scale: f32, offset: f32, codes: [i8; GROUP]) -> Self {
        Self {
            codes,
            scale: [scale; 2],
            offset: [offset; 2],
        }
    }

    /// Weight `i` of the group.
    pub fn weight(&self, i: usize) -> f32 {
        self.scale[i / HALF_GROUP] * f32::from(self.codes[i]) + self.offset[i / HALF_GROUP]
    }
}

/// A quantized block in the file's layout. Blocks have alignment 1, so any bytes of the right
/// length are blocks.
///
/// `group` is the specification of a format: dequantization and the scalar dot product are computed
/// from it, and the SIMD variants are tested against them.
pub trait Block: Pod {
    /// Groups of 32 weights per block: 1, 2 in NVFP4, or 8 in the K formats.
    const GROUPS: usize;

    /// Unpacks group `g`, with `g < GROUPS`.
    fn group(&self, g: usize) -> Group;

    /// Quantizes `x`, which has `GROUPS * 32` weights.
    fn quantize(x: &[f32]) -> Self;

    /// Returns `true` if a scale of the block is NaN or infinite.
    fn has_bad_scale(&self) -> bool;

    /// Dequantizes the block to `out`, which has `GROUPS * 32` elements, as ggml's
    /// `dequantize_row_q4_0` and its counterparts.
    fn dequantize(&self, out: &mut [f32]) {
        for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let group = self.group(g);
            for (i, out) in out.iter_mut().enumerate() {
                *out = group.weight(i);
            }
        }
    }
}

/// Unpacks codes of formats with elements 0 to 15 in the low nibbles of 16 bytes and 16 to 31 in
/// the high ones.
#[inline]
pub(super) fn nibbles(bytes: &[u8; HALF_GROUP]) -> [u8; GROUP] {
    std::array::from_fn(|i| {
        if i < HALF_GROUP {
            bytes[i] & 0x0f
        } else {
            bytes[i - HALF_GROUP] >> 4
        }
    })
}

/// Inverse of [`nibbles`]; stores only the low four bits of each code.
#[inline]
pub(super) fn pack_nibbles(codes: &[u8; GROUP]) -> [u8; HALF_GROUP] {
    std::array::from_fn(|i| (codes[i] & 0x0f) | (codes[i + HALF_GROUP] << 4))
}

/// Packs the fifth bits of 32 codes, element `i` in bit `i`.
#[inline]
pub(super) fn pack_fifth_bits(codes: &[u8; GROUP]) -> [u8; 4] {
    let bits = codes
        .iter()
        .enumerate()
        .fold(0_u32, |bits, (i, code)| bits | (u32::from(code >> 4) & 1) << i);
    bits.to_le_bytes()
}

/// The first four bytes of a block: its scale and the next two bytes, such as the minimum.
#[inline(always)]
pub(super) fn first_four<B: Block>(block: &B) -> [u8; 4] {
    let bytes = bytemuck::bytes_of(block);
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

/// Quantizes 32 weights for the symmetric formats, as ggml's `quantize_row_q4_0_ref` and
/// `quantize_row_q5_0_ref`: returns the scale, and codes `0..=2 * limit - 1` with zero point
/// `limit`.
///
/// The weight farthest from zero becomes code 0 exactly, so the scale has the opposite sign.
pub(super) fn quantize_symmetric(x: &[f32], limit: u8) -> (f32, [u8; GROUP]) {
    let scale = symmetric_unit(x, limit);
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let max_code = f32::from(2 * limit - 1);
    // Truncation after adding a half rounds.
    let zero_point_and_half = f32::from(limit) + 0.5;
    (
        scale,
        std::array::from_fn(|i| (x[i] * inverse + zero_point_and_half).trunc().clamp(0.0, max_code) as u8),
    )
}

/// Quantizes 32 weights for the formats with a minimum, as ggml's `quantize_row_q4_1_ref` and
/// `quantize_row_q5_1_ref`: returns the scale, the minimum and codes `0..=max_code`.
pub(super) fn quantize_affine(x: &[f32], max_code: u8) -> (f32, f32, [u8; GROUP]) {
    let low = x.iter().copied().fold(f32::INFINITY, f32::min);
    let high = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let max_code = f32::from(max_code);
    let scale = (high - low) / max_code;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (
        scale,
        low,
        std::array::from_fn(|i| ((x[i] - low) * inverse + 0.5).trunc().clamp(0.0, max_code) as u8),
    )
}
