//! Fused gate, up and activation.

use super::{forward, inputs};
use crate::bf16_slices::SavedElement;
use crate::gemm::Accumulate;
use crate::glu::{self, Activation};
use crate::isa::Isa;
use crate::linear::{Input, Linear, MatmulPrecision, Norm, Strips, WorkSplit};
use crate::packed::ROWS;
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;

/// `activation(gate(norm(x))) * up(norm(x))`: `x [T, in]` to `h [T, out]`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn gated(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    precision: MatmulPrecision,
    h: &mut [f32],
) -> Result<(), ShapeError> {
    let input = Input::new(x, inputs(&[gate, up])?, norm, precision)?;
    let (rows, tokens) = (gate.weight.rows(), input.tokens);
    shape::length("the rows of up", up.weight.rows(), Some(rows))?;
    shape::length("the output of a gated layer", h.len(), tokens.checked_mul(rows))?;
    if precision != MatmulPrecision::Int8Activations {
        let mut gates = Scratch::new(h.len());
        forward(&input, &[gate], precision, &mut gates, Accumulate::Replace)?;
        forward(&input, &[up], precision, h, Accumulate::Replace)?;
        return glu::glu_in_place(activation, &gates, h);
    }
    let weights = Strips::all(&[gate, up], &input)?;
    let cut = WorkSplit::new(&weights, tokens);
    let (gate, up) = (&weights[0], &weights[1]);
    let step = cut.strips(gate.row_bytes() + up.row_bytes());
    let across = gate.count().div_ceil(step);
    let (h, outcome, isa) = (team::Scattered::new(h), Outcome::default(), Isa::best());
    team::run(across * tokens.div_ceil(cut.tokens), &|chunk| {
        let strips = chunk % across * step..((chunk % across + 1) * step).min(gate.count());
        let columns = strips.start * ROWS..(strips.end * ROWS).min(rows);
        let mut gates = vec![0.0; cut.at_a_time.min(tokens) * columns.len()];
        let first = chunk / across * cut.tokens;
        let end = (first + cut.tokens).min(tokens);
        for first in (first..end).step_by(cut.at_a_time) {
            let tokens = first..(first + cut.at_a_time).min(end);
            let at = |token: usize| (token - first) * columns.len();
            outcome.note(
                gate.product(strips.clone(), &input, tokens.clone(), |token, row, results| {
                    gates[at(token) + row - columns.start..][..results.len()].copy_from_slice(results);
                }),
            );
            outcome.note(
                up.product(strips.clone(), &input, tokens.clone(), |token, row, results| {
                    // SAFETY: each row is computed once for a token.
                    let h = unsafe { h.slice(token * rows + row, results.len()) };
                    h.copy_from_slice(results);
                }),
            );
            for token in tokens {
                // SAFETY: these are the rows that this chunk wrote, no longer in use.
                let h = unsafe { h.slice(token * rows + columns.start, columns.len()) };
                glu::chunk_in_place(isa, activation, &gates[at(token)..][..columns.len()], h);
            }
        }
    });
    outcome.into_result()
}

/// [`gated`] that also saves gate and up before the activation, each `[T, out]`, for
/// [`gated_backward_from_saved`](super::gated_backward_from_saved).
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn gated_with_saved<K: SavedElement>(
    x: &[f32],
    norm: Option<Norm>,
    gate: &Linear,
    up: &Linear,
    activation: Activation,
    precision: MatmulPrecision,
    [saved_gate, saved_up]: [&mut [K]; 2],
    h: &mut [f32],
) -> Result<(), ShapeError> {
    let input = Input::new(x, inputs(&[gate, up])?, norm, precision)?;
    shape::length("the rows of up", up.weight.rows(), Some(gate.weight.rows()))?;
    shape::length("the saved gate", saved_gate.len(), Some(h.len()))?;
    shape::length("the saved up", saved_up.len(), Some(h.len()))?;
    let mut gates = Scratch::new(h.len());
    forward(&input, &[gate], precision, &mut gates, Accumulate::Replace)?;
    forward(&input, &[up], precision, h, Accumulate::Replace)?;
    let isa = Isa::best();
    let (saved_gate, saved_up) = (team::Scattered::new(saved_gate), team::Scattered::new(saved_up));
    team::run_over(h, glu::CHUNK, &|chunk, h| {
        let (at, gates) = (chunk * glu::CHUNK, &gates[chunk * glu::CHUNK..][..h.len()]);
        // SAFETY: chunks do not overlap, and each runs once.
        unsafe {
            K::save(isa, gates, saved_gate.slice(at, h.len()));
            K::save(isa, h, saved_up.slice(at, h.len()));
        }
        glu::chunk_in_place(isa, activation, gates, h);
    });
    Ok(())
}
