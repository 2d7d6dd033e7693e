//! The gradient of attention over a batch.
//!
//! With `P = e^(S - L)`, `L` the log-sum-exp of a row (lse), `dP = dO V^T` and `D = sum(P dP)`
//! (delta): `dS = P (dP - D)`, `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. With a softcap, `S` and
//! `L` are of capped scores, and `dS` is multiplied by the softcap's derivative. Scores are
//! recomputed in tiles of 32 by 32, so that no matrix of tokens by tokens exists: first for `L` and
//! `D` of each row, then by one cube per block of queries and one per block of keys, each writing
//! only its own gradients.

use crate::attention::Heads;
use crate::gpu::exp::bounded_exp;
use crate::gpu::launch::{buffer_arg, check_equal, cube_count, matrix_arg};
use crate::gpu::softcap::{softcap_slope, softcapped};
use crate::gpu::{Floats, GpuError, heads};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Queries, and keys, of a tile.
const TILE: usize = 32;
/// Units along each dimension of a tile. A unit has two rows and two columns, `SIDE` apart.
const SIDE: usize = 16;
const UNITS: u32 = (SIDE * SIDE) as u32;
/// Head elements in shared memory at a time while scores are computed.
const DEPTH: usize = 16;
/// Row strides, with one element of padding against bank conflicts.
const DEPTH_STRIDE: usize = DEPTH + 1;
const TILE_STRIDE: usize = TILE + 1;
/// Elements of the scratch buffer: rows of two operands while scores are computed, then a tile of
/// one.
const SCRATCH: usize = 2 * TILE * DEPTH_STRIDE;

/// Maximum head dimension: each unit holds its part of a head in registers.
const MAX_HEAD_DIM: usize = 1024;

/// The shape of a launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Shape {
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    /// Sliding window.
    window: usize,
    scale: f32,
    /// Only read if scores are capped.
    softcap: f32,
}

/// Compile-time configuration of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    /// Width of a head.
    dim: usize,
    /// `true` if scores have a softcap.
    capped: bool,
}

/// Computes a unit's two by two dot products of the rows of two matrices: `TILE` rows each, of
/// which `a_rows` and `b_rows` exist, of `dim` elements, from `a_start` and `b_start` on.
#[cube]
fn dot_products(
    a: &[f32],
    a_start: usize,
    a_stride: usize,
    a_rows: usize,
    b: &[f32],
    b_start: usize,
    b_stride: usize,
    b_rows: usize,
    scratch: &mut [f32],
    sums: &mut Array<f32>,
    #[comptime] dim: usize,
) {
    let unit_column = UNIT_POS as usize % SIDE;
    let unit_row = UNIT_POS as usize / SIDE;
    #[unroll]
    for i in 0..4 {
        sums[i] = 0.0f32;
    }
    for depth_tile in 0..comptime!(dim.div_ceil(DEPTH)) {
        let element = depth_tile * DEPTH + unit_column;
        sync_cube();
        #[unroll]
        for i in 0..2 {
            let row = unit_row + i * SIDE;
            let mut a_value = 0.0f32;
            let mut b_value = 0.0f32;
            if row < a_rows && element < dim {
                a_value = a[a_start + row * a_stride + element];
            }
            if row < b_rows && element < dim {
                b_value = b[b_start + row * b_stride + element];
            }
            scratch[row * DEPTH_STRIDE + unit_column] = a_value;
            scratch[(TILE + row) * DEPTH_STRIDE + unit_column] = b_value;
        }
        sync_cube();
        for d in 0..DEPTH {
            let a0 = scratch[unit_row * DEPTH_STRIDE + d];
            let a1 = scratch[(unit_row + SIDE) * DEPTH_STRIDE + d];
            let b0 = scratch[(TILE + unit_column) * DEPTH_STRIDE + d];
            let b1 = scratch[(TILE + unit_column + SIDE) * DEPTH_STRIDE + d];
            sums[0] += a0 * b0;
            sums[1] += a0 * b1;
            sums[2] += a1 * b0;
            sums[3] += a1 * b1;
        }
    }
}

