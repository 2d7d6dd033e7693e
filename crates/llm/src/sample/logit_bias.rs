//! Logit bias.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Adds a bias to the logits of tokens. Minus infinity bans a token.
#[derive(Debug, Clone)]
pub(super) struct LogitBias(Vec<(u32, f32)>);

impl LogitBias {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (!params.logit_bias.is_empty()).then(|| Box::new(Self(params.logit_bias.clone())) as Box<dyn Filter>)
    }
}

impl Filter for LogitBias {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        let logits = candidates.logits_mut(logits);
        for &(id, bias) in &self.0 {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit += bias;
            }
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_are_added_and_minus_infinity_bans() {
        let mut filter = LogitBias(vec![(0, 1.5), (2, f32::NEG_INFINITY), (0, 0.5), (2, 1000.0), (99, 1.0)]);
        let mut candidates = Candidates::default();
        candidates.begin();
        let logits = [1.0, 2.0, 3.0, f32::NAN];
        filter.apply(&logits, &mut candidates, &mut Draws::new(0));
        assert_eq!(candidates.logits(&logits)[..3], [3.0, 2.0, f32::NEG_INFINITY]);
        assert!(candidates.logits(&logits)[3].is_nan());
    }
}
