//! The gradient of attention over a batch.
//!
//! With `P = e^(S - L)`, `L` the logarithm of a row's sum of exponentials, `dP = dO V^T` and `D = sum(P dP)`:
//! `dS = P (dP - D)`, `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. Scores are made again in tiles of 32 by 32 wherever they are
//! needed, so no matrix of tokens by tokens exists: first for `L` and `D` of each row, then by a cube for each block of queries
//! and one for each block of keys, which gather what is theirs.

use crate::attention::Heads;
use crate::gpu::exp::bounded_exp;
use crate::gpu::launch::{argument, cubes, matrix, same};
use crate::gpu::{Floats, GpuError, heads as shape_of};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Queries, and keys, of a tile.
const TILE: usize = 32;
/// Units in each direction; each has two rows and two columns of a tile, this far apart.
const SIDE: usize = 16;
const UNITS: u32 = (SIDE * SIDE) as u32;
/// Elements of heads that are in shared memory at a time while scores are made.
const DEPTH: usize = 16;
/// From one row to the next, with one unused so that rows lie in different banks of the memory.
const DEEP: usize = DEPTH + 1;
const WIDE: usize = TILE + 1;
/// Room for rows of two factors while scores are made, or for a tile of one while they are used.
const ROOM: usize = 2 * TILE * DEEP;

/// How wide a head may be: each unit keeps its part of one in registers.
const WIDEST: usize = 1024;

/// What is the same for all cubes.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Shape {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    /// How many tokens back a token sees.
    window: usize,
    scale: f32,
}

/// A unit's two by two products of rows of two matrices: `TILE` rows each, of which the first so many are there, of `dim` elements
/// from `at` on, `apart` from row to row.
#[cube]
fn products(
    a: &[f32],
    a_at: usize,
    a_apart: usize,
    a_rows: usize,
    b: &[f32],
    b_at: usize,
    b_apart: usize,
    b_rows: usize,
    room: &mut [f32],
    sums: &mut Array<f32>,
    #[comptime] dim: usize,
) {
    let x = UNIT_POS as usize % SIDE;
    let y = UNIT_POS as usize / SIDE;
    #[unroll]
    for i in 0..4 {
        sums[i] = 0.0f32;
    }
    for part in 0..comptime!(dim.div_ceil(DEPTH)) {
        let element = part * DEPTH + x;
        sync_cube();
        #[unroll]
        for i in 0..2 {
            let row = y + i * SIDE;
            let mut left = 0.0f32;
            let mut right = 0.0f32;
            if row < a_rows && element < dim {
                left = a[a_at + row * a_apart + element];
            }
            if row < b_rows && element < dim {
                right = b[b_at + row * b_apart + element];
            }
            room[row * DEEP + x] = left;
            room[(TILE + row) * DEEP + x] = right;
        }
        sync_cube();
        for d in 0..DEPTH {
            let a0 = room[y * DEEP + d];
            let a1 = room[(y + SIDE) * DEEP + d];
            let b0 = room[(TILE + x) * DEEP + d];
            let b1 = room[(TILE + x + SIDE) * DEEP + d];
            sums[0] += a0 * b0;
            sums[1] += a0 * b1;
            sums[2] += a1 * b0;
            sums[3] += a1 * b1;
        }
    }
}

/// Adds to a unit's sums, for each 32 elements of a head two by two, the products of `TILE` weights a row and rows of a matrix.
/// `turned`: a row's weights lie in a column.
#[cube]
fn weigh(
    weights: &[f32],
    b: &[f32],
    b_at: usize,
    b_apart: usize,
    b_rows: usize,
    room: &mut [f32],
    sums: &mut Array<f32>,
    #[comptime] turned: bool,
    #[comptime] dim: usize,
) {
    let unit = UNIT_POS as usize;
    let x = unit % SIDE;
    let y = unit / SIDE;
    #[unroll]
    for part in 0..comptime!(dim.div_ceil(TILE)) {
        sync_cube();
        #[unroll]
        for i in 0..comptime!(TILE * TILE / (SIDE * SIDE)) {
            let row = unit / TILE + i * comptime!(SIDE * SIDE / TILE);
            let element = unit % TILE + part * TILE;
            let mut value = 0.0f32;
            if row < b_rows && element < dim {
                value = b[b_at + row * b_apart + element];
            }
            room[row * TILE + unit % TILE] = value;
        }
        sync_cube();
        for k in 0..TILE {
            let first = if comptime!(turned) { k * WIDE + y } else { y * WIDE + k };
            let second = if comptime!(turned) {
                first + SIDE
            } else {
                first + comptime!(SIDE * WIDE)
            };
            let w0 = weights[first];
            let w1 = weights[second];
            let b0 = room[k * TILE + x];
            let b1 = room[k * TILE + x + SIDE];
            sums[part * 4] += w0 * b0;
            sums[part * 4 + 1] += w0 * b1;
            sums[part * 4 + 2] += w1 * b0;
            sums[part * 4 + 3] += w1 * b1;
        }
    }
}

