//! The grain at which a model calls: half a layer at a time, so that few dispatches remain.
//!
//! Decoding crosses from one thread to the team five times a layer: [`norm_linears`] for Q, K and V, attention,
//! [`linear_add_in_place`], [`gated`], [`linear_add_in_place`] again.

use crate::dense::{Into, Target, View};
use crate::dot::Isa;
use crate::glu::{self, Activation};
use crate::linear::{
    Input, Linear, LoraGradient, Norm, Product, Strips, apply_linear_tail, exact, fast, in_floats, linear_backward,
    talls_for,
};
use crate::norm::{rms_norm_backward_in_place, rms_norm_in_place};
use crate::packed::ROWS;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;

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

/// The products of one input with linears, tails included, side by side in rows of `y`.
fn forward(input: &Input, linears: &[&Linear], product: Product, y: &mut [f32]) -> Result<(), ShapeError> {
    let (width, tokens) = (outputs(linears), input.tokens);
    shape::length("the output of linears", y.len(), tokens.checked_mul(width))?;
    let floats = |linear: &&Linear| in_floats(&linear.weight, product, tokens);
    let talls = talls_for(input, linears.iter().any(floats))?;
    let (mut at, mut offsets, mut strips) = (0, Vec::new(), Vec::new());
    for linear in linears {
        if floats(linear) {
            let target = Target::new(y, at, tokens, linear.weight.rows(), width)?;
            exact(&linear.weight, &talls, &target, Into::Replace)?;
        } else {
            offsets.push(at);
            strips.push(Strips::new(linear.weight)?);
        }
        at += linear.weight.rows();
    }
    {
        let y = team::Scattered::new(y);
        fast(&strips, input, &|which, token, row, results| {
            // SAFETY: each row of each weight is computed once for a token.
            let y = unsafe { y.slice(token * width + offsets[which] + row, results.len()) };
            y.copy_from_slice(results);
        })?;
    }
    let mut at = 0;
    for linear in linears {
        if linear.has_tail() {
            let target = Target::new(y, at, tokens, linear.weight.rows(), width)?;
            apply_linear_tail(linear, &input.floats, &target)?;
        }
        at += linear.weight.rows();
    }
    Ok(())
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
    forward(&input, &linears, product, y)
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
    if norm.is_some() || linear.has_tail() || in_floats(&linear.weight, product, tokens) {
        let mut y = vec![0.0; residual.len()];
        forward(&input, &[linear], product, &mut y)?;
        if let Some(norm) = norm {
            rms_norm_in_place(&mut y, norm.weight, norm.eps)?;
        }
        team::run_over(residual, ELEMENTS_A_CHUNK, &|chunk, part| {
            part.iter_mut()
                .zip(&y[chunk * ELEMENTS_A_CHUNK..])
                .for_each(|(residual, y)| *residual += y);
        });
        return Ok(());
    }
    let residual = team::Scattered::new(residual);
    fast(&[Strips::new(linear.weight)?], &input, &|_, token, row, results| {
        // SAFETY: each row is computed once for a token.
        let residual = unsafe { residual.slice(token * rows + row, results.len()) };
        residual.iter_mut().zip(results).for_each(|(y, x)| *y += x);
    })
}

/// Elements that a chunk of an addition has.
const ELEMENTS_A_CHUNK: usize = 16 * 1024;
/// Tokens that a chunk of [`gated`] holds gate and up of.
const TOKENS_A_CHUNK: usize = 48;

/// `activation(gate(norm(x))) * up(norm(x))`: `x [T, in]` to `h [T, out]`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn gated(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    product: Product,
    h: &mut [f32],
) -> Result<(), ShapeError> {
    let input = Input::new(x, inputs(&[gate, up])?, norm, product)?;
    let (rows, tokens) = (gate.weight.rows(), input.tokens);
    shape::length("the rows of up", up.weight.rows(), Some(rows))?;
    shape::length("the output of a gated layer", h.len(), tokens.checked_mul(rows))?;
    let floats = |linear: &Linear| in_floats(&linear.weight, product, tokens);
    if gate.has_tail() || up.has_tail() || floats(gate) || floats(up) {
        let mut gates = vec![0.0; h.len()];
        forward(&input, &[gate], product, &mut gates)?;
        forward(&input, &[up], product, h)?;
        return glu::glu_in_place(activation, &gates, h);
    }
    let (gate, up) = (Strips::new(gate.weight)?, Strips::new(up.weight)?);
    let total = gate.bytes() + up.bytes();
    let step = gate.a_chunk(total).div_ceil(2);
    let across = gate.count().div_ceil(step);
    let (h, outcome, isa) = (team::Scattered::new(h), Outcome::default(), Isa::best());
    team::run(across * tokens.div_ceil(TOKENS_A_CHUNK), &|chunk| {
        let strips = chunk % across * step..((chunk % across + 1) * step).min(gate.count());
        let first = chunk / across * TOKENS_A_CHUNK;
        let tokens = first..(first + TOKENS_A_CHUNK).min(tokens);
        let columns = strips.start * ROWS..(strips.end * ROWS).min(rows);
        let mut gates = vec![0.0; tokens.len() * columns.len()];
        let at = |token: usize| (token - tokens.start) * columns.len();
        outcome.note(
            gate.product(strips.clone(), &input, tokens.clone(), |token, row, results| {
                gates[at(token) + row - columns.start..][..results.len()].copy_from_slice(results);
            }),
        );
        outcome.note(up.product(strips, &input, tokens.clone(), |token, row, results| {
            // SAFETY: each row is computed once for a token.
            let h = unsafe { h.slice(token * rows + row, results.len()) };
            h.copy_from_slice(results);
        }));
        for token in tokens.clone() {
            // SAFETY: these are the rows that this chunk wrote, no longer in use.
            let h = unsafe { h.slice(token * rows + columns.start, columns.len()) };
            glu::piece_in_place(isa, activation, &gates[at(token)..][..columns.len()], h);
        }
    });
    outcome.into_result()
}

