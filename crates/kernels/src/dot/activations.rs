//! The one format in which activations meet quantised weights: int8, with a scale for each 32.
//!
//! It is the same whatever the weights are stored in, so a layer's input is quantised once for all that read it.

use crate::blocks::{BlockError, CHUNK, GROUP, HALF_GROUP};

/// Activations whose largest is below this are taken as zeros: the inverse of their scale would overflow.
const SMALLEST: f32 = 1e-30;
/// The largest code. The least is its negative: -128 is never used, so that a product of two codes cannot overflow.
const TOP: f32 = 127.0;

/// 256 activations: number `i` is near to `scales[i / 32] * values[i]`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(32))]
pub struct ActivationChunk {
    /// Codes, -127 to 127.
    pub values: [i8; CHUNK],
    /// What a code is worth in each 32.
    pub scales: [f32; CHUNK / GROUP],
    /// For each 32: their sum, as quantised.
    pub sums: [f32; CHUNK / GROUP],
    /// For each 16: their sum, as quantised.
    pub half_sums: [f32; CHUNK / HALF_GROUP],
    /// For each 32: the sum of their codes, negative. Times what was added to the codes of weights it is what comes off their products.
    pub minus_sums: [i32; CHUNK / GROUP],
    /// For each 16: the same.
    pub minus_half_sums: [i32; CHUNK / HALF_GROUP],
}

const _: () = assert!(size_of::<ActivationChunk>() == 480);

impl ActivationChunk {
    /// Activations that are all zero.
    pub const ZERO: Self = Self {
        values: [0; CHUNK],
        scales: [0.0; 8],
        sums: [0.0; 8],
        half_sums: [0.0; 16],
        minus_sums: [0; 8],
        minus_half_sums: [0; 16],
    };
}

/// One row of activations in the two forms that weights may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Activations<'a> {
    floats: &'a [f32],
    chunks: &'a [ActivationChunk],
}

impl<'a> Activations<'a> {
    /// Chunks that `cols` activations take; the last is filled up with zeros.
    pub fn chunks_for(cols: usize) -> usize {
        cols.div_ceil(CHUNK)
    }

    /// Joins a row with what [`Activations::quantize`] made of it earlier.
    ///
    /// # Errors
    /// Where `chunks` are not [`Activations::chunks_for`] `floats.len()`.
    pub fn from_parts(floats: &'a [f32], chunks: &'a [ActivationChunk]) -> Result<Self, BlockError> {
        if chunks.len() != Self::chunks_for(floats.len()) {
            return Err(BlockError::Activations {
                cols: chunks.len() * CHUNK,
                found: floats.len(),
            });
        }
        Ok(Self { floats, chunks })
    }

    /// How many activations there are.
    pub fn cols(&self) -> usize {
        self.floats.len()
    }

    /// The activations as they came.
    pub fn floats(&self) -> &'a [f32] {
        self.floats
    }

    /// The activations quantised; past the last one there are zeros.
    pub fn chunks(&self) -> &'a [ActivationChunk] {
        self.chunks
    }
}

/// The specification of quantising activations.
pub(super) fn quantize_scalar(floats: &[f32], chunks: &mut [ActivationChunk]) {
    for (x, chunk) in floats.chunks(CHUNK).zip(chunks) {
        *chunk = ActivationChunk::ZERO;
        for (g, x) in x.chunks(GROUP).enumerate() {
            let (scale, inverse) = scale_of(x.iter().fold(0, |most, x| most.max(magnitude(*x))));
            chunk.scales[g] = scale;
            let values = &mut chunk.values[GROUP * g..][..x.len()];
            for (value, x) in values.iter_mut().zip(x) {
                *value = (x * inverse).round_ties_even() as i8;
            }
            for (h, values) in chunk.values[GROUP * g..][..GROUP].chunks(HALF_GROUP).enumerate() {
                let sum: i32 = values.iter().map(|value| i32::from(*value)).sum();
                chunk.half_sums[2 * g + h] = scale * sum as f32;
                chunk.sums[g] += chunk.half_sums[2 * g + h];
                chunk.minus_half_sums[2 * g + h] = -sum;
                chunk.minus_sums[g] -= sum;
            }
        }
    }
}

/// The bits of `x` without its sign, which order magnitudes, infinity and NaN last.
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// The scale for activations of which the largest has these bits, and the inverse by which codes are made.
pub(super) fn scale_of(magnitude: u32) -> (f32, f32) {
    let largest = f32::from_bits(magnitude);
    if !largest.is_finite() {
        (f32::NAN, 0.0)
    } else if largest < SMALLEST {
        (0.0, 0.0)
    } else {
        (largest / TOP, TOP / largest)
    }
}
