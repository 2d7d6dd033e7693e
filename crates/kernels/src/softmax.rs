//! Reductions and exponentials of a row, and cross-entropy over rows of logits.

use crate::isa::Isa;
use crate::lanes::{WIDTH, exp, on_lanes};
use crate::shape::{self, ShapeError};
use crate::softcap::{cap_in_place, scalar_slope, slope};
use crate::team;

on_lanes! {
    /// The maximum, as ggml's `ggml_vec_max_f32`.
    pub(crate) fn row_max<L>(l; x: &[f32]) -> f32 {
        let (whole, rest) = x.as_chunks::<WIDTH>();
        let maximum = whole.iter().fold(l.splat(f32::NEG_INFINITY), |maximum, x| l.max(maximum, l.load(x)));
        rest.iter().copied().fold(l.reduce_max(maximum), f32::max)
    }
}

on_lanes! {
    /// Replaces `x` by `e^(x - maximum)` and returns the sum, as ggml's `ggml_vec_soft_max_f32`.
    pub(crate) fn exp_in_place<L>(l; x: &mut [f32], maximum: f32) -> f32 {
        let maximum = l.splat(maximum);
        let (whole, rest) = x.as_chunks_mut::<WIDTH>();
        let mut sum = l.splat(0.0);
        for x in whole {
            let e = exp(l, l.sub(l.load(x), maximum));
            sum = l.add(sum, e);
            l.store(e, x);
        }
        if !rest.is_empty() {
            let mut padded = [0.0; WIDTH];
            padded[..rest.len()].copy_from_slice(rest);
            let e = exp(l, l.sub(l.load(&padded), maximum));
            l.store(e, &mut padded);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
        l.reduce_add(sum) + rest.iter().sum::<f32>()
    }
}

on_lanes! {
    /// The sum of `e^(x - maximum)`, with the bits of [`exp_in_place`].
    fn exp_sum<L>(l; x: &[f32], maximum: f32) -> f32 {
        let maximum = l.splat(maximum);
        let (whole, rest) = x.as_chunks::<WIDTH>();
        let mut sum = l.splat(0.0);
        for x in whole {
            sum = l.add(sum, exp(l, l.sub(l.load(x), maximum)));
        }
        let mut padded = [0.0; WIDTH];
        padded[..rest.len()].copy_from_slice(rest);
        let e = exp(l, l.sub(l.load(&padded), maximum));
        l.store(e, &mut padded);
        l.reduce_add(sum) + padded[..rest.len()].iter().sum::<f32>()
    }
}

on_lanes! {
    /// The dot product, as ggml's `ggml_vec_dot_f32`.
    pub(crate) fn dot<L>(l; a: &[f32], b: &[f32]) -> f32 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<WIDTH>(), b.as_chunks::<WIDTH>());
        let sum = a.iter().zip(b).fold(l.splat(0.0), |sum, (a, b)| l.fma(l.load(a), l.load(b), sum));
        l.reduce_add(sum) + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    }
}

/// Target id of a row without a loss.
pub const IGNORE_INDEX: u32 = u32::MAX;

/// Cross-entropy of rows of logits `[T, vocab]`, after their softcap if there is one, against one
/// target each: writes each row's loss `-ln p(target)`, and replaces the logits by the gradient of
/// the sum of the losses times `scale`, `scale * (p - onehot)` times the derivative of the softcap.
/// A row whose target is [`IGNORE_INDEX`] has loss 0 and zero gradient.
///
/// # Errors
/// Returns an error if the sizes do not match or a target is not below `vocab`.
pub fn cross_entropy_backward_in_place(
    logits: &mut [f32],
    targets: &[u32],
    scale: f32,
    softcap: Option<f32>,
    losses: &mut [f32],
) -> Result<(), ShapeError> {
    shape::length("the losses", losses.len(), Some(targets.len()))?;
    shape::multiple("the number of logits", logits.len(), targets.len())?;
    let Some(vocab) = logits.len().checked_div(targets.len()) else {
        return Ok(());
    };
    check_targets(targets, vocab)?;
    let isa = Isa::best();
    let losses = team::Scattered::new(losses);
    team::run_over(logits, vocab, &|row, logits| {
        // SAFETY: each row belongs to one work chunk.
        let loss = &mut unsafe { losses.slice(row, 1) }[0];
        if targets[row] == IGNORE_INDEX {
            *loss = 0.0;
            logits.fill(0.0);
            return;
        }
        *loss = cross_entropy_row(isa, logits, targets[row] as usize, scale, softcap);
    });
    Ok(())
}

