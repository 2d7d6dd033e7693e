//! The sampler: chooses the next token from the logits.
//!
//! Filters run in the order of [`filter::all`], which is llama.cpp's: penalties, top-k, top-p,
//! min-p, temperature. What they leave is a [`Distribution`], from which a token is drawn. Top-p
//! and min-p use the probabilities before the temperature, so a higher temperature never admits a
//! token that they removed.

mod candidates;
mod distribution;
mod draws;
mod filter;
mod greedy;
mod min_p;
mod params;
mod penalties;
mod temperature;
#[cfg(test)]
mod tests;
mod top_k;
mod top_p;

pub use distribution::Distribution;
pub use greedy::greedy;
pub use params::{SamplingError, SamplingParams};

use candidates::Candidates;
use draws::Draws;
use filter::Filter;

/// A sampler with its random state and recent tokens.
#[derive(Debug)]
pub struct Sampler {
    filters: Vec<Box<dyn Filter>>,
    is_greedy: bool,
    draws: Draws,
    candidates: Candidates,
    distribution: Distribution,
}

impl Sampler {
    /// A new sampler.
    ///
    /// # Errors
    /// [`SamplingError::Setting`] if a parameter is outside its range.
    pub fn new(params: SamplingParams) -> Result<Self, SamplingError> {
        params.check()?;
        Ok(Self {
            filters: filter::all(&params),
            is_greedy: params.temperature == 0.0,
            draws: Draws::new(params.seed),
            candidates: Candidates::default(),
            distribution: Distribution::default(),
        })
    }

    /// A sampler that will draw the same numbers and penalise the same tokens.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            filters: self.filters.iter().map(|filter| filter.boxed()).collect(),
            is_greedy: self.is_greedy,
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
        self.filters.iter_mut().for_each(|filter| filter.accept(token));
    }

    /// Samples the next token from one logit per token of the vocabulary. Tokens without a finite
    /// logit are never chosen.
    ///
    /// # Errors
    /// [`SamplingError::NoLogits`] if none is finite.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        self.distribution(logits)?;
        match self.is_greedy {
            // No number is drawn.
            true => self.distribution.draw(0.0),
            false => self.distribution.draw(self.draws.unit()),
        }
        .ok_or(SamplingError::NoLogits)
    }

    /// The distribution that [`Sampler::sample`] draws from.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn distribution(&mut self, logits: &[f32]) -> Result<&Distribution, SamplingError> {
        self.candidates.begin();
        for filter in &self.filters {
            filter.apply(logits, &mut self.candidates);
        }
        match self.distribution.set(&mut self.candidates, logits) {
            true => Ok(&self.distribution),
            false => Err(SamplingError::NoLogits),
        }
    }
}
