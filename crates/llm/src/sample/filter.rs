//! The filters and their order.

use super::banned_strings::BannedStrings;
use super::candidates::Candidates;
use super::distribution::Distribution;
use super::draws::Draws;
use super::dry::Dry;
use super::dynamic_temperature::DynamicTemperature;
use super::logit_bias::LogitBias;
use super::min_p::MinP;
use super::mirostat::Mirostat;
use super::params::{SamplingError, SamplingParams};
use super::penalties::Penalties;
use super::string_match::StringParams;
use super::temperature::Temperature;
use super::top_k::TopK;
use super::top_n_sigma::TopNSigma;
use super::top_p::TopP;
use super::typical_p::TypicalP;
use super::xtc::Xtc;

/// A step between the logits and the distribution of the next token.
pub(super) trait Filter: std::fmt::Debug + Send {
    /// Changes logits or removes candidates. `logits` are the logits of the model.
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, draws: &mut Draws);

    /// Records a token of the prompt or the answer.
    fn accept(&mut self, _token: u32) {}

    /// Records the end of the prompt.
    fn begin_answer(&mut self) {}

    /// Records that a token was drawn from a distribution.
    fn record_draw(&mut self, _token: u32, _distribution: &Distribution) {}

    /// A copy in the same state.
    fn boxed(&self) -> Box<dyn Filter>;
}

/// The filters that these parameters enable, in the order in which they run. Filters that change
/// logits run before filters that remove candidates.
///
/// # Errors
/// If there are too many strings, or one is too long or not searchable.
pub(super) fn enabled(
    params: &SamplingParams,
    strings: Option<&StringParams>,
) -> Result<Vec<Box<dyn Filter>>, SamplingError> {
    let mut filters: Vec<Box<dyn Filter>> = Vec::new();
    let mut add = |filter: Option<Box<dyn Filter>>| filters.extend(filter);
    add(LogitBias::from_params(params));
    if let Some(strings) = strings {
        add(BannedStrings::from_params(strings)?);
    }
    add(Penalties::from_params(params));
    add(Dry::from_params(params, strings)?);
    // Greedy sampling only needs the most likely token. Mirostat replaces these filters.
    if params.temperature > 0.0 && !params.mirostat {
        add(TopNSigma::from_params(params));
        add(TopK::from_params(params));
        add(TypicalP::from_params(params));
        add(TopP::from_params(params));
        add(MinP::from_params(params));
        add(Xtc::from_params(params));
    }
    add(DynamicTemperature::from_params(params).or_else(|| Temperature::from_params(params)));
    add(Mirostat::from_params(params));
    Ok(filters)
}
