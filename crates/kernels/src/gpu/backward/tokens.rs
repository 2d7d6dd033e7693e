//! Matrix multiplication that sums over tokens (split-K): the gradients of adapters.
//!
//! Outputs are small and sums long, so if there are too few cubes to fill a device, several cubes
//! split the tokens, and a second kernel adds their partial results. The number of splits depends
//! only on the shapes.

use crate::gpu::launch::{buffer_arg, check_equal, cube_count, matrix_arg};
use crate::gpu::matmul::check_columns;
use crate::gpu::tiles::{DEPTH, UNITS, multiply, store, stride, tile, zeros};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;

/// Rows and columns of a cube's output tile: small, since one dimension is an adapter's rank.
const TILE: usize = 32;
/// Cubes that fill a large device.
const FULL_DEVICE_CUBES: usize = 512;
/// Minimum tokens per cube when the tokens are split.
const MIN_TOKENS_PER_CUBE: usize = 8 * DEPTH;
/// Units of a cube that adds partial results.
const SUM_UNITS: usize = 256;

/// Fills a tile with columns from `first` on (of the `count` that begin at column `first_column` of
/// rows of `width`), at `DEPTH` tokens from `first_token` on, zero-padded. Tokens from `end` on are
/// zeros.
#[cube]
fn fill(
    tile: &mut [f32],
    operand: &[f32],
    width: usize,
    first_column: usize,
    first: usize,
    count: usize,
    first_token: usize,
    end: usize,
) {
    #[unroll]
    for pass in 0..comptime!(TILE * DEPTH / UNITS) {
        let i = UNIT_POS as usize + pass * UNITS;
        let column = i % TILE;
        let token = i / TILE;
        let mut value = 0.0f32;
        if first + column < count && first_token + token < end {
            value = operand[(first_token + token) * width + first_column + first + column];
        }
        tile[token * comptime!(stride(TILE)) + column] = value;
    }
}

#[cube(launch_unchecked)]
fn tiled_matmul(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    tokens: usize,
    width: usize,
    first_column: usize,
    m: usize,
    n: usize,
    tokens_per_split: usize,
    splits: usize,
    scale: f32,
) {
    let column_tiles = n.div_ceil(TILE);
    let tiles = m.div_ceil(TILE) * column_tiles;
    if CUBE_POS >= tiles * splits {
        terminate!();
    }
    let split = CUBE_POS / tiles;
    let top = CUBE_POS % tiles / column_tiles * TILE;
    let left = CUBE_POS % tiles % column_tiles * TILE;
    let mut a_tile = tile(TILE);
    let mut b_tile = tile(TILE);
    let mut sums = zeros(TILE);
    let split_start = split * tokens_per_split;
    let split_end = min(split_start + tokens_per_split, tokens);
    for step in 0..tokens_per_split.div_ceil(DEPTH) {
        let first_token = split_start + step * DEPTH;
        fill(&mut a_tile, a, width, first_column, top, m, first_token, split_end);
        fill(&mut b_tile, b, n, 0usize, left, n, first_token, split_end);
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, TILE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, n, split * m * n, scale, TILE, false);
}

/// Sums `splits` contiguous matrices.
#[cube(launch_unchecked)]
fn sum_partials(partials: &[f32], out: &mut [f32], elements: usize, splits: usize) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let mut sum = 0.0f32;
    for split in 0..splits {
        sum += partials[split * elements + ABSOLUTE_POS];
    }
    out[ABSOLUTE_POS] = sum;
}

/// `scale * a^T @ b`, `[m, n]`, with `b [T, n]` and the `m` columns of `a [T, width]` from
/// `first_column` on.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub(super) fn matmul_over_tokens(
    client: &Client,
    a: &Floats,
    first_column: usize,
    m: usize,
    b: &Floats,
    scale: f32,
) -> Result<Floats, GpuError> {
    let (tokens, n) = (a.rows, b.cols);
    check_equal("number of tokens of a gradient", b.rows, tokens)?;
    check_columns(a, first_column, m)?;
    let (a_arg, b_arg) = (
        matrix_arg(a, "first factor of a gradient")?,
        matrix_arg(b, "second factor of a gradient")?,
    );
    let out = Floats::empty(client, m, n);
    if m * n == 0 {
        return Ok(out);
    }
    let tiles = m.div_ceil(TILE) * n.div_ceil(TILE);
    let tokens_per_split = tokens
        .div_ceil((FULL_DEVICE_CUBES / tiles).max(1))
        .max(MIN_TOKENS_PER_CUBE)
        .next_multiple_of(DEPTH);
    let splits = tokens.div_ceil(tokens_per_split).max(1);
    let partials = match splits {
        1 => out.clone(),
        splits => Floats::empty(client, splits * m, n),
    };
    let result = matrix_arg(&partials, "parts of a gradient")?;
    let (count, dim) = (cube_count(client, tiles * splits)?, CubeDim::new_1d(UNITS as u32));
    // SAFETY: the kernel reads and writes tokens, rows and columns below the shapes, which the
    // buffers were checked to hold.
    unsafe {
        tiled_matmul::launch_unchecked(
            client,
            count,
            dim,
            a_arg,
            b_arg,
            result,
            tokens,
            a.cols,
            first_column,
            m,
            n,
            tokens_per_split,
            splits,
            scale,
        );
    }
    if splits > 1 {
        let (partials, result) = (
            matrix_arg(&partials, "parts of a gradient")?,
            buffer_arg(&out.handle, "gradient", m * n)?,
        );
        let (count, dim) = (
            cube_count(client, (m * n).div_ceil(SUM_UNITS))?,
            CubeDim::new_1d(SUM_UNITS as u32),
        );
        // SAFETY: both buffers were allocated for the kernel.
        unsafe { sum_partials::launch_unchecked(client, count, dim, partials, result, m * n, splits) };
    }
    Ok(out)
}
