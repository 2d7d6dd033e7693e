//! A linear over a weight that stays in its blocks.
//!
//! For few tokens a cube takes a few rows of the weight, a line of units to each: every weight is decoded once, on its way from
//! memory, and meets all tokens. For more, tiles of the weight are decoded into shared memory, in f32, or in f16 for matrix units where the
//! product may round and the device has them.

use super::blocks::weight;
use super::launch::{argument, cubes, matrix, same};
use super::matrix_units::{self, Over, linear_takes_matrix_units};
use super::pieces::{PIECE, place, weights};
use super::product::room;
use super::tiles::{DEPTH, UNITS, fill, multiply, store, stride, tile, zeros};
use super::{Floats, GpuError, Linear, Turned, Weight, drop_out, product};
use crate::blocks::Quant;
use crate::linear::Product;
use cubecl::prelude::*;

/// Tokens up to which every weight is decoded by the unit that uses it.
pub(super) const FEW: usize = 8;
/// Units that share rows of the weight where tokens are few.
const LINE: usize = 32;
/// Rows of the weight that a line of units takes, so that what it reads of `x` serves all of them.
const PAIR: usize = 2;
/// Lines of units in a cube.
const LINES: usize = 4;
/// Rows and columns of the result that a cube makes where tokens are many: a row of the weight for each unit.
const SIDE: usize = UNITS;
/// What an offset into a buffer has to be a multiple of, on every device.
const ALIGNMENT: u64 = 256;

/// The first byte of the block in which weight `column` of a row lies.
#[cube]
pub(super) fn block_at(row: usize, column: usize, cols: usize, #[comptime] quant: Quant) -> usize {
    let elements = comptime!(quant.block_elements());
    (row * (cols / elements) + column / elements) * comptime!(quant.block_bytes())
}

/// The row of `x` that stands for a token of a batch, which may have more than there are.
#[cube]
fn token_row(token: usize, tokens: usize, #[comptime] batch: usize) -> usize {
    let mut row = 0usize;
    if comptime!(batch > 1) {
        row = min(token, tokens - 1);
    }
    row
}

/// A unit's sums, which are zero.
#[cube]
fn no_sums(#[comptime] batch: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(comptime!(batch * PAIR));
    #[unroll]
    for i in 0..comptime!(batch * PAIR) {
        sums[i] = 0.0f32;
    }
    sums
}

