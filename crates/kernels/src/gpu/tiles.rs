//! Products of tiles in shared memory: eight by eight units share a tile of the result, whose side is 32 or 64.
//!
//! A tile of a factor is kept a step of the sum behind the other, `side` elements each and one unused, so that units which fill
//! it along the sum do not meet in one bank of the memory. A unit's rows and columns lie eight apart: neighbours then read and write neighbours.

use cubecl::prelude::*;

/// Units along a side of a tile of the result.
const ACROSS: usize = 8;
/// Units that share a tile of the result.
pub(super) const UNITS: usize = ACROSS * ACROSS;
/// Steps of the sum that are in shared memory at a time.
pub(super) const DEPTH: usize = 16;

/// Elements from one step of the sum to the next.
pub(super) const fn stride(side: usize) -> usize {
    side + 1
}

/// Rows, and columns, of the result that a unit sums.
const fn each(side: usize) -> usize {
    side / ACROSS
}

/// Room for a tile of a factor.
#[cube]
pub(super) fn tile(#[comptime] side: usize) -> Shared<[f32]> {
    Shared::<[f32]>::new_slice(comptime!(stride(side) * DEPTH))
}

/// A unit's sums, which are zero.
#[cube]
pub(super) fn zeros(#[comptime] side: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(each(side) * each(side)));
    #[unroll]
    for i in 0..comptime!(each(side) * each(side)) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Fills a tile with the rows from `first` on of a factor that has `count`, at the steps from `from` on of `depth`; zeros where
/// there are none. `along`: neighbours in memory are steps, not rows.
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

/// Adds the products of two tiles to a unit's sums.
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

/// Writes `scale` times a unit's sums to the tile at `top` and `left` of a result `[m, n]`, which is the columns from `at` on of
/// rows of `width`, or adds them.
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
