//! The scores of a tile of keys: each unit scores one key against all rows.

use super::elements::{element, signed_byte};
use super::{Config, MASKED, Sizes, Source, TILE};
use crate::attention::{BLOCK, PAGE};
use crate::gpu::f16::from_bits;
use crate::gpu::softcap::softcapped;
use cubecl::prelude::*;

/// Writes the scores of the unit's key, with the softcap and the mask applied, `[rows, TILE]`, and
/// the offset of the key's head. Keys from `end` on are masked for all rows.
#[cube]
pub(super) fn scores_of_tile(
    keys: &[u32],
    pages: &[u32],
    queries: &[f32],
    first_visible: &[u32],
    last_visible: &[u32],
    scores: &mut [f32],
    offsets: &mut [u32],
    sizes: &Sizes,
    softcap: f32,
    kv: usize,
    base: usize,
    end: usize,
    #[comptime] config: Config,
) {
    let rows = comptime!(config.rows);
    let unit = UNIT_POS as usize;
    let key = base + unit;
    let mut key_scores = Array::<f32>::new(rows);
    #[unroll]
    for row in 0..rows {
        key_scores[row] = 0.0f32;
    }
    if key < end {
        let offset = key_offset(pages, sizes, kv, key, config);
        offsets[unit] = offset as u32;
        if comptime!(config.source == Source::Q8_0) {
            add_q8_0_products(keys, offset, queries, &mut key_scores, config);
        } else if comptime!(config.source == Source::F16) {
            add_f16_products(keys, offset, queries, &mut key_scores, config);
        } else {
            add_batch_products(keys, offset, queries, &mut key_scores, config);
        }
    }
    #[unroll]
    for row in 0..rows {
        if comptime!(config.capped) {
            key_scores[row] = softcapped(key_scores[row], softcap);
        }
        let is_visible = key as u32 >= first_visible[row] && key as u32 <= last_visible[row];
        scores[row * TILE + unit] = select(is_visible, key_scores[row], MASKED);
    }
}

/// The offset of a key's head; the value's head has the same offset among the values.
#[cube]
fn key_offset(pages: &[u32], sizes: &Sizes, kv: usize, key: usize, #[comptime] config: Config) -> usize {
    let query_heads = sizes.kv_heads * sizes.group;
    let dim = comptime!(config.head_dim);
    let width = (query_heads + 2 * sizes.kv_heads) * dim;
    let mut offset = key * width + (query_heads + kv) * dim;
    if comptime!(config.source != Source::Batch) {
        let last_cell = sizes.n_cells - 1;
        let cell = pages[key / PAGE - sizes.first_page] as usize * PAGE + key % PAGE;
        offset = (min(cell, last_cell) * sizes.kv_heads + kv) * comptime!(config.head_size());
    }
    offset
}

/// Adds the dot products of a key in 8 bits with each query row.
#[cube]
fn add_q8_0_products(keys: &[u32], offset: usize, queries: &[f32], sums: &mut Array<f32>, #[comptime] config: Config) {
    let rows = comptime!(config.rows);
    let stride = comptime!(config.query_size());
    let words = comptime!(config.head_dim.div_ceil(4));
    for block in 0..comptime!(config.head_dim.div_ceil(BLOCK)) {
        let scale = f32::reinterpret(keys[offset + words + block]);
        for word in block * comptime!(BLOCK / 4)..min((block + 1) * comptime!(BLOCK / 4), words) {
            let packed = keys[offset + word];
            #[unroll]
            for i in 0..4usize {
                let k = scale * signed_byte(packed >> comptime!(8 * i as u32));
                #[unroll]
                for row in 0..rows {
                    sums[row] += queries[row * stride + 4 * word + i] * k;
                }
            }
        }
    }
}

/// Adds the dot products of a key in f16 with each query row.
#[cube]
fn add_f16_products(keys: &[u32], offset: usize, queries: &[f32], sums: &mut Array<f32>, #[comptime] config: Config) {
    let rows = comptime!(config.rows);
    let stride = comptime!(config.query_size());
    for pair in 0..comptime!(config.head_dim / 2) {
        let word = keys[offset / 2 + pair];
        let low = from_bits(word & 0xffffu32);
        let high = from_bits(word >> 16u32);
        #[unroll]
        for row in 0..rows {
            let index = row * stride + 2 * pair;
            sums[row] += queries[index] * low + queries[index + 1] * high;
        }
    }
}

/// Adds the dot products of a key of the batch with each query row.
#[cube]
fn add_batch_products(keys: &[u32], offset: usize, queries: &[f32], sums: &mut Array<f32>, #[comptime] config: Config) {
    let rows = comptime!(config.rows);
    let stride = comptime!(config.query_size());
    let dim = comptime!(config.head_dim);
    for i in 0..dim {
        let k = element(keys, offset, i, config);
        #[unroll]
        for row in 0..rows {
            sums[row] += queries[row * stride + i] * k;
        }
    }
}
