//! Decodes weights to f16 in shared memory, once for all tokens of a cube.

use super::activations::FOUR;
use super::tiles::Tiles;
use crate::blocks::Quant;
use crate::gpu::bytes::SEGMENT;
use crate::gpu::decode::weight;
use crate::gpu::weight_tile::{block_at, segment_column, segment_or_zero};
use cubecl::prelude::*;
use half::f16;

/// Fills a tile with a weight times `weight_scale`: rows from `first` on, columns from `left` on,
/// zero-padded. Returns the larger of `maximum` and the largest unscaled magnitude that the unit
/// has decoded.
#[cube]
pub(super) fn decode(
    tile: &mut [Vector<f16, Const<4>>],
    words: &[u32],
    first: usize,
    rows: usize,
    left: usize,
    cols: usize,
    weight_scale: f32,
    maximum: f32,
    #[comptime] quant: Quant,
    #[comptime] tiles: Tiles,
) -> f32 {
    let unit = UNIT_POS as usize;
    let mut maximum = maximum;
    if comptime!(quant.is_float()) {
        // Rows may have any length.
        let fours = comptime!(tiles.columns() / FOUR);
        for part in 0..comptime!((tiles.rows() * tiles.columns() / FOUR).div_ceil(tiles.units())) {
            let i = unit + part * comptime!(tiles.units());
            if i < comptime!(tiles.rows() * tiles.columns() / FOUR) {
                let row = first + i / fours;
                let mut elements = Vector::<f16, Const<4>>::empty();
                #[unroll]
                for j in 0..FOUR {
                    let column = left + i % fours * FOUR + j;
                    let mut value = 0.0f32;
                    if row < rows && column < cols {
                        value = weight(words, block_at(row, column, cols, quant), 0usize, quant);
                    }
                    maximum = max(maximum, f32::abs(value));
                    elements.insert(j, f16::cast_from(value * weight_scale));
                }
                tile[i / fours * comptime!(tiles.w_stride() / FOUR) + i % fours] = elements;
            }
        }
    } else {
        let segments = comptime!(tiles.columns() / SEGMENT);
        for part in 0..comptime!((tiles.rows() * tiles.columns() / SEGMENT).div_ceil(tiles.units())) {
            let i = unit + part * comptime!(tiles.units());
            if i < comptime!(tiles.rows() * tiles.columns() / SEGMENT) {
                let row = i / segments;
                let index = left / SEGMENT + i % segments;
                let values = segment_or_zero(words, first + row, rows, index, cols, quant);
                #[unroll]
                for half in 0..comptime!(SEGMENT / FOUR) {
                    let mut elements = Vector::<f16, Const<4>>::empty();
                    #[unroll]
                    for j in 0..FOUR {
                        let value = values[half * FOUR + j];
                        maximum = max(maximum, f32::abs(value));
                        elements.insert(j, f16::cast_from(value * weight_scale));
                    }
                    let at = segment_column(index, half * FOUR, quant) - left;
                    tile[row * comptime!(tiles.w_stride() / FOUR) + at / FOUR] = elements;
                }
            }
        }
    }
    maximum
}
