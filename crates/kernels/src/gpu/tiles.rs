//! Tiled matrix multiplication in shared memory: eight by eight units share an output tile with a
//! side of 32 or 64.
//!
//! An input tile is stored step by step along the summed dimension, `side` elements and one of
//! padding each, to avoid bank conflicts between units that fill it along that dimension. The rows
//! and columns of a unit have a stride of eight, so that accesses coalesce.

use cubecl::prelude::*;

/// Units along a side of an output tile.
const UNITS_PER_SIDE: usize = 8;
/// Units that share an output tile.
pub(super) const UNITS: usize = UNITS_PER_SIDE * UNITS_PER_SIDE;
/// Steps of the summed dimension in shared memory at a time.
pub(super) const DEPTH: usize = 16;

/// Stride between two steps of the summed dimension.
pub(super) const fn stride(side: usize) -> usize {
    side + 1
}

/// Rows, and columns, of the output that a unit accumulates.
const fn unit_side(side: usize) -> usize {
    side / UNITS_PER_SIDE
}

/// Allocates an input tile.
#[cube]
pub(super) fn tile(#[comptime] side: usize) -> Shared<[f32]> {
    Shared::<[f32]>::new_slice(comptime!(stride(side) * DEPTH))
}

/// Zeroed accumulators of a unit.
#[cube]
pub(super) fn zeros(#[comptime] side: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(unit_side(side) * unit_side(side)));
    #[unroll]
    for i in 0..comptime!(unit_side(side) * unit_side(side)) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Fills a tile with the rows of an operand from `first_row` on (of `rows`) at the steps from
/// `first_step` on (of `steps`), zero-padded. `contiguous_steps` means that steps are contiguous in
/// memory, not rows.
#[cube]
pub(super) fn fill(
    tile: &mut [f32],
    operand: &[f32],
    first_row: usize,
    rows: usize,
    first_step: usize,
    steps: usize,
    #[comptime] side: usize,
    #[comptime] contiguous_steps: bool,
) {
    #[unroll]
    for pass in 0..comptime!(side * DEPTH / UNITS) {
        let i = UNIT_POS as usize + pass * UNITS;
        let mut row = i % side;
        let mut step = i / side;
        if comptime!(contiguous_steps) {
            row = i / DEPTH;
            step = i % DEPTH;
        }
        let mut value = 0.0f32;
        if first_row + row < rows && first_step + step < steps {
            if comptime!(contiguous_steps) {
                value = operand[(first_row + row) * steps + first_step + step];
            } else {
                value = operand[(first_step + step) * rows + first_row + row];
            }
        }
        tile[step * comptime!(stride(side)) + row] = value;
    }
}

/// Adds the product of two tiles to a unit's accumulators.
#[cube]
pub(super) fn multiply(a_tile: &[f32], b_tile: &[f32], sums: &mut Array<f32>, #[comptime] side: usize) {
    let unit_side = comptime!(unit_side(side));
    let row = UNIT_POS as usize / UNITS_PER_SIDE;
    let column = UNIT_POS as usize % UNITS_PER_SIDE;
    for step in 0..DEPTH {
        let start = step * comptime!(stride(side));
        let mut a = Array::<f32>::new(unit_side);
        let mut b = Array::<f32>::new(unit_side);
        #[unroll]
        for i in 0..unit_side {
            a[i] = a_tile[start + row + i * UNITS_PER_SIDE];
            b[i] = b_tile[start + column + i * UNITS_PER_SIDE];
        }
        #[unroll]
        for i in 0..unit_side {
            #[unroll]
            for j in 0..unit_side {
                sums[i * unit_side + j] += a[i] * b[j];
            }
        }
    }
}

/// Writes `scale` times a unit's accumulators to an output `[m, n]`, or adds them. The tile begins
/// at row `top` and column `left` of the output, which is the columns from `first_column` on of
/// rows of `width`.
#[cube]
pub(super) fn store(
    sums: &Array<f32>,
    out: &mut [f32],
    top: usize,
    left: usize,
    m: usize,
    n: usize,
    width: usize,
    first_column: usize,
    scale: f32,
    #[comptime] side: usize,
    #[comptime] add: bool,
) {
    let unit_side = comptime!(unit_side(side));
    #[unroll]
    for i in 0..unit_side {
        #[unroll]
        for j in 0..unit_side {
            let row = top + UNIT_POS as usize / UNITS_PER_SIDE + i * UNITS_PER_SIDE;
            let column = left + UNIT_POS as usize % UNITS_PER_SIDE + j * UNITS_PER_SIDE;
            if row < m && column < n {
                let value = scale * sums[i * unit_side + j];
                let index = row * width + first_column + column;
                if comptime!(add) {
                    out[index] += value;
                } else {
                    out[index] = value;
                }
            }
        }
    }
}