/// Sums up what the units of a line have of each token and row, and writes it.
#[cube]
fn finish(
    sums: &Array<f32>,
    out: &mut [f32],
    first_row: usize,
    tokens: usize,
    rows: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] batch: usize,
    #[comptime] add: bool,
) {
    let unit = UNIT_POS as usize;
    let lane = unit % LINE;
    let mut shared = Shared::<[f32]>::new_slice(comptime!(LINES * LINE * PAIR * batch));
    #[unroll]
    for i in 0..comptime!(batch * PAIR) {
        shared[i * comptime!(LINES * LINE) + unit] = sums[i];
    }
    let mut half = comptime!(LINE / 2).runtime();
    while half > 0 {
        sync_cube();
        if lane < half {
            #[unroll]
            for i in 0..comptime!(batch * PAIR) {
                let mine = i * comptime!(LINES * LINE) + unit;
                shared[mine] += shared[mine + half];
            }
        }
        half /= 2;
    }
    if lane == 0 {
        #[unroll]
        for i in 0..comptime!(batch * PAIR) {
            let token = i / PAIR;
            let row = first_row + i % PAIR;
            if token < tokens && row < rows {
                let value = scale * shared[i * comptime!(LINES * LINE) + unit];
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

/// For weights in blocks.
#[cube(launch_unchecked)]
fn few_tokens(
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
    #[comptime] add: bool,
) {
    let first_row = (CUBE_POS * LINES + UNIT_POS as usize / LINE) * PAIR;
    let lane = UNIT_POS as usize % LINE;
    let each = comptime!(quant.block_elements() / PIECE);
    let pieces = cols / PIECE;
    let mut sums = no_sums(batch);
    if first_row < rows {
        for step in 0..pieces.div_ceil(LINE) {
            let piece = step * LINE + lane;
            if piece < pieces {
                let first = piece / each * comptime!(quant.block_elements());
                let mut w = Array::<f32>::new(comptime!(PAIR * PIECE));
                #[unroll]
                for row in 0..PAIR {
                    let block = block_at(min(first_row + row, rows - 1), first, cols, quant);
                    let weights = weights(words, block, piece % each, quant);
                    #[unroll]
                    for i in 0..PIECE {
                        w[row * PIECE + i] = weights[i];
                    }
                }
                #[unroll]
                for token in 0..batch {
                    let start = token_row(token, tokens, batch) * cols + first;
                    #[unroll]
                    for four in 0..comptime!(PIECE / 4) {
                        let x = x[(start + place(piece % each, 4 * four, quant)) / 4];
                        #[unroll]
                        for row in 0..PAIR {
                            #[unroll]
                            for i in 0..4usize {
                                sums[token * PAIR + row] += w[row * PIECE + 4 * four + i] * x.extract(i);
                            }
                        }
                    }
                }
            }
        }
    }
    finish(&sums, out, first_row, tokens, rows, width, at, scale, batch, add);
}

/// For plain weights, whose rows may have any length: neighbours read neighbours.
#[cube(launch_unchecked)]
fn few_tokens_plain(
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
    #[comptime] add: bool,
) {
    let first_row = (CUBE_POS * LINES + UNIT_POS as usize / LINE) * PAIR;
    let mut sums = no_sums(batch);
    if first_row < rows {
        for step in 0..cols.div_ceil(LINE) {
            let column = step * LINE + UNIT_POS as usize % LINE;
            if column < cols {
                let mut w = Array::<f32>::new(PAIR);
                #[unroll]
                for row in 0..PAIR {
                    let at = block_at(min(first_row + row, rows - 1), column, cols, quant);
                    w[row] = weight(words, at, 0usize, quant);
                }
                #[unroll]
                for token in 0..batch {
                    let x = x[token_row(token, tokens, batch) * cols + column];
                    #[unroll]
                    for row in 0..PAIR {
                        sums[token * PAIR + row] += w[row] * x;
                    }
                }
            }
        }
    }
    finish(&sums, out, first_row, tokens, rows, width, at, scale, batch, add);
}

/// Fills a tile with weights: rows from `first` on, columns from `from` on; zeros where there are none.
#[cube]
fn decode(
    tile: &mut [f32],
    words: &[u32],
    first: usize,
    rows: usize,
    from: usize,
    cols: usize,
    #[comptime] quant: Quant,
) {
    let elements = comptime!(quant.block_elements());
    if comptime!(quant.is_float()) {
        // Neighbours read neighbours.
        #[unroll]
        for part in 0..comptime!(SIDE * DEPTH / UNITS) {
            let i = part * UNITS + UNIT_POS as usize;
            let row = i / DEPTH;
            let step = i % DEPTH;
            let mut value = 0.0f32;
            if first + row < rows && from + step < cols {
                value = weight(words, block_at(first + row, from + step, cols, quant), 0usize, quant);
            }
            tile[step * comptime!(stride(SIDE)) + row] = value;
        }
    } else {
        // A unit has weights of one row and one block, which share what they are scaled by.
        let row = UNIT_POS as usize;
        let block = block_at(first + row, from, cols, quant);
        #[unroll]
        for step in 0..DEPTH {
            let mut value = 0.0f32;
            if first + row < rows {
                value = weight(words, block, from % elements + step, quant);
            }
            tile[step * comptime!(stride(SIDE)) + row] = value;
        }
    }
}

#[cube(launch_unchecked)]
fn many_tokens(
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
    // Cubes that share rows of the weight come one after the other, so that these are still in a cache.
    let down = tokens.div_ceil(SIDE);
    if CUBE_POS >= rows.div_ceil(SIDE) * down {
        terminate!();
    }
    let top = CUBE_POS % down * SIDE;
    let left = CUBE_POS / down * SIDE;
    let mut x_tile = tile(SIDE);
    let mut w_tile = tile(SIDE);
    let mut sums = zeros(SIDE);
    for part in 0..cols.div_ceil(DEPTH) {
        fill(&mut x_tile, x, top, tokens, part * DEPTH, cols, SIDE, true);
        decode(&mut w_tile, words, left, rows, part * DEPTH, cols, quant);
        sync_cube();
        multiply(&x_tile, &w_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, out, top, left, tokens, rows, width, at, scale, SIDE, add);
}

#[cube(launch_unchecked)]
fn add_bias(bias: &[f32], out: &mut [f32], tokens: usize, width: usize, at: usize) {
    let rows = bias.len();
    if ABSOLUTE_POS < tokens * rows {
        out[ABSOLUTE_POS / rows * width + at + ABSOLUTE_POS % rows] += bias[ABSOLUTE_POS % rows];
    }
}

/// Writes `y [T, out]` of a linear over `x [T, in]` to the columns of `out [T, width]` from `at` on, or adds it to them. `out`
/// is not `x`. [`Product::Exact`] rounds nothing but sums; the others round the factors of the product with the weight to f16 where
/// [`linear_takes_matrix_units`].
///
/// # Errors
/// Where the shapes do not fit.
pub fn linear(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    product: Product,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    linear_within(
        client,
        x,
        linear,
        product,
        out,
        at,
        add,
        client.properties().memory.max_page_size,
    )
}

/// [`linear`] on a device where a kernel sees `limit` bytes of a buffer at most: a weight that is larger is taken in ranges of
/// its rows.
///
/// # Errors
/// Where the shapes do not fit, or the limit is too low for the rows that have to go together.
pub fn linear_within(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    kind: Product,
    out: &Floats,
    at: usize,
    add: bool,
    limit: u64,
) -> Result<(), GpuError> {
    let weight = &linear.weight;
    same("width of a linear's input", x.cols, weight.cols)?;
    same("number of rows of a linear's output", out.rows, x.rows)?;
    room(out, at, weight.rows)?;
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
        over_rows(client, x, weight, range, linear.scale, kind, out, at, add)?;
    }
    if let Some(lora) = &linear.lora {
        let dropped = lora.dropout.map(|dropout| drop_out(client, x, dropout)).transpose()?;
        let low = Floats::empty(client, x.rows, lora.a.rows);
        product(
            client,
            dropped.as_ref().unwrap_or(x),
            &lora.a,
            Turned::Second,
            1.0,
            &low,
            0,
            false,
        )?;
        product(client, &low, &lora.b, Turned::Second, lora.scale, out, at, true)?;
    }
    if let Some(bias) = bias {
        let dim = CubeDim::new_1d(256);
        let count = cubes(client, (x.rows * weight.rows).div_ceil(256))?;
        // SAFETY: the kernel touches the rows of `out` and the columns of the linear, which were seen to be there.
        unsafe {
            add_bias::launch_unchecked(
                client,
                count,
                dim,
                bias,
                matrix(out, "output of a linear")?,
                x.rows,
                out.cols,
                at,
            );
        }
    }
    Ok(())
}

/// Rows of a weight that one launch takes.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub first: usize,
    pub rows: usize,
}

/// The ranges of rows in which a weight is taken where a kernel sees `limit` bytes of it; each begins at a multiple of
/// [`ALIGNMENT`].
pub(super) fn ranges(weight: &Weight, limit: u64) -> Result<Vec<Range>, GpuError> {
    let Weight { quant, rows, cols, .. } = *weight;
    let row = quant.row_bytes(cols).ok_or(GpuError::Shape { quant, rows, cols })? as u64;
    let bytes = row
        .checked_mul(rows as u64)
        .ok_or(GpuError::Shape { quant, rows, cols })?;
    let found = weight.words.size_in_used();
    let needed = bytes.next_multiple_of(4);
    if found < needed {
        return Err(GpuError::Short {
            what: "weight of a linear",
            needed,
            found,
        });
    }
    let limit = limit.min(u64::from(u32::MAX));
    if bytes <= limit {
        return Ok(vec![Range { first: 0, rows }]);
    }
    // So many rows end where the next range may begin: the power of two that they lack.
    let together = ALIGNMENT >> row.trailing_zeros().min(ALIGNMENT.trailing_zeros());
    let most = (limit / row / together * together) as usize;
    if most == 0 {
        return Err(GpuError::Large {
            what: "least range of rows of a weight",
            needed: together * row,
        });
    }
    let range = |first: usize| Range {
        first,
        rows: most.min(rows - first),
    };
    Ok((0..rows).step_by(most).map(range).collect())
}

/// The blocks of rows of a weight, one of its [`ranges`], as a kernel's argument.
pub(super) fn words_of(weight: &Weight, range: Range) -> Result<BufferArg, GpuError> {
    let row_bytes = (weight.cols / weight.quant.block_elements() * weight.quant.block_bytes()) as u64;
    let begin = range.first as u64 * row_bytes;
    let bytes = (range.rows as u64 * row_bytes).next_multiple_of(4);
    let used = weight.words.size_in_used();
    let words = weight
        .words
        .clone()
        .offset_start(begin)
        .offset_end(used - begin - bytes);
    argument(&words, "weight of a linear", (bytes / 4) as usize)
}

fn over_rows(
    client: &Client,
    x: &Floats,
    weight: &Weight,
    range: Range,
    scale: f32,
    kind: Product,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    let Weight { quant, cols, .. } = *weight;
    let (tokens, rows, at) = (x.rows, range.rows, at + range.first);
    if linear_takes_matrix_units(client, quant, tokens, kind) {
        return matrix_units::multiply(client, x, 0, weight, range, Over::Columns, scale, out, at, add);
    }
    let words = words_of(weight, range)?;
    let (x, result) = (matrix(x, "input of a linear")?, matrix(out, "output of a linear")?);
    // SAFETY: the kernels read rows of `x` and of the weight below the counts that they are told, and write columns of `out` that
    // were seen to be there.
    unsafe {
        if tokens <= FEW {
            let batch = tokens.next_power_of_two();
            let count = cubes(client, rows.div_ceil(PAIR * LINES))?;
            let dim = CubeDim::new_1d((LINES * LINE) as u32);
            if quant.is_float() {
                few_tokens_plain::launch_unchecked(
                    client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, batch, add,
                );
            } else {
                few_tokens::launch_unchecked(
                    client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, batch, add,
                );
            }
        } else {
            let count = cubes(client, rows.div_ceil(SIDE) * tokens.div_ceil(SIDE))?;
            let dim = CubeDim::new_1d(UNITS as u32);
            many_tokens::launch_unchecked(
                client, count, dim, x, words, result, tokens, rows, cols, out.cols, at, scale, quant, add,
            );
        }
    }
    Ok(())
}
