//! The queries of a cube, and the keys that they see.

use super::{Config, Sizes, Source, TILE};
use cubecl::prelude::*;

/// Loads the scaled queries of a block of rows; rows beyond the last have zeros.
#[cube]
pub(super) fn load_queries(
    qkv: &[f32],
    queries: &mut [f32],
    sizes: &Sizes,
    scale: f32,
    kv: usize,
    first_row: usize,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.head_dim);
    let stride = comptime!(config.query_size());
    let unit = UNIT_POS as usize;
    let total_rows = sizes.tokens * sizes.group;
    let query_heads = sizes.kv_heads * sizes.group;
    let width = (query_heads + 2 * sizes.kv_heads) * dim;
    for step in 0..comptime!((config.rows * config.query_size()).div_ceil(TILE)) {
        let i = step * TILE + unit;
        if i < comptime!(config.rows * config.query_size()) {
            let row = first_row + i / stride;
            let mut value = 0.0f32;
            if row < total_rows && i % stride < dim {
                let head = kv * sizes.group + row % sizes.group;
                value = scale * qkv[(sizes.rows_before + row / sizes.group) * width + head * dim + i % stride];
            }
            queries[i] = value;
        }
    }
}

/// Writes the first and the last key that each row of a block sees; rows beyond the last see none.
#[cube]
pub(super) fn find_visible_keys(
    bounds: &[u32],
    first_visible: &mut [u32],
    last_visible: &mut [u32],
    sizes: &Sizes,
    first_row: usize,
    #[comptime] config: Config,
) {
    let rows = comptime!(config.rows);
    let unit = UNIT_POS as usize;
    if unit < rows {
        let row = first_row + unit;
        let mut first = u32::MAX.runtime();
        let mut last = 0u32;
        if row < sizes.tokens * sizes.group {
            let token = row / sizes.group;
            let position = sizes.past_tokens + token;
            let mut first_key = 0usize;
            if position >= sizes.window {
                first_key = position + 1 - sizes.window;
            }
            let mut last_key = position;
            if comptime!(config.both_ways) {
                let half = sizes.window / 2;
                first_key = position - min(position, half);
                last_key = max(min(bounds[sizes.tokens + token] as usize, sizes.tokens), position + 1) - 1;
                last_key = min(last_key, position + half);
            }
            if comptime!(config.source == Source::Batch) {
                first_key = max(first_key, min(bounds[token] as usize, position));
            }
            first = first_key as u32;
            last = last_key as u32;
        }
        first_visible[unit] = first;
        last_visible[unit] = last;
    }
}

/// Writes the first key that any row of a block sees, and the key after the last, to `range`.
#[cube]
pub(super) fn find_range(first_visible: &[u32], last_visible: &[u32], range: &mut [u32], #[comptime] config: Config) {
    let rows = comptime!(config.rows);
    if UNIT_POS == 0 {
        let mut first = first_visible[0];
        let mut last = last_visible[0];
        for row in 1..rows {
            first = min(first, first_visible[row]);
            last = max(last, last_visible[row]);
        }
        range[0] = first;
        range[1] = last + 1;
    }
}