/// Checks that every target except [`IGNORE_INDEX`] is below `vocab`.
pub(crate) fn check_targets(targets: &[u32], vocab: usize) -> Result<(), ShapeError> {
    match targets
        .iter()
        .find(|target| **target != IGNORE_INDEX && **target as usize >= vocab)
    {
        Some(target) => Err(ShapeError::Index {
            what: "a target",
            index: *target as usize,
            count: vocab,
        }),
        None => Ok(()),
    }
}

on_lanes! {
    /// Multiplies `x` by `factor`, as ggml's `ggml_vec_scale_f32`.
    fn scale_by<L>(_l; x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }
}

on_lanes! {
    /// Replaces capped logits by `factor * e^(x - maximum)` times the derivative of their softcap.
    fn capped_gradient_in_place<L>(l; x: &mut [f32], maximum: f32, factor: f32, cap: f32) {
        let (maximum, factor, cap) = (l.splat(maximum), l.splat(factor), l.splat(cap));
        let (whole, rest) = x.as_chunks_mut::<WIDTH>();
        let mut padded = [0.0; WIDTH];
        padded[..rest.len()].copy_from_slice(rest);
        for x in whole.iter_mut().chain([&mut padded]) {
            let capped = l.load(x);
            let gradient = l.mul(factor, exp(l, l.sub(capped, maximum)));
            l.store(l.mul(gradient, slope(l, l.div(capped, cap))), x);
        }
        rest.copy_from_slice(&padded[..rest.len()]);
    }
}

/// Returns the loss of a row of logits and replaces them by `scale * (p - onehot)`, times the
/// derivative of the softcap if there is one.
pub(crate) fn cross_entropy_row(isa: Isa, logits: &mut [f32], target: usize, scale: f32, softcap: Option<f32>) -> f32 {
    if let Some(cap) = softcap {
        return capped_cross_entropy_row(isa, logits, target, scale, cap);
    }
    let (maximum, logit) = (row_max(isa, logits), logits[target]);
    let sum = exp_in_place(isa, logits, maximum);
    scale_by(isa, logits, scale / sum);
    logits[target] -= scale;
    maximum - logit + sum.ln()
}

/// [`cross_entropy_row`] with a softcap. It computes exponentials twice, since the derivative needs
/// the capped logits, and a copy of them would not fit the planned memory.
fn capped_cross_entropy_row(isa: Isa, logits: &mut [f32], target: usize, scale: f32, cap: f32) -> f32 {
    cap_in_place(isa, logits, cap);
    let (maximum, logit) = (row_max(isa, logits), logits[target]);
    let sum = exp_sum(isa, logits, maximum);
    capped_gradient_in_place(isa, logits, maximum, scale / sum, cap);
    logits[target] -= scale * scalar_slope(logit / cap);
    maximum - logit + sum.ln()
}

/// Returns the loss of a row of logits, which it overwrites.
pub(crate) fn cross_entropy_loss_of_row(isa: Isa, logits: &mut [f32], target: usize, softcap: Option<f32>) -> f32 {
    if let Some(cap) = softcap {
        cap_in_place(isa, logits, cap);
    }
    let (maximum, logit) = (row_max(isa, logits), logits[target]);
    maximum - logit + exp_in_place(isa, logits, maximum).ln()
}

/// `-ln p(target)` of each row of logits `[T, vocab]`; 0 if the target is [`IGNORE_INDEX`].
///
/// # Errors
/// Returns an error if the sizes do not match or a target is not below `vocab`.
pub fn cross_entropy(logits: &[f32], targets: &[u32], losses: &mut [f32]) -> Result<(), ShapeError> {
    let mut gradient = logits.to_vec();
    cross_entropy_backward_in_place(&mut gradient, targets, 1.0, None, losses)
}
