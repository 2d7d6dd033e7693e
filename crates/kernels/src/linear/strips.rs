//! Products for chat, by strips of sixteen rows of a weight, with their epilogue.

use super::epilogue::Epilogue;
use super::float_groups::{AT_ONCE, WIDE};
use super::{FEW, Input, Linear, bf16_dot, float_weights};
use crate::blocks::Quant;
use crate::gemv::Activations;
use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::packed::{Packed, ROWS, TOKEN_TILE};
use crate::shape::{Outcome, ShapeError};
use crate::team;
use std::ops::Range;

/// Minimum bytes of weights per chunk of work: about a microsecond of reading.
const MIN_BYTES: usize = 12 * 1024;
/// Maximum bytes of weights per chunk for many tokens, which reuse them: they stay in a core's own
/// cache.
const MAX_BYTES: usize = 128 * 1024;
/// Minimum number of chunks if weights are split by rows.
const MIN_ROW_CHUNKS: usize = 48;
/// The same per thread: enough for the threads to end together.
const ROW_CHUNKS_PER_THREAD: usize = 6;
/// Tokens per conversion of sixteen rows of a 16-bit weight to bf16.
const TOKENS_IN_BF16: usize = 96;
/// Tokens per widening of a span of weights to f32.
const TOKENS_IN_F32: usize = 22 * WIDE;
/// Chunks of work per thread if tokens are split, too.
const CHUNKS_PER_THREAD: usize = 16;

