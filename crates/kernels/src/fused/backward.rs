//! Gradients of the fused operations.

use super::{forward, inputs, outputs};
use crate::bf16_slices::SavedElement;
use crate::gemm::{Accumulate, Bf16Pair, View};
use crate::glu::{self, Activation};
use crate::linear::{self, Input, Linear, LoraGradient, MatmulPrecision, Norm};
use crate::norm::rms_norm_backward_in_place;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};

/// The precision of a gradient: `F32` for `Int8Activations`.
fn gradient_precision(precision: MatmulPrecision) -> MatmulPrecision {
    match precision {
        MatmulPrecision::Bf16 => MatmulPrecision::Bf16,
        MatmulPrecision::F32 | MatmulPrecision::Int8Activations => MatmulPrecision::F32,
    }
}

/// Backward of linears over one input: writes the gradient of the input to `dx` and returns the
/// gradients of the adapters.
pub(crate) fn linears_backward(
    linears: &[(&Linear, View)],
    x: &[f32],
    precision: MatmulPrecision,
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    match precision {
        MatmulPrecision::Bf16 => linear::backward::<Bf16Pair>(linears, x, dx),
        MatmulPrecision::F32 | MatmulPrecision::Int8Activations => linear::backward::<f32>(linears, x, dx),
    }
}

/// Backward of [`norm_linears`](super::norm_linears): writes the gradient of `x` to `dx` and
/// returns the gradient of each linear's adapter.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn norm_linears_backward(
    x: &[f32],
    norm: Option<Norm>,
    linears: &[Linear],
    precision: MatmulPrecision,
    dy: &[f32],
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    let references: Vec<&Linear> = linears.iter().collect();
    let input = Input::new(x, inputs(&references)?, norm, gradient_precision(precision))?;
    let width = outputs(&references);
    shape::length("the gradient of linears", dy.len(), input.tokens.checked_mul(width))?;
    shape::length("the gradient of a linear's input", dx.len(), Some(x.len()))?;
    let (mut column, mut linears_and_dy) = (0, Vec::new());
    for linear in linears {
        let rows = linear.weight.rows();
        linears_and_dy.push((linear, View::new(dy, column, input.tokens, rows, width)?));
        column += rows;
    }
    let gradients = linears_backward(&linears_and_dy, &input.floats, precision, dx)?;
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok(gradients)
}

/// Backward of [`linear_add_in_place`](super::linear_add_in_place): writes the gradient of `h` to
/// `dh` and returns the gradient of the adapter, both times `scale`. The gradient of the residual
/// is `dy`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn linear_add_backward(
    h: &[f32],
    linear: &Linear,
    norm: Option<Norm>,
    scale: f32,
    precision: MatmulPrecision,
    dy: &[f32],
    dh: &mut [f32],
) -> Result<Option<LoraGradient>, ShapeError> {
    let (rows, cols, precision) = (linear.weight.rows(), inputs(&[linear])?, gradient_precision(precision));
    let tokens = shape::rows("a linear's input", h.len(), cols)?;
    shape::length("the gradient of a linear", dy.len(), tokens.checked_mul(rows))?;
    shape::length("the gradient of a linear's input", dh.len(), Some(h.len()))?;
    let mut through_norm = Vec::new();
    if let Some(norm) = norm {
        let mut y = Scratch::new(dy.len());
        forward(
            &Input::new(h, cols, None, precision)?,
            &[linear],
            precision,
            &mut y,
            Accumulate::Replace,
        )?;
        through_norm.extend_from_slice(dy);
        rms_norm_backward_in_place(&y, norm.weight, norm.eps, &mut through_norm)?;
    }
    let dy = if norm.is_some() { &through_norm } else { dy };
    // The gradient through a norm is linear in `dy`, too, so the scale may be applied after it.
    let linear = linear.with_gradients_times(scale);
    let gradients = linears_backward(&[(&linear, View::all(dy, tokens, rows)?)], h, precision, dh)?;
    Ok(gradients.into_iter().next().flatten())
}

/// Backward of [`gated`](super::gated) from gate and up saved by
/// [`gated_with_saved`](super::gated_with_saved): writes the gradient of `x` to `dx` and returns
/// the gradients of both adapters, the gate's first.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn gated_backward_from_saved<K: SavedElement>(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    precision: MatmulPrecision,
    saved: [&[K]; 2],
    dh: &[f32],
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    let precision = gradient_precision(precision);
    let input = Input::new(x, inputs(&[gate, up])?, norm, precision)?;
    let (mut d_gate, mut d_up) = (Scratch::new(dh.len()), Scratch::new(dh.len()));
    glu::glu_backward_from_saved(activation, saved, dh, &mut d_gate, &mut d_up)?;
    gate_and_up_backward(x, norm, &input, [gate, up], [&d_gate, &d_up], precision, dx)
}

/// Writes the gradient of `x`, from the gradients of gate and up, to `dx`. Returns the gradients of
/// both adapters.
fn gate_and_up_backward(
    x: &[f32],
    norm: Option<Norm>,
    input: &Input,
    linears: [&Linear; 2],
    gradients: [&[f32]; 2],
    precision: MatmulPrecision,
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    shape::length("the gradient of a gated layer's input", dx.len(), Some(x.len()))?;
    let view = |i: usize| View::all(gradients[i], input.tokens, linears[i].weight.rows());
    let linears_and_dy = [(linears[0], view(0)?), (linears[1], view(1)?)];
    let mut adapters = linears_backward(&linears_and_dy, &input.floats, precision, dx)?.into_iter();
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok([adapters.next().flatten(), adapters.next().flatten()])
}
