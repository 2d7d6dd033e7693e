//! What follows the product of a strip: the weight's own scale, the adapter, the bias, in this order.

use super::dot_block::{self, Rows};
use super::{FEW, Input, Linear, Lora};
use crate::dot::Isa;
use crate::lanes::{WIDTH, fetch_ahead, on_lanes};
use crate::packed::ROWS;
use crate::shape::{self, ShapeError};
use crate::team;
use std::ops::Range;

/// Tokens of a unit of work of an adapter's first product.
const TOKENS: usize = 48;
/// Products of two numbers that are worth handing to a thread.
const LEAST_PRODUCTS: usize = 16 * 1024;
/// Numbers of a cache line.
const LINE: usize = 64 / size_of::<f32>();

/// What follows the product of a linear with all tokens of an input.
pub(super) struct Tail<'a> {
    scale: f32,
    adapter: Option<LowRank<'a>>,
    bias: Option<&'a [f32]>,
}

/// An adapter whose first product is made.
struct LowRank<'a> {
    /// `scale * drop(x) a^T`, `[T, rank]`.
    low: Vec<f32>,
    /// `[out, rank]`.
    b: &'a [f32],
    rank: usize,
}

impl<'a> Tail<'a> {
    /// Those of linears over one input. The first products of their adapters take one dispatch.
    ///
    /// # Errors
    /// If the sizes of a linear do not fit.
    pub fn all(linears: &[&Linear<'a>], input: &Input) -> Result<Vec<Self>, ShapeError> {
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
        let tail = |linear: &&Linear<'a>| Self {
            scale: linear.scale,
            adapter: linear.lora.as_ref().and_then(&mut adapter),
            bias: linear.bias,
        };
        Ok(linears.iter().map(tail).collect())
    }

    /// That of some rows of the weight, the first of which begins a strip, for this many tokens; `None` if nothing follows the product.
    pub fn of_rows(&self, rows: Range<usize>, tokens: usize) -> Option<TailOfRows<'_>> {
        if self.scale == 1.0 && self.adapter.is_none() && self.bias.is_none() {
            return None;
        }
        let b = match &self.adapter {
            Some(LowRank { b, rank, .. }) if tokens > FEW => transposed(&b[rows.start * rank..rows.end * rank], *rank),
            // Few tokens read `b` as it is stored.
            _ => Vec::new(),
        };
        if let (Some(LowRank { b: stored, rank, .. }), true) = (&self.adapter, b.is_empty()) {
            fetch(&stored[rows.start * rank..rows.end.min(rows.start + ROWS) * rank]);
        }
        Some(TailOfRows {
            tail: self,
            first: rows.start,
            end: rows.end,
            b,
        })
    }
}

/// `scale * drop(x) a^T` of each adapter, `[T, rank]`. A token's numbers do not depend on which others there are.
fn low_rank(adapters: &[&Lora], input: &Input) -> Vec<Vec<f32>> {
    let (tokens, cols) = (input.tokens, input.cols);
    let mut lows: Vec<Vec<f32>> = adapters.iter().map(|lora| vec![0.0; tokens * lora.rank]).collect();
    let dropped: Vec<_> = adapters
        .iter()
        .map(|lora| lora.dropout.map(|dropout| dropout.of(&input.floats, cols)))
        .collect();
    let mut units = Vec::new();
    for (number, lora) in adapters.iter().enumerate() {
        for token in (0..tokens).step_by(TOKENS) {
            units.extend((0..lora.rank).step_by(ROWS).map(|row| (number, token, row)));
        }
    }
    let per_chunk = (LEAST_PRODUCTS / (ROWS * TOKENS.min(tokens) * cols).max(1)).max(1);
    let isa = Isa::best();
    let out: Vec<_> = lows.iter_mut().map(|low| team::Scattered::new(low)).collect();
    team::run(units.len().div_ceil(per_chunk), &|chunk| {
        for &(number, token, row) in units.iter().skip(chunk * per_chunk).take(per_chunk) {
            let lora = adapters[number];
            let (tokens, rows) = (token..tokens.min(token + TOKENS), row..lora.rank.min(row + ROWS));
            let x: &[f32] = dropped[number].as_deref().unwrap_or(&input.floats);
            let x = Rows::packed(&x[tokens.start * cols..tokens.end * cols], tokens.len(), cols);
            let a = Rows::packed(&lora.a[rows.start * cols..rows.end * cols], rows.len(), cols);
            dot_block::products(isa, a, x, &mut |token, results| {
                // SAFETY: each number is computed once.
                let low = unsafe { out[number].slice((tokens.start + token) * lora.rank + rows.start, rows.len()) };
                low.iter_mut().zip(results).for_each(|(low, x)| *low = lora.scale * x);
            });
        }
    });
    drop(out);
    lows
}