/// Adds the product of a tile of weights and `TILE` rows of a matrix to a unit's sums, two by two
/// for each 32 elements of a head. `transposed` means that the tile of weights is transposed.
#[cube]
fn accumulate(
    weights: &[f32],
    b: &[f32],
    b_start: usize,
    b_stride: usize,
    b_rows: usize,
    scratch: &mut [f32],
    sums: &mut Array<f32>,
    #[comptime] transposed: bool,
    #[comptime] dim: usize,
) {
    let unit = UNIT_POS as usize;
    let unit_column = unit % SIDE;
    let unit_row = unit / SIDE;
    #[unroll]
    for dim_tile in 0..comptime!(dim.div_ceil(TILE)) {
        sync_cube();
        #[unroll]
        for i in 0..comptime!(TILE * TILE / (SIDE * SIDE)) {
            let row = unit / TILE + i * comptime!(SIDE * SIDE / TILE);
            let element = unit % TILE + dim_tile * TILE;
            let mut value = 0.0f32;
            if row < b_rows && element < dim {
                value = b[b_start + row * b_stride + element];
            }
            scratch[row * TILE + unit % TILE] = value;
        }
        sync_cube();
        for k in 0..TILE {
            let first = if comptime!(transposed) {
                k * TILE_STRIDE + unit_row
            } else {
                unit_row * TILE_STRIDE + k
            };
            let second = if comptime!(transposed) {
                first + SIDE
            } else {
                first + comptime!(SIDE * TILE_STRIDE)
            };
            let w0 = weights[first];
            let w1 = weights[second];
            let b0 = scratch[k * TILE + unit_column];
            let b1 = scratch[k * TILE + unit_column + SIDE];
            sums[dim_tile * 4] += w0 * b0;
            sums[dim_tile * 4 + 1] += w0 * b1;
            sums[dim_tile * 4 + 2] += w1 * b0;
            sums[dim_tile * 4 + 3] += w1 * b1;
        }
    }
}

