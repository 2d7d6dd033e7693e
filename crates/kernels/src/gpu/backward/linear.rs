//! The gradients of a linear: of its input, through the frozen weight and the adapter, and of the
//! adapter. All intermediate matrices have the rank as one dimension, so they are small whatever
//! the size of the weight.

use super::dropout::{dropout_into, dropout_rows};
use super::tokens::matmul_over_tokens;
use super::weight::weight_backward;
use crate::blocks::Quant;
use crate::gpu::launch::{matrix, same};
use crate::gpu::matmul::check_columns;
use crate::gpu::{Floats, GpuError, Linear, Lora, Transpose, Weight, matmul};
use crate::linear::MatmulPrecision;
use cubecl::prelude::*;

/// Views a matrix as a weight.
fn as_weight(x: &Floats) -> Weight {
    Weight {
        words: x.handle.clone(),
        quant: Quant::F32,
        rows: x.rows,
        cols: x.cols,
    }
}

/// Writes the gradient of a linear's input to `dx [T, in]`, or adds it, from the gradient of its
/// output, the columns of `dy [T, width]` from `at` on. Returns the gradients of the adapter's
/// `a [rank, in]` and `b [out, rank]`, `None` without an adapter. `x [T, in]` is the linear's
/// input. `dx` must be neither `x` nor `dy`. `precision` is as in [`weight_backward`]; adapters
/// compute in f32.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn linear_backward(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
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
    check_columns(dy, at, weight.rows)?;
    weight_backward(client, dy, at, weight, *scale, precision, dx, add)?;
    let Some(Lora { a, b, scale, dropout }) = lora else {
        return Ok(None);
    };
    let (tokens, rank) = (x.rows, a.rows);
    let empty = |rows, cols| Floats::empty(client, rows, cols);
    let (low, d_low) = (empty(tokens, rank), empty(tokens, rank));
    let dropped = dropout.map(|dropout| dropout_rows(client, x, dropout)).transpose()?;
    let seen = dropped.as_ref().unwrap_or(x);
    matmul(client, seen, a, Transpose::B, 1.0, &low, 0, false)?;
    weight_backward(
        client,
        dy,
        at,
        &as_weight(b),
        *scale,
        MatmulPrecision::F32,
        &d_low,
        false,
    )?;
    let db = matmul_over_tokens(client, dy, at, weight.rows, &low, *scale)?;
    let da = matmul_over_tokens(client, &d_low, 0, rank, seen, 1.0)?;
    match dropout {
        None => matmul(client, &d_low, a, Transpose::None, 1.0, dx, 0, true)?,
        Some(dropout) => {
            let through = empty(tokens, weight.cols);
            matmul(client, &d_low, a, Transpose::None, 1.0, &through, 0, false)?;
            dropout_into(client, &through, *dropout, dx, true)?;
        }
    }
    Ok(Some((da, db)))
}
