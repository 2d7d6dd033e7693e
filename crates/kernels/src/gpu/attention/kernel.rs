//! The kernel of attention.

use super::online_softmax::softmax_step;
use super::queries::{find_range, find_visible_keys, load_queries};
use super::scores::scores_of_tile;
use super::values::{accumulate_values, write_out};
use super::{Config, MASKED, Sizes, TILE};
use cubecl::prelude::*;

/// Attention of a block of rows over the tiles of one split of the keys.
///
/// `bounds_or_pages` are in a batch the first key that each token sees and, without a causal mask,
/// the key after the last; with a cache, the pages of the sequence. `partial_stats` are the row
/// maximum and sum of each partial result, if several cubes split the keys.
#[cube(launch_unchecked)]
pub(super) fn attend(
    qkv: &[f32],
    keys: &[u32],
    values: &[u32],
    bounds_or_pages: &[u32],
    out: &mut [f32],
    partial_stats: &mut [f32],
    sizes: &Sizes,
    scale: f32,
    softcap: f32,
    #[comptime] config: Config,
) {
    let rows = comptime!(config.rows);
    let row_blocks = (sizes.tokens * sizes.group).div_ceil(rows);
    if CUBE_POS >= sizes.kv_heads * row_blocks * sizes.splits {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let split = CUBE_POS % sizes.splits;
    let kv = CUBE_POS / sizes.splits / row_blocks;
    let first_row = CUBE_POS / sizes.splits % row_blocks * rows;

    let mut queries = Shared::<[f32]>::new_slice(comptime!(config.rows * config.query_size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!(config.rows * TILE));
    let mut scratch = Shared::<[f32]>::new_slice(TILE);
    let mut offsets = Shared::<[u32]>::new_slice(TILE);
    let mut row_max = Shared::<[f32]>::new_slice(rows);
    let mut row_sums = Shared::<[f32]>::new_slice(rows);
    let mut rescale = Shared::<[f32]>::new_slice(rows);
    let mut first_visible = Shared::<[u32]>::new_slice(rows);
    let mut last_visible = Shared::<[u32]>::new_slice(rows);
    let mut range = Shared::<[u32]>::new_slice(2usize);

    load_queries(qkv, &mut queries, sizes, scale, kv, first_row, config);
    find_visible_keys(
        bounds_or_pages,
        &mut first_visible,
        &mut last_visible,
        sizes,
        first_row,
        config,
    );
    if unit < rows {
        row_max[unit] = MASKED;
        row_sums[unit] = 0.0f32;
    }
    sync_cube();
    find_range(&first_visible, &last_visible, &mut range, config);
    let start = workgroup_uniform_load(&range[0]) as usize;
    let end = workgroup_uniform_load(&range[1]) as usize;

    let mut sums = Array::<f32>::new(comptime!(config.rows * config.head_dim.div_ceil(TILE)));
    #[unroll]
    for i in 0..comptime!(config.rows * config.head_dim.div_ceil(TILE)) {
        sums[i] = 0.0f32;
    }

    let tiles = (end - start).div_ceil(TILE);
    let tiles_per_split = tiles.div_ceil(sizes.splits);
    for tile in split * tiles_per_split..min((split + 1) * tiles_per_split, tiles) {
        let base = start + tile * TILE;
        scores_of_tile(
            keys,
            bounds_or_pages,
            &queries,
            &first_visible,
            &last_visible,
            &mut scores,
            &mut offsets,
            sizes,
            softcap,
            kv,
            base,
            end,
            config,
        );
        sync_cube();
        softmax_step(
            &mut scores,
            &mut scratch,
            &mut row_max,
            &mut row_sums,
            &mut rescale,
            config,
        );
        sync_cube();
        let count = min(end - base, TILE);
        accumulate_values(values, &scores, &offsets, &rescale, &mut sums, sizes, count, config);
        sync_cube();
    }

    write_out(
        &sums,
        &row_max,
        &row_sums,
        out,
        partial_stats,
        sizes,
        split,
        kv,
        first_row,
        config,
    );
}
