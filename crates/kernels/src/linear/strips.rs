//! Products for chat: strips of sixteen rows of a weight times tokens, with their epilogue.

use super::epilogue::Epilogue;
use super::float_groups::{AT_ONCE, WIDE};
use super::{FEW_TOKENS, Input, Linear, bf16_dot, float_weights};
use crate::blocks::Quant;
use crate::gemv::Activations;
use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::packed::{Packed, ROWS, TOKEN_TILE};
use crate::shape::{Outcome, ShapeError};
use crate::team;
use std::ops::Range;

/// Minimum bytes of weights in a work chunk: about a microsecond of reading.
const MIN_BYTES: usize = 12 * 1024;
/// Maximum bytes of weights in a work chunk for many tokens, which reuse them: they stay in the
/// private cache of a core.
const MAX_BYTES: usize = 128 * 1024;
/// Minimum number of work chunks if only rows of weights are split.
const MIN_ROW_SPLITS: usize = 48;
/// Minimum per thread: enough for all threads to finish at about the same time.
const ROW_SPLITS_PER_THREAD: usize = 6;
/// Tokens that are multiplied with sixteen rows of a 16-bit weight after one conversion to bf16.
const TOKENS_IN_BF16: usize = 96;
/// Tokens that are multiplied with a span of weights after one conversion to f32.
const TOKENS_IN_F32: usize = 22 * WIDE;
/// Work chunks per thread if tokens are split, too.
const WORK_CHUNKS_PER_THREAD: usize = 16;

