//! Backward of linear layers over one input.

use super::tiled::{LhsPanels, times_a};
use super::{Linear, LoraGradient};
use crate::expand::Expand;
use crate::gemm::{
    Accumulate, Epilogue, Factor, Orientation, Rhs, Segment, View, ViewMut, matmul, pack_lhs, pack_rhs, product,
    tall_skinny,
};
use crate::scratch::Scratch;
use crate::shape::{self, Outcome, ShapeError};
use crate::team;

/// Maximum bytes of packed output gradients held until they are multiplied.
const PENDING_BYTES: usize = 16 * 1024 * 1024;
/// Minimum outputs that are packed at a time, for any number of tokens: whole blocks of rows.
const MIN_OUTPUTS: usize = 1024;

/// A product that will be added to the gradient of the input.
struct PendingProduct<'a, E> {
    lhs: Scratch<E>,
    depth: usize,
    rhs: RhsSource<'a, E>,
}

/// Right factor of a pending product.
enum RhsSource<'a, E> {
    /// The rows of a weight from an index on.
    Weight(Expand<'a>, usize),
    /// Rhs panels of an adapter's `a`.
    Adapter(Vec<E>),
}

/// Accumulates the gradient of the input.
struct InputGradient<'a, 't, E> {
    pending: Vec<PendingProduct<'a, E>>,
    dx: &'a mut ViewMut<'t>,
    /// The first products replace the gradient, the others are added.
    accumulate: Accumulate,
}

