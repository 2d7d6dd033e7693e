//! Epilogue of the product of a strip: the scale of the weight, the adapter and the bias, in this
//! order.

use super::f32_dot::{self, Rows};
use super::{FEW_TOKENS, Input, Linear, Lora};
use crate::isa::Isa;
use crate::lanes::{WIDTH, on_lanes, prefetch};
use crate::packed::ROWS;
use crate::shape::{self, ShapeError};
use crate::team;
use std::ops::Range;

/// Tokens of a tile of an adapter's first product.
const TOKENS: usize = 48;
/// Minimum multiply-adds of a work chunk.
const MIN_PRODUCTS: usize = 16 * 1024;
/// f32 elements in a cache line.
const LINE: usize = 64 / size_of::<f32>();

/// Epilogue of a linear layer over all tokens of an input.
pub(super) struct Epilogue<'a> {
    scale: f32,
    adapter: Option<LowRank<'a>>,
    bias: Option<&'a [f32]>,
}

/// An adapter whose first product is computed.
struct LowRank<'a> {
    /// `scale * dropout(x) a^T`, `[T, rank]`.
    low: Vec<f32>,
    /// `[out, rank]`.
    b: &'a [f32],
    rank: usize,
}

impl<'a> Epilogue<'a> {
    /// Prepares the epilogues of linear layers over one input. Computes the first products of all
    /// adapters in one dispatch.
    ///
    /// # Errors
    /// If the sizes of a layer do not match.
    pub fn from_linears(linears: &[&Linear<'a>], input: &Input) -> Result<Vec<Self>, ShapeError> {
        for linear in linears {
            linear.check()?;
            shape::length("a linear's input", linear.weight.cols(), Some(input.cols))?;
        }
        let adapters = linears.iter().filter_map(|linear| linear.lora.as_ref());
        let mut lows = low_rank(&adapters.collect::<Vec<_>>(), input).into_iter();
        let mut adapter = |lora: &Lora<'a>| {
            lows.next().map(|low| LowRank {
                low,
                b: lora.b,
                rank: lora.rank,
            })
        };
        let epilogue = |linear: &&Linear<'a>| Self {
            scale: linear.scale,
            adapter: linear.lora.as_ref().and_then(&mut adapter),
            bias: linear.bias,
        };
        Ok(linears.iter().map(epilogue).collect())
    }

    /// The epilogue of a range of rows, which starts with a strip, for this many tokens. `None`
    /// means that there is nothing to apply.
    pub fn of_rows(&self, rows: Range<usize>, tokens: usize) -> Option<RowsEpilogue<'_>> {
        if self.scale == 1.0 && self.adapter.is_none() && self.bias.is_none() {
            return None;
        }
        let b = match &self.adapter {
            Some(LowRank { b, rank, .. }) if tokens > FEW_TOKENS => {
                transposed(&b[rows.start * rank..rows.end * rank], *rank)
            }
            // For few tokens, `b` is read as stored.
            _ => Vec::new(),
        };
        if let (Some(LowRank { b: stored, rank, .. }), true) = (&self.adapter, b.is_empty()) {
            prefetch_slice(&stored[rows.start * rank..rows.end.min(rows.start + ROWS) * rank]);
        }
        Some(RowsEpilogue {
            epilogue: self,
            first: rows.start,
            end: rows.end,
            b,
        })
    }
}

/// `scale * dropout(x) a^T` of each adapter, `[T, rank]`. Results do not depend on the batch.
fn low_rank(adapters: &[&Lora], input: &Input) -> Vec<Vec<f32>> {
    let (tokens, cols) = (input.tokens, input.cols);
    let mut lows: Vec<Vec<f32>> = adapters.iter().map(|lora| vec![0.0; tokens * lora.rank]).collect();
    let dropped_x: Vec<_> = adapters
        .iter()
        .map(|lora| lora.dropout.map(|dropout| dropout.apply(&input.floats, cols)))
        .collect();
    let mut tiles = Vec::new();
    for (index, lora) in adapters.iter().enumerate() {
        for token in (0..tokens).step_by(TOKENS) {
            tiles.extend((0..lora.rank).step_by(ROWS).map(|row| (index, token, row)));
        }
    }
    let chunk_tiles = (MIN_PRODUCTS / (ROWS * TOKENS.min(tokens) * cols).max(1)).max(1);
    let isa = Isa::best();
    let out: Vec<_> = lows.iter_mut().map(|low| team::Scattered::new(low)).collect();
    team::run(tiles.len().div_ceil(chunk_tiles), &|work_chunk| {
        for &(index, token, row) in tiles.iter().skip(work_chunk * chunk_tiles).take(chunk_tiles) {
            let lora = adapters[index];
            let (tokens, rows) = (token..tokens.min(token + TOKENS), row..lora.rank.min(row + ROWS));
            let x: &[f32] = dropped_x[index].as_deref().unwrap_or(&input.floats);
            let x = Rows::packed(&x[tokens.start * cols..tokens.end * cols], tokens.len(), cols);
            let a = Rows::packed(&lora.a[rows.start * cols..rows.end * cols], rows.len(), cols);
            f32_dot::products(isa, a, x, &mut |token, results| {
                // SAFETY: each element is computed once.
                let low = unsafe { out[index].slice((tokens.start + token) * lora.rank + rows.start, rows.len()) };
                low.iter_mut().zip(results).for_each(|(low, x)| *low = lora.scale * x);
            });
        }
    });
    drop(out);
    lows
}

