//! A linear over a frozen weight: product, then the weight's own scale, then the adapter, then the bias.
//!
//! There are two products. `Exact` expands the weight in tiles and sums in f32; `Fast` quantises the activations to int8. The
//! gradient is that of `Exact`.

use crate::blocks::Quant;
use crate::dense::{self, Into, TALL, Target, View, WIDE, matmul, pack_tall};
use crate::dot::{ActivationChunk, Activations, Isa};
use crate::matrix::Matrix;
use crate::norm;
use crate::packed::{self, Packed, ROWS};
use crate::shape::{self, Outcome, ShapeError};
use crate::softmax::product as product_of;
use crate::team;
use std::borrow::Cow;
use std::ops::Range;

/// How a product with a quantised weight is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Activations quantised to int8 in blocks of 32: chat.
    Fast,
    /// The weight expanded in tiles, all sums in f32: training, references, gradients.
    Exact,
}

/// An adapter: adds `scale * (x a^T) b^T`. <https://arxiv.org/abs/2106.09685>
#[derive(Clone, Copy, Debug)]
pub struct Lora<'a> {
    /// `[rank, in]`.
    pub a: &'a [f32],
    /// `[out, rank]`.
    pub b: &'a [f32],
    /// Rows of `a`.
    pub rank: usize,
    /// What the adapter counts for.
    pub scale: f32,
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// `[out, in]`, frozen.
    pub weight: Matrix<'a>,
    /// The weight's own scale; 1 where it has none.
    pub scale: f32,
    /// What training adds.
    pub lora: Option<Lora<'a>>,
    /// What the file adds, `[out]`.
    pub bias: Option<&'a [f32]>,
}

impl<'a> Linear<'a> {
    /// A weight and nothing else.
    pub fn plain(weight: Matrix<'a>) -> Self {
        Self {
            weight,
            scale: 1.0,
            lora: None,
            bias: None,
        }
    }

    /// Whether anything follows the product.
    pub(crate) fn has_tail(&self) -> bool {
        self.scale != 1.0 || self.lora.is_some() || self.bias.is_some()
    }

    pub(crate) fn check(&self) -> Result<(), ShapeError> {
        if let Some(lora) = &self.lora {
            shape::length(
                "an adapter's a",
                lora.a.len(),
                lora.rank.checked_mul(self.weight.cols()),
            )?;
            shape::length(
                "an adapter's b",
                lora.b.len(),
                lora.rank.checked_mul(self.weight.rows()),
            )?;
        }
        match self.bias {
            Some(bias) => shape::length("a bias", bias.len(), Some(self.weight.rows())),
            None => Ok(()),
        }
    }
}

/// RMSNorm before or after a linear; see [`crate::norm::rms_norm`].
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// As wide as a row.
    pub weight: &'a [f32],
    /// Keeps the root away from zero.
    pub eps: f32,
}

/// Tokens that meet a strip of weights while it is near: their activations, quantised, stay in a core's own cache.
const TOKENS_A_CHUNK: usize = 96;
/// Tokens up to which preparing them is not worth waking the team.
const FEW: usize = 4;
/// Bytes of weights that a chunk reads at least: about a microsecond's worth.
const BYTES_A_CHUNK: usize = 12 * 1024;
/// Chunks that the largest products are cut into for a block of tokens: enough for the threads to end together.
const CHUNKS: usize = 48;

/// The input of linears: rows of activations, normalised, and quantised where the product asks for it.
pub(crate) struct Input<'a> {
    pub floats: Cow<'a, [f32]>,
    chunks: Vec<ActivationChunk>,
    pub tokens: usize,
    pub cols: usize,
}

