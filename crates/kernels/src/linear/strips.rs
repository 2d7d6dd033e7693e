//! Products for chat, a strip of sixteen rows of a weight at a time, and what follows them.

use super::tail::Tail;
use super::{FEW, Input, Linear, floats, pairs};
use crate::blocks::Quant;
use crate::dense::{TALL, WIDE};
use crate::dot::{Activations, Isa};
use crate::matrix::Matrix;
use crate::packed::{Packed, ROWS, TOGETHER};
use crate::shape::{Outcome, ShapeError};
use crate::team;
use std::ops::Range;

/// Bytes of weights that a chunk of work reads at least: about a microsecond's worth.
const LEAST_BYTES: usize = 12 * 1024;
/// And at most, where many tokens meet them one panel after the other: what stays in a core's own cache.
const MOST_BYTES: usize = 128 * 1024;
/// Chunks that the weights are cut into for few tokens: enough for the threads to end together.
const CHUNKS: usize = 48;
/// Tokens for which sixteen rows of a 16-bit weight are rounded to bf16 once.
const TOKENS_IN_BF16: usize = 96;
/// Tokens for which a panel of floats is expanded once.
const TOKENS_IN_F32: usize = 22 * TALL;
/// Chunks of work for each thread, where many tokens are cut, too.
const CHUNKS_A_THREAD: usize = 16;

/// The activations as they meet a weight. One form for each format on a machine, however many tokens there are.
enum Activation<'a> {
    /// Quantised to int8.
    Int8,
    /// Rounded to bf16.
    Bf16(&'a pairs::Rows),
    /// As they are.
    F32(floats::Input<'a>),
}

impl<'a> Activation<'a> {
    fn of(quant: Quant, input: &'a Input) -> Self {
        match quant {
            quant if pairs::meets_pairs(quant) => Self::Bf16(input.pairs()),
            Quant::F32 | Quant::F16 | Quant::BF16 => Self::F32(floats::Input {
                rows: &input.floats,
                tiles: (input.tokens > FEW).then(|| input.tiles()),
            }),
            _ => Self::Int8,
        }
    }
}

/// A linear whose weight is cut into strips of sixteen rows, with what its product needs at hand.
pub(crate) struct Strips<'a> {
    matrix: Matrix<'a>,
    packed: Packed<'a>,
    activation: Activation<'a>,
    tail: Tail<'a>,
    isa: Isa,
}

