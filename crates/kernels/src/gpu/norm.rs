//! RMSNorm of rows. <https://arxiv.org/abs/1910.07467>

use super::launch::{argument, cubes, matrix, same};
use super::reduce::sum;
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
    #[comptime] add: bool,
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
    let squares = sum(squares, &mut shared, UNITS);
    let root = 1.0f32 / f32::sqrt(squares / f32::cast_from(cols) + eps);
    for step in 0..steps {
        let column = step * UNITS + unit;
        if column < cols {
            let at = start + column;
            let value = x[at] * root * weight[column];
            if comptime!(add) {
                out[at] = residual[at] + value;
            } else {
                out[at] = value;
            }
        }
    }
}

fn launch(client: &Client, residual: Option<&Floats>, x: &Floats, norm: &Norm) -> Result<Floats, GpuError> {
    let out = Floats::empty(client, x.rows, x.cols);
    let weight = argument(&norm.weight, "weight of a norm", x.cols)?;
    let input = matrix(x, "input of a norm")?;
    let added = matrix(residual.unwrap_or(x), "residual of a norm")?;
    let result = matrix(&out, "output of a norm")?;
    if x.rows > 0 && x.cols > 0 {
        let count = cubes(client, x.rows)?;
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
                added,
                result,
                x.rows,
                x.cols,
                norm.eps,
                residual.is_some(),
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
    launch(client, None, x, norm)
}

/// `residual` plus the norm of each row of `y`.
///
/// # Errors
/// Returns an error if the shapes differ or the weight is shorter than a row.
pub fn add_norm(client: &Client, residual: &Floats, y: &Floats, norm: &Norm) -> Result<Floats, GpuError> {
    same("number of rows that a norm is added to", residual.rows, y.rows)?;
    same("width of rows that a norm is added to", residual.cols, y.cols)?;
    launch(client, Some(residual), y, norm)
}
