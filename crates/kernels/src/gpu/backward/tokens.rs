//! Products that sum over tokens: the gradients of adapters.
//!
//! Their results are small and their sums long, so where there are too few cubes to fill a device, several share the tokens, and
//! their parts are joined. How many do depends on the shapes alone.

use crate::gpu::launch::{argument, cubes, matrix, same};
use crate::gpu::product::room;
use crate::gpu::tiles::{DEPTH, UNITS, multiply, store, stride, tile, zeros};
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;

/// Rows and columns of the result that a cube makes: small, for one side of these products is an adapter's rank.
const SIDE: usize = 32;
/// Cubes that fill a large device.
const ENOUGH: usize = 512;
/// Tokens for which another cube is worth it.
const LEAST: usize = 8 * DEPTH;
/// Units of a cube that joins parts.
const JOINING: usize = 256;

/// Fills a tile with columns from `first` on of the `count` that begin at column `at` of rows of `width`, at `DEPTH` tokens from
/// `from` on; zeros where there are none, or the token is not below `until`.
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
    for part in 0..comptime!(SIDE * DEPTH / UNITS) {
        let i = UNIT_POS as usize + part * UNITS;
        let column = i % SIDE;
        let token = i / SIDE;
        let mut value = 0.0f32;
        if first + column < count && from + token < until {
            value = factor[(from + token) * width + at + first + column];
        }
        tile[token * comptime!(stride(SIDE)) + column] = value;
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
    let across = n.div_ceil(SIDE);
    let tiles = m.div_ceil(SIDE) * across;
    if CUBE_POS >= tiles * parts {
        terminate!();
    }
    let part = CUBE_POS / tiles;
    let top = CUBE_POS % tiles / across * SIDE;
    let left = CUBE_POS % tiles % across * SIDE;
    let mut a_tile = tile(SIDE);
    let mut b_tile = tile(SIDE);
    let mut sums = zeros(SIDE);
    let first = part * each;
    let until = min(first + each, tokens);
    for step in 0..each.div_ceil(DEPTH) {
        let from = first + step * DEPTH;
        fill(&mut a_tile, a, width, at, top, m, from, until);
        fill(&mut b_tile, b, n, 0usize, left, n, from, until);
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, n, part * m * n, scale, SIDE, false);
}

/// Sums `parts` matrices that lie one behind the other.
#[cube(launch_unchecked)]
fn join(all: &[f32], out: &mut [f32], elements: usize, parts: usize) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let mut sum = 0.0f32;
    for part in 0..parts {
        sum += all[part * elements + ABSOLUTE_POS];
    }
    out[ABSOLUTE_POS] = sum;
}

/// `scale` times the product, summed over tokens, of the `m` columns of `a [T, width]` from `at` on with `b [T, n]`: `[m, n]`.
///
/// # Errors
/// Where the sizes do not fit.
pub(super) fn over_tokens(
    client: &Client,
    a: &Floats,
    at: usize,
    m: usize,
    b: &Floats,
    scale: f32,
) -> Result<Floats, GpuError> {
    let (tokens, n) = (a.rows, b.cols);
    same("number of tokens of a gradient", b.rows, tokens)?;
    room(a, at, m)?;
    let (first, second) = (
        matrix(a, "first factor of a gradient")?,
        matrix(b, "second factor of a gradient")?,
    );
    let out = Floats::empty(client, m, n);
    if m * n == 0 {
        return Ok(out);
    }
    let tiles = m.div_ceil(SIDE) * n.div_ceil(SIDE);
    let each = tokens
        .div_ceil((ENOUGH / tiles).max(1))
        .max(LEAST)
        .next_multiple_of(DEPTH);
    let parts = tokens.div_ceil(each).max(1);
    let all = match parts {
        1 => out.clone(),
        parts => Floats::empty(client, parts * m, n),
    };
    let result = matrix(&all, "parts of a gradient")?;
    let (count, dim) = (cubes(client, tiles * parts)?, CubeDim::new_1d(UNITS as u32));
    // SAFETY: the kernel reads and writes tokens, rows and columns below the shapes, which the buffers were measured to hold.
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
            cubes(client, (m * n).div_ceil(JOINING))?,
            CubeDim::new_1d(JOINING as u32),
        );
        // SAFETY: the two were made for the kernel.
        unsafe { join::launch_unchecked(client, count, dim, all, result, m * n, parts) };
    }
    Ok(out)
}
