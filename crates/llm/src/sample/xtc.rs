//! XTC ("exclude top choices"), as in
//! <https://github.com/oobabooga/text-generation-webui/pull/6335>.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// With a given probability, removes all candidates that are at least as likely as a threshold,
/// except the least likely of them. Draws one random number for each token.
#[derive(Debug, Clone)]
pub(super) struct Xtc {
    probability: f32,
    threshold: f32,
}

impl Xtc {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        // At most one candidate can have a probability above 0.5, so none would be removed.
        let is_enabled = params.xtc_probability > 0.0 && params.xtc_threshold <= 0.5;
        is_enabled.then(|| {
            Box::new(Self {
                probability: params.xtc_probability,
                threshold: params.xtc_threshold,
            }) as Box<dyn Filter>
        })
    }
}

impl Filter for Xtc {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, draws: &mut Draws) {
        if draws.unit() < f64::from(self.probability) {
            exclude_top(candidates.list(logits), self.threshold);
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

fn exclude_top(candidates: &mut Vec<Candidate>, threshold: f32) {
    let Some(max) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let weight = |c: &Candidate| f64::from(c.logit - max).exp();
    let min_weight = candidates.iter().map(weight).sum::<f64>() * f64::from(threshold);
    let top = candidates.iter().copied().filter(|c| weight(c) >= min_weight);
    let Some(last) = top.max_by(Candidate::order) else {
        return;
    };
    candidates.retain(|c| weight(c) < min_weight || c.id == last.id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, logits_of, ranked};
    use proptest::prelude::*;

    #[test]
    fn all_top_choices_but_the_last_are_excluded() {
        let check = |threshold, expected: &[u32]| {
            let mut kept = ranked(&logits_of(&[0.5, 0.3, 0.15, 0.05]));
            exclude_top(&mut kept, threshold);
            assert_eq!(kept.iter().map(|c| c.id).collect::<Vec<_>>(), expected, "{threshold}");
        };
        check(0.4, &[0, 1, 2, 3]);
        check(0.2, &[1, 2, 3]);
        check(0.1, &[2, 3]);
        check(0.01, &[3]);
        check(0.0, &[3]);
        // Of equal candidates, the one with the higher id remains.
        let mut equal = ranked(&[1.0, 1.0]);
        exclude_top(&mut equal, 0.5);
        assert_eq!(equal.iter().map(|c| c.id).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn it_draws_one_number_and_excludes_with_its_probability() {
        let logits = logits_of(&[0.5, 0.3, 0.2]);
        let mut filter = Xtc {
            probability: 0.3,
            threshold: 0.1,
        };
        let (mut draws, mut expected_draws) = (Draws::new(5), Draws::new(5));
        let mut excluded = 0;
        for _ in 0..10_000 {
            let mut candidates = Candidates::default();
            candidates.begin();
            filter.apply(&logits, &mut candidates, &mut draws);
            let is_excluded = candidates.list(&logits).len() == 1;
            assert_eq!(is_excluded, expected_draws.unit() < f64::from(0.3_f32));
            excluded += usize::from(is_excluded);
        }
        assert!((2800..3200).contains(&excluded), "{excluded}");
    }

    proptest! {
        /// The reference sorts the candidates.
        #[test]
        fn the_rest_of_the_sorted_candidates_remain(logits in logits(), threshold in 0.0_f64..=0.5) {
            let all = ranked(&logits);
            let total: f64 = all.iter().map(|c| f64::from(c.logit).exp()).sum();
            let probabilities: Vec<f64> = all.iter().map(|c| f64::from(c.logit).exp() / total).collect();
            // Closer to the threshold, rounding decides.
            prop_assume!(probabilities.iter().all(|p| (p - threshold).abs() > 1e-6));
            let top = probabilities.iter().filter(|p| **p >= threshold).count();
            let mut kept = all.clone();
            exclude_top(&mut kept, threshold as f32);
            prop_assert_eq!(&kept[..], &all[top.saturating_sub(1)..]);
        }
    }
}