/// Transposes rows of an adapter's `b` in strips of sixteen, each `[rank][16]`; zeros past the last
/// row.
fn transposed(b: &[f32], rank: usize) -> Vec<[f32; ROWS]> {
    let strips = b.chunks(ROWS * rank.max(1));
    let mut out = vec![[0.0; ROWS]; strips.len() * rank];
    for (rows, out) in strips.zip(out.chunks_exact_mut(rank.max(1))) {
        for (lane, row) in rows.chunks_exact(rank).enumerate() {
            row.iter().zip(&mut *out).for_each(|(x, out)| out[lane] = *x);
        }
    }
    out
}

/// Epilogue of a range of rows.
pub(super) struct RowsEpilogue<'a> {
    epilogue: &'a Epilogue<'a>,
    first: usize,
    end: usize,
    /// See [`transposed`]; empty for few tokens.
    b: Vec<[f32; ROWS]>,
}

impl RowsEpilogue<'_> {
    /// Applies the epilogue to the products of one token with a strip that starts at `row`. Results
    /// past the last row of the weight are unspecified.
    pub fn apply(&self, isa: Isa, token: usize, row: usize, results: &mut [f32; ROWS]) {
        let mut lora_output = [0.0; ROWS];
        if let Some(LowRank { low, b, rank }) = &self.epilogue.adapter {
            let low = &low[token * rank..][..*rank];
            if self.b.is_empty() {
                // Prefetch the rows of the next strip while its weights are multiplied.
                prefetch_slice(&b[self.end.min(row + ROWS) * rank..self.end.min(row + 2 * ROWS) * rank]);
                by_row(
                    isa,
                    low,
                    &b[row * rank..self.end.min(row + ROWS) * rank],
                    &mut lora_output,
                );
            } else {
                by_column(
                    isa,
                    low,
                    &self.b[(row - self.first) / ROWS * rank..][..*rank],
                    &mut lora_output,
                )
            }
        }
        scale_and_add(isa, self.epilogue.scale, &lora_output, results);
        if let Some(bias) = self.epilogue.bias {
            results.iter_mut().zip(&bias[row..]).for_each(|(y, bias)| *y += bias);
        }
    }
}

/// Prefetches the cache lines of a slice.
fn prefetch_slice(elements: &[f32]) {
    for line in elements.chunks(LINE) {
        if let Some(first) = line.first_chunk::<WIDTH>() {
            prefetch(first, 0);
        }
    }
}

/// Partial sums of an element of an adapter's second product: sum `i` takes the elements of the
/// rank that are `i` modulo four, in order.
const PARTS: usize = 4;

on_lanes! {
    /// `low b^T` for sixteen rows of `b`, transposed: `[rank][16]`.
    fn by_column<L>(l; low: &[f32], b: &[[f32; ROWS]], out: &mut [f32; ROWS]) {
        const { assert!(ROWS == WIDTH) };
        let ((low, low_rest), (b, b_rest)) = (low.as_chunks::<PARTS>(), b.as_chunks::<PARTS>());
        let mut sums = [l.splat(0.0); PARTS];
        for (low, b) in low.iter().zip(b) {
            for i in 0..PARTS {
                sums[i] = l.fma(l.splat(low[i]), l.load(&b[i]), sums[i]);
            }
        }
        for ((low, b), sum) in low_rest.iter().zip(b_rest).zip(&mut sums) {
            *sum = l.fma(l.splat(*low), l.load(b), *sum);
        }
        l.store(l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3])), out);
    }
}

on_lanes! {
    /// `low b^T` for up to sixteen rows of `b` as stored; bit-identical to [`by_column`].
    fn by_row<L>(l; low: &[f32], b: &[f32], out: &mut [f32; ROWS]) {
        let (low_parts, low_rest) = low.as_chunks::<PARTS>();
        for (row, out) in b.chunks_exact(low.len().max(1)).zip(out) {
            let (parts, rest) = row.as_chunks::<PARTS>();
            let mut sums = [0.0; PARTS];
            for (low, b) in low_parts.iter().zip(parts) {
                for i in 0..PARTS {
                    sums[i] = l.fma_scalar(low[i], b[i], sums[i]);
                }
            }
            for ((low, b), sum) in low_rest.iter().zip(rest).zip(&mut sums) {
                *sum = l.fma_scalar(*low, *b, *sum);
            }
            *out = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
}

on_lanes! {
    /// Computes `y = scale * y + added`.
    fn scale_and_add<L>(l; scale: f32, added: &[f32; ROWS], y: &mut [f32; ROWS]) {
        l.store(l.add(l.mul(l.load(y), l.splat(scale)), l.load(added)), y);
    }
}
