//! Locally typical sampling: <https://arxiv.org/abs/2202.00666>.

use super::candidates::{Candidate, Candidates, keep_mass};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Keeps the fewest candidates with surprises closest to the entropy (the expected surprise) whose
/// probabilities sum to more than p.
#[derive(Debug, Clone)]
pub(super) struct TypicalP(f32);

impl TypicalP {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (params.typical_p < 1.0).then(|| Box::new(Self(params.typical_p)) as Box<dyn Filter>)
    }
}

impl Filter for TypicalP {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        keep_typical(candidates.list(logits), self.0);
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

fn keep_typical(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(max) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let relative = |c: &Candidate| f64::from(c.logit) - f64::from(max);
    let weight = |c: &Candidate| relative(c).exp();
    let total: f64 = candidates.iter().map(weight).sum();
    let surprise = |c: &Candidate| total.ln() - relative(c);
    let entropy: f64 = candidates.iter().map(|c| weight(c) / total * surprise(c)).sum();
    let distance = |c: &Candidate| (surprise(c) - entropy).abs();
    let required = total * f64::from(p);
    keep_mass(
        candidates,
        |a, b| distance(a).total_cmp(&distance(b)).then(a.order(b)),
        weight,
        |sum| sum > required,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, logits_of, ranked};
    use proptest::prelude::*;

    #[test]
    fn the_most_typical_tokens_remain() {
        let check = |p, expected: &[u32]| {
            let mut kept = ranked(&logits_of(&[0.5, 0.25, 0.15, 0.1]));
            keep_typical(&mut kept, p);
            assert_eq!(kept.iter().map(|c| c.id).collect::<Vec<_>>(), expected, "{p}");
        };
        // The entropy is 1.21 nats, the surprises are 0.69, 1.39, 1.90 and 2.30 nats.
        check(0.0, &[1]);
        check(0.2, &[1]);
        check(0.3, &[1, 0]);
        check(0.8, &[1, 0, 2]);
        check(0.95, &[1, 0, 2, 3]);
    }

    proptest! {
        #[test]
        fn it_is_the_shortest_prefix_by_distance_from_the_entropy(logits in logits(), p in 0.0_f64..1.0) {
            let all = ranked(&logits);
            let total: f64 = all.iter().map(|c| f64::from(c.logit).exp()).sum();
            let entropy: f64 = all.iter().map(|c| f64::from(c.logit).exp() / total).map(|q| -q * q.ln()).sum();
            let mut kept = all.clone();
            keep_typical(&mut kept, p as f32);
            let distance = |c: &Candidate| (-(f64::from(c.logit).exp() / total).ln() - entropy).abs();
            let mass = |candidates: &[Candidate]| {
                candidates.iter().map(|c| f64::from(c.logit).exp() / total).sum::<f64>()
            };
            // No removed candidate is more typical than a kept one.
            let max_distance = kept.iter().map(distance).fold(0.0, f64::max);
            let removed = all.iter().filter(|c| !kept.contains(c));
            prop_assert!(removed.clone().all(|c| distance(c) >= max_distance - 1e-9));
            prop_assert_eq!(kept.len() + removed.count(), all.len());
            prop_assert_eq!(kept.is_empty(), all.is_empty());
            if !kept.is_empty() {
                prop_assert!(kept.len() == all.len() || mass(&kept) > p - 1e-6);
                prop_assert!(mass(&kept[..kept.len() - 1]) <= p + 1e-6);
            }
        }
    }
}
