//! Linear layer over a quantized weight.
//!
//! With few tokens (GEMV) a cube computes a few rows of the weight, a line of units per pair of
//! rows: every weight is decoded once in registers and used for all tokens. With more (GEMM), tiles
//! of the weight are decoded to shared memory, in f32, or in f16 for matrix units if the precision
//! allows rounding and the device has them.

use super::bytes::SEGMENT;
use super::decode::{place, segment, weight};
use super::launch::{GEMV_TOKENS, argument, cubes, matrix, same};
use super::matmul::check_columns;
use super::matrix_units::{self, Over, linear_uses_matrix_units};
use super::row_ranges::{Range, ranges, words_of};
use super::tiles::{DEPTH, UNITS, fill, multiply, store, stride, tile, zeros};
use super::weight_tile::{WeightTile, block_at, decode, segment_column, segment_or_zero};
use super::{Floats, GpuError, Linear, Transpose, Weight, dropout_rows, matmul};
use crate::blocks::Quant;
use crate::linear::MatmulPrecision;
use cubecl::prelude::*;

/// GEMV: units of a cube.
const GEMV_UNITS: usize = 128;
/// GEMV: minimum units of a line, which share rows of the weight.
const MIN_LINE: usize = 32;
/// GEMV: units that fill a large device. With fewer, memory latency is not hidden: on an H200, 8192
/// rows took 1.6 times as long as 2048.
const FULL_DEVICE_UNITS: usize = 1 << 18;
/// GEMV: rows of the weight per line of units, to reuse the loaded `x`.
const ROWS_PER_LINE: usize = 2;
/// GEMM: rows and columns of a cube's output tile: one row of the weight per unit.
const TILE: usize = UNITS;
/// GEMM: a tile of the weight, step by step along its columns.
const WEIGHT_TILE: WeightTile = WeightTile {
    rows: TILE,
    columns: DEPTH,
    row_stride: 1,
    column_stride: stride(TILE),
};

/// The row of `x` of a token, clamped: the compiled batch may exceed the number of tokens.
#[cube]
fn token_row(token: usize, tokens: usize, #[comptime] batch: usize) -> usize {
    let mut row = 0usize;
    if comptime!(batch > 1) {
        row = min(token, tokens - 1);
    }
    row
}

/// Zeroed accumulators of a unit.
#[cube]
fn zero_sums(#[comptime] batch: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(batch * ROWS_PER_LINE));
    #[unroll]
    for i in 0..comptime!(batch * ROWS_PER_LINE) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Epilogue: reduces the sums of each line of units and writes them.
#[cube]
fn reduce_and_write(
    sums: &Array<f32>,
    out: &mut [f32],
    first_row: usize,
    tokens: usize,
    rows: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] batch: usize,
    #[comptime] line: usize,
    #[comptime] add: bool,
) {
    let unit = UNIT_POS as usize;
    let lane = unit % line;
    let mut shared = Shared::<[f32]>::new_slice(comptime!(GEMV_UNITS * ROWS_PER_LINE * batch));
    #[unroll]
    for i in 0..comptime!(batch * ROWS_PER_LINE) {
        shared[i * GEMV_UNITS + unit] = sums[i];
    }
    let mut half = comptime!(line / 2).runtime();
    while half > 0 {
        sync_cube();
        if lane < half {
            #[unroll]
            for i in 0..comptime!(batch * ROWS_PER_LINE) {
                let mine = i * GEMV_UNITS + unit;
                shared[mine] += shared[mine + half];
            }
        }
        half /= 2;
    }
    if lane == 0 {
        #[unroll]
        for i in 0..comptime!(batch * ROWS_PER_LINE) {
            let token = i / ROWS_PER_LINE;
            let row = first_row + i % ROWS_PER_LINE;
            if token < tokens && row < rows {
                let value = scale * shared[i * GEMV_UNITS + unit];
                let place = token * width + at + row;
                if comptime!(add) {
                    out[place] += value;
                } else {
                    out[place] = value;
                }
            }
        }
    }
}

