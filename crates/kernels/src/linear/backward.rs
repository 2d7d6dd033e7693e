//! The gradient of linears over one input.

use super::tiled::{Talls, times_a};
use super::{Linear, LoraGradient};
use crate::dense::{
    Factor, Finish, Into, Segment, Side, Target, View, Wide, matmul, pack_tall, pack_wide, product, thin,
};
use crate::expand::Expand;
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;

/// Bytes of gradients that are held as tall tiles at once.
const HELD: usize = 16 * 1024 * 1024;
/// Outputs that are taken at a time at least, however many tokens there are: whole blocks of rows.
const LEAST: usize = 1024;

/// A product with a part of the gradient that waits to be added to that of the input.
struct Held<'a, E> {
    talls: Scratch<E>,
    depth: usize,
    with: With<'a, E>,
}

/// What it is multiplied with.
enum With<'a, E> {
    /// Rows of a weight, from one on.
    Weight(Expand<'a>, usize),
    /// Panels of an adapter's `a`.
    Adapter(Vec<E>),
}

/// The gradient of the input, as it grows.
struct Sum<'a, 't, E> {
    held: Vec<Held<'a, E>>,
    dx: &'a mut Target<'t>,
    into: Into,
}

impl<'a, E: Factor> Sum<'a, '_, E> {
    fn bytes(&self) -> usize {
        self.held.iter().map(|held| held.talls.len() * size_of::<E>()).sum()
    }

    fn hold(&mut self, held: Held<'a, E>) -> Result<(), ShapeError> {
        self.held.push(held);
        if self.bytes() >= HELD { self.add() } else { Ok(()) }
    }

    /// Adds what is held, in one product, so that the gradient is written once.
    fn add(&mut self) -> Result<(), ShapeError> {
        let outcome = Outcome::default();
        let (mut panels, mut fills) = (1, Vec::new());
        for held in &self.held {
            let With::Weight(expand, row) = &held.with else {
                fills.push(None);
                continue;
            };
            panels = panels.max(expand.panels());
            let outcome = &outcome;
            fills.push(Some(
                move |depth: std::ops::Range<usize>, first: usize, out: &mut [E]| {
                    expand.inputs(row + depth.start..row + depth.end, first, out, outcome);
                },
            ));
        }
        let segments: Vec<Segment<E>> = self
            .held
            .iter()
            .zip(&fills)
            .map(|(held, fill)| Segment {
                talls: &held.talls,
                depth: held.depth,
                wide: match (&held.with, fill) {
                    (With::Adapter(wides), _) => Wide::Ready(wides),
                    (With::Weight(..), Some(fill)) => Wide::Expand(fill),
                    (With::Weight(..), None) => Wide::Ready(&[]),
                },
            })
            .collect();
        product(&segments, panels, Finish::plain(self.into), self.dx);
        self.into = Into::Add;
        self.held.clear();
        outcome.into_result()
    }
}

