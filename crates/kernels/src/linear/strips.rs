//! Products with activations in int8, or in bf16 where weights have 16 bits, a strip of sixteen rows at a time.

use super::Input;
use super::pairs::{self, meets_pairs};
use crate::blocks::Quant;
use crate::dot::{Activations, Isa};
use crate::matrix::Matrix;
use crate::packed::{Packed, ROWS};
use crate::shape::{Outcome, ShapeError};
use crate::team;
use std::ops::Range;

/// Tokens that meet a strip of weights while it is near: their activations, quantised, stay in a core's own cache.
const TOKENS_A_CHUNK: usize = 96;
/// Bytes of weights that a chunk reads at least: about a microsecond's worth.
const BYTES_A_CHUNK: usize = 12 * 1024;
/// Chunks that the largest products are cut into for a block of tokens: enough for the threads to end together.
const CHUNKS: usize = 48;

/// A weight cut into strips of sixteen rows, with what its product needs at hand.
pub(crate) struct Strips<'a> {
    matrix: Matrix<'a>,
    packed: Packed<'a>,
    /// The input in bf16, where it meets the weight so.
    pairs: Option<&'a pairs::Rows>,
    isa: Isa,
}

impl<'a> Strips<'a> {
    /// A weight for the product with this input.
    pub fn new(matrix: Matrix<'a>, input: &'a Input) -> Result<Self, ShapeError> {
        Ok(Self {
            matrix,
            packed: packed_of(&matrix)?,
            pairs: meets_pairs(matrix.quant(), input.tokens).then(|| input.pairs()),
            isa: Isa::best(),
        })
    }

    /// Bytes of all strips.
    pub fn bytes(&self) -> usize {
        self.matrix.rows() * self.matrix.row_bytes()
    }

    pub fn count(&self) -> usize {
        self.matrix.rows().div_ceil(ROWS)
    }

    /// Strips of a chunk of work, where the strips of all weights have `total` bytes.
    pub fn a_chunk(&self, total: usize) -> usize {
        (BYTES_A_CHUNK.max(total / CHUNKS) / (ROWS * self.matrix.row_bytes()).max(1)).max(1)
    }

    /// The products of strips with tokens: `sink(token, row, up to sixteen results)`.
    pub fn product(
        &self,
        strips: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let per_token = Activations::chunks_for(input.cols);
        let packed = strips.start.min(self.packed.groups())..strips.end.min(self.packed.groups());
        let chunks = &input.chunks[tokens.start * per_token..tokens.end * per_token];
        let first = packed.end;
        self.packed
            .product(self.isa, packed, chunks, tokens.len(), |token, row, results| {
                sink(tokens.start + token, row, results);
            })?;
        if let Some(x) = self.pairs {
            let rows = strips.start * ROWS..(strips.end * ROWS).min(self.matrix.rows());
            return pairs::product(self.isa, &self.matrix, rows, x, tokens, sink);
        }
        for strip in first.max(strips.start)..strips.end {
            let rows = strip * ROWS..((strip + 1) * ROWS).min(self.matrix.rows());
            let mut results = [0.0; ROWS];
            let results = &mut results[..rows.len()];
            for token in tokens.clone() {
                let bytes = self.matrix.plain_rows(rows.clone());
                self.matrix
                    .quant()
                    .gemv_on(self.isa, bytes, &input.row(token)?, results)?;
                sink(token, rows.start, results);
            }
        }
        Ok(())
    }
}

fn packed_of<'a>(matrix: &Matrix<'a>) -> Result<Packed<'a>, ShapeError> {
    match matrix.packed_rows() {
        // No format but a packable one can be named here; there is nothing in it.
        0 => Packed::new(Quant::Q8_0, matrix.cols().next_multiple_of(crate::blocks::GROUP), &[]),
        _ => matrix.packed(),
    }
}

/// Takes results: the weight's number, the token, the first row, up to sixteen results.
pub(crate) type Write<'a> = dyn Fn(usize, usize, usize, &[f32]) + Sync + 'a;

/// The products of an input with weights, one dispatch for all: `write(weight, token, row, results)`.
pub(crate) fn fast(weights: &[Strips], input: &Input, write: &Write<'_>) -> Result<(), ShapeError> {
    let total = weights.iter().map(Strips::bytes).sum();
    let mut chunks = Vec::new();
    for (which, strips) in weights.iter().enumerate() {
        let step = strips.a_chunk(total);
        chunks.extend(
            (0..strips.count())
                .step_by(step)
                .map(|at| (which, at..(at + step).min(strips.count()))),
        );
    }
    let outcome = Outcome::default();
    team::run(chunks.len() * input.tokens.div_ceil(TOKENS_A_CHUNK), &|chunk| {
        let (which, strips) = chunks[chunk % chunks.len()].clone();
        let first = chunk / chunks.len() * TOKENS_A_CHUNK;
        let tokens = first..(first + TOKENS_A_CHUNK).min(input.tokens);
        let sink = |token: usize, row: usize, results: &[f32]| write(which, token, row, results);
        outcome.note(weights[which].product(strips, input, tokens, sink));
    });
    outcome.into_result()
}
