//! Quantized activations: int8, with a scale per 32.
//!
//! All quantized weights are multiplied with this format, so the input of a layer is quantized once
//! for all its matrices.

use crate::blocks::{BlockError, GROUP, HALF_GROUP, QK_K};

/// A group whose largest activation is below this is quantized to zeros: the inverse of its scale
/// would overflow.
const MIN_SPAN: f32 = 1e-30;
/// Maximum code. The minimum is its negative: -128 is never used, so that a product of two codes
/// cannot overflow.
pub(crate) const MAX_CODE: i8 = i8::MAX;

/// 256 quantized activations: activation `i` is approximately `scales[i / 32] * values[i]`. (ggml's
/// `block_q8_K` has one scale for all of them.)
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
pub struct ActivationChunk {
    /// Codes, -127 to 127.
    pub values: [i8; QK_K],
    /// Scale of each group of 32.
    pub scales: [f32; QK_K / GROUP],
    /// Sum of each group of 32, as quantized.
    pub sums: [f32; QK_K / GROUP],
    /// Sum of each half group of 16, as quantized.
    pub half_sums: [f32; QK_K / HALF_GROUP],
    /// Negative sum of the codes of each group of 32. Times the zero point of the weights, it
    /// corrects the products of unsigned codes.
    pub minus_sums: [i32; QK_K / GROUP],
    /// The same for each half group of 16.
    pub minus_half_sums: [i32; QK_K / HALF_GROUP],
}

const _: () = assert!(size_of::<ActivationChunk>() == 480);

impl ActivationChunk {
    /// All zeros.
    pub const ZERO: Self = Self {
        values: [0; QK_K],
        scales: [0.0; 8],
        sums: [0.0; 8],
        half_sums: [0.0; 16],
        minus_sums: [0; 8],
        minus_half_sums: [0; 16],
    };

    /// Codes `4 v..4 v + 4` of group `part`, which is below 8, as the bytes of an integer.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn four_codes(&self, part: usize, v: usize) -> i32 {
        let codes: &[[[i8; 4]; GROUP / 4]; QK_K / GROUP] = bytemuck::cast_ref(&self.values);
        i32::from_ne_bytes(codes[part][v].map(|code| code as u8))
    }
}

/// A row of activations, in f32 and quantized.
#[derive(Clone, Copy, Debug)]
pub struct Activations<'a> {
    floats: &'a [f32],
    chunks: &'a [ActivationChunk],
}

impl<'a> Activations<'a> {
    /// Number of [`ActivationChunk`]s of `cols` activations; the last is padded with zeros.
    pub fn chunks_for(cols: usize) -> usize {
        cols.div_ceil(QK_K)
    }

    /// Combines a row with the result of [`Activations::quantize`].
    ///
    /// # Errors
    /// If `chunks` are not [`Activations::chunks_for`] `floats.len()`.
    pub fn from_parts(floats: &'a [f32], chunks: &'a [ActivationChunk]) -> Result<Self, BlockError> {
        if chunks.len() != Self::chunks_for(floats.len()) {
            return Err(BlockError::Activations {
                cols: chunks.len() * QK_K,
                found: floats.len(),
            });
        }
        Ok(Self { floats, chunks })
    }

    /// Number of activations.
    pub fn cols(&self) -> usize {
        self.floats.len()
    }

    /// The activations in f32.
    pub fn floats(&self) -> &'a [f32] {
        self.floats
    }

    /// The quantized activations, padded with zeros.
    pub fn chunks(&self) -> &'a [ActivationChunk] {
        self.chunks
    }
}

/// Scalar specification of quantizing activations.
pub(super) fn quantize_scalar(floats: &[f32], chunks: &mut [ActivationChunk]) {
    for (x, quantized) in floats.chunks(QK_K).zip(chunks) {
        *quantized = ActivationChunk::ZERO;
        for (g, x) in x.chunks(GROUP).enumerate() {
            let (scale, inverse) = scale_and_inverse(x.iter().fold(0, |max, x| max.max(magnitude(*x))));
            quantized.scales[g] = scale;
            let values = &mut quantized.values[GROUP * g..][..x.len()];
            for (value, x) in values.iter_mut().zip(x) {
                *value = (x * inverse).round_ties_even() as i8;
            }
            for (h, values) in quantized.values[GROUP * g..][..GROUP].chunks(HALF_GROUP).enumerate() {
                let sum: i32 = values.iter().map(|value| i32::from(*value)).sum();
                quantized.half_sums[2 * g + h] = scale * sum as f32;
                quantized.sums[g] += quantized.half_sums[2 * g + h];
                quantized.minus_half_sums[2 * g + h] = -sum;
                quantized.minus_sums[g] -= sum;
            }
        }
    }
}

/// The bits of `x` without its sign: they order magnitudes, infinity and NaN last.
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// The scale, and its inverse, of a group whose largest magnitude has these bits.
pub(super) fn scale_and_inverse(magnitude: u32) -> (f32, f32) {
    let largest = f32::from_bits(magnitude);
    if !largest.is_finite() {
        (f32::NAN, 0.0)
    } else if largest < MIN_SPAN {
        (0.0, 0.0)
    } else {
        (largest / f32::from(MAX_CODE), f32::from(MAX_CODE) / largest)
    }
}