impl<'a> Input<'a> {
    /// Rows of `x [T, cols]` made ready.
    pub fn new(x: &'a [f32], cols: usize, norm: Option<Norm>, product: Product) -> Result<Self, ShapeError> {
        let tokens = shape::rows("a linear's input", x.len(), cols)?;
        if let Some(norm) = norm {
            shape::length("a norm's weight", norm.weight.len(), Some(cols))?;
        }
        let per_token = match product {
            Product::Fast => Activations::chunks_for(cols),
            Product::Exact => 0,
        };
        let mut normed = vec![0.0; if norm.is_some() { x.len() } else { 0 }];
        let mut chunks = vec![ActivationChunk::ZERO; tokens * per_token];
        let isa = Isa::best();
        let outcome = Outcome::default();
        {
            let (normed, chunks) = (team::Scattered::new(&mut normed), team::Scattered::new(&mut chunks));
            let one = |token: usize| {
                let x = &x[token * cols..][..cols];
                let row = match norm {
                    // SAFETY: each token is given out once.
                    Some(norm) => unsafe {
                        let row = normed.slice(token * cols, cols);
                        norm::row(isa, x, norm.weight, norm.eps, row);
                        row
                    },
                    None => x,
                };
                if per_token > 0 {
                    // SAFETY: as above.
                    let chunks = unsafe { chunks.slice(token * per_token, per_token) };
                    outcome.note(
                        Activations::quantize_on(isa, row, chunks)
                            .map(|_| ())
                            .map_err(ShapeError::from),
                    );
                }
            };
            let a_chunk = if tokens <= FEW { FEW } else { norm::rows_a_chunk(cols) };
            team::run(tokens.div_ceil(a_chunk), &|chunk| {
                (chunk * a_chunk..((chunk + 1) * a_chunk).min(tokens)).for_each(one);
            });
        }
        outcome.into_result()?;
        let floats = if norm.is_some() {
            Cow::Owned(normed)
        } else {
            Cow::Borrowed(x)
        };
        Ok(Self {
            floats,
            chunks,
            tokens,
            cols,
        })
    }

    fn row(&self, token: usize) -> Result<Activations<'_>, ShapeError> {
        let per_token = Activations::chunks_for(self.cols);
        let floats = &self.floats[token * self.cols..][..self.cols];
        Ok(Activations::from_parts(
            floats,
            &self.chunks[token * per_token..][..per_token],
        )?)
    }
}

/// A weight cut into strips of sixteen rows, with what its product needs at hand.
pub(crate) struct Strips<'a> {
    matrix: Matrix<'a>,
    packed: Packed<'a>,
    isa: Isa,
}

