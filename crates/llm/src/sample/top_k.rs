//! Top-k.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::greedy::LANES;
use super::params::SamplingParams;

/// Keeps the k most likely tokens, in order.
#[derive(Debug, Clone)]
pub(super) struct TopK(usize);

impl TopK {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (params.top_k > 0).then(|| Box::new(Self(params.top_k)) as Box<dyn Filter>)
    }
}

impl Filter for TopK {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        if candidates.is_listed() {
            let list = candidates.list(logits);
            list.sort_unstable_by(Candidate::order);
            list.truncate(self.0);
        } else if self.0 < logits.len() {
            candidates.list_with(logits, |logits, list| select_top_k(logits, self.0, list));
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

/// Selects the `k` highest finite logits into `best`, in order.
///
/// In one pass, [`LANES`] logits at a time are skipped if they do not exceed the k-th best so far.
/// So few are sorted.
fn select_top_k(logits: &[f32], k: usize, best: &mut Vec<Candidate>) {
    let capacity = k.saturating_mul(2).max(256);
    let mut threshold = f32::NEG_INFINITY;
    for (index, chunk) in logits.chunks(LANES).enumerate() {
        if !chunk.iter().fold(false, |any, &logit| any | (logit > threshold)) {
            continue;
        }
        for (lane, &logit) in chunk.iter().enumerate() {
            if logit > threshold && logit.is_finite() {
                best.push(Candidate {
                    id: (index * LANES + lane) as u32,
                    logit,
                });
            }
        }
        if best.len() >= capacity {
            // Later logits have higher ids, so one that equals the k-th best is not in the top k.
            let (_, kth, _) = best.select_nth_unstable_by(k - 1, Candidate::order);
            threshold = kth.logit;
            best.truncate(k);
        }
    }
    best.sort_unstable_by(Candidate::order);
    best.truncate(k);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, ranked};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_k_is_the_prefix_of_the_sorted_logits(logits in logits(), k in 1_usize..300) {
            let mut best = Vec::new();
            select_top_k(&logits, k, &mut best);
            let mut expected = ranked(&logits);
            expected.truncate(k);
            prop_assert_eq!(best, expected);
        }
    }
}
