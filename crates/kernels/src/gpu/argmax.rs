//! Argmax over rows.

use super::launch::{cubes, matrix};
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
    let mut best = f32::min_value();
    let mut index = u32::MAX.runtime();
    for step in 0..cols.div_ceil(UNITS) {
        let column = step * UNITS + unit;
        if column < cols {
            let value = x[start + column];
            // Comparisons with NaN are false; the second condition excludes infinity.
            if value > best && value <= f32::max_value() {
                best = value;
                index = column as u32;
            }
        }
    }
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    let mut indices = Shared::<[u32]>::new_slice(UNITS);
    values[unit] = best;
    indices[unit] = index;
    let mut half = comptime!(UNITS / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half {
            let other = values[unit + half];
            let other_index = indices[unit + half];
            if other > values[unit] || (other == values[unit] && other_index < indices[unit]) {
                values[unit] = other;
                indices[unit] = other_index;
            }
        }
        half /= 2;
    }
    if unit == 0 {
        out[CUBE_POS] = indices[0];
    }
}

/// The column of the largest finite element of each row, the first of equal ones: a buffer of
/// `rows` words. A row without finite elements gives `u32::MAX`.
///
/// # Errors
/// Returns an error if the buffer is shorter than its shape.
pub fn argmax(client: &Client, x: &Floats) -> Result<Handle, GpuError> {
    let input = matrix(x, "input of argmax")?;
    let out = client.empty(x.rows * size_of::<u32>());
    if x.rows > 0 {
        let result = super::launch::argument(&out, "output of argmax", x.rows)?;
        let count = cubes(client, x.rows)?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel stays in the rows and columns of `x`, and `out` has a word for each
        // row.
        unsafe { argmax_rows::launch_unchecked(client, count, dim, input, result, x.rows, x.cols) };
    }
    Ok(out)
}
