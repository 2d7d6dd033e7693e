//! Top-p, or nucleus sampling: <https://arxiv.org/abs/1904.09751>.

use super::candidates::{Candidate, Candidates, keep_mass};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Keeps the fewest most likely candidates whose probabilities sum to at least p, in order.
#[derive(Debug, Clone)]
pub(super) struct TopP(f32);

impl TopP {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (params.top_p < 1.0).then(|| Box::new(Self(params.top_p)) as Box<dyn Filter>)
    }
}

impl Filter for TopP {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        keep_top_p(candidates.list(logits), self.0);
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

fn keep_top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(max) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let weight = |c: &Candidate| f64::from(c.logit - max).exp();
    let required = candidates.iter().map(weight).sum::<f64>() * f64::from(p);
    keep_mass(candidates, Candidate::order, weight, |sum| sum >= required);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, ranked};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_p_is_the_shortest_prefix_that_reaches_it(logits in logits(), p in 0.0_f32..1.0) {
            let mut kept = ranked(&logits);
            let all = kept.clone();
            kept.reverse();
            keep_top_p(&mut kept, p);
            let mass = |candidates: &[Candidate]| {
                candidates.iter().map(|c| f64::from(c.logit - 10.0).exp()).sum::<f64>()
            };
            prop_assert_eq!(&kept[..], &all[..kept.len()]);
            prop_assert!(mass(&kept) >= mass(&all) * f64::from(p) * (1.0 - 1e-9));
            if kept.len() > 1 {
                prop_assert!(mass(&kept[..kept.len() - 1]) < mass(&all) * f64::from(p) * (1.0 + 1e-9));
            }
        }
    }
}