impl<'a> Strips<'a> {
    pub fn new(matrix: Matrix<'a>) -> Result<Self, ShapeError> {
        Ok(Self {
            matrix,
            packed: packed_of(&matrix)?,
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

/// Whether the product of this many tokens is made in f32, tile by tile. Plain weights meet the activations in f32 anyway; and
/// formats that cannot be packed are several times faster expanded than row by row, once many tokens share the expanding.
pub(crate) fn in_floats(matrix: &Matrix, product: Product, tokens: usize) -> bool {
    product == Product::Exact || (tokens > FEW && !packed::can_pack(matrix.quant(), matrix.cols()))
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

/// `target` becomes, or grows by, the product of the input with a weight, expanded in tiles.
pub(crate) fn exact(matrix: &Matrix, talls: &[f32], target: &Target, into: Into) -> Result<(), ShapeError> {
    let (outcome, cols) = (Outcome::default(), matrix.cols());
    let fill = |first: usize, out: &mut [f32]| {
        let mut row = vec![0.0; cols];
        for r in 0..WIDE.min(matrix.rows() - first) {
            outcome.note(matrix.dequantize_row(first + r, &mut row));
            for (out, x) in out.as_chunks_mut::<WIDE>().0.iter_mut().zip(&row) {
                out[r] = *x;
            }
        }
    };
    dense::product(talls, cols, &fill, 1.0, target, into);
    outcome.into_result()
}

/// Rows of a weight that are expanded at a time for the product with its transpose.
const EXPANDED: usize = 16 * TALL;

/// `dx [T, in]` grows by `scale * dy W`, with `dy [T, out]`.
///
/// # Errors
/// Where the sizes do not fit.
pub fn product_transposed(matrix: &Matrix, dy: View, scale: f32, dx: &Target) -> Result<(), ShapeError> {
    shape::length("the columns of an output's gradient", dy.cols(), Some(matrix.rows()))?;
    let mut rows = vec![0.0; EXPANDED.min(matrix.rows()) * matrix.cols()];
    for first in (0..matrix.rows()).step_by(EXPANDED) {
        let count = EXPANDED.min(matrix.rows() - first);
        let rows = &mut rows[..count * matrix.cols()];
        matrix.dequantize_rows(first..first + count, rows)?;
        let part = dy.columns(first, count)?;
        matmul(part, View::all(rows, count, matrix.cols())?, scale, dx, Into::Add)?;
    }
    Ok(())
}

/// What follows the product, over it: the weight's scale, the adapter on the same input `x [T, in]`, the bias.
///
/// # Errors
/// Where the sizes do not fit.
pub fn apply_linear_tail(linear: &Linear, x: &[f32], y: &Target) -> Result<(), ShapeError> {
    linear.check()?;
    let (tokens, rows) = (y.rows(), linear.weight.rows());
    shape::length("the columns of a linear's output", y.cols(), Some(rows))?;
    // SAFETY: here and below, the rows are taken one after the other by this thread alone.
    let row = |token| unsafe { y.part(token, 0, rows) };
    if linear.scale != 1.0 {
        (0..tokens).for_each(|token| row(token).iter_mut().for_each(|y| *y *= linear.scale));
    }
    if let Some(lora) = &linear.lora
        && tokens <= FEW
    {
        shape::length("a linear's input", x.len(), tokens.checked_mul(linear.weight.cols()))?;
        for (token, x) in x.chunks_exact(linear.weight.cols().max(1)).enumerate() {
            add_adapter(Isa::best(), lora, x, row(token));
        }
    } else if let Some(lora) = &linear.lora {
        let low = low_rank(x, tokens, linear.weight.cols(), lora)?;
        let b = View::all(lora.b, rows, lora.rank)?.transposed();
        matmul(View::all(&low, tokens, lora.rank)?, b, lora.scale, y, Into::Add)?;
    }
    if let Some(bias) = linear.bias {
        (0..tokens).for_each(|token| row(token).iter_mut().zip(bias).for_each(|(y, bias)| *y += bias));
    }
    Ok(())
}

/// An adapter for one token, on this thread: two thin products, not worth a dispatch.
fn add_adapter(isa: Isa, lora: &Lora, x: &[f32], y: &mut [f32]) {
    let low: Vec<f32> = lora
        .a
        .chunks_exact(x.len())
        .map(|a| lora.scale * product_of(isa, x, a))
        .collect();
    for (y, b) in y.iter_mut().zip(lora.b.chunks_exact(lora.rank.max(1))) {
        *y += product_of(isa, &low, b);
    }
}

/// `x a^T`, `[T, rank]`.
fn low_rank(x: &[f32], tokens: usize, cols: usize, lora: &Lora) -> Result<Vec<f32>, ShapeError> {
    let mut low = vec![0.0; tokens * lora.rank];
    let a = View::all(lora.a, lora.rank, cols)?.transposed();
    matmul(
        View::all(x, tokens, cols)?,
        a,
        1.0,
        &Target::all(&mut low, tokens, lora.rank)?,
        Into::Replace,
    )?;
    Ok(low)
}

/// The gradient of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraGradient {
    /// `[rank, in]`.
    pub a: Vec<f32>,
    /// `[out, rank]`.
    pub b: Vec<f32>,
}

/// The gradient of a linear of input `x [T, in]` from that of its output, `dy [T, out]`: that of the input is added to
/// `dx [T, in]`, that of the adapter returned.
///
/// # Errors
/// Where the sizes do not fit.
pub fn linear_backward(
    linear: &Linear,
    x: &[f32],
    dy: View,
    dx: &mut [f32],
) -> Result<Option<LoraGradient>, ShapeError> {
    linear.check()?;
    let (tokens, rows, cols) = (dy.rows(), linear.weight.rows(), linear.weight.cols());
    shape::length("a linear's input", x.len(), tokens.checked_mul(cols))?;
    let dx = Target::all(dx, tokens, cols)?;
    product_transposed(&linear.weight, dy, linear.scale, &dx)?;
    let Some(lora) = &linear.lora else { return Ok(None) };
    // All intermediates have the rank as one side: small, whatever the weight's size.
    let low = low_rank(x, tokens, cols, lora)?;
    let mut d_low = vec![0.0; tokens * lora.rank];
    let b = View::all(lora.b, rows, lora.rank)?;
    matmul(
        dy,
        b,
        lora.scale,
        &Target::all(&mut d_low, tokens, lora.rank)?,
        Into::Replace,
    )?;
    let d_low = View::all(&d_low, tokens, lora.rank)?;
    let mut gradient = LoraGradient {
        a: vec![0.0; lora.a.len()],
        b: vec![0.0; lora.b.len()],
    };
    let to_a = Target::all(&mut gradient.a, lora.rank, cols)?;
    matmul(
        d_low.transposed(),
        View::all(x, tokens, cols)?,
        1.0,
        &to_a,
        Into::Replace,
    )?;
    let to_b = Target::all(&mut gradient.b, rows, lora.rank)?;
    matmul(
        dy.transposed(),
        View::all(&low, tokens, lora.rank)?,
        lora.scale,
        &to_b,
        Into::Replace,
    )?;
    matmul(d_low, View::all(lora.a, lora.rank, cols)?, 1.0, &dx, Into::Add)?;
    Ok(Some(gradient))
}

/// The input as tall tiles, where a product in f32 needs it.
pub(crate) fn talls_for(input: &Input, needed: bool) -> Result<Vec<f32>, ShapeError> {
    match needed {
        true => Ok(pack_tall(View::all(&input.floats, input.tokens, input.cols)?)),
        false => Ok(Vec::new()),
    }
}
