//! RMSNorm of rows. <https://arxiv.org/abs/1910.07467>

use super::launch::{buffer_arg, check_equal, cube_count, matrix_arg};
use super::reduce::reduce_sum;
use super::{Floats, GpuError, Norm};
use cubecl::prelude::*;

/// Units that share a row: WebGPU's default limit of a cube.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn norm_rows(
    x: &[f32],
    weight: &[f32],
    residual: &[f32],
    out: &mut [f32],
    rows: usize,
    cols: usize,
    eps: f32,
    scale: f32,
    #[comptime] add: bool,
    #[comptime] scaled: bool,
) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let start = CUBE_POS * cols;
    let unit = UNIT_POS as usize;
    let steps = cols.div_ceil(UNITS);
    let mut squares = 0.0f32;
    for step in 0..steps {
        let column = step * UNITS + unit;
        if column < cols {
            squares += x[start + column] * x[start + column];
        }
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let squares = reduce_sum(squares, &mut shared, UNITS);
    let inverse_rms = 1.0f32 / f32::sqrt(squares / f32::cast_from(cols) + eps);
    for step in 0..steps {
        let column = step * UNITS + unit;
        if column < cols {
            let i = start + column;
            let value = x[i] * inverse_rms * weight[column];
            // No multiplication by a scale of 1: it could change how a driver's compiler contracts
            // the sum, and so its last bit.
            if comptime!(add && scaled) {
                out[i] = residual[i] + scale * value;
            } else if comptime!(add) {
                out[i] = residual[i] + value;
            } else {
                out[i] = value;
            }
        }
    }
}

fn launch_norm(
    client: &Client,
    residual: Option<&Floats>,
    x: &Floats,
    norm: &Norm,
    scale: f32,
) -> Result<Floats, GpuError> {
    let out = Floats::empty(client, x.rows, x.cols);
    let weight = buffer_arg(&norm.weight, "weight of a norm", x.cols)?;
    let input = matrix_arg(x, "input of a norm")?;
    let residual_arg = matrix_arg(residual.unwrap_or(x), "residual of a norm")?;
    let result = matrix_arg(&out, "output of a norm")?;
    if x.rows > 0 && x.cols > 0 {
        let count = cube_count(client, x.rows)?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel accesses only rows and columns of `x`, and all buffers were checked
        // against the size of `x`.
        unsafe {
            norm_rows::launch_unchecked(
                client,
                count,
                dim,
                input,
                weight,
                residual_arg,
                result,
                x.rows,
                x.cols,
                norm.eps,
                scale,
                residual.is_some(),
                scale != 1.0,
            );
        }
    }
    Ok(out)
}

/// The norm of each row of `x`.
///
/// # Errors
/// Returns an error if the weight is shorter than a row.
pub fn rms_norm(client: &Client, x: &Floats, norm: &Norm) -> Result<Floats, GpuError> {
    launch_norm(client, None, x, norm, 1.0)
}

/// `residual` plus `scale` times the norm of each row of `y`.
///
/// # Errors
/// Returns an error if the shapes differ or the weight is shorter than a row.
pub fn add_norm(client: &Client, residual: &Floats, y: &Floats, norm: &Norm, scale: f32) -> Result<Floats, GpuError> {
    check_equal("number of rows that a norm is added to", residual.rows, y.rows)?;
    check_equal("width of rows that a norm is added to", residual.cols, y.cols)?;
    launch_norm(client, Some(residual), y, norm, scale)
}