/// Rows of an adapter's `b` by strips of sixteen, each `[rank][16]`; zeros past the last row.
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

/// What follows the products of some rows.
pub(super) struct TailOfRows<'a> {
    tail: &'a Tail<'a>,
    first: usize,
    end: usize,
    /// See [`transposed`]; empty for few tokens.
    b: Vec<[f32; ROWS]>,
}

impl TailOfRows<'_> {
    /// Makes the products of one token with the rows of a strip, `row` being the first, outputs of the linear. Behind the last row of a
    /// weight results are of no meaning.
    pub fn finish(&self, isa: Isa, token: usize, row: usize, results: &mut [f32; ROWS]) {
        let mut added = [0.0; ROWS];
        if let Some(LowRank { low, b, rank }) = &self.tail.adapter {
            let low = &low[token * rank..][..*rank];
            match self.b.is_empty() {
                true => {
                    // Those of the next strip come from memory while that strip's weights meet the input.
                    fetch(&b[self.end.min(row + ROWS) * rank..self.end.min(row + 2 * ROWS) * rank]);
                    by_row(isa, low, &b[row * rank..self.end.min(row + ROWS) * rank], &mut added);
                }
                false => by_column(
                    isa,
                    low,
                    &self.b[(row - self.first) / ROWS * rank..][..*rank],
                    &mut added,
                ),
            }
        }
        scale_and_add(isa, self.tail.scale, &added, results);
        if let Some(bias) = self.tail.bias {
            results.iter_mut().zip(&bias[row..]).for_each(|(y, bias)| *y += bias);
        }
    }
}

/// Has numbers brought near.
fn fetch(numbers: &[f32]) {
    for line in numbers.chunks(LINE) {
        if let Some(first) = line.first_chunk::<WIDTH>() {
            fetch_ahead(first, 0);
        }
    }
}

/// Partial sums of an adapter's second product: number `i` takes the elements of the rank that are `i` modulo four, in order.
const PARTS: usize = 4;

on_lanes! {
    /// `low b^T` for sixteen rows of `b`, transposed: `[rank][16]`.
    fn by_column<L>(l; low: &[f32], b: &[[f32; ROWS]], out: &mut [f32; ROWS]) {
        const { assert!(ROWS == WIDTH) };
        let ((low, low_rest), (b, b_rest)) = (low.as_chunks::<PARTS>(), b.as_chunks::<PARTS>());
        let mut sums = [l.splat(0.0); PARTS];
        for (low, b) in low.iter().zip(b) {
            for i in 0..PARTS {
                sums[i] = l.mul_add(l.splat(low[i]), l.load(&b[i]), sums[i]);
            }
        }
        for ((low, b), sum) in low_rest.iter().zip(b_rest).zip(&mut sums) {
            *sum = l.mul_add(l.splat(*low), l.load(b), *sum);
        }
        l.store(l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3])), out);
    }
}

on_lanes! {
    /// The same, to the bit, of up to sixteen rows of `b` as they are stored.
    fn by_row<L>(l; low: &[f32], b: &[f32], out: &mut [f32; ROWS]) {
        let (low_parts, low_rest) = low.as_chunks::<PARTS>();
        for (row, out) in b.chunks_exact(low.len().max(1)).zip(out) {
            let (parts, rest) = row.as_chunks::<PARTS>();
            let mut sums = [0.0; PARTS];
            for (low, b) in low_parts.iter().zip(parts) {
                for i in 0..PARTS {
                    sums[i] = l.mul_add_one(low[i], b[i], sums[i]);
                }
            }
            for ((low, b), sum) in low_rest.iter().zip(rest).zip(&mut sums) {
                *sum = l.mul_add_one(*low, *b, *sum);
            }
            *out = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
}

on_lanes! {
    /// `y` becomes `scale * y + added`.
    fn scale_and_add<L>(l; scale: f32, added: &[f32; ROWS], y: &mut [f32; ROWS]) {
        l.store(l.add(l.mul(l.load(y), l.splat(scale)), l.load(added)), y);
    }
}
