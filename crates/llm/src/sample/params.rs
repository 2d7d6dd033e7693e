//! Sampling parameters.

use super::string_match::{MAX_STRING_BYTES, MAX_STRINGS};
use thiserror::Error;

/// Largest logit bias, up or down.
const MAX_BIAS: f32 = 1000.0;

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
    /// Locally typical sampling: keeps the tokens whose surprise is closest to the expected one,
    /// until their probabilities sum to p; 1 disables it.
    pub typical_p: f32,
    /// Top-nσ: keeps tokens within n standard deviations of the highest logit; 0 or less disables
    /// it.
    pub top_n_sigma: f32,
    /// XTC: the chance that the most likely tokens are excluded; 0 disables it.
    pub xtc_probability: f32,
    /// XTC: the least probability of an excluded token; more than 0.5 disables it.
    pub xtc_threshold: f32,
    /// DRY: scale of the penalty; 0 disables it.
    pub dry_multiplier: f32,
    /// DRY: growth of the penalty with each further repeated token.
    pub dry_base: f32,
    /// DRY: the length in tokens from which a repetition is penalized.
    pub dry_allowed_length: usize,
    /// DRY: the number of recent tokens that are searched; 0 disables it.
    pub dry_last_n: usize,
    /// Mirostat 2, in place of the filters that remove tokens.
    pub mirostat: bool,
    /// Mirostat: the target surprise in bits.
    pub mirostat_tau: f32,
    /// Mirostat: the learning rate.
    pub mirostat_eta: f32,
    /// Dynamic temperature: how far the temperature varies up and down; 0 disables it.
    pub dynatemp_range: f32,
    /// Dynamic temperature: the exponent of the normalized entropy.
    pub dynatemp_exponent: f32,
    /// Logit bias: tokens and what is added to their logits; minus infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
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
    /// Too many texts.
    #[error("{name} has {count} texts, but must have at most {MAX_STRINGS}")]
    TooManyStrings {
        /// The parameter's name.
        name: &'static str,
        /// Their number.
        count: usize,
    },
    /// A text that is too long.
    #[error("a text of {name} has {bytes} bytes, but must have at most {MAX_STRING_BYTES}")]
    LongString {
        /// The parameter's name.
        name: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A banned string with U+FFFD, which also stands for invalid UTF-8.
    #[error("a text of banned_strings has the replacement character U+FFFD, which cannot be searched for")]
    ReplacementCharacter,
    /// No token is left: all are banned, or penalized to minus infinity.
    #[error("no token is left to draw; remove a banned string or a logit bias, or lower a penalty")]
    NothingLeft,
    /// The constraint cannot decide which tokens may follow; its reason.
    #[error("{0}")]
    Constraint(String),
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
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_last_n: 0,
            mirostat: false,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }

    /// Returns whether sampling is greedy and no parameter changes a logit, so that the argmax
    /// suffices.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.penalizes() && !self.has_dry() && self.logit_bias.is_empty()
    }

    /// Whether DRY penalizes repetitions.
    pub(super) fn has_dry(&self) -> bool {
        self.dry_multiplier > 0.0 && self.dry_last_n > 0
    }

    /// Whether penalties change any logit.
    pub(super) fn penalizes(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }

    /// Checks that every parameter is within its range.
    pub(super) fn check(&self) -> Result<(), SamplingError> {
        let fraction = |value: f32| (0.0..=1.0).contains(&value);
        let between = |least: f32, value: f32, most: f32| (least..=most).contains(&value);
        let Self {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
            ..
        } = *self;
        let range = "from 0 to 1";
        for (name, value, within, range) in [
            ("temperature", temperature, temperature >= 0.0, "0 or more"),
            ("top_p", top_p, fraction(top_p), range),
            ("min_p", min_p, fraction(min_p), range),
            (
                "repetition_penalty",
                repetition_penalty,
                repetition_penalty > 0.0,
                "more than 0",
            ),
            ("frequency_penalty", frequency_penalty, true, "a number"),
            ("presence_penalty", presence_penalty, true, "a number"),
            ("typical_p", self.typical_p, fraction(self.typical_p), range),
            (
                "top_n_sigma",
                self.top_n_sigma,
                between(-1.0, self.top_n_sigma, 100.0),
                "from -1 to 100",
            ),
            (
                "xtc_probability",
                self.xtc_probability,
                fraction(self.xtc_probability),
                range,
            ),
            ("xtc_threshold", self.xtc_threshold, fraction(self.xtc_threshold), range),
            (
                "dry_multiplier",
                self.dry_multiplier,
                between(0.0, self.dry_multiplier, 100.0),
                "from 0 to 100",
            ),
            (
                "dry_base",
                self.dry_base,
                between(1.0, self.dry_base, 100.0),
                "from 1 to 100",
            ),
            (
                "mirostat_tau",
                self.mirostat_tau,
                between(0.0, self.mirostat_tau, 100.0),
                "from 0 to 100",
            ),
            ("mirostat_eta", self.mirostat_eta, fraction(self.mirostat_eta), range),
            (
                "dynatemp_range",
                self.dynatemp_range,
                between(0.0, self.dynatemp_range, 100.0),
                "from 0 to 100",
            ),
            (
                "dynatemp_exponent",
                self.dynatemp_exponent,
                between(0.0, self.dynatemp_exponent, 100.0),
                "from 0 to 100",
            ),
        ] {
            if !within || !value.is_finite() {
                return Err(SamplingError::Setting { name, value, range });
            }
        }
        let is_bias = |bias: f32| bias == f32::NEG_INFINITY || bias.abs() <= MAX_BIAS;
        match self.logit_bias.iter().find(|(_, bias)| !is_bias(*bias)) {
            None => Ok(()),
            Some(&(_, value)) => Err(SamplingError::Setting {
                name: "logit_bias",
                value,
                range: "-inf or from -1000 to 1000",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sampler;

    #[test]
    fn parameters_outside_their_range_are_refused() {
        let bad: [fn(&mut SamplingParams); 29] = [
            |s| s.temperature = -1.0,
            |s| s.temperature = f32::NAN,
            |s| s.top_p = 1.5,
            |s| s.min_p = -0.1,
            |s| s.repetition_penalty = 0.0,
            |s| s.frequency_penalty = f32::INFINITY,
            |s| s.typical_p = 1.1,
            |s| s.typical_p = f32::NAN,
            |s| s.top_n_sigma = -2.0,
            |s| s.top_n_sigma = f32::INFINITY,
            |s| s.xtc_probability = -0.1,
            |s| s.xtc_probability = f32::NAN,
            |s| s.xtc_threshold = 1.1,
            |s| s.dry_multiplier = -1.0,
            |s| s.dry_multiplier = f32::INFINITY,
            |s| s.dry_base = 0.9,
            |s| s.dry_base = f32::NAN,
            |s| s.mirostat_tau = -1.0,
            |s| s.mirostat_tau = f32::NAN,
            |s| s.mirostat_eta = 1.1,
            |s| s.mirostat_eta = f32::NAN,
            |s| s.dynatemp_range = -0.1,
            |s| s.dynatemp_range = f32::NAN,
            |s| s.dynatemp_exponent = -0.1,
            |s| s.dynatemp_exponent = f32::INFINITY,
            |s| s.logit_bias = vec![(1, 1.0), (2, f32::NAN)],
            |s| s.logit_bias = vec![(1, f32::INFINITY)],
            |s| s.logit_bias = vec![(1, 1001.0)],
            |s| s.logit_bias = vec![(1, -1001.0)],
        ];
        for change in bad {
            let mut sampling = SamplingParams::greedy();
            change(&mut sampling);
            assert!(matches!(Sampler::new(sampling), Err(SamplingError::Setting { .. })));
        }
    }
}
