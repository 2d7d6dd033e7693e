//! f32 matrix multiplication: adapters and their gradients.

use super::launch::{cubes, matrix, same};
use super::tiles::{DEPTH, UNITS, fill, multiply, store, tile, zeros};
use super::{Floats, GpuError};
use cubecl::prelude::*;

/// The operand of a matrix multiplication that is transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Neither: `a [m, k]`, `b [k, n]`.
    None,
    /// `a`: `a [k, m]`, `b [k, n]`.
    A,
    /// `b`: `a [m, k]`, `b [n, k]`.
    B,
}

/// Rows and columns of the output tile of a cube: small, since one side of the output or the sum is
/// an adapter's rank.
const SIDE: usize = 32;

#[cube(launch_unchecked)]
fn tiled(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    m: usize,
    n: usize,
    k: usize,
    width: usize,
    at: usize,
    scale: f32,
    #[comptime] transpose: Transpose,
    #[comptime] add: bool,
) {
    let across = n.div_ceil(SIDE);
    if CUBE_POS >= m.div_ceil(SIDE) * across {
        terminate!();
    }
    let top = CUBE_POS / across * SIDE;
    let left = CUBE_POS % across * SIDE;
    let mut a_tile = tile(SIDE);
    let mut b_tile = tile(SIDE);
    let mut sums = zeros(SIDE);
    for part in 0..k.div_ceil(DEPTH) {
        let from = part * DEPTH;
        fill(
            &mut a_tile,
            a,
            top,
            m,
            from,
            k,
            SIDE,
            comptime!(transpose != Transpose::A),
        );
        fill(
            &mut b_tile,
            b,
            left,
            n,
            from,
            k,
            SIDE,
            comptime!(transpose == Transpose::B),
        );
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, width, at, scale, SIDE, add);
}

/// Writes `scale * a @ b`, `[m, n]`, to the columns of `out [m, width]` from `at` on, or adds it to
/// them. `out` must be neither `a` nor `b`.
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
    at: usize,
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
    same("inner dimension of a matmul's b", depth, k)?;
    same("number of rows of a matmul's output", out.rows, m)?;
    check_columns(out, at, n)?;
    let (a, b, result) = (
        matrix(a, "a of a matmul")?,
        matrix(b, "b of a matmul")?,
        matrix(out, "output of a matmul")?,
    );
    if m == 0 || n == 0 {
        return Ok(());
    }
    let count = cubes(client, m.div_ceil(SIDE) * n.div_ceil(SIDE))?;
    let dim = CubeDim::new_1d(UNITS as u32);
    // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers were
    // checked to hold.
    unsafe {
        tiled::launch_unchecked(
            client, count, dim, a, b, result, m, n, k, out.cols, at, scale, transpose, add,
        );
    }
    Ok(())
}

/// Checks that `out` has columns `at..at + n`.
pub(super) fn check_columns(out: &Floats, at: usize, n: usize) -> Result<(), GpuError> {
    if at.checked_add(n).is_some_and(|end| end <= out.cols) {
        Ok(())
    } else {
        Err(GpuError::Size {
            what: "number of columns of a matmul's output",
            found: out.cols,
            expected: at.saturating_add(n),
        })
    }
}
