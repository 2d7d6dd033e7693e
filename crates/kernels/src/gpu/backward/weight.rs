//! The gradient of a linear's input through its frozen weight, which is expanded in tiles: 16 outputs of 64 inputs at a time, each for
//! 64 tokens.

use crate::blocks::Quant;
use crate::gpu::blocks::weight as weight_of_block;
use crate::gpu::launch::{cubes, matrix, same};
use crate::gpu::linear::{ranges, words_of};
use crate::gpu::product::room;
use crate::gpu::tiles::{DEPTH, multiply, store, stride, tile, units, zeros};
use crate::gpu::{Floats, GpuError, Weight};
use cubecl::prelude::*;

/// Tokens, and inputs, that a cube makes.
const SIDE: usize = 64;
/// Units of a cube.
const UNITS: usize = units(SIDE) as usize;
/// Inputs beside each other that a unit expands: of one block, so that what they share is read once.
const BESIDE: usize = SIDE * DEPTH / UNITS;

#[cube(launch_unchecked)]
fn tiled(
    dy: &[f32],
    words: &[u32],
    dx: &mut [f32],
    tokens: usize,
    width: usize,
    at: usize,
    rows: usize,
    cols: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] add: bool,
) {
    let across = cols.div_ceil(SIDE);
    if CUBE_POS >= tokens.div_ceil(SIDE) * across {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let top = CUBE_POS / across * SIDE;
    let left = CUBE_POS % across * SIDE;
    let elements = comptime!(quant.block_elements());
    let bytes = comptime!(quant.block_bytes());
    let row_bytes = cols / elements * bytes;
    let mut d_tile = tile(SIDE);
    let mut w_tile = tile(SIDE);
    let mut sums = zeros();
    for part in 0..rows.div_ceil(DEPTH) {
        let from = part * DEPTH;
        #[unroll]
        for i in 0..BESIDE {
            let token = unit / DEPTH + i * comptime!(UNITS / DEPTH);
            let row = unit % DEPTH;
            let mut value = 0.0f32;
            if top + token < tokens && from + row < rows {
                value = dy[(top + token) * width + at + from + row];
            }
            d_tile[row * comptime!(stride(SIDE)) + token] = value;
        }
        let row = unit / comptime!(SIDE / BESIDE);
        let first = unit % comptime!(SIDE / BESIDE) * BESIDE;
        #[unroll]
        for i in 0..BESIDE {
            let column = left + first + i;
            let mut value = 0.0f32;
            if from + row < rows && column < cols {
                let block = (from + row) * row_bytes + column / elements * bytes;
                value = weight_of_block(words, block, column % elements, quant);
            }
            w_tile[row * comptime!(stride(SIDE)) + first + i] = value;
        }
        sync_cube();
        multiply(&d_tile, &w_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, dx, top, left, tokens, cols, cols, 0usize, scale, SIDE, add);
}

/// Writes to `dx [T, in]`, or adds to it, `scale` times the product of the columns of `dy [T, width]` from `at` on, as many as the
/// weight has rows, with the weight `[out, in]`. `dx` is not `dy`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn weight_backward(
    client: &Client,
    dy: &Floats,
    at: usize,
    weight: &Weight,
    scale: f32,
    dx: &Floats,
    add: bool,
) -> Result<(), GpuError> {
    weight_backward_within(
        client,
        dy,
        at,
        weight,
        scale,
        dx,
        add,
        client.properties().memory.max_page_size,
    )
}

/// [`weight_backward`] on a device where a kernel sees `limit` bytes of a buffer at most: a weight that is larger is taken in ranges
/// of its rows.
///
/// # Errors
/// Where the sizes do not fit, or the limit is too low for the rows that have to go together.
pub fn weight_backward_within(
    client: &Client,
    dy: &Floats,
    at: usize,
    weight: &Weight,
    scale: f32,
    dx: &Floats,
    add: bool,
    limit: u64,
) -> Result<(), GpuError> {
    let Weight { quant, rows, cols, .. } = *weight;
    let tokens = dy.rows;
    room(dy, at, rows)?;
    same("number of rows of a gradient of an input", dx.rows, tokens)?;
    same("number of columns of a gradient of an input", dx.cols, cols)?;
    matrix(dy, "gradient of a linear")?;
    matrix(dx, "gradient of an input")?;
    let ranges = ranges(weight, limit)?;
    if tokens * cols == 0 {
        return Ok(());
    }
    for range in ranges {
        let (d, words, result) = (
            matrix(dy, "gradient of a linear")?,
            words_of(weight, range)?,
            matrix(dx, "gradient of an input")?,
        );
        let count = cubes(client, tokens.div_ceil(SIDE) * cols.div_ceil(SIDE))?;
        let (dim, at) = (CubeDim::new_1d(units(SIDE)), at + range.first);
        // The first range writes what the others add to.
        let add = add || range.first > 0;
        // SAFETY: the kernel reads and writes tokens, rows and columns below the shapes, which the buffers were measured to hold.
        unsafe {
            tiled::launch_unchecked(
                client, count, dim, d, words, result, tokens, dy.cols, at, range.rows, cols, scale, quant, add,
            );
        }
    }
    Ok(())
}
