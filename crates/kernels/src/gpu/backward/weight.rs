//! The gradient of a linear's input through its frozen weight, which is expanded in tiles: 16 outputs of 64 inputs at a time, for
//! 64 tokens.

use crate::blocks::Quant;
use crate::gpu::blocks::weight as weight_of_block;
use crate::gpu::launch::{cubes, matrix, same};
use crate::gpu::linear::{block_at, ranges, words_of};
use crate::gpu::matrix_units::{self, Over, backward_takes_matrix_units};
use crate::gpu::pieces::{PIECE, place, weights};
use crate::gpu::product::room;
use crate::gpu::tiles::{DEPTH, UNITS, multiply, store, stride, tile, zeros};
use crate::gpu::{Floats, GpuError, Weight};
use crate::linear::Product;
use cubecl::prelude::*;

/// Tokens, and inputs, that a cube makes.
const SIDE: usize = 64;

/// Whether each piece of the format lies within as many weights as a tile is wide, so that a tile is whole pieces.
fn is_in_pieces(quant: Quant) -> bool {
    !quant.is_float() && quant != Quant::Q6_K
}

/// Fills a tile with weights: rows from `first` on, columns from `left` on; zeros where there are none.
#[cube]
fn decode(
    tile: &mut [f32],
    words: &[u32],
    first: usize,
    rows: usize,
    left: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let unit = UNIT_POS as usize;
    let elements = comptime!(quant.block_elements());
    if comptime!(is_in_pieces(quant)) {
        let each = comptime!(elements / PIECE);
        #[unroll]
        for part in 0..comptime!(SIDE * DEPTH / PIECE / UNITS) {
            let i = unit + part * UNITS;
            let row = i / comptime!(SIDE / PIECE);
            let piece = left / PIECE + i % comptime!(SIDE / PIECE);
            let column = piece / each * elements;
            let mut values = Array::<f32>::new(PIECE);
            if first + row < rows && column < cols {
                values = weights(words, block_at(first + row, column, cols, quant), piece % each, quant);
            }
            #[unroll]
            for i in 0..PIECE {
                tile[row * comptime!(stride(SIDE)) + column + place(piece % each, i, quant) - left] = values[i];
            }
        }
    } else {
        for part in 0..comptime!(SIDE * DEPTH / UNITS) {
            let i = unit + part * UNITS;
            let row = first + i / SIDE;
            let column = left + i % SIDE;
            let mut value = 0.0f32;
            if row < rows && column < cols {
                value = weight_of_block(words, block_at(row, column, cols, quant), column % elements, quant);
            }
            tile[i / SIDE * comptime!(stride(SIDE)) + i % SIDE] = value;
        }
    }
}

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
    let down = tokens.div_ceil(SIDE);
    if CUBE_POS >= down * cols.div_ceil(SIDE) {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    // Cubes that share inputs come one after the other, so that what they read of the weight is still in a cache.
    let top = CUBE_POS % down * SIDE;
    let left = CUBE_POS / down * SIDE;
    let mut d_tile = tile(SIDE);
    let mut w_tile = tile(SIDE);
    let mut sums = zeros(SIDE);
    for part in 0..rows.div_ceil(DEPTH) {
        let from = part * DEPTH;
        #[unroll]
        for part in 0..comptime!(SIDE * DEPTH / UNITS) {
            let i = unit + part * UNITS;
            let token = i / DEPTH;
            let row = i % DEPTH;
            let mut value = 0.0f32;
            if top + token < tokens && from + row < rows {
                value = dy[(top + token) * width + at + from + row];
            }
            d_tile[row * comptime!(stride(SIDE)) + token] = value;
        }
        decode(&mut w_tile, words, from, rows, left, cols, quant);
        sync_cube();
        multiply(&d_tile, &w_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, dx, top, left, tokens, cols, cols, 0usize, scale, SIDE, add);
}

/// Writes to `dx [T, in]`, or adds to it, `scale` times the product of the columns of `dy [T, width]` from `at` on, as many as the
/// weight has rows, with the weight `[out, in]`. `dx` is not `dy`. [`Product::Bf16`] rounds the factors to f16 where
/// [`backward_takes_matrix_units`]; the others round nothing but sums.
///
/// # Errors
/// Where the sizes do not fit.
pub fn weight_backward(
    client: &Client,
    dy: &Floats,
    at: usize,
    weight: &Weight,
    scale: f32,
    product: Product,
    dx: &Floats,
    add: bool,
) -> Result<(), GpuError> {
    weight_backward_within(
        client,
        dy,
        at,
        weight,
        scale,
        product,
        dx,
        add,
        client.properties().memory.max_page_size,
    )
}

/// [`weight_backward`] on a device where a kernel sees `limit` bytes of a buffer at most: a weight that is larger is taken in
/// ranges of its rows.
///
/// # Errors
/// Where the sizes do not fit, or the limit is too low for the rows that have to go together.
pub fn weight_backward_within(
    client: &Client,
    dy: &Floats,
    at: usize,
    weight: &Weight,
    scale: f32,
    product: Product,
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
        // The first range writes what the others add to.
        let (at, add) = (at + range.first, add || range.first > 0);
        if backward_takes_matrix_units(client, quant, tokens, product) {
            matrix_units::multiply(client, dy, at, weight, range, Over::Rows, scale, dx, 0, add)?;
            continue;
        }
        let (d, words, result) = (
            matrix(dy, "gradient of a linear")?,
            words_of(weight, range)?,
            matrix(dx, "gradient of an input")?,
        );
        let count = cubes(client, tokens.div_ceil(SIDE) * cols.div_ceil(SIDE))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel reads and writes tokens, rows and columns below the shapes, which the buffers were measured to hold.
        unsafe {
            tiled::launch_unchecked(
                client, count, dim, d, words, result, tokens, dy.cols, at, range.rows, cols, scale, quant, add,
            );
        }
    }
    Ok(())
}
