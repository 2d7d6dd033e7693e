//! Drafting with a model: rounds of steps, each of which adds a token to every draft that still
//! pays.

use super::acceptance::{Acceptance, BUCKETS};
use super::{DraftRequest, Drafted, OnLayer, TokenMap};
use crate::cache::Sequence;
use crate::error::SessionError;
use crate::model::Model;
use crate::ops::MatmulPrecision;
use crate::placement::Place;
use crate::sample::{Sampler, greedy};
use crate::step::{Output, Rows, Want, step};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Most tokens that a draft lacks if all of its last ones were accepted: the last one, and the one
/// that its target added.
const FEW: usize = 2;
/// Upper bounds of the probabilities in the buckets but the last.
const PROBABILITIES: [f64; BUCKETS - 2] = [0.2, 0.4, 0.6, 0.8, 0.95];
/// Expected acceptance of tokens by the probability that the draft gives them.
pub(super) const PRIORS: [f64; BUCKETS] = [0.1, 0.25, 0.45, 0.65, 0.8, 0.95, 0.6];

/// A draft in progress.
pub(super) struct Line<'r, 'a> {
    pub request: &'r mut DraftRequest<'a>,
    /// The draft's sequence.
    pub sequence: &'r mut Sequence,
    pub model: &'r Model,
    /// Draws the same numbers as the answer's sampler will. `None` means greedy.
    pub sampler: Option<Sampler>,
    /// Its tokens to append next.
    pub next: Vec<u32>,
    /// `None` means that both have one vocabulary.
    pub map: Option<&'r TokenMap>,
    /// The probability that all tokens so far are accepted.
    pub reached: f64,
    /// The expected number of accepted tokens.
    pub expected: f64,
}

/// The time that drafting took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct DraftTime {
    /// Tokens that were computed.
    pub tokens: usize,
    /// Time of these steps.
    pub took: Duration,
}

/// Drafts tokens for all lines, until none pays any more.
///
/// # Errors
/// If a GPU failed.
pub(super) fn draft(mut lines: Vec<Line>, on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
    let mut time = DraftTime::default();
    while !lines.is_empty() {
        let began = Instant::now();
        let mut rows: Vec<Rows> = Vec::with_capacity(lines.len());
        for line in &mut lines {
            let want = match (&line.sampler, line.model.placement().output()) {
                (None, Place::Gpu(_)) => Want::Argmax,
                _ => Want::Logits,
            };
            rows.push(Rows::last(line.sequence, line.model, &line.next, want));
        }
        let outputs = match step(&mut rows, MatmulPrecision::Int8Activations, on_layer) {
            Ok(ControlFlow::Continue(outputs)) => outputs,
            Ok(ControlFlow::Break(())) => return Ok(time),
            Err(error) if !is_of_device(&error) => {
                // The others may have room, and tokens that the draft's model has.
                lines.pop();
                continue;
            }
            Err(error) => return Err(error),
        };
        // The first round may also read tokens of a prompt.
        let (count, is_pure) = (lines.len(), lines.iter().all(|line| line.next.len() <= FEW));
        let mut outputs = outputs.into_iter();
        lines.retain_mut(|line| outputs.next().is_some_and(|output| line.add(&output)));
        if is_pure {
            time.tokens += count;
            time.took += began.elapsed();
        }
    }
    Ok(time)
}

/// Whether a device failed, and not only one draft.
pub(super) fn is_of_device(error: &SessionError) -> bool {
    matches!(error, SessionError::Device(_))
}

impl Line<'_, '_> {
    /// Adds the token that the draft chose; returns whether another one would pay.
    fn add(&mut self, output: &Output) -> bool {
        let Some((token, bucket)) = self.choose(output) else {
            return false;
        };
        let target = self.map.map_or(Some(token), |map| map.target_token(token));
        // A draft may have more logits than its target has tokens.
        let vocab = self.request.target.model().config().vocab;
        let Some(target) = target.filter(|target| (*target as usize) < vocab) else {
            return false;
        };
        let budget = self.request.budget;
        let before = self.request.drafted.len();
        let reached = self.reached * budget.acceptance.share(bucket);
        if !budget.pays(before, self.expected, reached, 0.0) {
            self.request.unpaid = Some(bucket);
            return false;
        }
        let drafted = Drafted { token: target, bucket };
        self.request.drafted.push(drafted);
        (self.reached, self.expected, self.next) = (reached, self.expected + reached, vec![token]);
        let next = reached * budget.acceptance.share(Acceptance::ALL);
        budget.pays(before + 1, self.expected, next, budget.costs.draft())
    }

    /// The draft's token, and how sure it is.
    fn choose(&mut self, output: &Output) -> Option<(u32, usize)> {
        match (output, &mut self.sampler) {
            (Output::Argmax(chosen), _) => Some((chosen.first().copied().flatten()?, Acceptance::ALL)),
            (Output::Logits(logits), Some(sampler)) => {
                let token = sampler.sample(logits).ok()?;
                let probability = sampler.last_probability(token);
                sampler.accept(token);
                Some((token, bucket(probability)))
            }
            (Output::Logits(logits), None) => {
                let token = greedy(logits)?;
                let peak = logits[token as usize];
                let sum: f32 = logits
                    .iter()
                    .map(|logit| (logit - peak).exp())
                    .filter(|x| x.is_finite())
                    .sum();
                Some((token, bucket(f64::from(1.0 / sum))))
            }
            (Output::Nothing | Output::Hidden(_), _) => None,
        }
    }
}

fn bucket(probability: f64) -> usize {
    PROBABILITIES.iter().filter(|bound| probability > **bound).count()
}