impl<'a> Strips<'a> {
    /// Linears over this input.
    ///
    /// # Errors
    /// If the sizes of a linear do not fit.
    pub fn all(linears: &[&Linear<'a>], input: &'a Input) -> Result<Vec<Self>, ShapeError> {
        let strips = |(linear, tail): (&&Linear<'a>, Tail<'a>)| {
            Ok(Self {
                matrix: linear.weight,
                packed: packed_of(&linear.weight)?,
                activation: Activation::of(linear.weight.quant(), input),
                tail,
                isa: Isa::best(),
            })
        };
        linears.iter().zip(Tail::all(linears, input)?).map(strips).collect()
    }

    /// Bytes of all strips.
    fn bytes(&self) -> usize {
        self.matrix.rows() * self.matrix.row_bytes()
    }

    pub fn row_bytes(&self) -> usize {
        self.matrix.row_bytes()
    }

    pub fn count(&self) -> usize {
        self.matrix.rows().div_ceil(ROWS)
    }

    /// The outputs of strips for tokens, scale, adapter and bias included: `sink(token, row, up to sixteen results)`.
    pub fn product(
        &self,
        strips: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let rows = strips.start * ROWS..(strips.end * ROWS).min(self.matrix.rows());
        let Some(tail) = self.tail.of_rows(rows.clone(), tokens.len()) else {
            return self.bare(rows, input, tokens, sink);
        };
        self.bare(rows, input, tokens, |token, row, results| {
            let mut finished = [0.0; ROWS];
            finished[..results.len()].copy_from_slice(results);
            tail.finish(self.isa, token, row, &mut finished);
            sink(token, row, &finished[..results.len()]);
        })
    }

    /// The products alone.
    fn bare(
        &self,
        rows: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        match &self.activation {
            Activation::Int8 => self.int8(rows, input, tokens, sink),
            Activation::Bf16(x) => pairs::product(self.isa, &self.matrix, rows, x, tokens, sink),
            Activation::F32(x) => floats::product(self.isa, &self.matrix, rows, *x, tokens, sink),
        }
    }

    fn int8(
        &self,
        rows: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let per_token = Activations::chunks_for(input.cols);
        let groups = |row: usize| row.div_ceil(ROWS).min(self.packed.groups());
        let packed = groups(rows.start)..groups(rows.end);
        let chunks = &input.chunks[tokens.start * per_token..tokens.end * per_token];
        let plain = (packed.end * ROWS).max(rows.start)..rows.end;
        self.packed
            .product(self.isa, packed, chunks, tokens.len(), |token, row, results| {
                sink(tokens.start + token, row, results);
            })?;
        for first in plain.clone().step_by(ROWS) {
            let rows = first..plain.end.min(first + ROWS);
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

/// As many tokens as leave three chunks for each thread.
fn tokens_in_f32() -> usize {
    let parts = (3 * team::threads()).div_ceil(CHUNKS);
    (TOKENS_IN_F32 / parts).max(4 * TALL).next_multiple_of(TALL)
}

/// How the products of weights with tokens are cut into chunks of work.
pub(crate) struct Cut {
    /// Bytes of weights in a chunk.
    bytes: usize,
    /// A chunk has a multiple of this many strips.
    strips: usize,
    /// Tokens in a chunk.
    pub tokens: usize,
    /// Tokens of a chunk whose products with two weights are wanted near each other.
    pub at_a_time: usize,
}

impl Cut {
    /// That of the products of all these with this many tokens.
    pub fn of(weights: &[Strips], tokens: usize) -> Self {
        let total: usize = weights.iter().map(Strips::bytes).sum();
        let any = |which: fn(&Activation) -> bool| weights.iter().any(|strips| which(&strips.activation));
        let (in_f32, in_bf16) = (
            any(|activation| matches!(activation, Activation::F32(_))),
            any(|activation| matches!(activation, Activation::Bf16(_))),
        );
        if in_f32 && tokens > FEW {
            return Self {
                bytes: (total / CHUNKS).max(LEAST_BYTES),
                strips: WIDE / ROWS,
                tokens: tokens_in_f32(),
                // A panel is expanded for each of these.
                at_a_time: tokens_in_f32(),
            };
        }
        let at_a_time = 4 * TOGETHER;
        if tokens <= TOGETHER || in_bf16 {
            return Self {
                bytes: (total / CHUNKS).max(LEAST_BYTES),
                strips: 1,
                tokens: TOKENS_IN_BF16,
                at_a_time,
            };
        }
        let blocks = (CHUNKS_A_THREAD * team::threads()).div_ceil(total.div_ceil(MOST_BYTES).max(1));
        Self {
            bytes: MOST_BYTES,
            strips: 1,
            tokens: tokens.div_ceil(blocks).next_multiple_of(TOGETHER),
            at_a_time,
        }
    }

    /// Strips of a chunk, of rows that have this many bytes together with those of other weights that the chunk takes as well.
    pub fn strips(&self, row_bytes: usize) -> usize {
        (self.bytes / (ROWS * row_bytes).max(1))
            .next_multiple_of(self.strips)
            .max(self.strips)
    }
}

/// The products of an input with weights, one dispatch for all: `write(weight, token, row, results)`.
pub(crate) fn fast(weights: &[Strips], input: &Input, write: &Write<'_>) -> Result<(), ShapeError> {
    let cut = Cut::of(weights, input.tokens);
    let mut chunks = Vec::new();
    for (which, strips) in weights.iter().enumerate() {
        let step = cut.strips(strips.row_bytes());
        chunks.extend(
            (0..strips.count())
                .step_by(step)
                .map(|at| (which, at..(at + step).min(strips.count()))),
        );
    }
    let outcome = Outcome::default();
    team::run(chunks.len() * input.tokens.div_ceil(cut.tokens), &|chunk| {
        let (which, strips) = chunks[chunk % chunks.len()].clone();
        let first = chunk / chunks.len() * cut.tokens;
        let tokens = first..(first + cut.tokens).min(input.tokens);
        let sink = |token: usize, row: usize, results: &[f32]| write(which, token, row, results);
        outcome.note(weights[which].product(strips, input, tokens, sink));
    });
    outcome.into_result()
}
