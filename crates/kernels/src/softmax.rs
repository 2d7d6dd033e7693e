//! Exponentials of a row, and cross-entropy over rows of logits.

use crate::dot::Isa;
use crate::lanes::{WIDTH, exp, on_lanes};
use crate::shape::{self, ShapeError};
use crate::team;

on_lanes! {
    pub(crate) fn greatest<L>(l; x: &[f32]) -> f32 {
        let (whole, rest) = x.as_chunks::<WIDTH>();
        let most = whole.iter().fold(l.splat(f32::NEG_INFINITY), |most, x| l.max(most, l.load(x)));
        rest.iter().copied().fold(l.greatest(most), f32::max)
    }
}

on_lanes! {
    /// `x` becomes `e^(x - most)`; gives the sum.
    pub(crate) fn exp_in_place<L>(l; x: &mut [f32], most: f32) -> f32 {
        let most = l.splat(most);
        let (whole, rest) = x.as_chunks_mut::<WIDTH>();
        let mut sum = l.splat(0.0);
        for x in whole {
            let e = exp(l, l.sub(l.load(x), most));
            sum = l.add(sum, e);
            l.store(e, x);
        }
        if !rest.is_empty() {
            let mut padded = [0.0; WIDTH];
            padded[..rest.len()].copy_from_slice(rest);
            let e = exp(l, l.sub(l.load(&padded), most));
            l.store(e, &mut padded);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
        l.sum(sum) + rest.iter().sum::<f32>()
    }
}

on_lanes! {
    pub(crate) fn product<L>(l; a: &[f32], b: &[f32]) -> f32 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<WIDTH>(), b.as_chunks::<WIDTH>());
        let sum = a.iter().zip(b).fold(l.splat(0.0), |sum, (a, b)| l.mul_add(l.load(a), l.load(b), sum));
        l.sum(sum) + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    }
}

/// A target that does not count.
pub const IGNORED: u32 = u32::MAX;

/// Cross-entropy of rows of logits `[T, vocab]` against one target each: writes each row's loss `-ln p(target)`, and turns
/// the logits, in place, into the gradient of the sum of the losses times `scale`: `scale * (p - onehot)`. A row whose target
/// is [`IGNORED`] has loss 0 and no gradient.
///
/// # Errors
/// Where the sizes do not fit, or a target is not below `vocab`.
pub fn cross_entropy_backward_in_place(
    logits: &mut [f32],
    targets: &[u32],
    scale: f32,
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
        // SAFETY: each row is given out once.
        let loss = &mut unsafe { losses.slice(row, 1) }[0];
        if targets[row] == IGNORED {
            *loss = 0.0;
            logits.fill(0.0);
            return;
        }
        *loss = cross_entropy_row(isa, logits, targets[row] as usize, scale);
    });
    Ok(())
}

/// Checks that every target that counts is a column.
pub(crate) fn check_targets(targets: &[u32], vocab: usize) -> Result<(), ShapeError> {
    match targets
        .iter()
        .find(|target| **target != IGNORED && **target as usize >= vocab)
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
    /// `x` becomes `factor * x`.
    fn times<L>(_l; x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }
}

/// The loss of a row of logits, which become `scale * (p - onehot)`.
pub(crate) fn cross_entropy_row(isa: Isa, logits: &mut [f32], target: usize, scale: f32) -> f32 {
    let (most, logit) = (greatest(isa, logits), logits[target]);
    let sum = exp_in_place(isa, logits, most);
    times(isa, logits, scale / sum);
    logits[target] -= scale;
    most - logit + sum.ln()
}

/// The loss of a row of logits, which become anything.
pub(crate) fn cross_entropy_of_row(isa: Isa, logits: &mut [f32], target: usize) -> f32 {
    let (most, logit) = (greatest(isa, logits), logits[target]);
    most - logit + exp_in_place(isa, logits, most).ln()
}

/// `-ln p(target)` of each row of logits `[T, vocab]`; 0 where the target is [`IGNORED`].
///
/// # Errors
/// Where the sizes do not fit, or a target is not below `vocab`.
pub fn cross_entropy(logits: &[f32], targets: &[u32], losses: &mut [f32]) -> Result<(), ShapeError> {
    let mut kept = logits.to_vec();
    cross_entropy_backward_in_place(&mut kept, targets, 1.0, losses)
}
