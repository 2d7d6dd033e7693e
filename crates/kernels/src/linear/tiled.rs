//! Linears with the weight expanded in tiles, everything that follows the product included: the adapter's second factor is more of
//! the common dimension, the bias is added when a tile is written.

use super::{Linear, Lora};
use crate::dense::{Factor, Finish, Into, Segment, Target, View, Wide, pack_tall, pack_wide, product};
use crate::expand::Expand;
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};

/// Rows of activations, and the same as tall tiles.
pub(crate) struct Talls<'a, E> {
    pub x: &'a [f32],
    pub tokens: usize,
    pub cols: usize,
    tiles: Scratch<E>,
}

impl<'a, E: Factor> Talls<'a, E> {
    /// Tiles of `x [tokens, cols]`.
    pub fn new(x: &'a [f32], tokens: usize, cols: usize) -> Result<Self, ShapeError> {
        Ok(Self {
            x,
            tokens,
            cols,
            tiles: pack_tall(View::all(x, tokens, cols)?),
        })
    }

    fn with<'b>(&'b self, wide: Wide<'b, E>) -> Segment<'b, E> {
        Segment {
            talls: &self.tiles,
            depth: self.cols,
            wide,
        }
    }
}

/// `drop(x) a^T`, `[T, rank]`.
pub(crate) fn low_rank<E: Factor>(lora: &Lora, x: &Talls<E>) -> Result<Vec<f32>, ShapeError> {
    match lora.dropout {
        None => times_a(lora, x),
        Some(dropout) => times_a(lora, &Talls::<E>::new(&dropout.of(x.x, x.cols), x.tokens, x.cols)?),
    }
}

/// `x a^T`, `[T, rank]`, of what was dropped from already.
pub(crate) fn times_a<E: Factor>(lora: &Lora, x: &Talls<E>) -> Result<Vec<f32>, ShapeError> {
    let mut low = vec![0.0; x.tokens * lora.rank];
    let a = pack_wide(View::all(lora.a, lora.rank, x.cols)?.transposed());
    let mut target = Target::all(&mut low, x.tokens, lora.rank)?;
    product(&[x.with(Wide::Ready(&a))], 1, Finish::plain(Into::Replace), &mut target);
    Ok(low)
}

/// `target` becomes, or grows by, a linear over `x`.
pub(crate) fn forward<E: Factor>(
    linear: &Linear,
    x: &Talls<E>,
    target: &mut Target,
    into: Into,
) -> Result<(), ShapeError> {
    linear.check()?;
    shape::length(
        "the columns of a linear's output",
        target.cols(),
        Some(linear.weight.rows()),
    )?;
    let (outcome, expand) = (Outcome::default(), Expand::of(linear));
    let fill = |depth, first, out: &mut [E]| expand.outputs(depth, first, out, &outcome);
    let mut segments = vec![x.with(Wide::Expand(&fill))];
    let (low, b);
    if let Some(lora) = &linear.lora {
        let mut scaled = low_rank(lora, x)?;
        scaled.iter_mut().for_each(|x| *x *= lora.scale);
        low = pack_tall(View::all(&scaled, x.tokens, lora.rank)?);
        b = pack_wide(View::all(lora.b, linear.weight.rows(), lora.rank)?.transposed());
        segments.push(Segment {
            talls: &low,
            depth: lora.rank,
            wide: Wide::Ready(&b),
        });
    }
    let finish = Finish {
        bias: linear.bias,
        ..Finish::plain(into)
    };
    product(&segments, 1, finish, target);
    outcome.into_result()
}
