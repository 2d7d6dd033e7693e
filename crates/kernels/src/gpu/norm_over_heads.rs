//! RMSNorm of Q and of K over all heads of a token: one cube per token and part of its row.

use super::launch::{buffer_arg, cube_count, matrix_arg};
use super::reduce::reduce_sum;
use super::{Floats, GpuError, Norm};
use crate::attention::{Heads, QkNormWidth};
use cubecl::prelude::*;

/// Units that share a part of a row: WebGPU's default limit of a cube. A power of two.
const UNITS: usize = 256;

/// Writes the `width` elements from `first` on, normalized if `norm` is set.
#[cube]
fn normalize_part(
    x: &[f32],
    weight: &[f32],
    out: &mut [f32],
    first: usize,
    width: usize,
    eps: f32,
    #[comptime] norm: bool,
) {
    let mut inverse_rms = 1.0f32;
    if comptime!(norm) {
        let mut shared = Shared::<[f32]>::new_slice(UNITS);
        let mut squares = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < width {
            let value = x[first + i];
            squares += value * value;
            i += UNITS;
        }
        let squares = reduce_sum(squares, &mut shared, UNITS);
        inverse_rms = 1.0f32 / (squares / f32::cast_from(width) + eps).sqrt();
    }
    let mut i = UNIT_POS as usize;
    while i < width {
        let mut value = x[first + i];
        if comptime!(norm) {
            value = value * inverse_rms * weight[i];
        }
        out[first + i] = value;
        i += UNITS;
    }
}

#[cube(launch_unchecked)]
fn normalize_parts(
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
        normalize_part(x, q_weight, out, row, q_width, q_eps, comptime!(norms[0]));
    } else if part == 1 {
        normalize_part(x, k_weight, out, row + q_width, k_width, k_eps, comptime!(norms[1]));
    } else {
        let first = row + q_width + k_width;
        let mut i = UNIT_POS as usize;
        while i < k_width {
            out[first + i] = x[first + i];
            i += UNITS;
        }
    }
}

/// The weights of Q's and K's norm as kernel arguments; a dummy buffer if there is none.
pub(super) fn weight_args(qkv: &Floats, heads: &Heads, norms: [Option<&Norm>; 2]) -> Result<[BufferArg; 2], GpuError> {
    let [q_width, k_width] = QkNormWidth::AllHeads.lengths(heads);
    let weight = |norm: Option<&Norm>, width| match norm {
        Some(norm) => buffer_arg(&norm.weight, "weight of a norm over heads", width),
        None => matrix_arg(qkv, "Q, K and V"),
    };
    Ok([weight(norms[0], q_width)?, weight(norms[1], k_width)?])
}

/// Rows of Q, K and V, with Q and K normalized over all heads of a token if they have a norm.
///
/// # Errors
/// Returns an error if the width of the rows or a weight does not match the heads.
pub(super) fn norm_over_heads(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    norms: [Option<&Norm>; 2],
) -> Result<Floats, GpuError> {
    super::heads::check(heads, qkv)?;
    let out = Floats::empty(client, qkv.rows, qkv.cols);
    let [q_weight, k_weight] = weight_args(qkv, heads, norms)?;
    let (input, result) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(&out, "Q, K and V")?);
    if qkv.rows > 0 {
        let [q_width, k_width] = QkNormWidth::AllHeads.lengths(heads);
        let [q_eps, k_eps] = norms.map(|norm| norm.map_or(0.0, |norm| norm.eps));
        let (count, dim) = (cube_count(client, 3 * qkv.rows)?, CubeDim::new_1d(UNITS as u32));
        // SAFETY: the kernel stays in the rows of `qkv`, whose width was checked against the
        // heads, and in weights as wide as their part.
        unsafe {
            normalize_parts::launch_unchecked(
                client,
                count,
                dim,
                input,
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
