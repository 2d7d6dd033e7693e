//! The gradient of a linear: of its input through the frozen weight and the adapter, and of the adapter. Everything between has the
//! rank as one side, so it is small whatever the weight's size.

use super::dropout::{drop_into, drop_out};
use super::tokens::over_tokens;
use super::weight::weight_backward;
use crate::blocks::Quant;
use crate::gpu::launch::{matrix, same};
use crate::gpu::product::room;
use crate::gpu::{Floats, GpuError, Linear, Lora, Turned, Weight, product};
use crate::linear::Product;
use cubecl::prelude::*;

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
/// `at` on. Returns the gradients of the adapter's `a [rank, in]` and `b [out, rank]` where it has one, which are made of
/// `x [T, in]`. `dx` is neither `x` nor `dy`. What `kind` rounds is as in [`weight_backward`]; adapters round nothing but sums.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_backward(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    kind: Product,
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
    weight_backward(client, dy, at, weight, *scale, kind, dx, add)?;
    let Some(Lora { a, b, scale, dropout }) = lora else {
        return Ok(None);
    };
    let (tokens, rank) = (x.rows, a.rows);
    let empty = |rows, cols| Floats::empty(client, rows, cols);
    let (low, d_low) = (empty(tokens, rank), empty(tokens, rank));
    let dropped = dropout.map(|dropout| drop_out(client, x, dropout)).transpose()?;
    let seen = dropped.as_ref().unwrap_or(x);
    product(client, seen, a, Turned::Second, 1.0, &low, 0, false)?;
    weight_backward(client, dy, at, &as_weight(b), *scale, Product::Exact, &d_low, false)?;
    let db = over_tokens(client, dy, at, weight.rows, &low, *scale)?;
    let da = over_tokens(client, &d_low, 0, rank, seen, 1.0)?;
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
