//! The online softmax: a softmax that continues from tile to tile.

use super::{Config, MASKED, TILE};
use crate::gpu::exp::bounded_exp;
use cubecl::prelude::*;

/// Replaces the scores of a tile, `[rows, TILE]`, by their exponentials relative to the new maximum
/// of each row. Updates the maximum and the sum of each row, and writes the factor that rescales
/// the row's previous sums to `rescale`.
///
/// Each line of `TILE / rows` units reduces one row; `scratch` has an element per unit.
#[cube]
pub(super) fn softmax_step(
    scores: &mut [f32],
    scratch: &mut [f32],
    row_max: &mut [f32],
    sum: &mut [f32],
    rescale: &mut [f32],
    #[comptime] config: Config,
) {
    let rows = comptime!(config.rows);
    let line = comptime!(TILE / config.rows);
    let unit = UNIT_POS as usize;
    let row = unit / line;
    let lane = unit % line;

    // First the running maximum,
    let mut new_max = MASKED.runtime();
    #[unroll]
    for i in 0..rows {
        new_max = max(new_max, scores[row * TILE + i * line + lane]);
    }
    scratch[unit] = new_max;
    let mut half = comptime!(TILE / config.rows / 2).runtime();
    while half > 0 {
        sync_cube();
        if lane < half {
            scratch[unit] = max(scratch[unit], scratch[unit + half]);
        }
        half /= 2;
    }
    sync_cube();
    let old_max = row_max[row];
    new_max = max(old_max, scratch[row * line]);
    sync_cube();

    // then the sum of the exponentials.
    let mut partial_sum = 0.0f32;
    #[unroll]
    for i in 0..rows {
        let index = row * TILE + i * line + lane;
        let e = select(scores[index] > MASKED, bounded_exp(scores[index] - new_max), 0.0f32);
        scores[index] = e;
        partial_sum += e;
    }
    scratch[unit] = partial_sum;
    let mut half = comptime!(TILE / config.rows / 2).runtime();
    while half > 0 {
        sync_cube();
        if lane < half {
            scratch[unit] += scratch[unit + half];
        }
        half /= 2;
    }
    if lane == 0 {
        // Rescale the previous sum to the new maximum.
        let factor = bounded_exp(old_max - new_max);
        rescale[row] = factor;
        sum[row] = sum[row] * factor + scratch[unit];
        row_max[row] = new_max;
    }
}