/// GEMV over weights in blocks.
#[cube(launch_unchecked)]
fn gemv_blocks(
    x: &[Vector<f32, Const<4>>],
    words: &[u32],
    out: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] batch: usize,
    #[comptime] line: usize,
    #[comptime] add: bool,
) {
    let first_row = (CUBE_POS * comptime!(GEMV_UNITS / line) + UNIT_POS as usize / line) * ROWS_PER_LINE;
    let lane = UNIT_POS as usize % line;
    let each = comptime!(quant.block_elements() / SEGMENT);
    let segments = cols / SEGMENT;
    let mut sums = zero_sums(batch);
    if first_row < rows {
        for step in 0..segments.div_ceil(line) {
            let index = step * line + lane;
            if index < segments {
                let first = index / each * comptime!(quant.block_elements());
                let mut w = Array::<f32>::new(comptime!(ROWS_PER_LINE * SEGMENT));
                #[unroll]
                for row in 0..ROWS_PER_LINE {
                    let block = block_at(min(first_row + row, rows - 1), first, cols, quant);
                    let weights = segment(words, block, index % each, quant);
                    #[unroll]
                    for i in 0..SEGMENT {
                        w[row * SEGMENT + i] = weights[i];
                    }
                }
                #[unroll]
                for token in 0..batch {
                    let start = token_row(token, tokens, batch) * cols + first;
                    #[unroll]
                    for four in 0..comptime!(SEGMENT / 4) {
                        let x = x[(start + place(index % each, 4 * four, quant)) / 4];
                        #[unroll]
                        for row in 0..ROWS_PER_LINE {
                            #[unroll]
                            for i in 0..4usize {
                                sums[token * ROWS_PER_LINE + row] += w[row * SEGMENT + 4 * four + i] * x.extract(i);
                            }
                        }
                    }
                }
            }
        }
    }
    reduce_and_write(&sums, out, first_row, tokens, rows, width, at, scale, batch, line, add);
}

/// GEMV over float weights, whose rows may have any length, with coalesced reads.
#[cube(launch_unchecked)]
fn gemv_floats(
    x: &[f32],
    words: &[u32],
    out: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] batch: usize,
    #[comptime] line: usize,
    #[comptime] add: bool,
) {
    let first_row = (CUBE_POS * comptime!(GEMV_UNITS / line) + UNIT_POS as usize / line) * ROWS_PER_LINE;
    let mut sums = zero_sums(batch);
    if first_row < rows {
        for step in 0..cols.div_ceil(line) {
            let column = step * line + UNIT_POS as usize % line;
            if column < cols {
                let mut w = Array::<f32>::new(ROWS_PER_LINE);
                #[unroll]
                for row in 0..ROWS_PER_LINE {
                    let at = block_at(min(first_row + row, rows - 1), column, cols, quant);
                    w[row] = weight(words, at, 0usize, quant);
                }
                #[unroll]
                for token in 0..batch {
                    let x = x[token_row(token, tokens, batch) * cols + column];
                    #[unroll]
                    for row in 0..ROWS_PER_LINE {
                        sums[token * ROWS_PER_LINE + row] += w[row] * x;
                    }
                }
            }
        }
    }
    reduce_and_write(&sums, out, first_row, tokens, rows, width, at, scale, batch, line, add);
}

/// Segments of a row in a step of the GEMM.
const SEGMENTS: usize = DEPTH / SEGMENT;

