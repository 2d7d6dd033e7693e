//! The gradient of RMSNorm, RoPE and temperature of Q and K: one cube per head of a token. Norms
//! over all heads have a separate kernel.

use super::norm_over_heads::norm_over_heads_backward;
use crate::attention::{Heads, QkNormWidth};
use crate::gpu::launch::{check_equal, cube_count, matrix_arg};
use crate::gpu::qk_norm_rope::{QkNormRope, RopeArgs, temperature_at};
use crate::gpu::reduce::reduce_sum;
use crate::gpu::{Floats, GpuError, Norm, heads};
use crate::rope::Pairing;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a head; a power of two.
const UNITS: usize = 64;

/// Element `i` of the head at `first`, rotated back by the angles at `angles`.
#[cube]
fn rotated_back(
    d: &[f32],
    table: &[f32],
    first: usize,
    i: usize,
    angles: usize,
    rotated: usize,
    #[comptime] pairing: Pairing,
) -> f32 {
    let mut value = d[first + i];
    if i < rotated {
        let half = rotated / 2;
        let is_second = if comptime!(pairing == Pairing::Halves) {
            i >= half
        } else {
            i % 2 == 1
        };
        let pair = if comptime!(pairing == Pairing::Halves) {
            i % half
        } else {
            i / 2
        };
        let distance = if comptime!(pairing == Pairing::Halves) {
            half
        } else {
            1usize.runtime()
        };
        let cos = table[angles + 2 * pair];
        let sin = table[angles + 2 * pair + 1];
        // The forward computed (a cos - b sin, a sin + b cos).
        if is_second {
            value = value * cos - d[first + i - distance] * sin;
        } else {
            value = value * cos + d[first + i + distance] * sin;
        }
    }
    value
}

/// Writes the gradient of a head: the output gradient rotated back, times `factor`, then the
/// gradient of the norm `x * weight / sqrt(mean(x^2) + eps)`.
#[cube]
fn head_gradient(
    d: &[f32],
    x: &[f32],
    weight: &[f32],
    table: &[f32],
    out: &mut [f32],
    first: usize,
    dim: usize,
    angles: usize,
    rotated: usize,
    eps: f32,
    factor: f32,
    #[comptime] norm: bool,
    #[comptime] pairing: Pairing,
) {
    let mut projection = 0.0f32;
    let mut inverse_rms = 1.0f32;
    if comptime!(norm) {
        let mut shared = Shared::<[f32]>::new_slice(UNITS);
        let mut squares = 0.0f32;
        let mut products = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < dim {
            let value = x[first + i];
            squares += value * value;
            products += value * weight[i] * factor * rotated_back(d, table, first, i, angles, rotated, pairing);
            i += UNITS;
        }
        let squares = reduce_sum(squares, &mut shared, UNITS);
        let products = reduce_sum(products, &mut shared, UNITS);
        let count = f32::cast_from(dim);
        inverse_rms = 1.0f32 / (squares / count + eps).sqrt();
        projection = products / (squares + count * eps);
    }
    let mut i = UNIT_POS as usize;
    while i < dim {
        let mut value = factor * rotated_back(d, table, first, i, angles, rotated, pairing);
        if comptime!(norm) {
            value = (value * weight[i] - x[first + i] * projection) * inverse_rms;
        }
        out[first + i] = value;
        i += UNITS;
    }
}

