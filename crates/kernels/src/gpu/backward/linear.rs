//! The gradient of a linear: of its input through the frozen weight and the adapter, and of the adapter. Everything between has the
//! rank as one side, so it is small whatever the weight's size.

use super::dropout::{drop_into, drop_out};
use super::weight::weight_backward;
use crate::blocks::Quant;
use crate::gpu::launch::{cubes, matrix, same};
use crate::gpu::product::room;
use crate::gpu::{Floats, GpuError, Linear, Lora, Turned, Weight, product};
use cubecl::prelude::*;

/// Units of a cube that copies.
const UNITS: usize = 256;

/// Columns `at..at + count` of a matrix, in a buffer of their own where they are not all.
fn columns(client: &Client, x: &Floats, at: usize, count: usize) -> Result<Floats, GpuError> {
    if x.cols == count {
        return Ok(x.clone());
    }
    let out = Floats::empty(client, x.rows, count);
    if x.rows * count > 0 {
        let (all, result) = (matrix(x, "gradient of linears")?, matrix(&out, "gradient of a linear")?);
        let (number, dim) = (
            cubes(client, (x.rows * count).div_ceil(UNITS))?,
            CubeDim::new_1d(UNITS as u32),
        );
        // SAFETY: the kernel reads rows and columns that the caller has seen to be there, of buffers that were measured.
        unsafe { taken::launch_unchecked(client, number, dim, all, result, x.cols, at, count) };
    }
    Ok(out)
}

#[cube(launch_unchecked)]
fn taken(x: &[f32], out: &mut [f32], width: usize, at: usize, count: usize) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    out[ABSOLUTE_POS] = x[ABSOLUTE_POS / count * width + at + ABSOLUTE_POS % count];
}

/// A matrix as a weight is given.
fn as_weight(x: &Floats) -> Weight {
    Weight {
        words: x.handle.clone(),
        quant: Quant::F32,
        rows: x.rows,
        cols: x.cols,
    }
}

/// Writes, or adds, the gradient of a linear's input to `dx [T, in]`, from that of its output, the columns of `dy [T, width]` from
/// `at` on. Returns the gradients of the adapter's `a [rank, in]` and `b [out, rank]` where it has one; they are made of `x [T, in]`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_backward(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    dy: &Floats,
    at: usize,
    dx: &Floats,
    add: bool,
) -> Result<Option<(Floats, Floats)>, GpuError> {
    let Linear {
        weight, scale, lora, ..
    } = linear;
    same("number of rows of a linear's input", x.rows, dy.rows)?;
    same("number of columns of a linear's input", x.cols, weight.cols)?;
    matrix(x, "input of a linear")?;
    if let Some(Lora { a, b, .. }) = lora {
        same("number of columns of an adapter's a", a.cols, weight.cols)?;
        same("number of rows of an adapter's b", b.rows, weight.rows)?;
        same("rank of an adapter's b", b.cols, a.rows)?;
        matrix(a, "adapter's a")?;
        matrix(b, "adapter's b")?;
    }
    room(dy, at, weight.rows)?;
    weight_backward(client, dy, at, weight, *scale, dx, add)?;
    let Some(Lora { a, b, scale, dropout }) = lora else {
        return Ok(None);
    };
    let (tokens, rank) = (x.rows, a.rows);
    let empty = |rows, cols| Floats::empty(client, rows, cols);
    let (low, d_low, da, db) = (
        empty(tokens, rank),
        empty(tokens, rank),
        empty(rank, weight.cols),
        empty(weight.rows, rank),
    );
    let dropped = dropout.map(|dropout| drop_out(client, x, dropout)).transpose()?;
    let seen = dropped.as_ref().unwrap_or(x);
    product(client, seen, a, Turned::Second, 1.0, &low, 0, false)?;
    weight_backward(client, dy, at, &as_weight(b), *scale, &d_low, false)?;
    let own = columns(client, dy, at, weight.rows)?;
    product(client, &own, &low, Turned::First, *scale, &db, 0, false)?;
    product(client, &d_low, seen, Turned::First, 1.0, &da, 0, false)?;
    match dropout {
        None => product(client, &d_low, a, Turned::None, 1.0, dx, 0, true)?,
        Some(dropout) => {
            let through = empty(tokens, weight.cols);
            product(client, &d_low, a, Turned::None, 1.0, &through, 0, false)?;
            drop_into(client, &through, *dropout, dx, true)?;
        }
    }
    Ok(Some((da, db)))
}
