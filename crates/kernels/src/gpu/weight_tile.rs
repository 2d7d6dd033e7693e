//! Decodes a tile of a weight to shared memory, in f32.

use super::bytes::SEGMENT;
use super::decode::{place, segment, segment_span, weight};
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
    const fn each(self) -> usize {
        self.rows * self.columns / UNITS
    }
}

/// The first byte of the block that holds weight `column` of a row.
#[cube]
pub(super) fn block_at(row: usize, column: usize, cols: usize, #[comptime] quant: Quant) -> usize {
    let elements = comptime!(quant.block_elements());
    (row * (cols / elements) + column / elements) * comptime!(quant.block_bytes())
}

/// Eight weights of segment `index` of a row, zero outside of the matrix.
#[cube]
pub(super) fn segment_or_zero(
    words: &[u32],
    row: usize,
    rows: usize,
    index: usize,
    cols: usize,
    #[comptime] quant: Quant,
) -> Array<f32> {
    let each = comptime!(quant.block_elements() / SEGMENT);
    let column = index / each * comptime!(quant.block_elements());
    let mut values = Array::<f32>::new(SEGMENT);
    if row < rows && column < cols {
        values = segment(words, block_at(row, column, cols, quant), index % each, quant);
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
    let each = comptime!(quant.block_elements() / SEGMENT);
    index / each * comptime!(quant.block_elements()) + place(index % each, i, quant)
}

/// Decodes weights into a tile: rows from `first` on, columns from `left` on, zero-padded.
#[cube]
pub(super) fn decode(
    tile: &mut [f32],
    words: &[u32],
    first: usize,
    rows: usize,
    left: usize,
    cols: usize,
    #[comptime] quant: Quant,
    #[comptime] shape: WeightTile,
) {
    let unit = UNIT_POS as usize;
    if comptime!(!quant.is_float() && shape.columns.is_multiple_of(segment_span(quant))) {
        #[unroll]
        for part in 0..comptime!(shape.each() / SEGMENT) {
            let i = unit + part * UNITS;
            let row = i / comptime!(shape.columns / SEGMENT);
            let index = left / SEGMENT + i % comptime!(shape.columns / SEGMENT);
            let values = segment_or_zero(words, first + row, rows, index, cols, quant);
            #[unroll]
            for i in 0..SEGMENT {
                let column = segment_column(index, i, quant) - left;
                tile[row * comptime!(shape.row_stride) + column * comptime!(shape.column_stride)] = values[i];
            }
        }
    } else {
        #[unroll]
        for part in 0..comptime!(shape.each()) {
            // Float weights: coalesced reads. Others: neighbors in a row, which share scales.
            let i = if comptime!(quant.is_float()) {
                part * UNITS + unit
            } else {
                unit * comptime!(shape.each()) + part
            };
            let row = i / comptime!(shape.columns);
            let column = i % comptime!(shape.columns);
            let mut value = 0.0f32;
            if first + row < rows && left + column < cols {
                let block = block_at(first + row, left + column, cols, quant);
                value = weight(words, block, (left + column) % comptime!(quant.block_elements()), quant);
            }
            tile[row * comptime!(shape.row_stride) + column * comptime!(shape.column_stride)] = value;
        }
    }
}