/// Writes a unit's sums of [`weigh()`], times `factor`, to rows of the gradient.
#[cube]
fn write(
    sums: &Array<f32>,
    out: &mut [f32],
    at: usize,
    apart: usize,
    rows: usize,
    factor: f32,
    #[comptime] dim: usize,
) {
    #[unroll]
    for part in 0..comptime!(dim.div_ceil(TILE)) {
        #[unroll]
        for i in 0..2 {
            #[unroll]
            for j in 0..2 {
                let row = UNIT_POS as usize / SIDE + i * SIDE;
                let element = UNIT_POS as usize % SIDE + comptime!(j * SIDE + part * TILE);
                if row < rows && element < dim {
                    out[at + row * apart + element] = factor * sums[part * 4 + i * 2 + j];
                }
            }
        }
    }
}

#[cube]
fn zeros(#[comptime] count: usize) -> Array<f32> {
    let mut sums = Array::<f32>::new(count);
    #[unroll]
    for i in 0..count {
        sums[i] = 0.0f32;
    }
    sums
}

/// Whether a query sees a key.
#[cube]
fn sees(starts: &[u32], shape: &Shape, query: usize, key: usize) -> bool {
    let mut seen = false;
    if query < shape.tokens && key <= query && query - key < shape.window {
        seen = key >= min(starts[query] as usize, query);
    }
    seen
}

/// The first key that a query, and so those behind it, may see: read by one unit, in a way that shows a driver that all go on
/// alike.
#[cube]
fn first_seen(starts: &[u32], shape: &Shape, query: usize, room: &mut [u32]) -> usize {
    // The last one may still be read.
    sync_cube();
    if UNIT_POS == 0 {
        let mut seen = min(starts[query] as usize, query);
        if query >= shape.window {
            seen = max(seen, query - shape.window + 1);
        }
        room[0] = seen as u32;
    }
    workgroup_uniform_load(&room[0]) as usize
}

/// Scores of a tile, and the gradients of its probabilities, two by two for a unit.
#[cube]
fn scores(
    qkv: &[f32],
    d_out: &[f32],
    shape: &Shape,
    head: usize,
    query: usize,
    key: usize,
    room: &mut [f32],
    scores: &mut Array<f32>,
    slopes: &mut Array<f32>,
    #[comptime] dim: usize,
) {
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let out_width = shape.heads * dim;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let keys = key * width + (shape.heads + kv_head) * dim;
    let values = keys + shape.kv_heads * dim;
    let a_rows = shape.tokens - query;
    let b_rows = shape.tokens - key;
    products(
        qkv,
        query * width + head * dim,
        width,
        a_rows,
        qkv,
        keys,
        width,
        b_rows,
        room,
        scores,
        dim,
    );
    products(
        d_out,
        query * out_width + head * dim,
        out_width,
        a_rows,
        qkv,
        values,
        width,
        b_rows,
        room,
        slopes,
        dim,
    );
}

/// Probabilities of a tile, and the gradients of its scores.
#[cube]
fn slopes(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    rows: &[f32],
    shape: &Shape,
    head: usize,
    query: usize,
    key: usize,
    room: &mut [f32],
    probabilities: &mut [f32],
    gradients: &mut [f32],
    #[comptime] dim: usize,
) {
    let mut score = Array::<f32>::new(4usize);
    let mut slope = Array::<f32>::new(4usize);
    scores(qkv, d_out, shape, head, query, key, room, &mut score, &mut slope, dim);
    #[unroll]
    for i in 0..2 {
        #[unroll]
        for j in 0..2 {
            let y = UNIT_POS as usize / SIDE + i * SIDE;
            let x = UNIT_POS as usize % SIDE + j * SIDE;
            let mut p = 0.0f32;
            let mut ds = 0.0f32;
            if sees(starts, shape, query + y, key + x) {
                let row = ((query + y) * shape.heads + head) * 2;
                p = bounded_exp(shape.scale * score[i * 2 + j] - rows[row]);
                ds = p * (slope[i * 2 + j] - rows[row + 1]);
            }
            probabilities[y * WIDE + x] = p;
            gradients[y * WIDE + x] = ds;
        }
    }
    // The next to read them is `weigh`, which waits for all units first.
}

