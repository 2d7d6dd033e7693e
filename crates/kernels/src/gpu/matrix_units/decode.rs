//! Decodes weights to f16 in shared memory, once for all tokens of a cube.

use super::activations::VECTOR;
use super::tiles::Tiles;
use crate::blocks::Quant;
use crate::gpu::bytes::SEGMENT;
use crate::gpu::decode::weight;
use crate::gpu::weight_tile::{block_offset, segment_column, segment_or_zero};
use cubecl::prelude::*;
use half::f16;

/// Fills a tile with a weight times `weight_scale`: rows from `first_row` on, columns from
/// `first_column` on, zero-padded. Returns the larger of `maximum` and the largest unscaled
/// magnitude that the unit has decoded.
#[cube]
pub(super) fn decode(
    tile: &mut [Vector<f16, Const<4>>],
    words: &[u32],
    first_row: usize,
    rows: usize,
    first_column: usize,
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
        let vectors = comptime!(tiles.weight_columns() / VECTOR);
        for pass in 0..comptime!((tiles.weight_rows() * tiles.weight_columns() / VECTOR).div_ceil(tiles.units())) {
            let i = unit + pass * comptime!(tiles.units());
            if i < comptime!(tiles.weight_rows() * tiles.weight_columns() / VECTOR) {
                let row = first_row + i / vectors;
                let mut elements = Vector::<f16, Const<4>>::empty();
                #[unroll]
                for j in 0..VECTOR {
                    let column = first_column + i % vectors * VECTOR + j;
                    let mut value = 0.0f32;
                    if row < rows && column < cols {
                        value = weight(words, block_offset(row, column, cols, quant), 0usize, quant);
                    }
                    maximum = max(maximum, f32::abs(value));
                    elements.insert(j, f16::cast_from(value * weight_scale));
                }
                tile[i / vectors * comptime!(tiles.w_stride() / VECTOR) + i % vectors] = elements;
            }
        }
    } else {
        let segments = comptime!(tiles.weight_columns() / SEGMENT);
        for pass in 0..comptime!((tiles.weight_rows() * tiles.weight_columns() / SEGMENT).div_ceil(tiles.units())) {
            let i = unit + pass * comptime!(tiles.units());
            if i < comptime!(tiles.weight_rows() * tiles.weight_columns() / SEGMENT) {
                let row = i / segments;
                let index = first_column / SEGMENT + i % segments;
                let values = segment_or_zero(words, first_row + row, rows, index, cols, quant);
                #[unroll]
                for vector in 0..comptime!(SEGMENT / VECTOR) {
                    let mut elements = Vector::<f16, Const<4>>::empty();
                    #[unroll]
                    for j in 0..VECTOR {
                        let value = values[vector * VECTOR + j];
                        maximum = max(maximum, f32::abs(value));
                        elements.insert(j, f16::cast_from(value * weight_scale));
                    }
                    let column = segment_column(index, vector * VECTOR, quant) - first_column;
                    tile[row * comptime!(tiles.w_stride() / VECTOR) + column / VECTOR] = elements;
                }
            }
        }
    }
    maximum
}
