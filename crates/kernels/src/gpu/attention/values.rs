//! The weighted sums of values: each unit accumulates its elements of a head, for all rows.

use super::elements::element;
use super::{Config, Sizes, Source, TILE};
use cubecl::prelude::*;

/// Rescales a unit's sums, `[rows, elements_per_unit]`, and adds the first `count` values of a
/// tile, weighted by `weights [rows, TILE]`.
#[cube]
pub(super) fn accumulate_values(
    values: &[u32],
    weights: &[f32],
    offsets: &[u32],
    rescale: &[f32],
    sums: &mut Array<f32>,
    sizes: &Sizes,
    count: usize,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.head_dim);
    let rows = comptime!(config.rows);
    let elements_per_unit = comptime!(config.head_dim.div_ceil(TILE));
    let unit = UNIT_POS as usize;
    #[unroll]
    for i in 0..elements_per_unit {
        let offset = i * TILE + unit;
        if offset < dim {
            #[unroll]
            for row in 0..rows {
                sums[row * elements_per_unit + i] *= rescale[row];
            }
            for j in 0..count {
                let mut head = offsets[j] as usize;
                if comptime!(config.source == Source::Batch) {
                    head += sizes.kv_heads * dim;
                }
                let v = element(values, head, offset, config);
                #[unroll]
                for row in 0..rows {
                    sums[row * elements_per_unit + i] += weights[row * TILE + j] * v;
                }
            }
        }
    }
}

/// Writes a unit's elements of the results: divided by the sums of the rows, or if several cubes
/// split the keys, as partial results with their statistics.
#[cube]
pub(super) fn write_out(
    sums: &Array<f32>,
    row_max: &[f32],
    row_sums: &[f32],
    out: &mut [f32],
    partial_stats: &mut [f32],
    sizes: &Sizes,
    split: usize,
    kv: usize,
    first_row: usize,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.head_dim);
    let rows = comptime!(config.rows);
    let elements_per_unit = comptime!(config.head_dim.div_ceil(TILE));
    let unit = UNIT_POS as usize;
    let query_heads = sizes.kv_heads * sizes.group;
    #[unroll]
    for i in 0..elements_per_unit {
        let offset = i * TILE + unit;
        #[unroll]
        for row in 0..rows {
            let query_row = first_row + row;
            if offset < dim && query_row < sizes.tokens * sizes.group {
                // Index among the query heads of the sequence's rows.
                let head = query_row / sizes.group * query_heads + kv * sizes.group + query_row % sizes.group;
                if comptime!(config.split) {
                    let partial = split * sizes.tokens * query_heads + head;
                    out[partial * dim + offset] = sums[row * elements_per_unit + i];
                    if offset == 0 {
                        partial_stats[2 * partial] = row_max[row];
                        partial_stats[2 * partial + 1] = row_sums[row];
                    }
                } else {
                    out[(sizes.rows_before * query_heads + head) * dim + offset] =
                        sums[row * elements_per_unit + i] / row_sums[row];
                }
            }
        }
    }
}