/// `L` and `D` of a block of rows of a head.
#[cube(launch_unchecked)]
fn of_rows(qkv: &[f32], d_out: &[f32], starts: &[u32], rows: &mut [f32], shape: &Shape, #[comptime] dim: usize) {
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.heads {
        terminate!();
    }
    let head = CUBE_POS % shape.heads;
    let query = CUBE_POS / shape.heads * TILE;
    let x = UNIT_POS as usize % SIDE;
    let y = UNIT_POS as usize / SIDE;
    let mut room = Shared::<[f32]>::new_slice(ROOM);
    let mut score = Array::<f32>::new(4usize);
    let mut slope = Array::<f32>::new(4usize);
    // Of a unit's two rows, over the keys of its columns: the greatest score, and below it the sums of exponentials, and of those
    // times their gradients.
    let mut most = Array::<f32>::new(2usize);
    let mut total = zeros(2usize);
    let mut mean = zeros(2usize);
    #[unroll]
    for i in 0..2 {
        most[i] = f32::min_value();
    }
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    let first = first_seen(starts, shape, query, &mut bound) / TILE;
    for tile in first..query / TILE + 1 {
        let key = tile * TILE;
        scores(
            qkv, d_out, shape, head, query, key, &mut room, &mut score, &mut slope, dim,
        );
        #[unroll]
        for i in 0..2 {
            #[unroll]
            for j in 0..2 {
                if sees(starts, shape, query + y + i * SIDE, key + x + j * SIDE) {
                    let s = shape.scale * score[i * 2 + j];
                    let above = max(most[i], s);
                    let less = bounded_exp(most[i] - above);
                    let e = bounded_exp(s - above);
                    total[i] = total[i] * less + e;
                    mean[i] = mean[i] * less + e * slope[i * 2 + j];
                    most[i] = above;
                }
            }
        }
    }
    // What the units of a row have come to is brought together by the first of them.
    sync_cube();
    #[unroll]
    for i in 0..2 {
        let at = (y + i * SIDE) * SIDE + x;
        room[at] = most[i];
        room[at + comptime!(TILE * SIDE)] = total[i];
    }
    sync_cube();
    let mut log = zeros(2usize);
    let mut sums = zeros(2usize);
    if x == 0 {
        #[unroll]
        for i in 0..2 {
            let at = (y + i * SIDE) * SIDE;
            let mut above = f32::min_value();
            for k in 0..SIDE {
                above = max(above, room[at + k]);
            }
            let mut sum = 0.0f32;
            for k in 0..SIDE {
                sum += room[at + comptime!(TILE * SIDE) + k] * bounded_exp(room[at + k] - above);
            }
            sums[i] = sum;
            log[i] = above + sum.ln();
        }
    }
    sync_cube();
    #[unroll]
    for i in 0..2 {
        room[(y + i * SIDE) * SIDE + x + comptime!(TILE * SIDE)] = mean[i];
    }
    sync_cube();
    if x == 0 {
        #[unroll]
        for i in 0..2 {
            let row = query + y + i * SIDE;
            if row < shape.tokens {
                let at = (y + i * SIDE) * SIDE;
                let mut weighted = 0.0f32;
                for k in 0..SIDE {
                    weighted += room[at + comptime!(TILE * SIDE) + k] * bounded_exp(room[at + k] - log[i]);
                }
                rows[(row * shape.heads + head) * 2] = log[i];
                rows[(row * shape.heads + head) * 2 + 1] = weighted;
            }
        }
    }
}

/// The gradient of a block of queries of a head.
#[cube(launch_unchecked)]
fn of_queries(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    rows: &[f32],
    d_qkv: &mut [f32],
    shape: &Shape,
    #[comptime] dim: usize,
) {
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.heads {
        terminate!();
    }
    let head = CUBE_POS % shape.heads;
    let query = CUBE_POS / shape.heads * TILE;
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let mut room = Shared::<[f32]>::new_slice(ROOM);
    let mut probabilities = Shared::<[f32]>::new_slice(comptime!(TILE * WIDE));
    let mut gradients = Shared::<[f32]>::new_slice(comptime!(TILE * WIDE));
    let mut sums = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    let first = first_seen(starts, shape, query, &mut bound) / TILE;
    for tile in first..query / TILE + 1 {
        let key = tile * TILE;
        slopes(
            qkv,
            d_out,
            starts,
            rows,
            shape,
            head,
            query,
            key,
            &mut room,
            &mut probabilities,
            &mut gradients,
            dim,
        );
        let keys = key * width + (shape.heads + kv_head) * dim;
        weigh(
            &gradients,
            qkv,
            keys,
            width,
            shape.tokens - key,
            &mut room,
            &mut sums,
            false,
            dim,
        );
    }
    write(
        &sums,
        d_qkv,
        query * width + head * dim,
        width,
        shape.tokens - query,
        shape.scale,
        dim,
    );
}

