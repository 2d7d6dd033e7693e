//! Drafting with a model in rounds: each step adds one token to every active draft.

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

/// Maximum tokens in the first step of a draft whose previous tokens were all accepted: its last
/// token, and the token that the target added.
const MAX_WITHOUT_PREFILL: usize = 2;
/// Upper bounds of the probabilities in buckets 0 to 4. Bucket 5 is for higher probabilities.
const BUCKET_BOUNDS: [f64; BUCKETS - 2] = [0.2, 0.4, 0.6, 0.8, 0.95];
/// Expected acceptance rate by the probability that the draft assigns to the token.
pub(super) const PRIORS: [f64; BUCKETS] = [0.1, 0.25, 0.45, 0.65, 0.8, 0.95, 0.6];

/// A draft in progress.
pub(super) struct ActiveDraft<'r, 'a> {
    pub request: &'r mut DraftRequest<'a>,
    /// The sequence of the draft model.
    pub sequence: &'r mut Sequence,
    /// The draft model.
    pub model: &'r Model,
    /// Draws the same random numbers as the answer's sampler will. `None` means greedy.
    pub sampler: Option<Sampler>,
    /// The tokens of the next step, in the draft's vocabulary.
    pub next: Vec<u32>,
    /// Translates tokens; `None` means that the draft has the target's vocabulary.
    pub map: Option<&'r TokenMap>,
    /// The probability that all drafted tokens are accepted.
    pub probability: f64,
    /// The expected number of accepted tokens.
    pub expected: f64,
}

/// The time of drafting.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct DraftTime {
    /// Computed tokens, in steps without prefill.
    pub tokens: usize,
    /// Total time of these steps.
    pub took: Duration,
}

/// Drafts tokens for all drafts, each until a further token does not pay.
///
/// # Errors
/// If a GPU failed.
pub(super) fn draft(mut drafts: Vec<ActiveDraft>, on_layer: &mut OnLayer) -> Result<DraftTime, SessionError> {
    let mut time = DraftTime::default();
    while !drafts.is_empty() {
        let start = Instant::now();
        let mut rows: Vec<Rows> = Vec::with_capacity(drafts.len());
        for draft in &mut drafts {
            let want = match (&draft.sampler, draft.model.placement().output()) {
                (None, Place::Gpu(_)) => Want::Argmax,
                _ => Want::Logits,
            };
            rows.push(Rows::last(draft.sequence, draft.model, &draft.next, want));
        }
        let outputs = match step(&mut rows, MatmulPrecision::Int8Activations, on_layer) {
            Ok(ControlFlow::Continue(outputs)) => outputs,
            Ok(ControlFlow::Break(())) => return Ok(time),
            Err(error) if !is_device_failure(&error) => {
                // One draft does not fit its cache or vocabulary. Without it, the others may.
                drafts.pop();
                continue;
            }
            Err(error) => return Err(error),
        };
        // The first step may include prefill.
        let is_timed = drafts.iter().all(|draft| draft.next.len() <= MAX_WITHOUT_PREFILL);
        let count = drafts.len();
        let mut outputs = outputs.into_iter();
        drafts.retain_mut(|draft| outputs.next().is_some_and(|output| draft.add(&output)));
        if is_timed {
            time.tokens += count;
            time.took += start.elapsed();
        }
    }
    Ok(time)
}

/// Whether a GPU failed. Other errors are of a single draft.
pub(super) fn is_device_failure(error: &SessionError) -> bool {
    matches!(error, SessionError::Device(_))
}

impl ActiveDraft<'_, '_> {
    /// Adds the token that the draft chooses if it pays. Returns whether a further token would pay.
    fn add(&mut self, output: &Output) -> bool {
        let Some((token, bucket)) = self.choose(output) else {
            return false;
        };
        let target_token = self.map.map_or(Some(token), |map| map.target_token(token));
        // The draft may have more logits than the target has tokens.
        let vocab = self.request.target.model().config().vocab;
        let Some(target_token) = target_token.filter(|token| (*token as usize) < vocab) else {
            return false;
        };
        let policy = self.request.length_policy;
        let length = self.request.drafted.len();
        let probability = self.probability * policy.acceptance.rate(bucket);
        if !policy.pays(length, self.expected, probability, 0.0) {
            self.request.unpaid = Some(bucket);
            return false;
        }
        self.request.drafted.push(Drafted {
            token: target_token,
            bucket,
        });
        (self.probability, self.expected, self.next) = (probability, self.expected + probability, vec![token]);
        let next_probability = probability * policy.acceptance.rate(Acceptance::ALL);
        policy.pays(length + 1, self.expected, next_probability, policy.costs.draft())
    }

    /// The draft's token, and the bucket of its confidence.
    fn choose(&mut self, output: &Output) -> Option<(u32, usize)> {
        match (output, &mut self.sampler) {
            (Output::Argmax(tokens), _) => Some((tokens.first().copied().flatten()?, Acceptance::ALL)),
            (Output::Logits(logits), Some(sampler)) => {
                let token = sampler.sample(logits).ok()?;
                let probability = sampler.last_probability(token);
                sampler.accept(token);
                Some((token, bucket(probability)))
            }
            (Output::Logits(logits), None) => {
                let token = greedy(logits)?;
                let max = logits[token as usize];
                let sum: f32 = logits
                    .iter()
                    .map(|logit| (logit - max).exp())
                    .filter(|x| x.is_finite())
                    .sum();
                Some((token, bucket(f64::from(1.0 / sum))))
            }
            (Output::Nothing | Output::Hidden(_), _) => None,
        }
    }
}

/// The bucket of a token with this probability in the draft's distribution.
fn bucket(probability: f64) -> usize {
    BUCKET_BOUNDS.iter().filter(|bound| probability > **bound).count()
}
