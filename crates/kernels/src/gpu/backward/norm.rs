//! The gradient of RMSNorm: one cube per row.

use crate::gpu::launch::{argument, cubes, matrix, same};
use crate::gpu::reduce::sum;
use crate::gpu::{Floats, GpuError, Norm};
use cubecl::prelude::*;

/// Units that share a row; a power of two.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn norm_gradients(x: &[f32], weight: &[f32], dz: &[f32], dx: &mut [f32], rows: usize, cols: usize, eps: f32) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let first = CUBE_POS * cols;
    let mut squares = 0.0f32;
    let mut products = 0.0f32;
    let mut column = UNIT_POS as usize;
    while column < cols {
        let value = x[first + column];
        squares += value * value;
        products += value * weight[column] * dz[first + column];
        column += UNITS;
    }
    let mut room = Shared::<[f32]>::new_slice(UNITS);
    let squares = sum(squares, &mut room, UNITS);
    let products = sum(products, &mut room, UNITS);
    let count = f32::cast_from(cols);
    let root = 1.0f32 / (squares / count + eps).sqrt();
    let projection = products / (squares + count * eps);
    let mut column = UNIT_POS as usize;
    while column < cols {
        let at = first + column;
        dx[at] = (dz[at] * weight[column] - x[at] * projection) * root;
        column += UNITS;
    }
}

/// The gradient of RMSNorm at its input `x [T, D]`, from the gradient `dz [T, D]` of its output.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm_backward(client: &Client, x: &Floats, norm: &Norm, dz: &Floats) -> Result<Floats, GpuError> {
    let Floats { rows, cols, .. } = *x;
    same("number of rows of a norm's gradient", dz.rows, rows)?;
    same("number of columns of a norm's gradient", dz.cols, cols)?;
    let (x, weight, dz) = (
        matrix(x, "norm's input")?,
        argument(&norm.weight, "norm's weight", cols)?,
        matrix(dz, "norm's gradient")?,
    );
    let dx = Floats::empty(client, rows, cols);
    if rows * cols > 0 {
        let (count, dim) = (cubes(client, rows)?, CubeDim::new_1d(UNITS as u32));
        let result = matrix(&dx, "gradient of a norm's input")?;
        // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers
        // were checked to hold.
        unsafe { norm_gradients::launch_unchecked(client, count, dim, x, weight, dz, result, rows, cols, norm.eps) };
    }
    Ok(dx)
}