/// Fills a tile with rows of `x` from `top` on, zero-padded: the columns of the weight's segments
/// from `part * SEGMENTS` on, in the order of their weights.
#[cube]
fn fill_in_segments(
    tile: &mut [f32],
    x: &[f32],
    top: usize,
    tokens: usize,
    part: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let step = UNIT_POS as usize % DEPTH;
    let column = segment_column(part * SEGMENTS + step / SEGMENT, step % SEGMENT, quant);
    #[unroll]
    for pass in 0..comptime!(TILE * DEPTH / UNITS) {
        let row = UNIT_POS as usize / DEPTH + pass * comptime!(UNITS / DEPTH);
        let mut value = 0.0f32;
        if top + row < tokens && column < cols {
            value = x[(top + row) * cols + column];
        }
        tile[step * comptime!(stride(TILE)) + row] = value;
    }
}

/// Decodes the segments from `part * SEGMENTS` on of the rows from `left` on, zero-padded: a row
/// per unit.
#[cube]
fn decode_segments(
    tile: &mut [f32],
    words: &[u32],
    left: usize,
    rows: usize,
    part: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let row = UNIT_POS as usize;
    #[unroll]
    for number in 0..SEGMENTS {
        let values = segment_or_zero(words, left + row, rows, part * SEGMENTS + number, cols, quant);
        #[unroll]
        for i in 0..SEGMENT {
            tile[(number * SEGMENT + i) * comptime!(stride(TILE)) + row] = values[i];
        }
    }
}

#[cube(launch_unchecked)]
fn gemm(
    x: &[f32],
    words: &[u32],
    out: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] add: bool,
) {
    // Cubes that share rows of the weight are consecutive, so that the rows are still in a cache.
    let down = tokens.div_ceil(TILE);
    if CUBE_POS >= rows.div_ceil(TILE) * down {
        terminate!();
    }
    let top = CUBE_POS % down * TILE;
    let left = CUBE_POS / down * TILE;
    let mut x_tile = tile(TILE);
    let mut w_tile = tile(TILE);
    let mut sums = zeros(TILE);
    for part in 0..cols.div_ceil(DEPTH) {
        if comptime!(quant.is_float()) {
            fill(&mut x_tile, x, top, tokens, part * DEPTH, cols, TILE, true);
            decode(&mut w_tile, words, left, rows, part * DEPTH, cols, quant, WEIGHT_TILE);
        } else {
            fill_in_segments(&mut x_tile, x, top, tokens, part, cols, quant);
            decode_segments(&mut w_tile, words, left, rows, part, cols, quant);
        }
        sync_cube();
        multiply(&x_tile, &w_tile, &mut sums, TILE);
        sync_cube();
    }
    store(&sums, out, top, left, tokens, rows, width, at, scale, TILE, add);
}

#[cube(launch_unchecked)]
fn add_bias(bias: &[f32], out: &mut [f32], tokens: usize, rows: usize, width: usize, at: usize) {
    if ABSOLUTE_POS < tokens * rows {
        out[ABSOLUTE_POS / rows * width + at + ABSOLUTE_POS % rows] += bias[ABSOLUTE_POS % rows];
    }
}

/// Writes the output `[T, out]` of a linear over `x [T, in]` to the columns of `out [T, width]`
/// from `at` on, or adds it to them. `out` must not be `x`. [`MatmulPrecision::F32`] computes in
/// f32; the others round activations and weights to f16 if [`linear_uses_matrix_units`].
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn linear(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    linear_with_limit(
        client,
        x,
        linear,
        precision,
        out,
        at,
        add,
        client.properties().memory.max_page_size,
    )
}