/// Representation of the activations for a weight's format on this machine, the same for any number
/// of tokens.
enum Activation<'a> {
    /// Quantized to int8. Holds the packed rows of the weight, none in the plain layout.
    Int8(Packed<'a>),
    /// Rounded to bf16.
    Bf16(&'a bf16_dot::Bf16Rows),
    /// Unchanged.
    F32(float_weights::Input<'a>),
}

impl<'a> Activation<'a> {
    fn new(matrix: &Matrix<'a>, input: &'a Input) -> Result<Self, ShapeError> {
        Ok(match matrix.quant() {
            quant if bf16_dot::takes_bf16(quant) && matrix.packed_rows() == 0 => Self::Bf16(input.bf16_rows()),
            Quant::F32 | Quant::F16 | Quant::BF16 => Self::F32(float_weights::Input {
                rows: &input.floats,
                tiles: (matrix.packed_rows() > 0).then(|| input.tiles()),
            }),
            _ => Self::Int8(matrix.packed()?),
        })
    }
}

/// A linear layer split into strips of sixteen rows, prepared for its product.
pub(crate) struct Strips<'a> {
    matrix: Matrix<'a>,
    activation: Activation<'a>,
    epilogue: Epilogue<'a>,
    isa: Isa,
}

impl<'a> Strips<'a> {
    /// Prepares linear layers over one input.
    ///
    /// # Errors
    /// If the sizes of a layer do not match.
    pub fn all(linears: &[&Linear<'a>], input: &'a Input) -> Result<Vec<Self>, ShapeError> {
        let strips = |(linear, epilogue): (&&Linear<'a>, Epilogue<'a>)| {
            Ok(Self {
                matrix: linear.weight,
                activation: Activation::new(&linear.weight, input)?,
                epilogue,
                isa: Isa::best(),
            })
        };
        linears.iter().zip(Epilogue::all(linears, input)?).map(strips).collect()
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

    /// Outputs of strips for tokens, including scale, adapter and bias:
    /// `sink(token, row, up to sixteen results)`.
    pub fn product(
        &self,
        strips: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let rows = strips.start * ROWS..(strips.end * ROWS).min(self.matrix.rows());
        let Some(epilogue) = self.epilogue.of_rows(rows.clone(), tokens.len()) else {
            return self.without_epilogue(rows, input, tokens, sink);
        };
        self.without_epilogue(rows, input, tokens, |token, row, results| {
            let mut finished = [0.0; ROWS];
            finished[..results.len()].copy_from_slice(results);
            epilogue.finish(self.isa, token, row, &mut finished);
            sink(token, row, &finished[..results.len()]);
        })
    }

    /// The products without epilogue.
    fn without_epilogue(
        &self,
        rows: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        match &self.activation {
            Activation::Int8(packed) => self.int8(packed, rows, input, tokens, sink),
            Activation::Bf16(x) => bf16_dot::product(self.isa, &self.matrix, rows, x, tokens, sink),
            Activation::F32(x) => float_weights::product(self.isa, &self.matrix, rows, *x, tokens, sink),
        }
    }

    fn int8(
        &self,
        packed: &Packed,
        rows: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let activations = input.quantized()?;
        let groups = |row: usize| row.div_ceil(ROWS).min(packed.groups());
        let of_chunk = groups(rows.start)..groups(rows.end);
        let plain = (of_chunk.end * ROWS).max(rows.start)..rows.end;
        packed.product(
            self.isa,
            of_chunk,
            activations,
            tokens.clone(),
            |token, row, results| {
                sink(token, row, results);
            },
        )?;
        if plain.is_empty() {
            return Ok(());
        }
        for token in tokens {
            let chunks = activations.row(token);
            let row = Activations::from_parts(input.row(token), &chunks)?;
            for first in plain.clone().step_by(ROWS) {
                let rows = first..plain.end.min(first + ROWS);
                let mut results = [0.0; ROWS];
                let results = &mut results[..rows.len()];
                let bytes = self.matrix.plain_rows(rows.clone());
                self.matrix.quant().gemv_on(self.isa, bytes, &row, results)?;
                sink(token, rows.start, results);
            }
        }
        Ok(())
    }
}

/// Number of chunks into which the rows of weights are split.
fn chunks_of_rows() -> usize {
    MIN_ROW_CHUNKS.max(ROW_CHUNKS_PER_THREAD * team::threads())
}

/// The split of products of weights with tokens into chunks of work.
pub(crate) struct WorkSplit {
    /// Bytes of weights in a chunk.
    bytes: usize,
    /// A chunk has a multiple of this many strips, which the f32 kernel multiplies together.
    strips: usize,
    /// Tokens in a chunk.
    pub tokens: usize,
    /// Tokens whose products with two weights are computed together, so that both stay in cache.
    pub at_a_time: usize,
}

impl WorkSplit {
    /// Splits the products of these weights with `tokens` tokens.
    pub fn new(weights: &[Strips], tokens: usize) -> Self {
        let total: usize = weights.iter().map(Strips::bytes).sum();
        let any = |which: fn(&Activation) -> bool| weights.iter().any(|strips| which(&strips.activation));
        let (in_f32, in_bf16) = (
            any(|activation| matches!(activation, Activation::F32(_))),
            any(|activation| matches!(activation, Activation::Bf16(_))),
        );
        // Few tokens are bound by memory, and split by bytes alone.
        if in_f32 && tokens > FEW {
            let split = Self {
                bytes: (total / chunks_of_rows()).max(MIN_BYTES),
                strips: AT_ONCE,
                tokens: TOKENS_IN_F32,
                at_a_time: TOKENS_IN_F32,
            };
            // Tokens are split, too, if the rows give too few chunks.
            let of_rows = |weight: &Strips| weight.count().div_ceil(split.strips(weight.row_bytes()));
            let row_chunks: usize = weights.iter().map(of_rows).sum();
            let parts = (ROW_CHUNKS_PER_THREAD * team::threads()).div_ceil(row_chunks.max(1));
            let tokens = (tokens / parts).clamp(4 * WIDE, TOKENS_IN_F32).next_multiple_of(WIDE);
            return Self {
                tokens,
                // Weights are widened once for each of these.
                at_a_time: tokens,
                ..split
            };
        }
        let at_a_time = 4 * TOKEN_TILE;
        if tokens <= TOKEN_TILE || in_bf16 {
            return Self {
                bytes: (total / chunks_of_rows()).max(MIN_BYTES),
                strips: 1,
                tokens: TOKENS_IN_BF16,
                at_a_time,
            };
        }
        let blocks = (CHUNKS_PER_THREAD * team::threads()).div_ceil(total.div_ceil(MAX_BYTES).max(1));
        Self {
            bytes: MAX_BYTES,
            strips: 1,
            tokens: tokens.div_ceil(blocks).next_multiple_of(TOKEN_TILE),
            at_a_time,
        }
    }

    /// Strips per chunk; `row_bytes` includes the rows of other weights in the same chunk.
    pub fn strips(&self, row_bytes: usize) -> usize {
        (self.bytes / (ROWS * row_bytes).max(1))
            .next_multiple_of(self.strips)
            .max(self.strips)
    }
}

/// Products of an input with weights in one dispatch: `write(weight, token, row, results)` receives
/// an index in `weights`, a token, the first row and up to sixteen results. Calls for different
/// chunks of work run in parallel.
///
/// # Errors
/// As [`Strips::product`].
pub(crate) fn multiply_strips(
    weights: &[Strips],
    input: &Input,
    write: impl Fn(usize, usize, usize, &[f32]) + Sync,
) -> Result<(), ShapeError> {
    let split = WorkSplit::new(weights, input.tokens);
    let mut chunks = Vec::new();
    for (which, strips) in weights.iter().enumerate() {
        let step = split.strips(strips.row_bytes());
        chunks.extend(
            (0..strips.count())
                .step_by(step)
                .map(|at| (which, at..(at + step).min(strips.count()))),
        );
    }
    let outcome = Outcome::default();
    team::run(chunks.len() * input.tokens.div_ceil(split.tokens), &|chunk| {
        let (which, strips) = chunks[chunk % chunks.len()].clone();
        let first = chunk / chunks.len() * split.tokens;
        let tokens = first..(first + split.tokens).min(input.tokens);
        let sink = |token: usize, row: usize, results: &[f32]| write(which, token, row, results);
        outcome.note(weights[which].product(strips, input, tokens, sink));
    });
    outcome.into_result()
}