/// The gradient of [`norm_linears`]: of `x`, written to `dx`, and of each linear's adapter.
///
/// # Errors
/// Where the sizes do not fit.
pub fn norm_linears_backward(
    x: &[f32],
    norm: Option<Norm>,
    linears: &[Linear],
    dy: &[f32],
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    let references: Vec<&Linear> = linears.iter().collect();
    let input = Input::new(x, inputs(&references)?, norm, Product::Exact)?;
    let width = outputs(&references);
    shape::length("the gradient of linears", dy.len(), input.tokens.checked_mul(width))?;
    shape::length("the gradient of a linear's input", dx.len(), Some(x.len()))?;
    dx.fill(0.0);
    let (mut at, mut gradients) = (0, Vec::new());
    for linear in linears {
        let rows = linear.weight.rows();
        let part = View::new(dy, at, input.tokens, rows, width)?;
        gradients.push(linear_backward(linear, &input.floats, part, dx)?);
        at += rows;
    }
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok(gradients)
}

/// The gradient of [`linear_add_in_place`]: of `h`, written to `dh`, and of the adapter. That of the residual is `dy` itself.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_add_backward(
    h: &[f32],
    linear: &Linear,
    norm: Option<Norm>,
    dy: &[f32],
    dh: &mut [f32],
) -> Result<Option<LoraGradient>, ShapeError> {
    let (rows, cols) = (linear.weight.rows(), inputs(&[linear])?);
    let tokens = shape::rows("a linear's input", h.len(), cols)?;
    shape::length("the gradient of a linear", dy.len(), tokens.checked_mul(rows))?;
    shape::length("the gradient of a linear's input", dh.len(), Some(h.len()))?;
    dh.fill(0.0);
    let Some(norm) = norm else {
        return linear_backward(linear, h, View::all(dy, tokens, rows)?, dh);
    };
    let mut y = vec![0.0; dy.len()];
    forward(
        &Input::new(h, cols, None, Product::Exact)?,
        &[linear],
        Product::Exact,
        &mut y,
    )?;
    let mut through = dy.to_vec();
    rms_norm_backward_in_place(&y, norm.weight, norm.eps, &mut through)?;
    linear_backward(linear, h, View::all(&through, tokens, rows)?, dh)
}

/// The gradient of [`gated`]: of `x`, written to `dx`, and of both adapters, the gate's first.
///
/// # Errors
/// Where the sizes do not fit.
pub fn gated_backward(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    dh: &[f32],
    dx: &mut [f32],
) -> Result<[Option<LoraGradient>; 2], ShapeError> {
    let input = Input::new(x, inputs(&[gate, up])?, norm, Product::Exact)?;
    let (rows, tokens) = (gate.weight.rows(), input.tokens);
    shape::length("the rows of up", up.weight.rows(), Some(rows))?;
    shape::length("the gradient of a gated layer", dh.len(), tokens.checked_mul(rows))?;
    shape::length("the gradient of a gated layer's input", dx.len(), Some(x.len()))?;
    let (mut gates, mut ups) = (vec![0.0; dh.len()], vec![0.0; dh.len()]);
    forward(&input, &[gate], Product::Exact, &mut gates)?;
    forward(&input, &[up], Product::Exact, &mut ups)?;
    glu::glu_backward_in_place(activation, dh, &mut gates, &mut ups)?;
    dx.fill(0.0);
    let of_gate = linear_backward(gate, &input.floats, View::all(&gates, tokens, rows)?, dx)?;
    let of_up = linear_backward(up, &input.floats, View::all(&ups, tokens, rows)?, dx)?;
    if let Some(norm) = norm {
        rms_norm_backward_in_place(x, norm.weight, norm.eps, dx)?;
    }
    Ok([of_gate, of_up])
}