/// Writes a unit's sums of [`accumulate()`], times `factor`, to rows of the gradient.
#[cube]
fn write_gradient(
    sums: &Array<f32>,
    out: &mut [f32],
    start: usize,
    stride: usize,
    rows: usize,
    factor: f32,
    #[comptime] dim: usize,
) {
    #[unroll]
    for dim_tile in 0..comptime!(dim.div_ceil(TILE)) {
        #[unroll]
        for i in 0..2 {
            #[unroll]
            for j in 0..2 {
                let row = UNIT_POS as usize / SIDE + i * SIDE;
                let element = UNIT_POS as usize % SIDE + comptime!(j * SIDE + dim_tile * TILE);
                if row < rows && element < dim {
                    out[start + row * stride + element] = factor * sums[dim_tile * 4 + i * 2 + j];
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

/// Returns `true` if a query sees a key.
#[cube]
fn is_visible(starts: &[u32], shape: &Shape, query: usize, key: usize) -> bool {
    let mut visible = false;
    if query < shape.tokens && key <= query && query - key < shape.window {
        visible = key >= min(starts[query] as usize, query);
    }
    visible
}

/// The first key that a query sees; later queries see no earlier key. A uniform load, so that the
/// driver knows that control flow is uniform.
#[cube]
fn first_visible_key(starts: &[u32], shape: &Shape, query: usize, scratch: &mut [u32]) -> usize {
    // Other units may still be reading the previous value.
    sync_cube();
    if UNIT_POS == 0 {
        let mut first = min(starts[query] as usize, query);
        if query >= shape.window {
            first = max(first, query - shape.window + 1);
        }
        scratch[0] = first as u32;
    }
    workgroup_uniform_load(&scratch[0]) as usize
}

/// The score of a query and a key from their dot product.
#[cube]
fn score_of(product: f32, shape: &Shape, #[comptime] config: Config) -> f32 {
    let mut score = shape.scale * product;
    if comptime!(config.capped) {
        score = softcapped(score, shape.softcap);
    }
    score
}

/// Computes the dot products of a tile's queries and keys, and the gradients of its probabilities,
/// two by two per unit.
#[cube]
fn compute_scores(
    qkv: &[f32],
    d_out: &[f32],
    shape: &Shape,
    head: usize,
    query: usize,
    key: usize,
    scratch: &mut [f32],
    scores: &mut Array<f32>,
    d_probabilities: &mut Array<f32>,
    #[comptime] dim: usize,
) {
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let out_width = shape.heads * dim;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let keys = key * width + (shape.heads + kv_head) * dim;
    let values = keys + shape.kv_heads * dim;
    let a_rows = shape.tokens - query;
    let b_rows = shape.tokens - key;
    dot_products(
        qkv,
        query * width + head * dim,
        width,
        a_rows,
        qkv,
        keys,
        width,
        b_rows,
        scratch,
        scores,
        dim,
    );
    dot_products(
        d_out,
        query * out_width + head * dim,
        out_width,
        a_rows,
        qkv,
        values,
        width,
        b_rows,
        scratch,
        d_probabilities,
        dim,
    );
}

/// Computes the probabilities of a tile and the gradients of its scores.
#[cube]
fn compute_score_grads(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    lse_and_delta: &[f32],
    shape: &Shape,
    head: usize,
    query: usize,
    key: usize,
    scratch: &mut [f32],
    probabilities: &mut [f32],
    gradients: &mut [f32],
    #[comptime] config: Config,
) {
    let mut product = Array::<f32>::new(4usize);
    let mut d_probability = Array::<f32>::new(4usize);
    compute_scores(
        qkv,
        d_out,
        shape,
        head,
        query,
        key,
        scratch,
        &mut product,
        &mut d_probability,
        comptime!(config.dim),
    );
    #[unroll]
    for i in 0..2 {
        #[unroll]
        for j in 0..2 {
            let y = UNIT_POS as usize / SIDE + i * SIDE;
            let x = UNIT_POS as usize % SIDE + j * SIDE;
            let mut p = 0.0f32;
            let mut ds = 0.0f32;
            if is_visible(starts, shape, query + y, key + x) {
                let index = ((query + y) * shape.heads + head) * 2;
                let s = score_of(product[i * 2 + j], shape, config);
                p = bounded_exp(s - lse_and_delta[index]);
                ds = p * (d_probability[i * 2 + j] - lse_and_delta[index + 1]);
                if comptime!(config.capped) {
                    ds *= softcap_slope(s, shape.softcap);
                }
            }
            probabilities[y * TILE_STRIDE + x] = p;
            gradients[y * TILE_STRIDE + x] = ds;
        }
    }
    // `accumulate` reads them next, after a `sync_cube`.
}

/// Computes `L` and `D` of a block of rows of a head.
#[cube(launch_unchecked)]
fn row_statistics(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    lse_and_delta: &mut [f32],
    shape: &Shape,
    #[comptime] config: Config,
) {
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.heads {
        terminate!();
    }
    let head = CUBE_POS % shape.heads;
    let query = CUBE_POS / shape.heads * TILE;
    let unit_column = UNIT_POS as usize % SIDE;
    let unit_row = UNIT_POS as usize / SIDE;
    let mut scratch = Shared::<[f32]>::new_slice(SCRATCH);
    let mut product = Array::<f32>::new(4usize);
    let mut d_probability = Array::<f32>::new(4usize);
    // For a unit's two rows, over the keys of its columns: the maximum score, the sum of
    // exponentials relative to it, and the sum of exponentials times the probability gradients.
    let mut maximum = Array::<f32>::new(2usize);
    let mut total = zeros(2usize);
    let mut delta = zeros(2usize);
    #[unroll]
    for i in 0..2 {
        maximum[i] = f32::min_value();
    }
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    let first = first_visible_key(starts, shape, query, &mut bound) / TILE;
    for tile in first..query / TILE + 1 {
        let key = tile * TILE;
        compute_scores(
            qkv,
            d_out,
            shape,
            head,
            query,
            key,
            &mut scratch,
            &mut product,
            &mut d_probability,
            comptime!(config.dim),
        );
        #[unroll]
        for i in 0..2 {
            #[unroll]
            for j in 0..2 {
                if is_visible(starts, shape, query + unit_row + i * SIDE, key + unit_column + j * SIDE) {
                    let s = score_of(product[i * 2 + j], shape, config);
                    let new_max = max(maximum[i], s);
                    let factor = bounded_exp(maximum[i] - new_max);
                    let e = bounded_exp(s - new_max);
                    total[i] = total[i] * factor + e;
                    delta[i] = delta[i] * factor + e * d_probability[i * 2 + j];
                    maximum[i] = new_max;
                }
            }
        }
    }
    // The first unit of each row merges the results of the others.
    sync_cube();
    #[unroll]
    for i in 0..2 {
        let index = (unit_row + i * SIDE) * SIDE + unit_column;
        scratch[index] = maximum[i];
        scratch[index + comptime!(TILE * SIDE)] = total[i];
    }
    sync_cube();
    let mut lse = zeros(2usize);
    let mut sums = zeros(2usize);
    if unit_column == 0 {
        #[unroll]
        for i in 0..2 {
            let index = (unit_row + i * SIDE) * SIDE;
            let mut row_max = f32::min_value();
            for k in 0..SIDE {
                row_max = max(row_max, scratch[index + k]);
            }
            let mut sum = 0.0f32;
            for k in 0..SIDE {
                sum += scratch[index + comptime!(TILE * SIDE) + k] * bounded_exp(scratch[index + k] - row_max);
            }
            sums[i] = sum;
            lse[i] = row_max + sum.ln();
        }
    }
    sync_cube();
    #[unroll]
    for i in 0..2 {
        scratch[(unit_row + i * SIDE) * SIDE + unit_column + comptime!(TILE * SIDE)] = delta[i];
    }
    sync_cube();
    if unit_column == 0 {
        #[unroll]
        for i in 0..2 {
            let row = query + unit_row + i * SIDE;
            if row < shape.tokens {
                let index = (unit_row + i * SIDE) * SIDE;
                let mut row_delta = 0.0f32;
                for k in 0..SIDE {
                    row_delta += scratch[index + comptime!(TILE * SIDE) + k] * bounded_exp(scratch[index + k] - lse[i]);
                }
                lse_and_delta[(row * shape.heads + head) * 2] = lse[i];
                lse_and_delta[(row * shape.heads + head) * 2 + 1] = row_delta;
            }
        }
    }
}

/// Computes the gradient of a block of queries of a head.
#[cube(launch_unchecked)]
fn query_gradients(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    lse_and_delta: &[f32],
    d_qkv: &mut [f32],
    shape: &Shape,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.dim);
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.heads {
        terminate!();
    }
    let head = CUBE_POS % shape.heads;
    let query = CUBE_POS / shape.heads * TILE;
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let kv_head = head / (shape.heads / shape.kv_heads);
    let mut scratch = Shared::<[f32]>::new_slice(SCRATCH);
    let mut probabilities = Shared::<[f32]>::new_slice(comptime!(TILE * TILE_STRIDE));
    let mut gradients = Shared::<[f32]>::new_slice(comptime!(TILE * TILE_STRIDE));
    let mut sums = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    let first = first_visible_key(starts, shape, query, &mut bound) / TILE;
    for tile in first..query / TILE + 1 {
        let key = tile * TILE;
        compute_score_grads(
            qkv,
            d_out,
            starts,
            lse_and_delta,
            shape,
            head,
            query,
            key,
            &mut scratch,
            &mut probabilities,
            &mut gradients,
            config,
        );
        let keys = key * width + (shape.heads + kv_head) * dim;
        accumulate(
            &gradients,
            qkv,
            keys,
            width,
            shape.tokens - key,
            &mut scratch,
            &mut sums,
            false,
            dim,
        );
    }
    write_gradient(
        &sums,
        d_qkv,
        query * width + head * dim,
        width,
        shape.tokens - query,
        shape.scale,
        dim,
    );
}

/// Computes the gradients of a block of keys of a KV head, and of their values.
#[cube(launch_unchecked)]
fn key_value_gradients(
    qkv: &[f32],
    d_out: &[f32],
    starts: &[u32],
    lse_and_delta: &[f32],
    d_qkv: &mut [f32],
    shape: &Shape,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.dim);
    if CUBE_POS >= shape.tokens.div_ceil(TILE) * shape.kv_heads {
        terminate!();
    }
    let kv_head = CUBE_POS % shape.kv_heads;
    let key = CUBE_POS / shape.kv_heads * TILE;
    let group = shape.heads / shape.kv_heads;
    let width = (shape.heads + 2 * shape.kv_heads) * dim;
    let out_width = shape.heads * dim;
    let mut scratch = Shared::<[f32]>::new_slice(SCRATCH);
    let mut probabilities = Shared::<[f32]>::new_slice(comptime!(TILE * TILE_STRIDE));
    let mut gradients = Shared::<[f32]>::new_slice(comptime!(TILE * TILE_STRIDE));
    let mut d_keys = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut d_values = zeros(comptime!(dim.div_ceil(TILE) * 4));
    let mut bound = Shared::<[u32]>::new_slice(1usize);
    for tile in key / TILE..shape.tokens.div_ceil(TILE) {
        let query = tile * TILE;
        // `starts` never decreases: if the first query of a block sees none of these keys, no query
        // of the block does.
        if first_visible_key(starts, shape, query, &mut bound) < key + TILE {
            for i in 0..group {
                let head = kv_head * group + i;
                compute_score_grads(
                    qkv,
                    d_out,
                    starts,
                    lse_and_delta,
                    shape,
                    head,
                    query,
                    key,
                    &mut scratch,
                    &mut probabilities,
                    &mut gradients,
                    config,
                );
                let queries = query * width + head * dim;
                let out_start = query * out_width + head * dim;
                let count = shape.tokens - query;
                accumulate(
                    &gradients,
                    qkv,
                    queries,
                    width,
                    count,
                    &mut scratch,
                    &mut d_keys,
                    true,
                    dim,
                );
                accumulate(
                    &probabilities,
                    d_out,
                    out_start,
                    out_width,
                    count,
                    &mut scratch,
                    &mut d_values,
                    true,
                    dim,
                );
            }
        }
    }
    let keys = key * width + (shape.heads + kv_head) * dim;
    write_gradient(&d_keys, d_qkv, keys, width, shape.tokens - key, shape.scale, dim);
    let values = keys + shape.kv_heads * dim;
    write_gradient(&d_values, d_qkv, values, width, shape.tokens - key, 1.0f32, dim);
}

/// The gradient of attention over a batch at `qkv [T, (heads + 2 kv_heads) * head_dim]` (normalized
/// and rotated), from the output gradient `d_out [T, heads * head_dim]`.
///
/// `starts` has the first key that each token sees, one word per token, clamped to the token. The
/// batch is a concatenation of sequences, so `starts` never decreases.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn attend_batch_backward(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    starts: &Handle,
    d_out: &Floats,
) -> Result<Floats, GpuError> {
    let tokens = qkv.rows;
    let dim = heads.head_dim;
    heads::check(heads, qkv)?;
    check_equal("number of rows of a gradient of attention", d_out.rows, tokens)?;
    check_equal(
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
    if dim > MAX_HEAD_DIM {
        return Err(GpuError::Size {
            what: "width of a head",
            found: dim,
            expected: MAX_HEAD_DIM,
        });
    }
    let lse_and_delta = Floats::empty(client, tokens, heads.heads * 2);
    let d_qkv = Floats::empty(client, tokens, qkv.cols);
    matrix_arg(d_out, "gradient of attention")?;
    buffer_arg(starts, "starts of sequences", tokens)?;
    if tokens == 0 {
        return Ok(d_qkv);
    }
    let inputs = || -> Result<_, GpuError> {
        Ok((
            matrix_arg(qkv, "Q, K and V")?,
            matrix_arg(d_out, "gradient of attention")?,
            buffer_arg(starts, "starts of sequences", tokens)?,
            matrix_arg(&lse_and_delta, "lse and delta of attention")?,
        ))
    };
    let d_qkv_arg = || matrix_arg(&d_qkv, "gradient of Q, K and V");
    let shape = || {
        let window = heads::window(heads);
        let softcap = heads::softcap(heads);
        ShapeLaunch::new(tokens, heads.heads, heads.kv_heads, window, heads.scale, softcap)
    };
    let config = Config {
        dim,
        capped: heads.softcap.is_some(),
    };
    let blocks = tokens.div_ceil(TILE);
    let (per_head, per_kv_head) = (
        cube_count(client, blocks * heads.heads)?,
        cube_count(client, blocks * heads.kv_heads)?,
    );
    let cube_dim = CubeDim::new_1d(UNITS);
    // SAFETY: the kernels access tokens, heads and elements below the shapes, which the buffers
    // were checked to hold.
    unsafe {
        let (x, d, starts, stats) = inputs()?;
        row_statistics::launch_unchecked(client, per_head.clone(), cube_dim, x, d, starts, stats, shape(), config);
        let (x, d, starts, stats) = inputs()?;
        query_gradients::launch_unchecked(
            client,
            per_head,
            cube_dim,
            x,
            d,
            starts,
            stats,
            d_qkv_arg()?,
            shape(),
            config,
        );
        let (x, d, starts, stats) = inputs()?;
        key_value_gradients::launch_unchecked(
            client,
            per_kv_head,
            cube_dim,
            x,
            d,
            starts,
            stats,
            d_qkv_arg()?,
            shape(),
            config,
        );
    }
    Ok(d_qkv)
}
