//! Plain products of matrices of f32: adapters, and their gradients.

use super::launch::{cubes, matrix, same};
use super::tiles::{DEPTH, UNITS, fill, multiply, store, tile, zeros};
use super::{Floats, GpuError};
use cubecl::prelude::*;

/// Which factor of a product is taken with rows and columns exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turned {
    /// None: `a [m, k]`, `b [k, n]`.
    None,
    /// The first: `a [k, m]`, `b [k, n]`.
    First,
    /// The second: `a [m, k]`, `b [n, k]`.
    Second,
}

/// Rows and columns of the result that a cube makes: small, for one side of these products is an adapter's rank.
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
    #[comptime] turned: Turned,
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
            comptime!(turned != Turned::First),
        );
        fill(
            &mut b_tile,
            b,
            left,
            n,
            from,
            k,
            SIDE,
            comptime!(turned == Turned::Second),
        );
        sync_cube();
        multiply(&a_tile, &b_tile, &mut sums, SIDE);
        sync_cube();
    }
    store(&sums, out, top, left, m, n, width, at, scale, SIDE, add);
}

/// Writes `scale` times the product of `a` and `b`, which is `[m, n]`, to the columns of `out [m, width]` from `at` on, or adds
/// it to them. `out` is neither `a` nor `b`.
///
/// # Errors
/// Where the shapes do not fit.
pub fn product(
    client: &Client,
    a: &Floats,
    b: &Floats,
    turned: Turned,
    scale: f32,
    out: &Floats,
    at: usize,
    add: bool,
) -> Result<(), GpuError> {
    let (m, k) = match turned {
        Turned::First => (a.cols, a.rows),
        Turned::None | Turned::Second => (a.rows, a.cols),
    };
    let (n, depth) = match turned {
        Turned::Second => (b.rows, b.cols),
        Turned::None | Turned::First => (b.cols, b.rows),
    };
    same("length of the sums of a product's second factor", depth, k)?;
    same("number of rows of a product", out.rows, m)?;
    room(out, at, n)?;
    let (a, b, result) = (
        matrix(a, "first factor of a product")?,
        matrix(b, "second factor of a product")?,
        matrix(out, "product")?,
    );
    if m == 0 || n == 0 {
        return Ok(());
    }
    let count = cubes(client, m.div_ceil(SIDE) * n.div_ceil(SIDE))?;
    let dim = CubeDim::new_1d(UNITS as u32);
    // SAFETY: the kernel reads and writes rows and columns below the shapes, which the buffers were measured to hold.
    unsafe {
        tiled::launch_unchecked(
            client, count, dim, a, b, result, m, n, k, out.cols, at, scale, turned, add,
        );
    }
    Ok(())
}

/// Sees that `out` has columns `at..at + n`.
pub(super) fn room(out: &Floats, at: usize, n: usize) -> Result<(), GpuError> {
    match at.checked_add(n).is_some_and(|end| end <= out.cols) {
        true => Ok(()),
        false => Err(GpuError::Size {
            what: "number of columns of a product",
            found: out.cols,
            expected: at.saturating_add(n),
        }),
    }
}
