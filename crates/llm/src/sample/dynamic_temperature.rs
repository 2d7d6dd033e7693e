//! Dynamic temperature: a temperature by the entropy of the candidates.

use super::candidates::{Candidate, Candidates};
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Maps the entropy, as a share of the largest possible, to a temperature: from the temperature
/// less the range (if the model is certain) to the temperature and the range.
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
        let Some(share) = entropy_share(candidates) else {
            return self.temperature;
        };
        let least = (self.temperature - self.range).max(0.0);
        let span = self.temperature + self.range - least;
        least + span * (share as f32).powf(self.exponent)
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

/// The entropy as a share of the maximum, which equally likely candidates have; `None` if there are
/// fewer than two candidates.
fn entropy_share(candidates: &[Candidate]) -> Option<f64> {
    let peak = candidates.iter().map(|c| c.logit).reduce(f32::max)?;
    if candidates.len() < 2 {
        return None;
    }
    let below = |c: &Candidate| f64::from(c.logit) - f64::from(peak);
    let total: f64 = candidates.iter().map(|c| below(c).exp()).sum();
    // -Σ p ln p, with ln p = below - ln total.
    let parts = candidates.iter().map(|c| below(c).exp() * below(c));
    let entropy = total.ln() - parts.sum::<f64>() / total;
    Some((entropy / (candidates.len() as f64).ln()).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{logits, logits_of, ranked};
    use proptest::prelude::*;

    #[test]
    fn the_temperature_follows_the_entropy() {
        let of = |probabilities: &[f32], exponent| {
            let filter = DynamicTemperature {
                temperature: 1.0,
                range: 0.4,
                exponent,
            };
            filter.temperature(&ranked(&logits_of(probabilities)))
        };
        let near = |actual: f32, expected: f32| assert!((actual - expected).abs() < 1e-5, "{actual} {expected}");
        near(of(&[0.25; 4], 1.0), 1.4);
        near(of(&[0.25; 4], 3.0), 1.4);
        near(of(&[1.0, 1e-30], 1.0), 0.6);
        near(of(&[1.0], 1.0), 1.0);
        // The entropy of 1/2, 1/4, 1/8, 1/8 is 1.75 of 2 bits.
        near(of(&[0.5, 0.25, 0.125, 0.125], 1.0), 0.6 + 0.8 * 0.875);
        near(of(&[0.5, 0.25, 0.125, 0.125], 2.0), 0.6 + 0.8 * 0.875 * 0.875);
        let wide = DynamicTemperature {
            temperature: 0.5,
            range: 2.0,
            exponent: 1.0,
        };
        near(wide.temperature(&ranked(&[0.0, -200.0])), 0.0);
        near(wide.temperature(&ranked(&[f32::MAX, -f32::MAX])), 0.0);
        near(wide.temperature(&[]), 0.5);
    }

    proptest! {
        #[test]
        fn the_share_is_that_of_the_definition(logits in logits()) {
            let all = ranked(&logits);
            let total: f64 = all.iter().map(|c| f64::from(c.logit).exp()).sum();
            let entropy: f64 = all.iter().map(|c| f64::from(c.logit).exp() / total).map(|p| -p * p.ln()).sum();
            match entropy_share(&all) {
                None => prop_assert!(all.len() < 2),
                Some(share) => {
                    let expected = entropy / (all.len() as f64).ln();
                    prop_assert!((share - expected).abs() < 1e-6, "{} {}", share, expected);
                }
            }
        }
    }
}
