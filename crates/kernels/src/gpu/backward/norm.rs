//! The gradient of RMSNorm: one cube per row.

use crate::gpu::launch::{buffer_arg, check_equal, cube_count, matrix_arg};
use crate::gpu::reduce::reduce_sum;
use crate::gpu::{Floats, GpuError, Norm};
use cubecl::prelude::*;

/// Units that share a row; a power of two.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn norm_gradients(x: &[f32], weight: &[f32], dz: &[f32], dx: &mut [f32], rows: usize, cols: usize, eps: f32) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let start = CUBE_POS * cols;
    let mut squares = 0.0f32;
    let mut products = 0.0f32;
    let mut column = UNIT_POS as usize;
    while column < cols {
        let value = x[start + column];
        squares += value * value;
        products += value * weight[column] * dz[start + column];
        column += UNITS;
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let squares = reduce_sum(squares, &mut shared, UNITS);
    let products = reduce_sum(products, &mut shared, UNITS);
    let count = f32::cast_from(cols);
    let inverse_rms = 1.0f32 / (squares / count + eps).sqrt();
    let projection = products / (squares + count * eps);
    let mut column = UNIT_POS as usize;
    while column < cols {
        let index = start + column;
        dx[index] = (dz[index] * weight[column] - x[index] * projection) * inverse_rms;
        column += UNITS;
    }
}

/// The gradient of RMSNorm at its input `x [T, D]`, from the gradient `dz [T, D]` of its output.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn rms_norm_backward(client: &Client, x: &Floats, norm: &Norm, dz: &Floats) -> Result<Floats, GpuError> {
    let Floats { rows, cols, .. } = *x;
    check_equal("number of rows of a norm's gradient", dz.rows, rows)?;
    check_equal("number of columns of a norm's gradient", dz.cols, cols)?;
    let (x, weight, dz) = (
        matrix_arg(x, "norm's input")?,
        buffer_arg(&norm.weight, "norm's weight", cols)?,
        matrix_arg(dz, "norm's gradient")?,
    );
    let dx = Floats::empty(client, rows, cols);
    if rows * cols > 0 {
        let (count, dim) = (cube_count(client, rows)?, CubeDim::new_1d(UNITS as u32));
        let result = matrix_arg(&dx, "gradient of a norm's input")?;
        // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers
        // were checked to hold.
        unsafe { norm_gradients::launch_unchecked(client, count, dim, x, weight, dz, result, rows, cols, norm.eps) };
    }
    Ok(dx)
}
