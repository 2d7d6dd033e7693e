//! The gradients of half-layers.

use super::{forward, inputs, outputs};
use crate::bf16s::Kept;
use crate::dense::{Into, Pair, View};
use crate::glu::{self, Activation};
use crate::linear::{self, Input, Linear, LoraGradient, Norm, Product};
use crate::norm::rms_norm_backward_in_place;
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};

/// The product of which there is a gradient: that of `Fast` is taken to be that of `Exact`.
fn differentiable(product: Product) -> Product {
    match product {
        Product::Bf16 => Product::Bf16,
        Product::Exact | Product::Fast => Product::Exact,
    }
}

/// The gradient of linears over one input: of the input, written to `dx`, and of each adapter.
pub(crate) fn linears_backward(
    linears: &[(&Linear, View)],
    x: &[f32],
    product: Product,
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    match product {
        Product::Bf16 => linear::backward::<Pair>(linears, x, dx, Into::Replace),
        Product::Exact | Product::Fast => linear::backward::<f32>(linears, x, dx, Into::Replace),
    }
}

/// The gradient of [`norm_linears`](super::norm_linears): of `x`, written to `dx`, and of each linear's adapter.
///
/// # Errors
/// Where the sizes do not fit.
pub fn norm_linears_backward(
    x: &[f32],
    norm: Option<Norm>,
    linears: &[Linear],
    product: Product,
    dy: &[f32],
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    let references: Vec<&Linear> = linears.iter().collect();
    let input = Input::new(x, inputs(&references)?, norm, differentiable(product))?;
    let width = outputs(&references);
    shape::length("the gradient of linears", dy.len(), input.tokens.checked_mul(width))?;
    shape::length("the gradient of a linear's input", dx.len(), Some(x.len()))?;
    let (mut at, mut parts) = (0, Vec::new());
    for linear in linears {
        let rows = linear.weight.rows();
        parts.push((linear, View::new(dy, at, input.tokens, rows, width)?));
        at += rows;
    }
    let gradients = linears_backward(&parts, &input.floats, product, dx)?;
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok(gradients)
}

/// The gradient of [`linear_add_in_place`](super::linear_add_in_place): of `h`, written to `dh`, and of the adapter. That of the
/// residual is `dy` itself.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_add_backward(
    h: &[f32],
    linear: &Linear,
    norm: Option<Norm>,
    product: Product,
    dy: &[f32],
    dh: &mut [f32],
) -> Result<Option<LoraGradient>, ShapeError> {
    let (rows, cols, product) = (linear.weight.rows(), inputs(&[linear])?, differentiable(product));
    let tokens = shape::rows("a linear's input", h.len(), cols)?;
    shape::length("the gradient of a linear", dy.len(), tokens.checked_mul(rows))?;
    shape::length("the gradient of a linear's input", dh.len(), Some(h.len()))?;
    let mut through = Vec::new();
    if let Some(norm) = norm {
        let mut y = Scratch::new(dy.len());
        forward(
            &Input::new(h, cols, None, product)?,
            &[linear],
            product,
            &mut y,
            Into::Replace,
        )?;
        through.extend_from_slice(dy);
        rms_norm_backward_in_place(&y, norm.weight, norm.eps, &mut through)?;
    }
    let dy = if norm.is_some() { &through } else { dy };
    let gradients = linears_backward(&[(linear, View::all(dy, tokens, rows)?)], h, product, dh)?;
    Ok(gradients.into_iter().next().flatten())
}

/// The gradient of [`gated`](super::gated) from gate and up as [`gated_keeping`](super::gated_keeping) handed them out: of `x`, written to
/// `dx`, and of both adapters, the gate's first.
///
/// # Errors
/// Where the sizes do not fit.
pub fn gated_backward_kept<K: Kept>(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    product: Product,
    kept: [&[K]; 2],
    dh: &[f32],
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    let product = differentiable(product);
    let input = Input::new(x, inputs(&[gate, up])?, norm, product)?;
    let (mut gates, mut ups) = (Scratch::new(dh.len()), Scratch::new(dh.len()));
    glu::glu_backward_of_kept(activation, kept, dh, &mut gates, &mut ups)?;
    gate_and_up_backward(x, norm, &input, [gate, up], [&gates, &ups], product, dx)
}

/// From the gradients of gate and up to that of `x`.
fn gate_and_up_backward(
    x: &[f32],
    norm: Option<Norm>,
    input: &Input,
    linears: [&Linear; 2],
    gradients: [&[f32]; 2],
    product: Product,
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    shape::length("the gradient of a gated layer's input", dx.len(), Some(x.len()))?;
    let view = |i: usize| View::all(gradients[i], input.tokens, linears[i].weight.rows());
    let parts = [(linears[0], view(0)?), (linears[1], view(1)?)];
    let mut adapters = linears_backward(&parts, &input.floats, product, dx)?.into_iter();
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok([adapters.next().flatten(), adapters.next().flatten()])
}
