//! The filters, in their order.

use super::candidates::Candidates;
use super::min_p::MinP;
use super::params::SamplingParams;
use super::penalties::Penalties;
use super::temperature::Temperature;
use super::top_k::TopK;
use super::top_p::TopP;

/// A step from the logits to the distribution that is drawn from.
pub(super) trait Filter: std::fmt::Debug + Send {
    /// Changes logits, or removes candidates; `logits` are those of the model.
    fn apply(&self, logits: &[f32], candidates: &mut Candidates);

    /// Records a token of the prompt or the answer.
    fn accept(&mut self, _token: u32) {}

    /// A copy.
    fn boxed(&self) -> Box<dyn Filter>;
}

/// The filters that these parameters enable, in the order in which they run. Those that change
/// logits come before those that remove candidates.
pub(super) fn all(params: &SamplingParams) -> Vec<Box<dyn Filter>> {
    let mut filters: Vec<Box<dyn Filter>> = Vec::new();
    let mut add = |filter: Option<Box<dyn Filter>>| filters.extend(filter);
    add(Penalties::of(params));
    // Greedy: nothing but the most likely token matters.
    if params.temperature > 0.0 {
        add(TopK::of(params));
        add(TopP::of(params));
        add(MinP::of(params));
    }
    add(Temperature::of(params));
    filters
}
