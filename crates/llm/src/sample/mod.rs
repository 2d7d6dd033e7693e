//! The sampler: chooses the next token from the logits.
//!
//! Filters run in the order of [`filter::all`], which is llama.cpp's: logit bias, banned strings,
//! penalties, DRY, top-nσ, top-k, typical-p, top-p, min-p, XTC, temperature (dynamic or not). What
//! they leave is a [`Distribution`], from which a token is drawn. All that remove tokens use the
//! probabilities before the temperature, so a higher temperature never admits a token that they
//! removed.
//!
//! Mirostat 2 runs after the temperature and replaces top-nσ to XTC and the dynamic temperature.
//! Temperature 0 is greedy: only the filters that change logits run, up to DRY.
//!
//! A [`Constraint`] runs before all filters.

mod banned;
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

/// A sampler with its random state and recent tokens.
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
    /// A new sampler, without DRY's breakers or banned strings.
    ///
    /// # Errors
    /// [`SamplingError::Setting`] if a parameter is outside its range.
    pub fn new(params: SamplingParams) -> Result<Self, SamplingError> {
        Self::build(&params, None)
    }

    /// A new sampler with DRY's breakers and banned strings.
    ///
    /// # Errors
    /// If a parameter is outside its range, or there are too many texts, or one is too long.
    pub fn with_strings(params: SamplingParams, texts: &StringParams) -> Result<Self, SamplingError> {
        Self::build(&params, Some(texts))
    }

    fn build(params: &SamplingParams, texts: Option<&StringParams>) -> Result<Self, SamplingError> {
        params.check()?;
        let bans = texts.is_some_and(|texts| texts.banned.iter().any(|text| !text.is_empty()));
        Ok(Self {
            constraint: None,
            filters: filter::all(params, texts)?,
            is_greedy: params.temperature == 0.0,
            takes_argmax: params.is_greedy() && !bans,
            draws: Draws::new(params.seed),
            candidates: Candidates::default(),
            distribution: Distribution::default(),
        })
    }

    /// Whether it always chooses the argmax of the logits.
    pub fn takes_argmax(&self) -> bool {
        self.takes_argmax && self.constraint.is_none()
    }

    /// Restricts the tokens from here on.
    pub fn constrain(&mut self, constraint: Box<dyn Constraint>) {
        self.constraint = Some(constraint);
    }

    /// Whether its constraint lets nothing follow.
    pub fn is_complete(&self) -> bool {
        self.constraint
            .as_ref()
            .is_some_and(|constraint| constraint.is_complete())
    }

    /// A sampler that will draw the same numbers and penalize the same tokens.
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

    /// The probability of a token in the distribution that was drawn from last.
    pub fn last_probability(&self, token: u32) -> f64 {
        self.distribution.probability(token)
    }

    /// Records a token of the prompt or the answer, for filters that depend on them.
    pub fn accept(&mut self, token: u32) {
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token);
        }
        self.filters.iter_mut().for_each(|filter| filter.accept(token));
    }

    /// Ends the prompt: banned strings are searched for in the tokens accepted from here on.
    pub fn begin_answer(&mut self) {
        self.filters.iter_mut().for_each(|filter| filter.begin_answer());
    }

    /// Samples the next token from one logit per token of the vocabulary. Tokens without a finite
    /// logit are never chosen.
    ///
    /// # Errors
    /// [`SamplingError::NoLogits`] if none is finite, [`SamplingError::NothingLeft`] if the filters
    /// leave none, [`SamplingError::Constraint`] if the constraint fails.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        // Filters draw before the token.
        let mut draws = self.draws.clone();
        self.filter(logits, &mut draws)?;
        let unit = if self.is_greedy {
            // No number is drawn.
            0.0
        } else {
            draws.unit()
        };
        self.draws = draws;
        let token = self.distribution.draw(unit).ok_or(SamplingError::NoLogits)?;
        for filter in &mut self.filters {
            filter.drawn(token, &self.distribution);
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
