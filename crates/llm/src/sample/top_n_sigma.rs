//! Top-nσ: <https://arxiv.org/abs/2411.07641>.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Removes candidates whose logit is more than n standard deviations below the highest logit.
#[derive(Debug, Clone)]
pub(super) struct TopNSigma(f32);

impl TopNSigma {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (params.top_n_sigma > 0.0).then(|| Box::new(Self(params.top_n_sigma)) as Box<dyn Filter>)
    }
}

impl Filter for TopNSigma {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        keep_top_n_sigma(candidates.list(logits), self.0);
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

fn keep_top_n_sigma(candidates: &mut Vec<Candidate>, n: f32) {
    let Some(max) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let count = candidates.len() as f64;
    let mean = candidates.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
    let squares: f64 = candidates.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum();
    let threshold = f64::from(max) - f64::from(n) * (squares / count).sqrt();
    candidates.retain(|c| f64::from(c.logit) >= threshold);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, ranked};
    use proptest::prelude::*;

    #[test]
    fn logits_near_the_highest_remain() {
        let check = |logits: &[f32], n, expected: usize| {
            let mut kept = ranked(logits);
            keep_top_n_sigma(&mut kept, n);
            assert_eq!(kept.len(), expected, "{n}");
        };
        // Mean 2, standard deviation 2.
        let two_values = [0.0, 4.0, f32::NAN, 0.0, f32::NEG_INFINITY, 4.0];
        check(&two_values, 0.001, 2);
        check(&two_values, 1.9, 2);
        check(&two_values, 2.0, 4);
        // Mean 4, standard deviation 2.236.
        let four_values = [1.0, 3.0, 5.0, 7.0];
        check(&four_values, 0.8, 1);
        check(&four_values, 1.0, 2);
        check(&four_values, 2.0, 3);
        check(&four_values, 2.7, 4);
        let mut single = ranked(&[5.0]);
        keep_top_n_sigma(&mut single, 1.0);
        assert_eq!(single.len(), 1);
        let mut extremes = ranked(&[f32::MAX, -f32::MAX]);
        keep_top_n_sigma(&mut extremes, 1.0);
        assert_eq!(extremes.len(), 1);
    }

    proptest! {
        #[test]
        fn a_logit_remains_if_it_is_within_n_deviations(logits in logits(), n in 0.01_f64..5.0) {
            let candidates = ranked(&logits);
            let values: Vec<f64> = candidates.iter().map(|c| f64::from(c.logit)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64 - mean * mean;
            let deviation = variance.max(0.0).sqrt();
            let mut kept = candidates.clone();
            keep_top_n_sigma(&mut kept, n as f32);
            prop_assert_eq!(kept.is_empty(), candidates.is_empty());
            for (candidate, value) in candidates.iter().zip(&values) {
                let excess = values[0] - value - n * deviation;
                // Closer to the threshold, rounding decides.
                if excess.abs() > 1e-4 {
                    prop_assert_eq!(kept.contains(candidate), excess < 0.0);
                }
            }
        }
    }
}
