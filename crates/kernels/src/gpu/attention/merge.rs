//! The merge of partial results.

use super::MASKED;
use crate::gpu::exp::bounded_exp;
use cubecl::prelude::*;

/// Merges the partial results of `splits` cubes for each of `heads` heads, and writes the results
/// after the first `heads_before` heads of `out`.
#[cube(launch_unchecked)]
pub(super) fn merge_splits(
    sums: &[f32],
    partial_stats: &[f32],
    out: &mut [f32],
    heads_before: usize,
    heads: usize,
    dim: usize,
    splits: usize,
) {
    if ABSOLUTE_POS >= heads * dim {
        terminate!();
    }
    let head = ABSOLUTE_POS / dim;
    let mut row_max = MASKED.runtime();
    for split in 0..splits {
        row_max = max(row_max, partial_stats[2 * (split * heads + head)]);
    }
    let mut sum = 0.0f32;
    let mut value = 0.0f32;
    for split in 0..splits {
        let partial = split * heads + head;
        let factor = bounded_exp(partial_stats[2 * partial] - row_max);
        sum += factor * partial_stats[2 * partial + 1];
        value += factor * sums[partial * dim + ABSOLUTE_POS % dim];
    }
    out[heads_before * dim + ABSOLUTE_POS] = value / sum;
}