/// The gradients of a block of keys of a head, and of their values.
#[cube(launch_unchecked)]
fn of_keys(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    rows: &[f32],
    d_qkv: &mut [f32],
    shape: &Shape,
    #[comptime] dim: usize,
) {
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.kv_heads {
        terminate!();
    }
    let kv_head = CUBE_POS % shape.kv_heads;
    let key = CUBE_POS / shape.kv_heads * TILE;
    let group = shape.heads / shape.kv_heads;
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let out_width = shape.heads * dim;
    let mut room = Shared::<[f32]>::new_slice(ROOM);
    let mut probabilities = Shared::<[f32]>::new_slice(comptime!(TILE * WIDE));
    let mut gradients = Shared::<[f32]>::new_slice(comptime!(TILE * WIDE));
    let mut d_keys = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut d_values = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    for tile in key / TILE..shape.tokens.div_ceil(TILE) {
        let query = tile * TILE;
        // Sequences lie one behind the other: where the first query of a block sees none of these keys, none of it does.
        if first_seen(starts, shape, query, &mut bound) < key + TILE {
            for i in 0..group {
                let head = kv_head * group + i;
                slopes(
                    qkv,
                    d_out,
                    starts,
                    rows,
                    shape,
                    head,
                    query,
                    key,
                    &mut room,
                    &mut probabilities,
                    &mut gradients,
                    dim,
                );
                let queries = query * width + head * dim;
                let outs = query * out_width + head * dim;
                let count = shape.tokens - query;
                weigh(
                    &gradients,
                    qkv,
                    queries,
                    width,
                    count,
                    &mut room,
                    &mut d_keys,
                    true,
                    dim,
                );
                weigh(
                    &probabilities,
                    d_out,
                    outs,
                    out_width,
                    count,
                    &mut room,
                    &mut d_values,
                    true,
                    dim,
                );
            }
        }
    }
    let keys = key * width + (shape.heads + kv_head) * dim;
    write(&d_keys, d_qkv, keys, width, shape.tokens - key, shape.scale, dim);
    let values = keys + shape.kv_heads * dim;
    write(&d_values, d_qkv, values, width, shape.tokens - key, 1.0f32, dim);
}

/// The gradient of attention over a batch: of prepared `qkv [T, (heads + 2 kv_heads) * head_dim]`, from that of the output,
/// `d_out [T, heads * head_dim]`.
///
/// `starts` has the first key that each token sees, a word each; one beyond the token is taken for the token. Sequences lie one
/// behind the other, so that these never fall.
///
/// # Errors
/// Where the sizes do not fit.
pub fn attend_batch_backward(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    starts: &Handle,
    d_out: &Floats,
) -> Result<Floats, GpuError> {
    let tokens = qkv.rows;
    let dim = heads.head_dim;
    shape_of::check(heads, qkv)?;
    same("number of rows of a gradient of attention", d_out.rows, tokens)?;
    same(
        "number of columns of a gradient of attention",
        d_out.cols,
        heads.out_width(),
    )?;
    if heads.heads == 0 {
        return Err(GpuError::Size {
            what: "number of query heads",
            found: 0,
            expected: heads.kv_heads,
        });
    }
    if dim > WIDEST {
        return Err(GpuError::Size {
            what: "width of a head",
            found: dim,
            expected: WIDEST,
        });
    }
    let of_rows_of_heads = Floats::empty(client, tokens, heads.heads * 2);
    let d_qkv = Floats::empty(client, tokens, qkv.cols);
    matrix(d_out, "gradient of attention")?;
    argument(starts, "starts of sequences", tokens)?;
    if tokens == 0 {
        return Ok(d_qkv);
    }
    let input = || -> Result<_, GpuError> {
        Ok((
            matrix(qkv, "Q, K and V")?,
            matrix(d_out, "gradient of attention")?,
            argument(starts, "starts of sequences", tokens)?,
            matrix(&of_rows_of_heads, "sums of attention")?,
        ))
    };
    let result = || matrix(&d_qkv, "gradient of Q, K and V");
    let shape = || {
        let window = shape_of::window(heads);
        ShapeLaunch::new(tokens, heads.heads, heads.kv_heads, window, heads.scale)
    };
    let blocks = tokens.div_ceil(TILE);
    let (per_head, per_kv_head) = (
        cubes(client, blocks * heads.heads)?,
        cubes(client, blocks * heads.kv_heads)?,
    );
    let units = CubeDim::new_1d(UNITS);
    // SAFETY: the kernels read and write tokens, heads and elements below the shapes, which the buffers were measured to hold.
    unsafe {
        let (x, d, starts, rows) = input()?;
        of_rows::launch_unchecked(client, per_head.clone(), units, x, d, starts, rows, shape(), dim);
        let (x, d, starts, rows) = input()?;
        of_queries::launch_unchecked(client, per_head, units, x, d, starts, rows, result()?, shape(), dim);
        let (x, d, starts, rows) = input()?;
        of_keys::launch_unchecked(client, per_kv_head, units, x, d, starts, rows, result()?, shape(), dim);
    }
    Ok(d_qkv)
}
