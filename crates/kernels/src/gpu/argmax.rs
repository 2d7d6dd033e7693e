//! Argmax over rows.

use super::launch::{buffer_arg, cube_count, matrix_arg};
use super::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a row.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn argmax_rows(x: &[f32], out: &mut [u32], rows: usize, cols: usize) {
    if CUBE_POS >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = CUBE_POS * cols;
    let mut maximum = f32::min_value();
    let mut max_index = u32::MAX.runtime();
    for step in 0..cols.div_ceil(UNITS) {
        let column = step * UNITS + unit;
        if column < cols {
            let value = x[start + column];
            // Comparisons with NaN are false; the second condition excludes infinity.
            if value > maximum && value <= f32::max_value() {
                maximum = value;
                max_index = column as u32;
            }
        }
    }
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    let mut indices = Shared::<[u32]>::new_slice(UNITS);
    values[unit] = maximum;
    indices[unit] = max_index;
    let mut half = comptime!(UNITS / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half {
            let other_value = values[unit + half];
            let other_index = indices[unit + half];
            if other_value > values[unit] || (other_value == values[unit] && other_index < indices[unit]) {
                values[unit] = other_value;
                indices[unit] = other_index;
            }
        }
        half /= 2;
    }
    if unit == 0 {
        out[CUBE_POS] = indices[0];
    }
}

/// The column of the largest finite element of each row, the first of equal ones, as a buffer of
/// `rows` words. `u32::MAX` means that a row has no finite element.
///
/// # Errors
/// Returns an error if the buffer is shorter than its shape.
pub fn argmax(client: &Client, x: &Floats) -> Result<Handle, GpuError> {
    let input = matrix_arg(x, "input of argmax")?;
    let out = client.empty(x.rows * size_of::<u32>());
    if x.rows > 0 {
        let result = buffer_arg(&out, "output of argmax", x.rows)?;
        let count = cube_count(client, x.rows)?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel stays in the rows and columns of `x`, and `out` has a word for each
        // row.
        unsafe { argmax_rows::launch_unchecked(client, count, dim, input, result, x.rows, x.cols) };
    }
    Ok(out)
}
