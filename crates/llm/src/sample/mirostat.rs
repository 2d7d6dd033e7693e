//! Mirostat 2: <https://arxiv.org/abs/2007.14966>.

use super::candidates::{Candidate, Candidates};
use super::distribution::Distribution;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Removes candidates whose surprise is above a bound. The bound is adapted after each draw, so
/// that the mean surprise of the drawn tokens approaches a target. Runs after the temperature.
#[derive(Debug, Clone)]
pub(super) struct Mirostat {
    /// The target surprise in bits.
    tau: f64,
    /// The learning rate.
    eta: f64,
    /// The upper bound of the surprise in bits.
    mu: f64,
}

impl Mirostat {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        let is_enabled = params.mirostat && params.temperature > 0.0;
        is_enabled.then(|| Box::new(Self::new(params.mirostat_tau, params.mirostat_eta)) as Box<dyn Filter>)
    }

    fn new(tau: f32, eta: f32) -> Self {
        Self {
            tau: f64::from(tau),
            eta: f64::from(eta),
            mu: 2.0 * f64::from(tau),
        }
    }
}

impl Filter for Mirostat {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        let temperature = f64::from(candidates.temperature);
        let list = candidates.list(logits);
        let Some(most_likely) = list.iter().copied().min_by(Candidate::order) else {
            return;
        };
        let relative = |c: &Candidate| (f64::from(c.logit) - f64::from(most_likely.logit)) / temperature;
        let total: f64 = list.iter().map(|c| relative(c).exp()).sum();
        let surprise = |c: &Candidate| (total.ln() - relative(c)) / std::f64::consts::LN_2;
        list.retain(|c| surprise(c) <= self.mu || c.id == most_likely.id);
    }

    fn record_draw(&mut self, token: u32, distribution: &Distribution) {
        let surprise = -distribution.probability(token).log2();
        if surprise.is_finite() {
            self.mu -= self.eta * (surprise - self.tau);
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sampler;
    use crate::sample::tests::{logits, logits_of, ranked};
    use proptest::prelude::*;

    /// The ids of the candidates that the filter keeps.
    fn kept(filter: &mut Mirostat, logits: &[f32], temperature: f32) -> Vec<u32> {
        let mut candidates = Candidates::default();
        candidates.begin();
        candidates.temperature = temperature;
        filter.apply(logits, &mut candidates, &mut Draws::new(0));
        candidates.list(logits).iter().map(|c| c.id).collect()
    }

    #[test]
    fn surprising_tokens_are_removed() {
        // The surprises are 1, 2, 3 and 3 bits.
        let logits = logits_of(&[0.5, 0.25, 0.125, 0.125]);
        let check = |mu, temperature, expected: &[u32]| {
            let mut filter = Mirostat { tau: 1.0, eta: 0.1, mu };
            assert_eq!(kept(&mut filter, &logits, temperature), expected, "{mu}");
        };
        check(2.5, 1.0, &[0, 1]);
        check(3.1, 1.0, &[0, 1, 2, 3]);
        check(0.1, 1.0, &[0]);
        check(-5.0, 1.0, &[0]);
        // Temperature 0.5 squares the probabilities: 16, 4, 1 and 1 of 22, or 0.46, 2.46, 4.46 and
        // 4.46 bits.
        check(2.5, 0.5, &[0, 1]);
        check(2.4, 0.5, &[0]);
    }

    #[test]
    fn the_bound_follows_the_surprise_of_the_drawn() {
        let mut distribution = Distribution::default();
        let logits = logits_of(&[0.5, 0.25, 0.25]);
        let mut candidates = Candidates::default();
        candidates.begin();
        assert!(distribution.set(&mut candidates, &logits));
        let mut filter = Mirostat::new(3.0, 0.1);
        assert_eq!(filter.mu, 6.0);
        filter.record_draw(0, &distribution);
        assert!((filter.mu - 6.2).abs() < 1e-6, "{}", filter.mu);
        filter.record_draw(1, &distribution);
        assert!((filter.mu - 6.3).abs() < 1e-6, "{}", filter.mu);
        filter.record_draw(99, &distribution);
        assert!((filter.mu - 6.3).abs() < 1e-6, "a token that cannot be drawn");
    }

    /// Zipf's law over a thousand tokens has 7.5 bits of entropy.
    #[test]
    fn the_mean_surprise_approaches_the_target() {
        let logits: Vec<f32> = (1..=1000).map(|rank| -(rank as f32).ln()).collect();
        for tau in [2.0, 4.0, 6.0] {
            let params = SamplingParams {
                temperature: 1.0,
                mirostat: true,
                mirostat_tau: tau,
                mirostat_eta: 0.1,
                // Mirostat replaces top-k.
                top_k: 1,
                ..SamplingParams::greedy()
            };
            let mut sampler = Sampler::new(params).unwrap();
            let mut sum = 0.0;
            for _ in 0..4000 {
                let token = sampler.sample(&logits).unwrap();
                sum -= sampler.last_probability(token).log2();
            }
            let mean = sum / 4000.0;
            assert!((mean - f64::from(tau)).abs() < 0.1, "{mean} for {tau}");
        }
    }

    proptest! {
        /// The reference sorts the candidates and truncates them at the first above the bound.
        #[test]
        fn it_is_a_prefix_of_the_sorted_candidates(
            logits in logits(), mu in -1.0_f64..20.0, temperature in 0.2_f32..3.0,
        ) {
            let candidates = ranked(&logits);
            let weight = |c: &Candidate| (f64::from(c.logit) / f64::from(temperature)).exp();
            let total: f64 = candidates.iter().map(weight).sum();
            let surprises: Vec<f64> = candidates.iter().map(|c| -(weight(c) / total).log2()).collect();
            prop_assume!(surprises.iter().all(|surprise| (surprise - mu).abs() > 1e-6));
            let count = surprises.iter().take_while(|surprise| **surprise <= mu).count().max(1);
            let mut expected: Vec<u32> = candidates.iter().take(count).map(|c| c.id).collect();
            expected.sort_unstable();
            let mut filter = Mirostat { tau: 5.0, eta: 0.1, mu };
            prop_assert_eq!(kept(&mut filter, &logits, temperature), expected);
        }
    }
}