/// The gradient of linears side by side over `x [T, in]` from those of their outputs, `[T, out]` each: that of the input is
/// written, or added, to `dx [T, in]`, those of the adapters are returned.
pub(crate) fn backward<E: Factor>(
    linears: &[(&Linear, View)],
    x: &[f32],
    dx: &mut [f32],
    into: Into,
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    let Some((first, dy)) = linears.first() else {
        return Ok(Vec::new());
    };
    let (tokens, cols) = (dy.rows(), first.weight.cols());
    shape::length("a linear's input", x.len(), tokens.checked_mul(cols))?;
    let mut gradients = Vec::new();
    let mut dropped = Vec::new();
    {
        let mut target = Target::all(dx, tokens, cols)?;
        // Made once for all adapters that drop nothing.
        let mut talls: Option<Talls<E>> = None;
        let mut sum = Sum {
            held: Vec::new(),
            dx: &mut target,
            into,
        };
        for (linear, dy) in linears {
            linear.check()?;
            shape::length("a row of a weight beside another's", linear.weight.cols(), Some(cols))?;
            shape::length(
                "the columns of a linear's gradient",
                dy.cols(),
                Some(linear.weight.rows()),
            )?;
            shape::length("the rows of a linear's gradient", dy.rows(), Some(tokens))?;
            let d_low = weight::<E>(linear, *dy, &mut sum)?;
            let Some(lora) = &linear.lora else {
                gradients.push(None);
                continue;
            };
            // All intermediates have the rank as one side: small, whatever the weight's size.
            let d_low_view = View::all(&d_low, tokens, lora.rank)?;
            let dropped_x = lora.dropout.map(|dropout| dropout.of(x, cols));
            let low = match (&dropped_x, &mut talls) {
                (Some(seen), _) => times_a(lora, &Talls::<E>::new(seen, tokens, cols)?)?,
                (None, Some(talls)) => times_a(lora, talls)?,
                (None, none) => times_a(lora, none.insert(Talls::new(x, tokens, cols)?))?,
            };
            let seen = dropped_x.as_deref().unwrap_or(x);
            gradients.push(Some(LoraGradient {
                a: thin(d_low_view, View::all(seen, tokens, cols)?, 1.0, Side::Rows),
                b: thin(View::all(&low, tokens, lora.rank)?, *dy, lora.scale, Side::Columns),
            }));
            match lora.dropout {
                None => sum.hold(Held {
                    talls: pack_tall(d_low_view),
                    depth: lora.rank,
                    with: With::Adapter(pack_wide(View::all(lora.a, lora.rank, cols)?)),
                })?,
                Some(dropout) => dropped.push((dropout, lora, d_low)),
            }
        }
        sum.add()?;
    }
    for (dropout, lora, d_low) in dropped {
        let (d_low, a) = (
            View::all(&d_low, tokens, lora.rank)?,
            View::all(lora.a, lora.rank, cols)?,
        );
        let mut through = Scratch::<f32>::new(dx.len());
        matmul(
            d_low,
            a,
            1.0,
            &mut Target::all(&mut through, tokens, cols)?,
            Into::Replace,
        )?;
        dropout.drop_in_place(&mut through, cols);
        add(dx, &through);
    }
    Ok(gradients)
}

/// Holds the products of a linear's gradient with its weight, and gives that of the adapter's middle, `[T, rank]`.
fn weight<'a, E: Factor>(linear: &Linear<'a>, dy: View, sum: &mut Sum<'a, '_, E>) -> Result<Vec<f32>, ShapeError> {
    let (tokens, rows) = (dy.rows(), linear.weight.rows());
    let rank = linear.lora.map_or(0, |lora| lora.rank);
    let mut d_low = vec![0.0; tokens * rank];
    let step = (HELD / size_of::<E>() * E::DEPTH / tokens.max(1)).max(LEAST) / LEAST * LEAST;
    for first in (0..rows).step_by(step) {
        let count = step.min(rows - first);
        let talls = pack_tall::<E>(dy.columns(first, count)?);
        if let Some(lora) = &linear.lora {
            let b = pack_wide(View::new(lora.b, first * rank, count, rank, rank)?);
            let segment = Segment {
                talls: &talls,
                depth: count,
                wide: Wide::Ready(&b),
            };
            let into = if first == 0 { Into::Replace } else { Into::Add };
            let finish = Finish {
                scale: lora.scale,
                ..Finish::plain(into)
            };
            product(&[segment], 1, finish, &mut Target::all(&mut d_low, tokens, rank)?);
        }
        sum.hold(Held {
            talls,
            depth: count,
            with: With::Weight(Expand::of(linear), first),
        })?;
    }
    Ok(d_low)
}

/// Elements that a chunk of an addition has.
const CHUNK: usize = 16 * 1024;

/// `x` grows by `y`.
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    team::run_over(x, CHUNK, &|chunk, part| {
        part.iter_mut().zip(&y[chunk * CHUNK..]).for_each(|(x, y)| *x += y);
    });
}
