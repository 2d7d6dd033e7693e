//! The most likely token.

use super::launch::{cubes, matrix};
use super::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units that share a row.
const UNITS: usize = 256;

#[cube(launch_unchecked)]
fn greatest_of_rows(x: &[f32], out: &mut [u32], cols: usize) {
    if CUBE_POS >= out.len() {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = CUBE_POS * cols;
    let mut best = f32::min_value();
    let mut place = u32::MAX.runtime();
    for step in 0..cols.div_ceil(UNITS) {
        let column = step * UNITS + unit;
        if column < cols {
            let value = x[start + column];
            // What is not a number is greater than nothing; infinity is left out here.
            if value > best && value <= f32::max_value() {
                best = value;
                place = column as u32;
            }
        }
    }
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    let mut places = Shared::<[u32]>::new_slice(UNITS);
    values[unit] = best;
    places[unit] = place;
    let mut half = comptime!(UNITS / 2).runtime();
    while half > 0 {
        sync_cube();
        if unit < half {
            let other = values[unit + half];
            let other_place = places[unit + half];
            if other > values[unit] || (other == values[unit] && other_place < places[unit]) {
                values[unit] = other;
                places[unit] = other_place;
            }
        }
        half /= 2;
    }
    if unit == 0 {
        out[CUBE_POS] = places[0];
    }
}

/// The column of the greatest finite element of each row, the first of equals: a buffer of `rows` words. A row that has none gives
/// `u32::MAX`.
///
/// # Errors
/// Where the buffer is shorter than its shape.
pub fn argmax(client: &Client, x: &Floats) -> Result<Handle, GpuError> {
    let input = matrix(x, "matrix whose greatest elements are sought")?;
    let out = client.empty(x.rows * size_of::<u32>());
    if x.rows > 0 {
        let result = super::launch::argument(&out, "list of the greatest", x.rows)?;
        let count = cubes(client, x.rows)?;
        let dim = CubeDim::new_1d(UNITS as u32);
        // SAFETY: the kernel stays in the rows and columns of `x`, and `out` has a place for each row.
        unsafe { greatest_of_rows::launch_unchecked(client, count, dim, input, result, x.cols) };
    }
    Ok(out)
}