#[cube(launch_unchecked)]
fn head_gradients(
    d: &[f32],
    x: &[f32],
    q_weight: &[f32],
    k_weight: &[f32],
    table: &[f32],
    positions: &[u32],
    out: &mut [f32],
    tokens: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    rotated: usize,
    pairs: usize,
    table_positions: usize,
    q_eps: f32,
    k_eps: f32,
    temperature_scale: f32,
    temperature_length: usize,
    #[comptime] norms: [bool; 2],
    #[comptime] pairing: Pairing,
) {
    let heads_per_token = heads + 2 * kv_heads;
    if CUBE_POS >= tokens * heads_per_token {
        terminate!();
    }
    let head = CUBE_POS % heads_per_token;
    let first = CUBE_POS * dim;
    let position = positions[CUBE_POS / heads_per_token] as usize;
    let angles = min(position, table_positions - 1) * pairs * 2;
    if head < heads {
        // 1 without a temperature, whose scale is then 0.
        let factor = temperature_at(position, temperature_scale, temperature_length);
        head_gradient(
            d,
            x,
            q_weight,
            table,
            out,
            first,
            dim,
            angles,
            rotated,
            q_eps,
            factor,
            comptime!(norms[0]),
            pairing,
        );
    } else if head < heads + kv_heads {
        head_gradient(
            d,
            x,
            k_weight,
            table,
            out,
            first,
            dim,
            angles,
            rotated,
            k_eps,
            1.0f32,
            comptime!(norms[1]),
            pairing,
        );
    } else {
        let mut i = UNIT_POS as usize;
        while i < dim {
            out[first + i] = d[first + i];
            i += UNITS;
        }
    }
}

/// Backward of [`qk_norm_rope`](crate::gpu::qk_norm_rope()): the gradient of its input `qkv`, from
/// the gradient `d_ready` of its output, both `[T, (heads + 2 kv_heads) * head_dim]`. V's gradient
/// is copied.
///
/// `args` and `positions` are the same as in the forward, which also clamps positions to the table.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn qk_norm_rope_backward(
    client: &Client,
    d_ready: &Floats,
    qkv: &Floats,
    heads: &Heads,
    args: &QkNormRope,
    positions: &Handle,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    check_equal("number of rows of a gradient of Q, K and V", d_ready.rows, qkv.rows)?;
    check_equal("number of columns of a gradient of Q, K and V", d_ready.cols, qkv.cols)?;
    match args.norm_width {
        QkNormWidth::AllHeads if args.norms.iter().any(Option::is_some) => {
            let d_normed = rotate_back(client, d_ready, qkv, heads, [None, None], args, positions)?;
            norm_over_heads_backward(client, qkv, &d_normed, heads, args.norms)
        }
        _ => rotate_back(client, d_ready, qkv, heads, args.norms, args, positions),
    }
}

/// [`qk_norm_rope_backward`] with these norms of each head.
fn rotate_back(
    client: &Client,
    d_ready: &Floats,
    qkv: &Floats,
    heads: &Heads,
    norms: [Option<&Norm>; 2],
    args: &QkNormRope,
    positions: &Handle,
) -> Result<Floats, GpuError> {
    let Heads {
        heads: query_heads,
        kv_heads,
        head_dim: dim,
        ..
    } = *heads;
    let (tokens, width) = (qkv.rows, heads.qkv_width());
    let rope = RopeArgs::new(qkv, heads, norms, args, positions)?;
    let [q_weight, k_weight] = rope.weights;
    let (d, x) = (
        matrix_arg(d_ready, "gradient of Q, K and V")?,
        matrix_arg(qkv, "Q, K and V")?,
    );
    let out = Floats::empty(client, tokens, width);
    if tokens * width > 0 {
        let count = cube_count(client, tokens * (query_heads + 2 * kv_heads))?;
        let cube_dim = CubeDim::new_1d(UNITS as u32);
        let result = matrix_arg(&out, "gradient of Q, K and V")?;
        let [q_eps, k_eps] = norms.map(|norm| norm.map_or(0.0, |norm| norm.eps));
        // SAFETY: the kernel accesses tokens, heads, pairs and positions below the shapes, which
        // the buffers were checked to hold.
        unsafe {
            head_gradients::launch_unchecked(
                client,
                count,
                cube_dim,
                d,
                x,
                q_weight,
                k_weight,
                rope.table,
                rope.positions,
                result,
                tokens,
                query_heads,
                kv_heads,
                dim,
                rope.rotated,
                rope.pairs,
                rope.table_positions,
                q_eps,
                k_eps,
                rope.temperature_scale,
                rope.temperature_length,
                norms.map(|norm| norm.is_some()),
                rope.pairing,
            );
        }
    }
    Ok(out)
}
