//! The gradients of a linear: of its input, through the frozen weight and the adapter, and of the
//! adapter. Without dropout, all intermediate matrices have the rank as one dimension, so they are
//! small whatever the size of the weight.

use super::dropout::{dropout_into, dropout_rows};
use super::tokens::matmul_over_tokens;
use super::weight::weight_backward;
use crate::blocks::Quant;
use crate::gpu::launch::{check_equal, matrix_arg};
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
/// output, the columns of `dy [T, width]` from `first_column` on. Returns the gradients of the
/// adapter's `a [rank, in]` and `b [out, rank]`, `None` without an adapter. `x [T, in]` is the
/// linear's input. `dx` must be neither `x` nor `dy`. `precision` is as in [`weight_backward`];
/// adapters compute in f32.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn linear_backward(
    client: &Client,
    x: &Floats,
    linear: &Linear,
    precision: MatmulPrecision,
    dy: &Floats,
    first_column: usize,
    dx: &Floats,
    add: bool,
) -> Result<Option<(Floats, Floats)>, GpuError> {
    let Linear {
        weight, scale, lora, ..
    } = linear;
    check_equal("number of rows of a linear's input", x.rows, dy.rows)?;
    check_equal("number of columns of a linear's input", x.cols, weight.cols)?;
    matrix_arg(x, "input of a linear")?;
    if let Some(Lora { a, b, .. }) = lora {
        check_equal("number of columns of an adapter's a", a.cols, weight.cols)?;
        check_equal("number of rows of an adapter's b", b.rows, weight.rows)?;
        check_equal("rank of an adapter's b", b.cols, a.rows)?;
        matrix_arg(a, "adapter's a")?;
        matrix_arg(b, "adapter's b")?;
    }
    check_columns(dy, first_column, weight.rows)?;
    weight_backward(client, dy, first_column, weight, *scale, precision, dx, add)?;
    let Some(Lora { a, b, scale, dropout }) = lora else {
        return Ok(None);
    };
    let (tokens, rank) = (x.rows, a.rows);
    let empty = |rows, cols| Floats::empty(client, rows, cols);
    let (lora_hidden, d_lora_hidden) = (empty(tokens, rank), empty(tokens, rank));
    let dropout_output = dropout.map(|dropout| dropout_rows(client, x, dropout)).transpose()?;
    let lora_input = dropout_output.as_ref().unwrap_or(x);
    matmul(client, lora_input, a, Transpose::B, 1.0, &lora_hidden, 0, false)?;
    weight_backward(
        client,
        dy,
        first_column,
        &as_weight(b),
        *scale,
        MatmulPrecision::F32,
        &d_lora_hidden,
        false,
    )?;
    let db = matmul_over_tokens(client, dy, first_column, weight.rows, &lora_hidden, *scale)?;
    let da = matmul_over_tokens(client, &d_lora_hidden, 0, rank, lora_input, 1.0)?;
    match dropout {
        None => matmul(client, &d_lora_hidden, a, Transpose::None, 1.0, dx, 0, true)?,
        Some(dropout) => {
            let d_lora_input = empty(tokens, weight.cols);
            matmul(client, &d_lora_hidden, a, Transpose::None, 1.0, &d_lora_input, 0, false)?;
            dropout_into(client, &d_lora_input, *dropout, dx, true)?;
        }
    }
    Ok(Some((da, db)))
}
