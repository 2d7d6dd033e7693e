//! Fused operations of half a layer, which minimize the number of dispatches.
//!
//! Decoding dispatches work to the thread team five times per layer: [`norm_linears`] for Q, K and
//! V, attention, [`linear_add_in_place`], [`gated`], [`linear_add_in_place`] again.

mod backward;
mod gated;

pub use crate::bf16_slices::SavedElement;
pub(crate) use backward::linears_backward;
pub use backward::{gated_backward_from_saved, linear_add_backward, norm_linears_backward};
pub use gated::{gated, gated_with_saved};

use crate::gemm::{Accumulate, Bf16Pair, Factor, ViewMut};
use crate::linear::{self, Input, LhsPanels, Linear, MatmulPrecision, Norm, Strips, multiply_strips};
use crate::norm::rms_norm_in_place;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::team;

/// Adds `y` to `x`.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn add_in_place(x: &mut [f32], y: &[f32]) -> Result<(), ShapeError> {
    shape::length("the addend", y.len(), Some(x.len()))?;
    linear::add(x, y);
    Ok(())
}

/// The number of input columns, which must be the same for all linears.
fn inputs(linears: &[&Linear]) -> Result<usize, ShapeError> {
    let cols = linears.first().map_or(0, |linear| linear.weight.cols());
    for linear in linears {
        linear.check()?;
        shape::length("a row of a weight beside another's", linear.weight.cols(), Some(cols))?;
    }
    Ok(cols)
}

/// The total number of output columns of all linears.
fn outputs(linears: &[&Linear]) -> usize {
    linears.iter().map(|linear| linear.weight.rows()).sum()
}

/// Computes linears over one input with their epilogues. Writes the results side by side to the
/// rows of `y`, or adds them.
pub(crate) fn forward(
    input: &Input,
    linears: &[&Linear],
    precision: MatmulPrecision,
    y: &mut [f32],
    accumulate: Accumulate,
) -> Result<(), ShapeError> {
    let (width, tokens) = (outputs(linears), input.tokens);
    shape::length("the output of linears", y.len(), tokens.checked_mul(width))?;
    match precision {
        MatmulPrecision::Bf16 => in_tiles::<Bf16Pair>(input, linears, width, y, accumulate),
        MatmulPrecision::F32 => in_tiles::<f32>(input, linears, width, y, accumulate),
        MatmulPrecision::Int8Activations => in_strips(input, linears, width, y, accumulate),
    }
}

/// The first column of each linear's outputs in `y`.
fn columns(linears: &[&Linear]) -> Vec<usize> {
    let first_column = |next: &mut usize, linear: &&Linear| {
        let first = *next;
        *next += linear.weight.rows();
        Some(first)
    };
    linears.iter().scan(0, first_column).collect()
}

/// GEMM with weights that are dequantized tile by tile, each linear at its columns of `y`.
fn in_tiles<E: Factor>(
    input: &Input,
    linears: &[&Linear],
    width: usize,
    y: &mut [f32],
    accumulate: Accumulate,
) -> Result<(), ShapeError> {
    let x = LhsPanels::<E>::new(&input.floats, input.tokens, input.cols)?;
    for (linear, column) in linears.iter().zip(columns(linears)) {
        let mut target = ViewMut::new(y, column, input.tokens, linear.weight.rows(), width)?;
        linear::forward(linear, &x, &mut target, accumulate)?;
    }
    Ok(())
}

/// Products with stored blocks, a strip of rows at a time, each linear at its columns of `y`.
fn in_strips(
    input: &Input,
    linears: &[&Linear],
    width: usize,
    y: &mut [f32],
    accumulate: Accumulate,
) -> Result<(), ShapeError> {
    let strips = Strips::from_linears(linears, input)?;
    let columns = columns(linears);
    let y = team::Scattered::new(y);
    multiply_strips(&strips, input, |index, token, row, results| {
        // SAFETY: each row of each weight is computed once per token.
        let y = unsafe { y.slice(token * width + columns[index] + row, results.len()) };
        match accumulate {
            // A constant length avoids a call to memcpy.
            Accumulate::Replace => match (y.first_chunk_mut::<ROWS>(), results.first_chunk()) {
                (Some(y), Some(results)) => *y = *results,
                _ => y.copy_from_slice(results),
            },
            Accumulate::Add => y.iter_mut().zip(results).for_each(|(y, x)| *y += x),
            Accumulate::AddScaled(factor) => y.iter_mut().zip(results).for_each(|(y, x)| *y += factor * x),
        }
    })
}

/// Computes several linears over one input `x [T, in]`, which is normalized first if there is a
/// norm, to `y [T, sum of out]`, side by side.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn norm_linears(
    x: &[f32],
    norm: Option<Norm>,
    linears: &[Linear],
    precision: MatmulPrecision,
    y: &mut [f32],
) -> Result<(), ShapeError> {
    let linears: Vec<&Linear> = linears.iter().collect();
    let input = Input::new(x, inputs(&linears)?, norm, precision)?;
    forward(&input, &linears, precision, y, Accumulate::Replace)
}

/// Computes a linear over `h [T, in]`, normalizes its output if there is a norm, and adds `scale`
/// times the result to `residual [T, out]`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn linear_add_in_place(
    h: &[f32],
    linear: &Linear,
    norm: Option<Norm>,
    scale: f32,
    precision: MatmulPrecision,
    residual: &mut [f32],
) -> Result<(), ShapeError> {
    let input = Input::new(h, inputs(&[linear])?, None, precision)?;
    let (rows, tokens) = (linear.weight.rows(), input.tokens);
    shape::length("the residual", residual.len(), tokens.checked_mul(rows))?;
    let Some(norm) = norm else {
        return forward(&input, &[linear], precision, residual, Accumulate::add_times(scale));
    };
    let mut y = Scratch::new(residual.len());
    forward(&input, &[linear], precision, &mut y, Accumulate::Replace)?;
    rms_norm_in_place(&mut y, norm.weight, norm.eps)?;
    linear::add_times(scale, &y, residual);
    Ok(())
}
