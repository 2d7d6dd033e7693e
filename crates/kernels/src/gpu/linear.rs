//! Linear layer over a quantized weight.
//!
//! With few tokens (GEMV) a cube computes a few rows of the weight, a line of units per pair of
//! rows: every weight is decoded once in registers and used for all tokens. With more (GEMM), tiles
//! of the weight are decoded to shared memory, in f32, or in f16 for matrix units if the precision
//! allows rounding and the device has them.

use super::bytes::SEGMENT;
use super::decode::{segment, weight, weight_index};
use super::launch::{GEMV_TOKENS, buffer_arg, check_equal, cube_count, matrix_arg};
use super::matmul::check_columns;
use super::matrix_units::{self, SumOver, linear_uses_matrix_units};
use super::row_ranges::{RowRange, row_ranges, words_of_range};
use super::tiles::{DEPTH, UNITS, fill, multiply, store, stride, tile, zeros};
use super::weight_tile::{TileShape, block_offset, decode, segment_column, segment_or_zero};
use super::{Floats, GpuError, Linear, Transpose, Weight, dropout_rows, matmul};
use crate::blocks::Quant;
use crate::linear::MatmulPrecision;
use cubecl::prelude::*;

/// GEMV: units of a cube.
const GEMV_UNITS: usize = 128;
/// GEMV: minimum units of a line. The units of a line share rows of the weight.
const MIN_LINE: usize = 32;
/// GEMV: units that fill a large device. With fewer, memory latency is not hidden: on an H200, 8192
/// rows took 1.6 times as long as 2048.
const FULL_DEVICE_UNITS: usize = 1 << 18;
/// GEMV: rows of the weight per line of units, to reuse the loaded `x`.
const ROWS_PER_LINE: usize = 2;
/// GEMM: rows and columns of a cube's output tile: one row of the weight per unit.
const TILE: usize = UNITS;
/// GEMM: a tile of the weight, step by step along its columns.
const WEIGHT_TILE: TileShape = TileShape {
    tile_rows: TILE,
    tile_columns: DEPTH,
    row_stride: 1,
    column_stride: stride(TILE),
};

/// The row of `x` for a token of the batch, clamped, since the compiled batch size may exceed the
/// number of tokens.
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
    first_column: usize,
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
                let index = i * GEMV_UNITS + unit;
                shared[index] += shared[index + half];
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
                let index = token * width + first_column + row;
                if comptime!(add) {
                    out[index] += value;
                } else {
                    out[index] = value;
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
    first_column: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] batch: usize,
    #[comptime] line: usize,
    #[comptime] add: bool,
) {
    let first_row = (CUBE_POS * comptime!(GEMV_UNITS / line) + UNIT_POS as usize / line) * ROWS_PER_LINE;
    let lane = UNIT_POS as usize % line;
    let segments_per_block = comptime!(quant.block_elements() / SEGMENT);
    let segments = cols / SEGMENT;
    let mut sums = zero_sums(batch);
    if first_row < rows {
        for step in 0..segments.div_ceil(line) {
            let index = step * line + lane;
            if index < segments {
                let block_column = index / segments_per_block * comptime!(quant.block_elements());
                let mut w = Array::<f32>::new(comptime!(ROWS_PER_LINE * SEGMENT));
                #[unroll]
                for row in 0..ROWS_PER_LINE {
                    let block = block_offset(min(first_row + row, rows - 1), block_column, cols, quant);
                    let weights = segment(words, block, index % segments_per_block, quant);
                    #[unroll]
                    for i in 0..SEGMENT {
                        w[row * SEGMENT + i] = weights[i];
                    }
                }
                #[unroll]
                for token in 0..batch {
                    let start = token_row(token, tokens, batch) * cols + block_column;
                    #[unroll]
                    for vector in 0..comptime!(SEGMENT / 4) {
                        let x = x[(start + weight_index(index % segments_per_block, 4 * vector, quant)) / 4];
                        #[unroll]
                        for row in 0..ROWS_PER_LINE {
                            #[unroll]
                            for i in 0..4usize {
                                sums[token * ROWS_PER_LINE + row] += w[row * SEGMENT + 4 * vector + i] * x.extract(i);
                            }
                        }
                    }
                }
            }
        }
    }
    reduce_and_write(
        &sums,
        out,
        first_row,
        tokens,
        rows,
        width,
        first_column,
        scale,
        batch,
        line,
        add,
    );
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
    first_column: usize,
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
                    let block = block_offset(min(first_row + row, rows - 1), column, cols, quant);
                    w[row] = weight(words, block, 0usize, quant);
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
    reduce_and_write(
        &sums,
        out,
        first_row,
        tokens,
        rows,
        width,
        first_column,
        scale,
        batch,
        line,
        add,
    );
}

/// GEMM: segments of a row in a tile.
const SEGMENTS: usize = DEPTH / SEGMENT;

