//! Tiled matrix multiplication in shared memory: eight by eight units share an output tile with a
//! side of 32 or 64.
//!
//! An input tile is stored step by step along the summed dimension, `side` elements and one of
//! padding each, to avoid bank conflicts between units that fill it along that dimension. The rows
//! and columns of a unit have a stride of eight, so that accesses coalesce.

use cubecl::prelude::*;

/// Units along a side of an output tile.
const ACROSS: usize = 8;
/// Units that share an output tile.
pub(super) const UNITS: usize = ACROSS * ACROSS;
/// Steps of the summed dimension in shared memory at a time.
pub(super) const DEPTH: usize = 16;

/// Stride between two steps of the summed dimension.
pub(super) const fn stride(side: usize) -> usize {
    side + 1
}

/// Rows, and columns, of the output that a unit accumulates.
const fn each(side: usize) -> usize {
    side / ACROSS
}

/// Allocates an input tile.
#[cube]
pub(super) fn tile(#[comptime] side: usize) -> Shared<[f32]> {
    Shared::<[f32]>::new_slice(comptime!(stride(side) * DEPTH))
}

/// Zeroed accumulators of a unit.
#[cube]
pub(super) fn zeros(#[comptime] side: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(each(side) * each(side)));
    #[unroll]
    for i in 0..comptime!(each(side) * each(side)) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Fills a tile with the rows from `first` on (of `count`) at the steps from `from` on (of
/// `depth`), zero-padded. `along` means that steps are contiguous in memory, not rows.
#[cube]
pub(super) fn fill(
    tile: &mut [f32],
    factor: &[f32],
    first: usize,
    count: usize,
    from: usize,
    depth: usize,
    #[comptime] side: usize,
    #[comptime] along: bool,
) {
    #[unroll]
    for part in 0..comptime!(side * DEPTH / UNITS) {
        let i = UNIT_POS as usize + part * UNITS;
        let mut row = i % side;
        let mut step = i / side;
        if comptime!(along) {
            row = i / DEPTH;
            step = i % DEPTH;
        }
        let mut value = 0.0f32;
        if first + row < count && from + step < depth {
            if comptime!(along) {
                value = factor[(first + row) * depth + from + step];
            } else {
                value = factor[(from + step) * count + first + row];
            }
        }
        tile[step * comptime!(stride(side)) + row] = value;
    }
}

/// Adds the product of two tiles to a unit's accumulators.
#[cube]
pub(super) fn multiply(left: &[f32], right: &[f32], sums: &mut Array<f32>, #[comptime] side: usize) {
    let each = comptime!(each(side));
    let row = UNIT_POS as usize / ACROSS;
    let column = UNIT_POS as usize % ACROSS;
    for step in 0..DEPTH {
        let at = step * comptime!(stride(side));
        let mut a = Array::<f32>::new(each);
        let mut b = Array::<f32>::new(each);
        #[unroll]
        for i in 0..each {
            a[i] = left[at + row + i * ACROSS];
            b[i] = right[at + column + i * ACROSS];
        }
        #[unroll]
        for i in 0..each {
            #[unroll]
            for j in 0..each {
                sums[i * each + j] += a[i] * b[j];
            }
        }
    }
}

/// Writes `scale` times a unit's accumulators to the tile at `top` and `left` of an output
/// `[m, n]`, the columns from `at` on of rows of `width`, or adds them.
#[cube]
pub(super) fn store(
    sums: &Array<f32>,
    out: &mut [f32],
    top: usize,
    left: usize,
    m: usize,
    n: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] side: usize,
    #[comptime] add: bool,
) {
    let each = comptime!(each(side));
    #[unroll]
    for i in 0..each {
        #[unroll]
        for j in 0..each {
            let row = top + UNIT_POS as usize / ACROSS + i * ACROSS;
            let column = left + UNIT_POS as usize % ACROSS + j * ACROSS;
            if row < m && column < n {
                let value = scale * sums[i * each + j];
                let place = row * width + at + column;
                if comptime!(add) {
                    out[place] += value;
                } else {
                    out[place] = value;
                }
            }
        }
    }
}
