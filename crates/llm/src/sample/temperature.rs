//! Temperature.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Divides the logits. Above 1 the distribution is flatter, below 1 sharper. At 0 the first of the
/// most likely tokens is certain.
#[derive(Debug, Clone)]
pub(super) struct Temperature(f32);

impl Temperature {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        Some(Box::new(Self(params.temperature)))
    }
}

impl Filter for Temperature {
    fn apply(&mut self, _logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        candidates.temperature = self.0;
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}