/// [`linear`] on a device whose bindings hold at most `limit` bytes: processes a larger weight in
/// ranges of its rows.
///
/// # Errors
/// Returns an error if the shapes do not match or the limit is too low for the smallest aligned
/// range of rows.
pub fn linear_with_limit(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
    out: &Floats,
    at: usize,
    add: bool,
    limit: u64,
) -> Result<(), GpuError> {
    let weight = &linear.weight;
    same("width of a linear's input", x.cols, weight.cols)?;
    same("number of rows of a linear's output", out.rows, x.rows)?;
    check_columns(out, at, weight.rows)?;
    matrix(x, "input of a linear")?;
    matrix(out, "output of a linear")?;
    if let Some(lora) = &linear.lora {
        same("width of an adapter's input", lora.a.cols, weight.cols)?;
        same("width of an adapter's output", lora.b.rows, weight.rows)?;
        same("rank of an adapter's b", lora.b.cols, lora.a.rows)?;
    }
    let bias = match &linear.bias {
        Some(bias) => Some(argument(bias, "bias of a linear", weight.rows)?),
        None => None,
    };
    let ranges = ranges(weight, limit)?;
    if x.rows == 0 || weight.rows == 0 {
        return Ok(());
    }
    for range in ranges {
        launch_range(client, x, weight, range, linear.scale, precision, out, at, add)?;
    }
    if let Some(lora) = &linear.lora {
        let dropped = lora
            .dropout
            .map(|dropout| dropout_rows(client, x, dropout))
            .transpose()?;
        let low = Floats::empty(client, x.rows, lora.a.rows);
        matmul(
            client,
            dropped.as_ref().unwrap_or(x),
            &lora.a,
            Transpose::B,
            1.0,
            &low,
            0,
            false,
        )?;
        matmul(client, &low, &lora.b, Transpose::B, lora.scale, out, at, true)?;
    }
    if let Some(bias) = bias {
        let dim = CubeDim::new_1d(256);
        let count = cubes(client, (x.rows * weight.rows).div_ceil(256))?;
        // SAFETY: the kernel accesses rows of `out` and columns of the linear, which were checked.
        unsafe {
            add_bias::launch_unchecked(
                client,
                count,
                dim,
                bias,
                matrix(out, "output of a linear")?,
                x.rows,
                weight.rows,
                out.cols,
                at,
            );
        }
    }
    Ok(())
}

/// Units of a line of the GEMV kernels: doubled from [`MIN_LINE`] while the device is not full and
/// a row has more parts than units.
fn units_per_line(rows: usize, parts: usize) -> usize {
    let mut line = MIN_LINE;
    while line < GEMV_UNITS && line < parts && rows.div_ceil(ROWS_PER_LINE) * line < FULL_DEVICE_UNITS {
        line *= 2;
    }
    line
}

fn launch_range(
    client: &Client,
    x: &Floats,
    weight: &Weight,
    range: Range,
    scale: f32,
    precision: MatmulPrecision,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    let Weight { quant, cols, .. } = *weight;
    let (tokens, rows, at) = (x.rows, range.rows, at + range.first);
    if linear_uses_matrix_units(client, quant, tokens, precision) {
        return matrix_units::multiply(client, x, 0, weight, range, Over::Columns, scale, out, at, add);
    }
    let words = words_of(weight, range)?;
    let (x, result) = (matrix(x, "input of a linear")?, matrix(out, "output of a linear")?);
    // SAFETY: the kernels read rows of `x` and of the weight below the given counts, and write
    // columns of `out` that were checked.
    unsafe {
        if tokens <= GEMV_TOKENS {
            let batch = tokens.next_power_of_two();
            let line = units_per_line(rows, if quant.is_float() { cols } else { cols / SEGMENT });
            let count = cubes(client, rows.div_ceil(ROWS_PER_LINE * (GEMV_UNITS / line)))?;
            let dim = CubeDim::new_1d(GEMV_UNITS as u32);
            if quant.is_float() {
                gemv_floats::launch_unchecked(
                    client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, batch, line,
                    add,
                );
            } else {
                gemv_blocks::launch_unchecked(
                    client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, batch, line,
                    add,
                );
            }
        } else {
            let count = cubes(client, rows.div_ceil(TILE) * tokens.div_ceil(TILE))?;
            let dim = CubeDim::new_1d(UNITS as u32);
            gemm::launch_unchecked(
                client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, add,
            );
        }
    }
    Ok(())
}
