//! The gradient of a linear's input through its frozen weight, which is decoded in tiles: 16
//! outputs of 64 inputs at a time, for 64 tokens.

use crate::blocks::Quant;
use crate::gpu::launch::{check_equal, cube_count, matrix_arg};
use crate::gpu::matmul::check_columns;
use crate::gpu::matrix_units::{self, SumOver, backward_uses_matrix_units};
use crate::gpu::row_ranges::{row_ranges, words_of_range};
use crate::gpu::tiles::{DEPTH, UNITS, multiply, store, stride, tile, zeros};
use crate::gpu::weight_tile::{TileShape, decode};
use crate::gpu::{Floats, GpuError, Weight};
use crate::linear::MatmulPrecision;
use cubecl::prelude::*;

/// Tokens and inputs of a cube's output tile.
const TILE: usize = 64;

/// A tile of the weight, step by step along its rows.
const WEIGHT_TILE: TileShape = TileShape {
    tile_rows: DEPTH,
    tile_columns: TILE,
    row_stride: stride(TILE),
    column_stride: 1,
};

#[cube(launch_unchecked)]
fn tiled_weight_backward(
    dy: &[f32],
    words: &[u32],
    dx: &mut [f32],
    tokens: usize,
    width: usize,
    first_column: usize,
    rows: usize,
    cols: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] add: bool,
) {
    let token_tiles = tokens.div_ceil(TILE);
    if CUBE_POS >= token_tiles * cols.div_ceil(TILE) {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    // Cubes that share columns of the weight are consecutive, so that the columns are still in a
    // cache.
    let top = CUBE_POS % token_tiles * TILE;
    let left = CUBE_POS / token_tiles * TILE;
    let mut d_tile = tile(TILE);
    let mut w_tile = tile(TILE);
    let mut sums = zeros(TILE);
    for depth_tile in 0..rows.div_ceil(DEPTH) {
        let first_row = depth_tile * DEPTH;
        #[unroll]
        for pass in 0..comptime!(TILE * DEPTH / UNITS) {
            let i = unit + pass * UNITS;
            let token = i / DEPTH;
            let row = i % DEPTH;
            let mut value = 0.0f32;
            if top + token < tokens && first_row + row < rows {
                value = dy[(top + token) * width + first_column + first_row + row];
            }
            d_tile[row * comptime!(stride(TILE)) + token] = value;
        }
        decode(&mut w_tile, words, first_row, rows, left, cols, quant, WEIGHT_TILE);
        sync_cube();
        multiply(&d_tile, &w_tile, &mut sums, TILE);
        sync_cube();
    }
    store(&sums, dx, top, left, tokens, cols, cols, 0usize, scale, TILE, add);
}

/// Writes `scale * dy @ weight` to `dx [T, in]`, or adds it, with a weight `[out, in]` and the
/// `out` columns of `dy [T, width]` from `first_column` on. `dx` must not be `dy`.
/// [`MatmulPrecision::Bf16`] rounds `dy` and the weight to f16 if [`backward_uses_matrix_units`];
/// the others compute in f32.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn weight_backward(
    client: &Client,
    dy: &Floats,
    first_column: usize,
    weight: &Weight,
    scale: f32,
    precision: MatmulPrecision,
    dx: &Floats,
    add: bool,
) -> Result<(), GpuError> {
    weight_backward_with_limit(
        client,
        dy,
        first_column,
        weight,
        scale,
        precision,
        dx,
        add,
        client.properties().memory.max_page_size,
    )
}

/// [`weight_backward`] on a device whose bindings hold at most `limit` bytes: processes a larger
/// weight in ranges of its rows.
///
/// # Errors
/// Returns an error if the sizes do not match or the limit is too low for the smallest aligned
/// range of rows.
pub fn weight_backward_with_limit(
    client: &Client,
    dy: &Floats,
    first_column: usize,
    weight: &Weight,
    scale: f32,
    precision: MatmulPrecision,
    dx: &Floats,
    add: bool,
    limit: u64,
) -> Result<(), GpuError> {
    let Weight { quant, rows, cols, .. } = *weight;
    let tokens = dy.rows;
    check_columns(dy, first_column, rows)?;
    check_equal("number of rows of a gradient of an input", dx.rows, tokens)?;
    check_equal("number of columns of a gradient of an input", dx.cols, cols)?;
    matrix_arg(dy, "gradient of a linear")?;
    matrix_arg(dx, "gradient of an input")?;
    let ranges = row_ranges(weight, limit)?;
    if tokens * cols == 0 {
        return Ok(());
    }
    for range in ranges {
        // The first range writes, the others add.
        let (first_column, add) = (first_column + range.first, add || range.first > 0);
        if backward_uses_matrix_units(client, quant, tokens, precision) {
            matrix_units::multiply(
                client,
                dy,
                first_column,
                weight,
                range,
                SumOver::Rows,
                scale,
                dx,
                0,
                add,
            )?;
            continue;
        }
        let (d, words, result) = (
            matrix_arg(dy, "gradient of a linear")?,
            words_of_range(weight, range)?,
            matrix_arg(dx, "gradient of an input")?,
        );
        let count = cube_count(client, tokens.div_ceil(TILE) * cols.div_ceil(TILE))?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel accesses tokens, rows and columns below the shapes, which the buffers
        // were checked to hold.
        unsafe {
            tiled_weight_backward::launch_unchecked(
                client,
                count,
                dim,
                d,
                words,
                result,
                tokens,
                dy.cols,
                first_column,
                range.rows,
                cols,
                scale,
                quant,
                add,
            );
        }
    }
    Ok(())
}
