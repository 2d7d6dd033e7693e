//! Scalar specification of the dot product.

use super::Activations;
use crate::blocks::{Block, Float, GROUP, HALF_GROUP, Quant, with_format};

/// Dot product of one stored row with activations of the same length, summed in f64.
pub(super) fn dot(quant: Quant, row: &[u8], activations: &Activations) -> f32 {
    let sum: f64 = with_format!(quant,
        float F => {
            let weights = bytemuck::cast_slice::<u8, F>(row).iter().map(|weight| Float::to_f32(*weight));
            weights.zip(activations.floats()).map(|(w, x)| f64::from(w) * f64::from(*x)).sum()
        },
        block B => {
            let blocks = bytemuck::cast_slice::<u8, B>(row);
            (0..blocks.len() * B::GROUPS).map(|g| group(&blocks[g / B::GROUPS], g, activations)).sum()
        }
    );
    sum as f32
}

/// Product of group `g` of the row, which is in `block`, with its activations: for each half, the
/// sum of integer products times both scales, plus the offset of the weights times the sum of the
/// activations.
fn group<B: Block>(block: &B, g: usize, activations: &Activations) -> f64 {
    let weights = block.group(g % B::GROUPS);
    let (quantized, g) = (&activations.chunks()[g / 8], g % 8);
    let halves = weights
        .codes
        .chunks(HALF_GROUP)
        .zip(quantized.values[GROUP * g..][..GROUP].chunks(HALF_GROUP));
    let half = |(h, (w, x)): (usize, (&[i8], &[i8]))| {
        let sum: i32 = w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
        f64::from(weights.scale[h]) * f64::from(quantized.scales[g]) * f64::from(sum)
            + f64::from(weights.offset[h]) * f64::from(quantized.half_sums[2 * g + h])
    };
    halves.enumerate().map(half).sum()
}
