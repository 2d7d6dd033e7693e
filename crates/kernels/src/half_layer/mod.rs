//! The grain at which a model calls: half a layer at a time, so that few dispatches remain.
//!
//! Decoding crosses from one thread to the team five times a layer: [`norm_linears`] for Q, K and V, attention,
//! [`linear_add_in_place`], [`gated`], [`linear_add_in_place`] again.

mod backward;
mod gated;

pub use crate::bf16s::Kept;
pub(crate) use backward::linears_backward;
pub use backward::{gated_backward_kept, linear_add_backward, norm_linears_backward};
pub use gated::{gated, gated_keeping};

use crate::dense::{Factor, Into, Pair, Target};
use crate::linear::{self, Input, Linear, Norm, Product, Strips, Talls, fast};
use crate::norm::rms_norm_in_place;
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::team;

/// `x` grows by `y`.
///
/// # Errors
/// Where the two are not of one length.
pub fn add_in_place(x: &mut [f32], y: &[f32]) -> Result<(), ShapeError> {
    shape::length("what is added", y.len(), Some(x.len()))?;
    linear::add(x, y);
    Ok(())
}

/// The inputs that all linears share.
fn inputs(linears: &[&Linear]) -> Result<usize, ShapeError> {
    let cols = linears.first().map_or(0, |linear| linear.weight.cols());
    for linear in linears {
        linear.check()?;
        shape::length("a row of a weight beside another's", linear.weight.cols(), Some(cols))?;
    }
    Ok(cols)
}

/// The outputs of all linears.
fn outputs(linears: &[&Linear]) -> usize {
    linears.iter().map(|linear| linear.weight.rows()).sum()
}

/// The products of one input with linears, tails included, side by side in rows of `y`, which they become or are added to.
pub(crate) fn forward(
    input: &Input,
    linears: &[&Linear],
    product: Product,
    y: &mut [f32],
    into: Into,
) -> Result<(), ShapeError> {
    let (width, tokens) = (outputs(linears), input.tokens);
    shape::length("the output of linears", y.len(), tokens.checked_mul(width))?;
    match product {
        Product::Bf16 => in_tiles::<Pair>(input, linears, width, y, into),
        Product::Exact => in_tiles::<f32>(input, linears, width, y, into),
        Product::Fast => in_strips(input, linears, width, y, into),
    }
}

/// The column of `y` at which the outputs of each linear begin.
fn columns(linears: &[&Linear]) -> Vec<usize> {
    let next = |next: &mut usize, linear: &&Linear| {
        let at = *next;
        *next += linear.weight.rows();
        Some(at)
    };
    linears.iter().scan(0, next).collect()
}

/// Linears whose weights are expanded tile by tile, each at its column of `y`.
fn in_tiles<E: Factor>(
    input: &Input,
    linears: &[&Linear],
    width: usize,
    y: &mut [f32],
    into: Into,
) -> Result<(), ShapeError> {
    let x = Talls::<E>::new(&input.floats, input.tokens, input.cols)?;
    for (linear, at) in linears.iter().zip(columns(linears)) {
        let mut target = Target::new(y, at, input.tokens, linear.weight.rows(), width)?;
        linear::forward(linear, &x, &mut target, into)?;
    }
    Ok(())
}

/// Linears whose weights meet the input as they are stored, a strip of rows at a time, each at its column of `y`.
fn in_strips(input: &Input, linears: &[&Linear], width: usize, y: &mut [f32], into: Into) -> Result<(), ShapeError> {
    let strips = Strips::all(linears, input)?;
    let columns = columns(linears);
    let y = team::Scattered::new(y);
    fast(&strips, input, &|which, token, row, results| {
        // SAFETY: each row of each weight is computed once for a token.
        let y = unsafe { y.slice(token * width + columns[which] + row, results.len()) };
        match into {
            // Of a known length, which saves a call.
            Into::Replace => match (y.first_chunk_mut::<ROWS>(), results.first_chunk()) {
                (Some(y), Some(results)) => *y = *results,
                _ => y.copy_from_slice(results),
            },
            Into::Add => y.iter_mut().zip(results).for_each(|(y, x)| *y += x),
        }
    })
}

/// Several linears over one input `x [T, in]`, normalised first where there is a norm: `y [T, sum of out]`, the outputs of a
/// row side by side.
///
/// # Errors
/// Where the sizes do not fit.
pub fn norm_linears(
    x: &[f32],
    norm: Option<Norm>,
    linears: &[Linear],
    product: Product,
    y: &mut [f32],
) -> Result<(), ShapeError> {
    let linears: Vec<&Linear> = linears.iter().collect();
    let input = Input::new(x, inputs(&linears)?, norm, product)?;
    forward(&input, &linears, product, y, Into::Replace)
}

/// `residual [T, out]` grows by a linear over `h [T, in]`, normalised afterwards where there is a norm.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_add_in_place(
    h: &[f32],
    linear: &Linear,
    norm: Option<Norm>,
    product: Product,
    residual: &mut [f32],
) -> Result<(), ShapeError> {
    let input = Input::new(h, inputs(&[linear])?, None, product)?;
    let (rows, tokens) = (linear.weight.rows(), input.tokens);
    shape::length("the residual", residual.len(), tokens.checked_mul(rows))?;
    let Some(norm) = norm else {
        return forward(&input, &[linear], product, residual, Into::Add);
    };
    let mut y = Scratch::new(residual.len());
    forward(&input, &[linear], product, &mut y, Into::Replace)?;
    rms_norm_in_place(&mut y, norm.weight, norm.eps)?;
    linear::add(residual, &y);
    Ok(())
}