impl<'a, E: Factor> InputGradient<'a, '_, E> {
    /// Bytes of the pending lhs.
    fn bytes(&self) -> usize {
        self.pending
            .iter()
            .map(|pending| pending.lhs.len() * size_of::<E>())
            .sum()
    }

    /// Queues a product, and adds all pending products if they take too much memory.
    fn push(&mut self, pending: PendingProduct<'a, E>) -> Result<(), ShapeError> {
        self.pending.push(pending);
        if self.bytes() >= PENDING_BYTES {
            self.add()
        } else {
            Ok(())
        }
    }

    /// Adds the pending products in one GEMM, so that the gradient is written once.
    fn add(&mut self) -> Result<(), ShapeError> {
        let outcome = Outcome::default();
        let (mut panels, mut fills) = (1, Vec::new());
        for pending in &self.pending {
            let RhsSource::Weight(expand, row) = &pending.rhs else {
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
            .pending
            .iter()
            .zip(&fills)
            .map(|(pending, fill)| Segment {
                lhs: &pending.lhs,
                depth: pending.depth,
                rhs: match (&pending.rhs, fill) {
                    (RhsSource::Adapter(rhs), _) => Rhs::Packed(rhs),
                    (RhsSource::Weight(..), Some(fill)) => Rhs::Expand(fill),
                    (RhsSource::Weight(..), None) => Rhs::Packed(&[]),
                },
            })
            .collect();
        product(&segments, panels, Epilogue::plain(self.accumulate), self.dx);
        self.accumulate = Accumulate::Add;
        self.pending.clear();
        outcome.into_result()
    }
}

/// Backward of linear layers over the same `x [T, in]`, given the gradient of each output,
/// `[T, out]`. Writes the gradient of the input to `dx [T, in]`. Returns the gradients of the
/// adapters.
pub(crate) fn backward<E: Factor>(
    linears: &[(&Linear, View)],
    x: &[f32],
    dx: &mut [f32],
) -> Result<Vec<Option<LoraGradient>>, ShapeError> {
    let Some((first, dy)) = linears.first() else {
        return Ok(Vec::new());
    };
    let (tokens, cols) = (dy.rows(), first.weight.cols());
    shape::length("a linear's input", x.len(), tokens.checked_mul(cols))?;
    let mut gradients = Vec::new();
    let mut with_dropout = Vec::new();
    {
        let mut target = ViewMut::all(dx, tokens, cols)?;
        // Packed once for all adapters without dropout.
        let mut x_panels: Option<LhsPanels<E>> = None;
        let mut sum = InputGradient {
            pending: Vec::new(),
            dx: &mut target,
            accumulate: Accumulate::Replace,
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
            let d_low = queue_weight_products::<E>(linear, *dy, &mut sum)?;
            let Some(lora) = &linear.lora else {
                gradients.push(None);
                continue;
            };
            // One dimension of all intermediates is the rank, so they are small.
            let d_low_view = View::all(&d_low, tokens, lora.rank)?;
            let dropped_x = lora.dropout.map(|dropout| dropout.apply(x, cols));
            let low = match (&dropped_x, &mut x_panels) {
                (Some(dropped_x), _) => times_a(lora, &LhsPanels::<E>::new(dropped_x, tokens, cols)?)?,
                (None, Some(x_panels)) => times_a(lora, x_panels)?,
                (None, none) => times_a(lora, none.insert(LhsPanels::new(x, tokens, cols)?))?,
            };
            let lora_input = dropped_x.as_deref().unwrap_or(x);
            gradients.push(Some(LoraGradient {
                a: tall_skinny(d_low_view, View::all(lora_input, tokens, cols)?, 1.0, Orientation::Rows),
                b: tall_skinny(
                    View::all(&low, tokens, lora.rank)?,
                    *dy,
                    lora.scale,
                    Orientation::Columns,
                ),
            }));
            match lora.dropout {
                None => sum.push(PendingProduct {
                    lhs: pack_lhs(d_low_view),
                    depth: lora.rank,
                    rhs: RhsSource::Adapter(pack_rhs(View::all(lora.a, lora.rank, cols)?)),
                })?,
                Some(dropout) => with_dropout.push((dropout, lora, d_low)),
            }
        }
        sum.add()?;
    }
    for (dropout, lora, d_low) in with_dropout {
        let (d_low, a) = (
            View::all(&d_low, tokens, lora.rank)?,
            View::all(lora.a, lora.rank, cols)?,
        );
        let mut d_dropped = Scratch::<f32>::new(dx.len());
        matmul(
            d_low,
            a,
            1.0,
            &mut ViewMut::all(&mut d_dropped, tokens, cols)?,
            Accumulate::Replace,
        )?;
        dropout.drop_in_place(&mut d_dropped, cols);
        add(dx, &d_dropped);
    }
    Ok(gradients)
}

/// Queues the products of an output gradient with the weight. Returns the gradient of the adapter's
/// intermediate, `[T, rank]`.
fn queue_weight_products<'a, E: Factor>(
    linear: &Linear<'a>,
    dy: View,
    sum: &mut InputGradient<'a, '_, E>,
) -> Result<Vec<f32>, ShapeError> {
    let (tokens, rows) = (dy.rows(), linear.weight.rows());
    let rank = linear.lora.map_or(0, |lora| lora.rank);
    let mut d_low = vec![0.0; tokens * rank];
    let step = (PENDING_BYTES / size_of::<E>() * E::DEPTH / tokens.max(1)).max(MIN_OUTPUTS) / MIN_OUTPUTS * MIN_OUTPUTS;
    for first in (0..rows).step_by(step) {
        let count = step.min(rows - first);
        let lhs = pack_lhs::<E>(dy.columns(first, count)?);
        if let Some(lora) = &linear.lora {
            let b = pack_rhs(View::new(lora.b, first * rank, count, rank, rank)?);
            let segment = Segment {
                lhs: &lhs,
                depth: count,
                rhs: Rhs::Packed(&b),
            };
            let accumulate = if first == 0 {
                Accumulate::Replace
            } else {
                Accumulate::Add
            };
            let epilogue = Epilogue {
                scale: lora.scale,
                ..Epilogue::plain(accumulate)
            };
            product(&[segment], 1, epilogue, &mut ViewMut::all(&mut d_low, tokens, rank)?);
        }
        sum.push(PendingProduct {
            lhs,
            depth: count,
            rhs: RhsSource::Weight(Expand::new(linear), first),
        })?;
    }
    Ok(d_low)
}

/// Elements of a work chunk of an addition.
const WORK_CHUNK: usize = 16 * 1024;

/// Adds `y` to `x`.
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    team::run_over(x, WORK_CHUNK, &|work_chunk, x| {
        x.iter_mut()
            .zip(&y[work_chunk * WORK_CHUNK..])
            .for_each(|(x, y)| *x += y);
    });
}

/// Adds `factor * y` to `x`.
pub(crate) fn add_times(factor: f32, y: &[f32], x: &mut [f32]) {
    if factor == 1.0 {
        return add(x, y);
    }
    team::run_over(x, WORK_CHUNK, &|work_chunk, x| {
        x.iter_mut()
            .zip(&y[work_chunk * WORK_CHUNK..])
            .for_each(|(x, y)| *x += factor * y);
    });
}
