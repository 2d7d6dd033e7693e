//! Decodes a tile of a weight to shared memory, in f32.

use super::bytes::SEGMENT;
use super::decode::{segment, segment_span, weight, weight_index};
use super::tiles::UNITS;
use crate::blocks::Quant;
use cubecl::prelude::*;

/// The shape of a weight's tile in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TileShape {
    /// Rows of the weight in the tile.
    pub tile_rows: usize,
    /// Columns of the weight in the tile.
    pub tile_columns: usize,
    /// Stride between two rows.
    pub row_stride: usize,
    /// Stride between two columns.
    pub column_stride: usize,
}

impl TileShape {
    /// Weights that each unit decodes.
    const fn weights_per_unit(self) -> usize {
        self.tile_rows * self.tile_columns / UNITS
    }
}

/// The byte offset of the block that has weight `column` of a row.
#[cube]
pub(super) fn block_offset(row: usize, column: usize, cols: usize, #[comptime] quant: Quant) -> usize {
    let elements = comptime!(quant.block_elements());
    (row * (cols / elements) + column / elements) * comptime!(quant.block_bytes())
}

/// The eight weights of a segment of a row; zeros outside the matrix.
#[cube]
pub(super) fn segment_or_zero(
    words: &[u32],
    row: usize,
    rows: usize,
    segment_index: usize,
    cols: usize,
    #[comptime] quant: Quant,
) -> Array<f32> {
    let segments_per_block = comptime!(quant.block_elements() / SEGMENT);
    let block_column = segment_index / segments_per_block * comptime!(quant.block_elements());
    let mut values = Array::<f32>::new(SEGMENT);
    if row < rows && block_column < cols {
        values = segment(
            words,
            block_offset(row, block_column, cols, quant),
            segment_index % segments_per_block,
            quant,
        );
    } else {
        #[unroll]
        for i in 0..SEGMENT {
            values[i] = 0.0f32;
        }
    }
    values
}

/// The column of weight `i` of a segment of a row.
#[cube]
pub(super) fn segment_column(segment_index: usize, i: usize, #[comptime] quant: Quant) -> usize {
    let segments_per_block = comptime!(quant.block_elements() / SEGMENT);
    segment_index / segments_per_block * comptime!(quant.block_elements())
        + weight_index(segment_index % segments_per_block, i, quant)
}

/// Decodes weights to a tile: rows from `first_row` on, columns from `first_column` on,
/// zero-padded.
#[cube]
pub(super) fn decode(
    tile: &mut [f32],
    words: &[u32],
    first_row: usize,
    rows: usize,
    first_column: usize,
    cols: usize,
    #[comptime] quant: Quant,
    #[comptime] shape: TileShape,
) {
    let unit = UNIT_POS as usize;
    if comptime!(!quant.is_float() && shape.tile_columns.is_multiple_of(segment_span(quant))) {
        #[unroll]
        for pass in 0..comptime!(shape.weights_per_unit() / SEGMENT) {
            let tile_segment = unit + pass * UNITS;
            let tile_row = tile_segment / comptime!(shape.tile_columns / SEGMENT);
            let segment_index = first_column / SEGMENT + tile_segment % comptime!(shape.tile_columns / SEGMENT);
            let values = segment_or_zero(words, first_row + tile_row, rows, segment_index, cols, quant);
            #[unroll]
            for i in 0..SEGMENT {
                let tile_column = segment_column(segment_index, i, quant) - first_column;
                tile[tile_row * comptime!(shape.row_stride) + tile_column * comptime!(shape.column_stride)] = values[i];
            }
        }
    } else {
        #[unroll]
        for pass in 0..comptime!(shape.weights_per_unit()) {
            // Float weights: coalesced reads. Others: neighbors in a row, which share scales.
            let tile_weight = if comptime!(quant.is_float()) {
                pass * UNITS + unit
            } else {
                unit * comptime!(shape.weights_per_unit()) + pass
            };
            let tile_row = tile_weight / comptime!(shape.tile_columns);
            let tile_column = tile_weight % comptime!(shape.tile_columns);
            let mut value = 0.0f32;
            if first_row + tile_row < rows && first_column + tile_column < cols {
                let block = block_offset(first_row + tile_row, first_column + tile_column, cols, quant);
                value = weight(
                    words,
                    block,
                    (first_column + tile_column) % comptime!(quant.block_elements()),
                    quant,
                );
            }
            tile[tile_row * comptime!(shape.row_stride) + tile_column * comptime!(shape.column_stride)] = value;
        }
    }
}