/// Fills a tile with rows of `x` from `top` on, zero-padded: the columns of the weight's segments
/// from `depth_tile * SEGMENTS` on, in the order of their weights.
#[cube]
fn fill_in_segments(
    tile: &mut [f32],
    x: &[f32],
    top: usize,
    tokens: usize,
    depth_tile: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let step = UNIT_POS as usize % DEPTH;
    let column = segment_column(depth_tile * SEGMENTS + step / SEGMENT, step % SEGMENT, quant);
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

/// Decodes the segments from `depth_tile * SEGMENTS` on of the rows from `left` on, zero-padded: a
/// row per unit.
#[cube]
fn decode_segments(
    tile: &mut [f32],
    words: &[u32],
    left: usize,
    rows: usize,
    depth_tile: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let row = UNIT_POS as usize;
    #[unroll]
    for segment in 0..SEGMENTS {
        let values = segment_or_zero(words, left + row, rows, depth_tile * SEGMENTS + segment, cols, quant);
        #[unroll]
        for i in 0..SEGMENT {
            tile[(segment * SEGMENT + i) * comptime!(stride(TILE)) + row] = values[i];
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
    first_column: usize,
    scale: f32,
    #[comptime] quant: Quant,
    #[comptime] add: bool,
) {
    // Cubes that share rows of the weight are consecutive, so that the rows are still in a cache.
    let token_tiles = tokens.div_ceil(TILE);
    if CUBE_POS >= rows.div_ceil(TILE) * token_tiles {
        terminate!();
    }
    let top = CUBE_POS % token_tiles * TILE;
    let left = CUBE_POS / token_tiles * TILE;
    let mut x_tile = tile(TILE);
    let mut w_tile = tile(TILE);
    let mut sums = zeros(TILE);
    for depth_tile in 0..cols.div_ceil(DEPTH) {
        if comptime!(quant.is_float()) {
            fill(&mut x_tile, x, top, tokens, depth_tile * DEPTH, cols, TILE, true);
            decode(
                &mut w_tile,
                words,
                left,
                rows,
                depth_tile * DEPTH,
                cols,
                quant,
                WEIGHT_TILE,
            );
        } else {
            fill_in_segments(&mut x_tile, x, top, tokens, depth_tile, cols, quant);
            decode_segments(&mut w_tile, words, left, rows, depth_tile, cols, quant);
        }
        sync_cube();
        multiply(&x_tile, &w_tile, &mut sums, TILE);
        sync_cube();
    }
    store(
        &sums,
        out,
        top,
        left,
        tokens,
        rows,
        width,
        first_column,
        scale,
        TILE,
        add,
    );
}

#[cube(launch_unchecked)]
fn add_bias(bias: &[f32], out: &mut [f32], tokens: usize, rows: usize, width: usize, first_column: usize, scale: f32) {
    if ABSOLUTE_POS < tokens * rows {
        out[ABSOLUTE_POS / rows * width + first_column + ABSOLUTE_POS % rows] += scale * bias[ABSOLUTE_POS % rows];
    }
}

/// Writes the output `[T, out]` of a linear over `x [T, in]` to the columns of `out [T, width]`
/// from `first_column` on, or adds it to them. `out` must not be `x`. [`MatmulPrecision::F32`]
/// computes in f32; the others round activations and weights to f16 if
/// [`linear_uses_matrix_units`].
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn linear(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
    out: &Floats,
    first_column: usize,
    add: bool,
) -> Result<(), GpuError> {
    linear_with_limit(
        client,
        x,
        linear,
        precision,
        out,
        first_column,
        add,
        client.properties().memory.max_page_size,
    )
}

/// Adds `scale` times the output of a linear over `x [T, in]` to `out [T, out]`, as [`linear`].
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn linear_add(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    scale: f32,
    precision: MatmulPrecision,
    out: &Floats,
) -> Result<(), GpuError> {
    check_equal("width of a linear's sum", out.cols, linear.weight.rows)?;
    let limit = client.properties().memory.max_page_size;
    run(client, x, linear, precision, out, 0, Some(scale), limit)
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
    first_column: usize,
    add: bool,
    limit: u64,
) -> Result<(), GpuError> {
    let add = add.then_some(1.0);
    run(client, x, linear, precision, out, first_column, add, limit)
}

/// Writes the output of a linear, or adds it times a factor.
fn run(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
    out: &Floats,
    first_column: usize,
    add: Option<f32>,
    limit: u64,
) -> Result<(), GpuError> {
    let (weight, factor) = (&linear.weight, add.unwrap_or(1.0));
    check_equal("width of a linear's input", x.cols, weight.cols)?;
    check_equal("number of rows of a linear's output", out.rows, x.rows)?;
    check_columns(out, first_column, weight.rows)?;
    matrix_arg(x, "input of a linear")?;
    matrix_arg(out, "output of a linear")?;
    if let Some(lora) = &linear.lora {
        check_equal("width of an adapter's input", lora.a.cols, weight.cols)?;
        check_equal("width of an adapter's output", lora.b.rows, weight.rows)?;
        check_equal("rank of an adapter's b", lora.b.cols, lora.a.rows)?;
    }
    let bias = match &linear.bias {
        Some(bias) => Some(buffer_arg(bias, "bias of a linear", weight.rows)?),
        None => None,
    };
    let ranges = row_ranges(weight, limit)?;
    if x.rows == 0 || weight.rows == 0 {
        return Ok(());
    }
    for range in ranges {
        launch_range(
            client,
            x,
            weight,
            range,
            linear.scale * factor,
            precision,
            out,
            first_column,
            add.is_some(),
        )?;
    }
    if let Some(lora) = &linear.lora {
        let dropout_output = lora
            .dropout
            .map(|dropout| dropout_rows(client, x, dropout))
            .transpose()?;
        let lora_hidden = Floats::empty(client, x.rows, lora.a.rows);
        matmul(
            client,
            dropout_output.as_ref().unwrap_or(x),
            &lora.a,
            Transpose::B,
            1.0,
            &lora_hidden,
            0,
            false,
        )?;
        matmul(
            client,
            &lora_hidden,
            &lora.b,
            Transpose::B,
            lora.scale * factor,
            out,
            first_column,
            true,
        )?;
    }
    if let Some(bias) = bias {
        let dim = CubeDim::new_1d(256);
        let count = cube_count(client, (x.rows * weight.rows).div_ceil(256))?;
        // SAFETY: the kernel accesses rows of `out` and columns of the linear, which were checked.
        unsafe {
            add_bias::launch_unchecked(
                client,
                count,
                dim,
                bias,
                matrix_arg(out, "output of a linear")?,
                x.rows,
                weight.rows,
                out.cols,
                first_column,
                factor,
            );
        }
    }
    Ok(())
}

/// Units of a line of the GEMV kernels: doubled from [`MIN_LINE`] while the device is not full and
/// a row has more items (segments, or weights in float formats) than the line has units.
fn units_per_line(rows: usize, row_items: usize) -> usize {
    let mut line = MIN_LINE;
    while line < GEMV_UNITS && line < row_items && rows.div_ceil(ROWS_PER_LINE) * line < FULL_DEVICE_UNITS {
        line *= 2;
    }
    line
}

/// Multiplies by a range of a weight's rows: writes or adds their columns of the output.
fn launch_range(
    client: &Client,
    x: &Floats,
    weight: &Weight,
    range: RowRange,
    scale: f32,
    precision: MatmulPrecision,
    out: &Floats,
    first_column: usize,
    add: bool,
) -> Result<(), GpuError> {
    let Weight { quant, cols, .. } = *weight;
    let (tokens, rows, first_column) = (x.rows, range.rows, first_column + range.first);
    if linear_uses_matrix_units(client, quant, tokens, precision) {
        return matrix_units::multiply(
            client,
            x,
            0,
            weight,
            range,
            SumOver::Columns,
            scale,
            out,
            first_column,
            add,
        );
    }
    let words = words_of_range(weight, range)?;
    let (x, result) = (
        matrix_arg(x, "input of a linear")?,
        matrix_arg(out, "output of a linear")?,
    );
    // SAFETY: the kernels read rows of `x` and of the weight below the given counts, and write
    // columns of `out` that were checked.
    unsafe {
        if tokens <= GEMV_TOKENS {
            let batch = tokens.next_power_of_two();
            let line = units_per_line(rows, if quant.is_float() { cols } else { cols / SEGMENT });
            let count = cube_count(client, rows.div_ceil(ROWS_PER_LINE * (GEMV_UNITS / line)))?;
            let dim = CubeDim::new_1d(GEMV_UNITS as u32);
            if quant.is_float() {
                gemv_floats::launch_unchecked(
                    client,
                    count,
                    dim,
                    x,
                    words,
                    result,
                    tokens,
                    rows,
                    cols,
                    out.cols,
                    first_column,
                    scale,
                    quant,
                    batch,
                    line,
                    add,
                );
            } else {
                gemv_blocks::launch_unchecked(
                    client,
                    count,
                    dim,
                    x,
                    words,
                    result,
                    tokens,
                    rows,
                    cols,
                    out.cols,
                    first_column,
                    scale,
                    quant,
                    batch,
                    line,
                    add,
                );
            }
        } else {
            let count = cube_count(client, rows.div_ceil(TILE) * tokens.div_ceil(TILE))?;
            let dim = CubeDim::new_1d(UNITS as u32);
            gemm::launch_unchecked(
                client,
                count,
                dim,
                x,
                words,
                result,
                tokens,
                rows,
                cols,
                out.cols,
                first_column,
                scale,
                quant,
                add,
            );
        }
    }
    Ok(())
}
