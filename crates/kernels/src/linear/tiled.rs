//! Linear layers with the weight dequantized in tiles. The adapter's second product extends the
//! GEMM's inner dimension; the bias is part of the epilogue.

use super::{Linear, Lora};
use crate::expand::Expand;
use crate::gemm::{Accumulate, Epilogue, Factor, Rhs, Segment, View, ViewMut, pack_lhs, pack_rhs, product};
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};

/// Rows of activations, and the same rows packed as lhs panels.
pub(crate) struct LhsPanels<'a, E> {
    pub x: &'a [f32],
    pub tokens: usize,
    pub cols: usize,
    panels: Scratch<E>,
}

impl<'a, E: Factor> LhsPanels<'a, E> {
    /// Packs `x [tokens, cols]`.
    pub fn new(x: &'a [f32], tokens: usize, cols: usize) -> Result<Self, ShapeError> {
        Ok(Self {
            x,
            tokens,
            cols,
            panels: pack_lhs(View::all(x, tokens, cols)?),
        })
    }

    /// The product of the rows with `rhs`.
    fn times<'b>(&'b self, rhs: Rhs<'b, E>) -> Segment<'b, E> {
        Segment {
            lhs: &self.panels,
            depth: self.cols,
            rhs,
        }
    }
}

/// `dropout(x) a^T`, `[T, rank]`.
pub(crate) fn low_rank<E: Factor>(lora: &Lora, x: &LhsPanels<E>) -> Result<Vec<f32>, ShapeError> {
    match lora.dropout {
        None => times_a(lora, x),
        Some(dropout) => times_a(
            lora,
            &LhsPanels::<E>::new(&dropout.apply(x.x, x.cols), x.tokens, x.cols)?,
        ),
    }
}

/// `x a^T`, `[T, rank]`, with dropout already applied to `x`.
pub(crate) fn times_a<E: Factor>(lora: &Lora, x: &LhsPanels<E>) -> Result<Vec<f32>, ShapeError> {
    let mut low = vec![0.0; x.tokens * lora.rank];
    let a = pack_rhs(View::all(lora.a, lora.rank, x.cols)?.transposed());
    let mut target = ViewMut::all(&mut low, x.tokens, lora.rank)?;
    product(
        &[x.times(Rhs::Packed(&a))],
        1,
        Epilogue::plain(Accumulate::Replace),
        &mut target,
    );
    Ok(low)
}

/// Writes the output of a linear layer over `x` to `target`, or adds it.
pub(crate) fn forward<E: Factor>(
    linear: &Linear,
    x: &LhsPanels<E>,
    target: &mut ViewMut,
    accumulate: Accumulate,
) -> Result<(), ShapeError> {
    linear.check()?;
    shape::length(
        "the columns of a linear's output",
        target.cols(),
        Some(linear.weight.rows()),
    )?;
    let (outcome, expand) = (Outcome::default(), Expand::new(linear));
    let fill = |depth, first, out: &mut [E]| expand.outputs(depth, first, out, &outcome);
    let mut segments = vec![x.times(Rhs::Expand(&fill))];
    let (low, b);
    if let Some(lora) = &linear.lora {
        let mut scaled_low = low_rank(lora, x)?;
        scaled_low.iter_mut().for_each(|x| *x *= lora.scale);
        low = pack_lhs(View::all(&scaled_low, x.tokens, lora.rank)?);
        b = pack_rhs(View::all(lora.b, linear.weight.rows(), lora.rank)?.transposed());
        segments.push(Segment {
            lhs: &low,
            depth: lora.rank,
            rhs: Rhs::Packed(&b),
        });
    }
    let epilogue = Epilogue {
        bias: linear.bias,
        ..Epilogue::plain(accumulate)
    };
    product(&segments, 1, epilogue, target);
    outcome.into_result()
}
