//! The gradient of RMSNorm of Q and of K over all heads of a token: one cube per token and part of
//! its row.

use crate::attention::{Heads, QkNormWidth};
use crate::gpu::launch::{check_equal, cube_count, matrix_arg};
use crate::gpu::norm_over_heads::weight_args;
use crate::gpu::reduce::reduce_sum;
use crate::gpu::{Floats, GpuError, Norm, heads};
use cubecl::prelude::*;

/// Units that share a part of a row; a power of two.
const UNITS: usize = 256;

/// Writes the gradient of the `width` elements from `first` on: the gradient of the norm
/// `x * weight / sqrt(mean(x^2) + eps)` if `norm` is set, otherwise `d`.
#[cube]
fn part_gradient(
    d: &[f32],
    x: &[f32],
    weight: &[f32],
    out: &mut [f32],
    first: usize,
    width: usize,
    eps: f32,
    #[comptime] norm: bool,
) {
    let mut projection = 0.0f32;
    let mut inverse_rms = 1.0f32;
    if comptime!(norm) {
        let mut shared = Shared::<[f32]>::new_slice(UNITS);
        let mut squares = 0.0f32;
        let mut products = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < width {
            let value = x[first + i];
            squares += value * value;
            products += value * weight[i] * d[first + i];
            i += UNITS;
        }
        let squares = reduce_sum(squares, &mut shared, UNITS);
        let products = reduce_sum(products, &mut shared, UNITS);
        let count = f32::cast_from(width);
        inverse_rms = 1.0f32 / (squares / count + eps).sqrt();
        projection = products / (squares + count * eps);
    }
    let mut i = UNIT_POS as usize;
    while i < width {
        let mut value = d[first + i];
        if comptime!(norm) {
            value = (value * weight[i] - x[first + i] * projection) * inverse_rms;
        }
        out[first + i] = value;
        i += UNITS;
    }
}

#[cube(launch_unchecked)]
fn part_gradients(
    d: &[f32],
    x: &[f32],
    q_weight: &[f32],
    k_weight: &[f32],
    out: &mut [f32],
    tokens: usize,
    q_width: usize,
    k_width: usize,
    q_eps: f32,
    k_eps: f32,
    #[comptime] norms: [bool; 2],
) {
    if CUBE_POS >= tokens * 3 {
        terminate!();
    }
    let part = CUBE_POS % 3;
    let row = CUBE_POS / 3 * (q_width + 2 * k_width);
    if part == 0 {
        part_gradient(d, x, q_weight, out, row, q_width, q_eps, comptime!(norms[0]));
    } else if part == 1 {
        part_gradient(d, x, k_weight, out, row + q_width, k_width, k_eps, comptime!(norms[1]));
    } else {
        let first = row + q_width + k_width;
        let mut i = UNIT_POS as usize;
        while i < k_width {
            out[first + i] = d[first + i];
            i += UNITS;
        }
    }
}

/// The gradient of `norm_over_heads` at its input `qkv`, from the gradient `d_normed` of its
/// output. V's gradient is copied.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub(super) fn norm_over_heads_backward(
    client: &Client,
    qkv: &Floats,
    d_normed: &Floats,
    heads: &Heads,
    norms: [Option<&Norm>; 2],
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    check_equal("number of rows of a gradient of Q, K and V", d_normed.rows, qkv.rows)?;
    check_equal("number of columns of a gradient of Q, K and V", d_normed.cols, qkv.cols)?;
    let [q_weight, k_weight] = weight_args(qkv, heads, norms)?;
    let (d, x) = (
        matrix_arg(d_normed, "gradient of Q, K and V")?,
        matrix_arg(qkv, "Q, K and V")?,
    );
    let out = Floats::empty(client, qkv.rows, qkv.cols);
    if qkv.rows > 0 {
        let [q_width, k_width] = QkNormWidth::AllHeads.lengths(heads);
        let [q_eps, k_eps] = norms.map(|norm| norm.map_or(0.0, |norm| norm.eps));
        let (count, dim) = (cube_count(client, 3 * qkv.rows)?, CubeDim::new_1d(UNITS as u32));
        let result = matrix_arg(&out, "gradient of Q, K and V")?;
        // SAFETY: the kernel stays in the rows of `qkv` and its gradient, whose width was checked
        // against the heads, and in weights as wide as their part.
        unsafe {
            part_gradients::launch_unchecked(
                client,
                count,
                dim,
                d,
                x,
                q_weight,
                k_weight,
                result,
                qkv.rows,
                q_width,
                k_width,
                q_eps,
                k_eps,
                norms.map(|norm| norm.is_some()),
            );
        }
    }
    Ok(out)
}
