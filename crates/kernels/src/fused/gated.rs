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
    let weights = Strips::from_linears(&[gate, up], &input)?;
    let split = WorkSplit::new(&weights, tokens);
    let (gate, up) = (&weights[0], &weights[1]);
    let chunk_strips = split.strips(gate.row_bytes() + up.row_bytes());
    let row_chunks = gate.count().div_ceil(chunk_strips);
    let (h, outcome, isa) = (team::Scattered::new(h), Outcome::default(), Isa::best());
    team::run(row_chunks * tokens.div_ceil(split.tokens), &|work_chunk| {
        let (row_chunk, token_chunk) = (work_chunk % row_chunks, work_chunk / row_chunks);
        let strips = row_chunk * chunk_strips..((row_chunk + 1) * chunk_strips).min(gate.count());
        let columns = strips.start * ROWS..(strips.end * ROWS).min(rows);
        let mut gates = vec![0.0; split.tokens_at_a_time.min(tokens) * columns.len()];
        let first = token_chunk * split.tokens;
        let end = (first + split.tokens).min(tokens);
        for first in (first..end).step_by(split.tokens_at_a_time) {
            let tokens = first..(first + split.tokens_at_a_time).min(end);
            let gates_offset = |token: usize| (token - first) * columns.len();
            outcome.note(
                gate.product(strips.clone(), &input, tokens.clone(), |token, row, results| {
                    gates[gates_offset(token) + row - columns.start..][..results.len()].copy_from_slice(results);
                }),
            );
            outcome.note(
                up.product(strips.clone(), &input, tokens.clone(), |token, row, results| {
                    // SAFETY: each row is computed once per token.
                    let h = unsafe { h.slice(token * rows + row, results.len()) };
                    h.copy_from_slice(results);
                }),
            );
            for token in tokens {
                // SAFETY: this work chunk has written these elements, and borrows none of them now.
                let h = unsafe { h.slice(token * rows + columns.start, columns.len()) };
                glu::glu_in_place_serial(isa, activation, &gates[gates_offset(token)..][..columns.len()], h);
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
    team::run_over(h, glu::WORK_CHUNK, &|work_chunk, h| {
        let start = work_chunk * glu::WORK_CHUNK;
        let gates = &gates[start..][..h.len()];
        // SAFETY: work chunks do not overlap, and each runs once.
        unsafe {
            K::save(isa, gates, saved_gate.slice(start, h.len()));
            K::save(isa, h, saved_up.slice(start, h.len()));
        }
        glu::glu_in_place_serial(isa, activation, gates, h);
    });
    Ok(())
}
