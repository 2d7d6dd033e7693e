//! Min-p: <https://arxiv.org/abs/2407.01082>.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Keeps candidates that have at least `min_p` times the probability of the most likely one.
#[derive(Debug, Clone)]
pub(super) struct MinP(f32);

impl MinP {
    pub fn from_params(params: &SamplingParams) -> Option<Box<dyn Filter>> {
        (params.min_p > 0.0).then(|| Box::new(Self(params.min_p)) as Box<dyn Filter>)
    }
}

impl Filter for MinP {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        let list = candidates.list(logits);
        if let Some(max_logit) = list.iter().map(|c| c.logit).reduce(f32::max) {
            let min_logit = max_logit + self.0.ln();
            list.retain(|c| c.logit >= min_logit);
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}
