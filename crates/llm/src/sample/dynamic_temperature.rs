//! Dynamic temperature: the temperature depends on the entropy of the candidates.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Maps the normalized entropy to a temperature: 0 to `temperature - range`, 1 to
/// `temperature + range`.
#[derive(Debug, Clone)]
pub(super) struct DynamicTemperature {
    temperature: f32,
    range: f32,
    exponent: f32,
}

impl DynamicTemperature {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        let is_enabled = params.dynatemp_range > 0.0 && params.temperature > 0.0 && !params.mirostat;
        is_enabled.then(|| {
            Box::new(Self {
                temperature: params.temperature,
                range: params.dynatemp_range,
                exponent: params.dynatemp_exponent,
            }) as Box<dyn Filter>
        })
    }

    fn temperature(&self, candidates: &[Candidate]) -> f32 {
        let Some(entropy) = normalized_entropy(candidates) else {
            return self.temperature;
        };
        let min = (self.temperature - self.range).max(0.0);
        let max = self.temperature + self.range;
        min + (max - min) * (entropy as f32).powf(self.exponent)
    }
}

impl Filter for DynamicTemperature {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        candidates.temperature = self.temperature(candidates.list(logits));
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

/// The entropy divided by its maximum, which equally likely candidates have. `None` for fewer than
/// two candidates.
fn normalized_entropy(candidates: &[Candidate]) -> Option<f64> {
    let max = candidates.iter().map(|c| c.logit).reduce(f32::max)?;
    if candidates.len() < 2 {
        return None;
    }
    let relative = |c: &Candidate| f64::from(c.logit) - f64::from(max);
    let total: f64 = candidates.iter().map(|c| relative(c).exp()).sum();
    // -Σ p ln p, with ln p = relative - ln total.
    let products = candidates.iter().map(|c| relative(c).exp() * relative(c));
    let entropy = total.ln() - products.sum::<f64>() / total;
    Some((entropy / (candidates.len() as f64).ln()).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, logits_of, ranked};
    use proptest::prelude::*;

    #[test]
    fn the_temperature_follows_the_entropy() {
        let temperature = |probabilities: &[f32], exponent| {
            let filter = DynamicTemperature {
                temperature: 1.0,
                range: 0.4,
                exponent,
            };
            filter.temperature(&ranked(&logits_of(probabilities)))
        };
        let assert_near = |actual: f32, expected: f32| assert!((actual - expected).abs() < 1e-5, "{actual} {expected}");
        assert_near(temperature(&[0.25; 4], 1.0), 1.4);
        assert_near(temperature(&[0.25; 4], 3.0), 1.4);
        assert_near(temperature(&[1.0, 1e-30], 1.0), 0.6);
        assert_near(temperature(&[1.0], 1.0), 1.0);
        // The entropy of 1/2, 1/4, 1/8, 1/8 is 1.75 of 2 bits.
        assert_near(temperature(&[0.5, 0.25, 0.125, 0.125], 1.0), 0.6 + 0.8 * 0.875);
        assert_near(temperature(&[0.5, 0.25, 0.125, 0.125], 2.0), 0.6 + 0.8 * 0.875 * 0.875);
        let wide_range = DynamicTemperature {
            temperature: 0.5,
            range: 2.0,
            exponent: 1.0,
        };
        assert_near(wide_range.temperature(&ranked(&[0.0, -200.0])), 0.0);
        assert_near(wide_range.temperature(&ranked(&[f32::MAX, -f32::MAX])), 0.0);
        assert_near(wide_range.temperature(&[]), 0.5);
    }

    proptest! {
        #[test]
        fn the_normalized_entropy_matches_its_definition(logits in logits()) {
            let candidates = ranked(&logits);
            let total: f64 = candidates.iter().map(|c| f64::from(c.logit).exp()).sum();
            let entropy: f64 = candidates.iter().map(|c| f64::from(c.logit).exp() / total).map(|p| -p * p.ln()).sum();
            match normalized_entropy(&candidates) {
                None => prop_assert!(candidates.len() < 2),
                Some(actual) => {
                    let expected = entropy / (candidates.len() as f64).ln();
                    prop_assert!((actual - expected).abs() < 1e-6, "{} {}", actual, expected);
                }
            }
        }
    }
}
