//! Min-p: <https://arxiv.org/abs/2407.01082>.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingParams;

/// Removes candidates less likely than a fraction of the most likely.
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
        if let Some(peak) = list.iter().map(|c| c.logit).reduce(f32::max) {
            let least = peak + self.0.ln();
            list.retain(|c| c.logit >= least);
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}
