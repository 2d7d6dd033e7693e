//! Matrix multiplication that sums over tokens (split-K): the gradients of adapters.
//!
//! Outputs are small and sums long, so if there are too few cubes to fill a device, several split
//! the tokens, and their partial results are added. The number of splits depends only on the
//! shapes.

use crate::gpu::launch::{argument, cubes, matrix, same};
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

/// Fills a tile with columns from `first` on (of the `count` that begin at column `at` of rows of
/// `width`), at `DEPTH` tokens from `from` on, zero-padded; tokens from `until` on are zeros.
#[cube]
fn fill(
    tile: &mut [f32],
    factor: &[f32],
    width: usize,
    at: usize,
    first: usize,
    count: usize,
    from: usize,
    until: usize,
) {
    #[unroll]
    for part in 0..comptime!(TILE * DEPTH / UNITS) {
        let i = UNIT_POS as usize + part * UNITS;
        let column = i % TILE;
        let token = i / TILE;
        let mut value = 0.0f32;
        if first + column < count && from + token < until {
            value = factor[(from + token) * width + at + first + column];
        }
        tile[token * comptime!(stride(TILE)) + column] = value;
    }
}

#[cube(launch_unchecked)]
fn tiled(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    tokens: usize,
    width: usize,
    at: usize,
    m: usize,
    n: usize,
    // Tokens of a part.
    each: usize,
    parts: usize,
    scale: f32,
) {
    let across = n.div_ceil(TILE);
    let tiles = m.div_ceil(TILE) * across;
    if CUBE_POS >= tiles * parts {
        terminate!();
    }
    let part = CUBE_POS / tiles;
    let top = CUBE_POS % tiles / across * TILE;
    let left = CUBE_POS % tiles % across * TILE;
    let mut a_tile = tile(TILE);
    let mut b_tile = tile(TILE);
    let mut sums = zeros(TILE);
    let first = part * each;
    let until = min(first + each, tokens);
    for step in 0..each.div_ceil(DEPTH) {
        let from = first + step * DEPTH;
        fill(&mut a_tile, a, width, at, top, m, from, until);
        fill(&mut b_tile, b, n, 0usize, left, n, from, until);
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, TILE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, n, part * m * n, scale, TILE, false);
}

/// Sums `parts` contiguous matrices.
#[cube(launch_unchecked)]
fn sum_parts(all: &[f32], out: &mut [f32], elements: usize, parts: usize) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let mut sum = 0.0f32;
    for part in 0..parts {
        sum += all[part * elements + ABSOLUTE_POS];
    }
    out[ABSOLUTE_POS] = sum;
}

/// `scale * a^T @ b`, `[m, n]`, of the `m` columns of `a [T, width]` from `at` on and `b [T, n]`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub(super) fn matmul_over_tokens(
    client: &Client,
    a: &Floats,
    at: usize,
    m: usize,
    b: &Floats,
    scale: f32,
) -> Result<Floats, GpuError> {
    let (tokens, n) = (a.rows, b.cols);
    same("number of tokens of a gradient", b.rows, tokens)?;
    check_columns(a, at, m)?;
    let (first, second) = (
        matrix(a, "first factor of a gradient")?,
        matrix(b, "second factor of a gradient")?,
    );
    let out = Floats::empty(client, m, n);
    if m * n == 0 {
        return Ok(out);
    }
    let tiles = m.div_ceil(TILE) * n.div_ceil(TILE);
    let each = tokens
        .div_ceil((FULL_DEVICE_CUBES / tiles).max(1))
        .max(MIN_TOKENS_PER_CUBE)
        .next_multiple_of(DEPTH);
    let parts = tokens.div_ceil(each).max(1);
    let all = match parts {
        1 => out.clone(),
        parts => Floats::empty(client, parts * m, n),
    };
    let result = matrix(&all, "parts of a gradient")?;
    let (count, dim) = (cubes(client, tiles * parts)?, CubeDim::new_1d(UNITS as u32));
    // SAFETY: the kernel reads and writes tokens, rows and columns below the shapes, which the
    // buffers were checked to hold.
    unsafe {
        tiled::launch_unchecked(
            client, count, dim, first, second, result, tokens, a.cols, at, m, n, each, parts, scale,
        );
    }
    if parts > 1 {
        let (all, result) = (
            matrix(&all, "parts of a gradient")?,
            argument(&out.handle, "gradient", m * n)?,
        );
        let (count, dim) = (
            cubes(client, (m * n).div_ceil(SUM_UNITS))?,
            CubeDim::new_1d(SUM_UNITS as u32),
        );
        // SAFETY: both buffers were allocated for the kernel.
        unsafe { sum_parts::launch_unchecked(client, count, dim, all, result, m * n, parts) };
    }
    Ok(out)
}