/// Representation of the activations for the format of a weight on this machine; the same for any
/// number of tokens.
enum Activation<'a> {
    /// Quantized to int8. Contains the packed rows of the weight; none in the plain layout.
    Int8(Packed<'a>),
    /// Rounded to bf16.
    Bf16(&'a bf16_dot::Bf16Rows),
    /// Unchanged.
    F32(float_weights::Input<'a>),
}

impl<'a> Activation<'a> {
    /// Prepares the activations for a weight.
    fn new(matrix: &Matrix<'a>, input: &'a Input) -> Result<Self, ShapeError> {
        Ok(match matrix.quant() {
            quant if bf16_dot::takes_bf16(quant) && matrix.packed_rows() == 0 => Self::Bf16(input.bf16_rows()),
            Quant::F32 | Quant::F16 | Quant::BF16 => Self::F32(float_weights::Input {
                rows: &input.floats,
                panels: (matrix.packed_rows() > 0).then(|| input.panels()),
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
    pub fn from_linears(linears: &[&Linear<'a>], input: &'a Input) -> Result<Vec<Self>, ShapeError> {
        let strips = |(linear, epilogue): (&&Linear<'a>, Epilogue<'a>)| {
            Ok(Self {
                matrix: linear.weight,
                activation: Activation::new(&linear.weight, input)?,
                epilogue,
                isa: Isa::best(),
            })
        };
        linears
            .iter()
            .zip(Epilogue::from_linears(linears, input)?)
            .map(strips)
            .collect()
    }

    /// Bytes of all strips.
    fn bytes(&self) -> usize {
        self.matrix.rows() * self.matrix.row_bytes()
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.matrix.row_bytes()
    }

    /// Number of strips.
    pub fn count(&self) -> usize {
        self.matrix.rows().div_ceil(ROWS)
    }

    /// Outputs of strips for tokens, including scale, adapter and bias. Calls
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
            let mut outputs = [0.0; ROWS];
            outputs[..results.len()].copy_from_slice(results);
            epilogue.apply(self.isa, token, row, &mut outputs);
            sink(token, row, &outputs[..results.len()]);
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

    /// Products of quantized weights with int8 activations.
    fn int8(
        &self,
        packed: &Packed,
        rows: Range<usize>,
        input: &Input,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), ShapeError> {
        let activations = input.quantized()?;
        let group_at = |row: usize| row.div_ceil(ROWS).min(packed.groups());
        let groups = group_at(rows.start)..group_at(rows.end);
        let plain = (groups.end * ROWS).max(rows.start)..rows.end;
        packed.product(self.isa, groups, activations, tokens.clone(), |token, row, results| {
            sink(token, row, results);
        })?;
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

/// Number of work chunks into which rows of weights are split.
fn row_splits() -> usize {
    MIN_ROW_SPLITS.max(ROW_SPLITS_PER_THREAD * team::threads())
}

/// The split of products of weights with tokens into work chunks.
pub(crate) struct WorkSplit {
    /// Bytes of weights in a work chunk.
    bytes: usize,
    /// A work chunk has a multiple of this many strips, which the f32 kernel multiplies together.
    strips: usize,
    /// Tokens in a work chunk.
    pub tokens: usize,
    /// Tokens whose products with two weights are computed together, so that both stay in cache.
    pub tokens_at_a_time: usize,
}

impl WorkSplit {
    /// Splits the products of these weights with `tokens` tokens.
    pub fn new(weights: &[Strips], tokens: usize) -> Self {
        let total: usize = weights.iter().map(Strips::bytes).sum();
        let has = |kind: fn(&Activation) -> bool| weights.iter().any(|strips| kind(&strips.activation));
        let (has_f32, has_bf16) = (
            has(|activation| matches!(activation, Activation::F32(_))),
            has(|activation| matches!(activation, Activation::Bf16(_))),
        );
        // Products with few tokens are bound by memory: split by bytes alone.
        if has_f32 && tokens > FEW_TOKENS {
            let split = Self {
                bytes: (total / row_splits()).max(MIN_BYTES),
                strips: AT_ONCE,
                tokens: TOKENS_IN_F32,
                tokens_at_a_time: TOKENS_IN_F32,
            };
            // Tokens are split, too, if the rows give too few work chunks.
            let splits_of = |weight: &Strips| weight.count().div_ceil(split.strips(weight.row_bytes()));
            let row_splits: usize = weights.iter().map(splits_of).sum();
            let token_splits = (ROW_SPLITS_PER_THREAD * team::threads()).div_ceil(row_splits.max(1));
            let tokens = (tokens / token_splits)
                .clamp(4 * WIDE, TOKENS_IN_F32)
                .next_multiple_of(WIDE);
            return Self {
                tokens,
                // Weights are widened once per this many tokens.
                tokens_at_a_time: tokens,
                ..split
            };
        }
        let tokens_at_a_time = 4 * TOKEN_TILE;
        if tokens <= TOKEN_TILE || has_bf16 {
            return Self {
                bytes: (total / row_splits()).max(MIN_BYTES),
                strips: 1,
                tokens: TOKENS_IN_BF16,
                tokens_at_a_time,
            };
        }
        let token_splits = (WORK_CHUNKS_PER_THREAD * team::threads()).div_ceil(total.div_ceil(MAX_BYTES).max(1));
        Self {
            bytes: MAX_BYTES,
            strips: 1,
            tokens: tokens.div_ceil(token_splits).next_multiple_of(TOKEN_TILE),
            tokens_at_a_time,
        }
    }

    /// Strips of a work chunk; `row_bytes` includes the rows of other weights in the same work
    /// chunk.
    pub fn strips(&self, row_bytes: usize) -> usize {
        (self.bytes / (ROWS * row_bytes).max(1))
            .next_multiple_of(self.strips)
            .max(self.strips)
    }
}

/// Products of an input with weights in one dispatch. Calls `write(weight, token, row, results)`
/// with an index in `weights`, a token, the first row and up to sixteen results. Calls for
/// different work chunks run in parallel.
///
/// # Errors
/// As [`Strips::product`].
pub(crate) fn multiply_strips(
    weights: &[Strips],
    input: &Input,
    write: impl Fn(usize, usize, usize, &[f32]) + Sync,
) -> Result<(), ShapeError> {
    let split = WorkSplit::new(weights, input.tokens);
    let mut strip_ranges = Vec::new();
    for (weight, strips) in weights.iter().enumerate() {
        let step = split.strips(strips.row_bytes());
        strip_ranges.extend(
            (0..strips.count())
                .step_by(step)
                .map(|first| (weight, first..(first + step).min(strips.count()))),
        );
    }
    let outcome = Outcome::default();
    team::run(
        strip_ranges.len() * input.tokens.div_ceil(split.tokens),
        &|work_chunk| {
            let (weight, strips) = strip_ranges[work_chunk % strip_ranges.len()].clone();
            let first = work_chunk / strip_ranges.len() * split.tokens;
            let tokens = first..(first + split.tokens).min(input.tokens);
            let sink = |token: usize, row: usize, results: &[f32]| write(weight, token, row, results);
            outcome.note(weights[weight].product(strips, input, tokens, sink));
        },
    );
    outcome.into_result()
}
