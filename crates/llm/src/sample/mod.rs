//! The sampler: chooses the next token from the logits.
//!
//! Filters run in the order of [`filter::enabled`], as in llama.cpp: logit bias, banned strings,
//! penalties, DRY, top-nσ, top-k, typical-p, top-p, min-p, XTC, temperature (dynamic or not). The
//! token is drawn from the [`Distribution`] of the remaining candidates. Filters that remove tokens
//! use the probabilities before the temperature, so the temperature does not change which tokens
//! are removed.
//!
//! Mirostat 2 runs after the temperature, and replaces the filters from top-nσ to XTC and the
//! dynamic temperature. Temperature 0 is greedy: only the filters up to DRY run, which change
//! logits.
//!
//! A [`Constraint`] runs before all filters.

mod banned_strings;
mod candidates;
mod constraint;
mod distribution;
mod draws;
mod dry;
mod dynamic_temperature;
mod filter;
mod greedy;
mod logit_bias;
mod min_p;
mod mirostat;
mod params;
mod penalties;
mod string_match;
mod temperature;
#[cfg(test)]
mod tests;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical_p;
mod xtc;

pub use constraint::Constraint;
pub use distribution::Distribution;
pub use greedy::greedy;
pub use params::{SamplingError, SamplingParams};
pub use string_match::{MAX_STRING_BYTES, MAX_STRINGS, StringParams, Vocabulary};

use candidates::Candidates;
use draws::Draws;
use filter::Filter;

/// A sampler with the states of its random number generator and its filters.
#[derive(Debug)]
pub struct Sampler {
    constraint: Option<Box<dyn Constraint>>,
    filters: Vec<Box<dyn Filter>>,
    is_greedy: bool,
    takes_argmax: bool,
    draws: Draws,
    candidates: Candidates,
    distribution: Distribution,
}

impl Sampler {
    /// A sampler without DRY's breakers and banned strings.
    ///
    /// # Errors
    /// [`SamplingError::Setting`] if a parameter is outside its range.
    pub fn new(params: SamplingParams) -> Result<Self, SamplingError> {
        Self::build(&params, None)
    }

    /// A sampler with DRY's breakers and banned strings.
    ///
    /// # Errors
    /// If a parameter is outside its range, there are too many strings, or one is too long or not
    /// searchable.
    pub fn with_strings(params: SamplingParams, strings: &StringParams) -> Result<Self, SamplingError> {
        Self::build(&params, Some(strings))
    }

    fn build(params: &SamplingParams, strings: Option<&StringParams>) -> Result<Self, SamplingError> {
        params.check()?;
        let has_banned = strings.is_some_and(|strings| strings.banned.iter().any(|string| !string.is_empty()));
        Ok(Self {
            constraint: None,
            filters: filter::enabled(params, strings)?,
            is_greedy: params.temperature == 0.0,
            takes_argmax: params.is_greedy() && !has_banned,
            draws: Draws::new(params.seed),
            candidates: Candidates::default(),
            distribution: Distribution::default(),
        })
    }

    /// Whether it always chooses the argmax of the logits.
    pub fn takes_argmax(&self) -> bool {
        self.takes_argmax && self.constraint.is_none()
    }

    /// Sets the constraint on the next tokens.
    pub fn constrain(&mut self, constraint: Box<dyn Constraint>) {
        self.constraint = Some(constraint);
    }

    /// Whether the constraint allows no further token.
    pub fn is_complete(&self) -> bool {
        self.constraint
            .as_ref()
            .is_some_and(|constraint| constraint.is_complete())
    }

    /// A sampler in the same state, which draws the same random numbers.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            constraint: self.constraint.as_ref().map(|constraint| constraint.boxed()),
            filters: self.filters.iter().map(|filter| filter.boxed()).collect(),
            is_greedy: self.is_greedy,
            takes_argmax: self.takes_argmax,
            draws: self.draws.clone(),
            candidates: Candidates::default(),
            distribution: Distribution::default(),
        }
    }

    /// The probability of a token in the distribution of the last draw.
    pub fn last_probability(&self, token: u32) -> f64 {
        self.distribution.probability(token)
    }

    /// Records a token of the prompt or the answer.
    pub fn accept(&mut self, token: u32) {
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token);
        }
        self.filters.iter_mut().for_each(|filter| filter.accept(token));
    }

    /// Ends the prompt. Banned strings are only searched for in the tokens after it.
    pub fn begin_answer(&mut self) {
        self.filters.iter_mut().for_each(|filter| filter.begin_answer());
    }

    /// Samples the next token. There is one logit per token of the vocabulary, and tokens without a
    /// finite logit are never drawn.
    ///
    /// # Errors
    /// [`SamplingError::NoLogits`] if no logit is finite, [`SamplingError::NothingLeft`] if no
    /// candidate is left, [`SamplingError::Constraint`] if the constraint fails.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        // Filters draw random numbers too, before the token is drawn.
        let mut draws = self.draws.clone();
        self.filter(logits, &mut draws)?;
        let unit = if self.is_greedy { 0.0 } else { draws.unit() };
        self.draws = draws;
        let token = self.distribution.draw(unit).ok_or(SamplingError::NoLogits)?;
        for filter in &mut self.filters {
            filter.record_draw(token, &self.distribution);
        }
        Ok(token)
    }

    /// The distribution that the next [`Sampler::sample`] draws from.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn distribution(&mut self, logits: &[f32]) -> Result<&Distribution, SamplingError> {
        let mut draws = self.draws.clone();
        self.filter(logits, &mut draws)?;
        Ok(&self.distribution)
    }

    /// Runs the constraint and all filters, and sets the distribution.
    fn filter(&mut self, logits: &[f32], draws: &mut Draws) -> Result<(), SamplingError> {
        self.candidates.begin();
        if let Some(constraint) = &mut self.constraint {
            let logits = self.candidates.logits_mut(logits);
            constraint.mask(logits).map_err(SamplingError::Constraint)?;
        }
        for filter in &mut self.filters {
            filter.apply(logits, &mut self.candidates, draws);
        }
        if self.distribution.set(&mut self.candidates, logits) {
            Ok(())
        } else if logits.iter().any(|logit| logit.is_finite()) {
            Err(SamplingError::NothingLeft)
        } else {
            Err(SamplingError::NoLogits)
        }
    }
}
