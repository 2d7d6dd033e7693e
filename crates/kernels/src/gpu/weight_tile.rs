//! Decodes a tile of a weight to shared memory, in f32.

use super::bytes::SEGMENT;
use super::decode::{segment, segment_span, weight, weight_index};
use super::tiles::UNITS;
use crate::blocks::Quant;
use cubecl::prelude::*;

/// A tile of a weight in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WeightTile {
    /// Rows of the weight.
    pub rows: usize,
    /// Columns of the weight.
    pub columns: usize,
    /// Stride between two rows.
    pub row_stride: usize,
    /// Stride between two columns.
    pub column_stride: usize,
}

impl WeightTile {
    /// Weights that each unit decodes.
    const fn weights_per_unit(self) -> usize {
        self.rows * self.columns / UNITS
    }
}

/// The byte offset of the block that has weight `column` of a row.
#[cube]
pub(super) fn block_offset(row: usize, column: usize, cols: usize, #[comptime] quant: Quant) -> usize {
    let elements = comptime!(quant.block_elements());
    (row * (cols / elements) + column / elements) * comptime!(quant.block_bytes())
}

/// The eight weights of segment `index` of a row; zeros outside the matrix.
#[cube]
pub(super) fn segment_or_zero(
    words: &[u32],
    row: usize,
    rows: usize,
    index: usize,
    cols: usize,
    #[comptime] quant: Quant,
) -> Array<f32> {
    let segments_per_block = comptime!(quant.block_elements() / SEGMENT);
    let column = index / segments_per_block * comptime!(quant.block_elements());
    let mut values = Array::<f32>::new(SEGMENT);
    if row < rows && column < cols {
        values = segment(
            words,
            block_offset(row, column, cols, quant),
            index % segments_per_block,
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

/// The column of weight `i` of segment `index` of a row.
#[cube]
pub(super) fn segment_column(index: usize, i: usize, #[comptime] quant: Quant) -> usize {
    let segments_per_block = comptime!(quant.block_elements() / SEGMENT);
    index / segments_per_block * comptime!(quant.block_elements()) + weight_index(index % segments_per_block, i, quant)
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
    #[comptime] shape: WeightTile,
) {
    let unit = UNIT_POS as usize;
    if comptime!(!quant.is_float() && shape.columns.is_multiple_of(segment_span(quant))) {
        #[unroll]
        for pass in 0..comptime!(shape.weights_per_unit() / SEGMENT) {
            let i = unit + pass * UNITS;
            let row = i / comptime!(shape.columns / SEGMENT);
            let index = first_column / SEGMENT + i % comptime!(shape.columns / SEGMENT);
            let values = segment_or_zero(words, first_row + row, rows, index, cols, quant);
            #[unroll]
            for i in 0..SEGMENT {
                let column = segment_column(index, i, quant) - first_column;
                tile[row * comptime!(shape.row_stride) + column * comptime!(shape.column_stride)] = values[i];
            }
        }
    } else {
        #[unroll]
        for pass in 0..comptime!(shape.weights_per_unit()) {
            // Float weights: coalesced reads. Others: neighbors in a row, which share scales.
            let i = if comptime!(quant.is_float()) {
                pass * UNITS + unit
            } else {
                unit * comptime!(shape.weights_per_unit()) + pass
            };
            let row = i / comptime!(shape.columns);
            let column = i % comptime!(shape.columns);
            let mut value = 0.0f32;
            if first_row + row < rows && first_column + column < cols {
                let block = block_offset(first_row + row, first_column + column, cols, quant);
                value = weight(
                    words,
                    block,
                    (first_column + column) % comptime!(quant.block_elements()),
                    quant,
                );
            }
            tile[row * comptime!(shape.row_stride) + column * comptime!(shape.column_stride)] = value;
        }
    }
}
