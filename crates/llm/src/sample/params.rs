//! Sampling parameters.

use thiserror::Error;

/// Sampling parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Temperature: divides the logits before the draw; 0 is greedy.
    pub temperature: f32,
    /// Top-k: keeps the k most likely tokens; 0 disables it.
    pub top_k: usize,
    /// Top-p (nucleus): keeps the most likely tokens whose probabilities sum to p; 1 disables it.
    pub top_p: f32,
    /// Min-p: removes tokens less likely than this fraction of the most likely; 0 disables it.
    pub min_p: f32,
    /// Repetition penalty: divides the positive logits of recent tokens, and multiplies the
    /// negative ones; 1 disables it.
    pub repetition_penalty: f32,
    /// Frequency penalty: subtracted from a logit for each recent occurrence; 0 disables it.
    pub frequency_penalty: f32,
    /// Presence penalty: subtracted once from the logit of a recent token; 0 disables it.
    pub presence_penalty: f32,
    /// The number of recent tokens that penalties apply to.
    pub repeat_last_n: usize,
    /// The seed; the same seed gives the same draws on every machine.
    pub seed: u64,
}

/// A sampling error.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SamplingError {
    /// A parameter outside its range.
    #[error("{name} is {value}, but must be {range}")]
    Setting {
        /// The parameter's name.
        name: &'static str,
        /// Its value.
        value: f32,
        /// Its valid range.
        range: &'static str,
    },
    /// No logit is finite: the weights must be corrupt.
    #[error("the model's logits are not finite; its file is probably corrupt, download it again")]
    NoLogits,
}

impl SamplingParams {
    /// Greedy sampling without penalties.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: 0,
            seed: 0,
        }
    }

    /// Returns whether sampling is greedy without penalties, so that the argmax suffices.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.penalises()
    }

    /// Whether penalties change any logit.
    pub(super) fn penalises(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }

    /// Checks that every parameter is within its range.
    pub(super) fn check(&self) -> Result<(), SamplingError> {
        let fraction = |value: f32| (0.0..=1.0).contains(&value);
        let Self {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            ..
        } = *self;
        for (name, value, within, range) in [
            ("temperature", temperature, temperature >= 0.0, "0 or more"),
            ("top_p", top_p, fraction(top_p), "from 0 to 1"),
            ("min_p", min_p, fraction(min_p), "from 0 to 1"),
            (
                "repetition_penalty",
                repetition_penalty,
                repetition_penalty > 0.0,
                "more than 0",
            ),
            ("frequency_penalty", self.frequency_penalty, true, "a number"),
            ("presence_penalty", self.presence_penalty, true, "a number"),
        ] {
            if !within || !value.is_finite() {
                return Err(SamplingError::Setting { name, value, range });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sampler;

    #[test]
    fn parameters_outside_their_range_are_refused() {
        let bad: [fn(&mut SamplingParams); 6] = [
            |s| s.temperature = -1.0,
            |s| s.temperature = f32::NAN,
            |s| s.top_p = 1.5,
            |s| s.min_p = -0.1,
            |s| s.repetition_penalty = 0.0,
            |s| s.frequency_penalty = f32::INFINITY,
        ];
        for change in bad {
            let mut sampling = SamplingParams::greedy();
            change(&mut sampling);
            assert!(matches!(Sampler::new(sampling), Err(SamplingError::Setting { .. })));
        }
    }
}
