//! f32 matrix multiplication: adapters and their gradients.

use super::launch::{check_equal, cube_count, matrix_arg};
use super::tiles::{DEPTH, UNITS, fill, multiply, store, tile, zeros};
use super::{Floats, GpuError};
use cubecl::prelude::*;

/// The transposed operand of a matrix multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Neither: `a [m, k]`, `b [k, n]`.
    None,
    /// `a`: `a [k, m]`, `b [k, n]`.
    A,
    /// `b`: `a [m, k]`, `b [n, k]`.
    B,
}

/// Rows and columns of a cube's output tile: small, since one dimension of the output or the summed
/// dimension is an adapter's rank.
const SIDE: usize = 32;

#[cube(launch_unchecked)]
fn tiled_matmul(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    m: usize,
    n: usize,
    k: usize,
    width: usize,
    first_column: usize,
    scale: f32,
    #[comptime] transpose: Transpose,
    #[comptime] add: bool,
) {
    let column_tiles = n.div_ceil(SIDE);
    if CUBE_POS >= m.div_ceil(SIDE) * column_tiles {
        terminate!();
    }
    let top = CUBE_POS / column_tiles * SIDE;
    let left = CUBE_POS % column_tiles * SIDE;
    let mut a_tile = tile(SIDE);
    let mut b_tile = tile(SIDE);
    let mut sums = zeros(SIDE);
    for depth_tile in 0..k.div_ceil(DEPTH) {
        let first_step = depth_tile * DEPTH;
        fill(
            &mut a_tile,
            a,
            top,
            m,
            first_step,
            k,
            SIDE,
            comptime!(transpose != Transpose::A),
        );
        fill(
            &mut b_tile,
            b,
            left,
            n,
            first_step,
            k,
            SIDE,
            comptime!(transpose == Transpose::B),
        );
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, width, first_column, scale, SIDE, add);
}

/// Writes `scale * a @ b`, `[m, n]`, to the columns of `out [m, width]` from `first_column` on,
/// or adds it to them. `out` must be neither `a` nor `b`.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn matmul(
    client: &Client,
    a: &Floats,
    b: &Floats,
    transpose: Transpose,
    scale: f32,
    out: &Floats,
    first_column: usize,
    add: bool,
) -> Result<(), GpuError> {
    let (m, k) = match transpose {
        Transpose::A => (a.cols, a.rows),
        Transpose::None | Transpose::B => (a.rows, a.cols),
    };
    let (n, depth) = match transpose {
        Transpose::B => (b.rows, b.cols),
        Transpose::None | Transpose::A => (b.cols, b.rows),
    };
    check_equal("inner dimension of a matmul's b", depth, k)?;
    check_equal("number of rows of a matmul's output", out.rows, m)?;
    check_columns(out, first_column, n)?;
    let (a, b, result) = (
        matrix_arg(a, "a of a matmul")?,
        matrix_arg(b, "b of a matmul")?,
        matrix_arg(out, "output of a matmul")?,
    );
    if m == 0 || n == 0 {
        return Ok(());
    }
    let count = cube_count(client, m.div_ceil(SIDE) * n.div_ceil(SIDE))?;
    let dim = CubeDim::new_1d(UNITS as u32);
    // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers were
    // checked to hold.
    unsafe {
        tiled_matmul::launch_unchecked(
            client,
            count,
            dim,
            a,
            b,
            result,
            m,
            n,
            k,
            out.cols,
            first_column,
            scale,
            transpose,
            add,
        );
    }
    Ok(())
}

/// Checks that `out` has columns `first_column..first_column + n`.
pub(super) fn check_columns(out: &Floats, first_column: usize, n: usize) -> Result<(), GpuError> {
    if first_column.checked_add(n).is_some_and(|end| end <= out.cols) {
        Ok(())
    } else {
        Err(GpuError::Size {
            what: "number of columns of a matmul's output",
            found: out.cols,
            expected: first_column.saturating_add(n),
        })
    }
}
