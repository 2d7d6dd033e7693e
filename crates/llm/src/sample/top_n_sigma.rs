//! Top-nσ: <https://arxiv.org/abs/2411.07641>.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Removes candidates whose logit is more than n standard deviations of all logits below the
/// highest.
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
    let Some(peak) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let count = candidates.len() as f64;
    let mean = candidates.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
    let squares: f64 = candidates.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum();
    let least = f64::from(peak) - f64::from(n) * (squares / count).sqrt();
    candidates.retain(|c| f64::from(c.logit) >= least);
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
        let two = [0.0, 4.0, f32::NAN, 0.0, f32::NEG_INFINITY, 4.0];
        check(&two, 0.001, 2);
        check(&two, 1.9, 2);
        check(&two, 2.0, 4);
        // Mean 4, standard deviation 2.236.
        let steps = [1.0, 3.0, 5.0, 7.0];
        check(&steps, 0.8, 1);
        check(&steps, 1.0, 2);
        check(&steps, 2.0, 3);
        check(&steps, 2.7, 4);
        let mut one = ranked(&[5.0]);
        keep_top_n_sigma(&mut one, 1.0);
        assert_eq!(one.len(), 1);
        let mut huge = ranked(&[f32::MAX, -f32::MAX]);
        keep_top_n_sigma(&mut huge, 1.0);
        assert_eq!(huge.len(), 1);
    }

    proptest! {
        #[test]
        fn a_logit_remains_if_it_is_within_n_deviations(logits in logits(), n in 0.01_f64..5.0) {
            let all = ranked(&logits);
            let values: Vec<f64> = all.iter().map(|c| f64::from(c.logit)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64 - mean * mean;
            let deviation = variance.max(0.0).sqrt();
            let mut kept = all.clone();
            keep_top_n_sigma(&mut kept, n as f32);
            prop_assert_eq!(kept.is_empty(), all.is_empty());
            for (candidate, value) in all.iter().zip(&values) {
                let excess = values[0] - value - n * deviation;
                // Rounding decides between them.
                if excess.abs() > 1e-4 {
                    prop_assert_eq!(kept.contains(candidate), excess < 0.0);
                }
            }
        }
    }
}
