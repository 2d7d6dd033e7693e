//! Sampling parameters.

use super::string_match::{MAX_STRING_BYTES, MAX_STRINGS};
use thiserror::Error;

/// Maximum absolute value of a finite logit bias.
const MAX_BIAS: f32 = 1000.0;

/// Sampling parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Temperature: divides the logits before the softmax; 0 is greedy.
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
    /// XTC: the probability that the most likely tokens are excluded; 0 disables it.
    pub xtc_probability: f32,
    /// XTC: the minimum probability of an excluded token; more than 0.5 disables it.
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
    /// Dynamic temperature: the maximum change of the temperature, up or down; 0 disables it.
    pub dynatemp_range: f32,
    /// Dynamic temperature: the exponent of the normalized entropy.
    pub dynatemp_exponent: f32,
    /// Logit bias: tokens and the numbers added to their logits; minus infinity bans a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// The seed of the random numbers, which are the same on every machine.
    pub seed: u64,
}

/// Invalid sampling parameters, or no token that can be sampled.
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
    /// Too many strings.
    #[error("{name} has {count} texts, but must have at most {MAX_STRINGS}")]
    TooManyStrings {
        /// The parameter's name.
        name: &'static str,
        /// The number of strings.
        count: usize,
    },
    /// A string that is too long.
    #[error("a text of {name} has {bytes} bytes, but must have at most {MAX_STRING_BYTES}")]
    LongString {
        /// The parameter's name.
        name: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A banned string with U+FFFD, which is also shown for invalid UTF-8.
    #[error("a text of banned_strings has the replacement character U+FFFD, which cannot be searched for")]
    ReplacementCharacter,
    /// No token is left: all are banned, or penalized to minus infinity.
    #[error("no token is left to draw; remove a banned string or a logit bias, or lower a penalty")]
    NothingLeft,
    /// The constraint cannot decide which tokens may follow, for this reason.
    #[error("{0}")]
    Constraint(String),
    /// No logit is finite, probably because the weights are corrupt.
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

    /// Whether sampling is greedy and no parameter changes a logit, so that the argmax suffices.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.has_penalties() && !self.has_dry() && self.logit_bias.is_empty()
    }

    /// Whether DRY is enabled.
    pub(super) fn has_dry(&self) -> bool {
        self.dry_multiplier > 0.0 && self.dry_last_n > 0
    }

    /// Whether a repetition, frequency or presence penalty is enabled.
    pub(super) fn has_penalties(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }

    /// Checks that every parameter is within its range.
    pub(super) fn check(&self) -> Result<(), SamplingError> {
        let is_fraction = |value: f32| (0.0..=1.0).contains(&value);
        let is_between = |min: f32, value: f32, max: f32| (min..=max).contains(&value);
        let Self {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
            ..
        } = *self;
        let fraction = "from 0 to 1";
        for (name, value, is_valid, range) in [
            ("temperature", temperature, temperature >= 0.0, "0 or more"),
            ("top_p", top_p, is_fraction(top_p), fraction),
            ("min_p", min_p, is_fraction(min_p), fraction),
            (
                "repetition_penalty",
                repetition_penalty,
                repetition_penalty > 0.0,
                "more than 0",
            ),
            ("frequency_penalty", frequency_penalty, true, "a number"),
            ("presence_penalty", presence_penalty, true, "a number"),
            ("typical_p", self.typical_p, is_fraction(self.typical_p), fraction),
            (
                "top_n_sigma",
                self.top_n_sigma,
                is_between(-1.0, self.top_n_sigma, 100.0),
                "from -1 to 100",
            ),
            (
                "xtc_probability",
                self.xtc_probability,
                is_fraction(self.xtc_probability),
                fraction,
            ),
            (
                "xtc_threshold",
                self.xtc_threshold,
                is_fraction(self.xtc_threshold),
                fraction,
            ),
            (
                "dry_multiplier",
                self.dry_multiplier,
                is_between(0.0, self.dry_multiplier, 100.0),
                "from 0 to 100",
            ),
            (
                "dry_base",
                self.dry_base,
                is_between(1.0, self.dry_base, 100.0),
                "from 1 to 100",
            ),
            (
                "mirostat_tau",
                self.mirostat_tau,
                is_between(0.0, self.mirostat_tau, 100.0),
                "from 0 to 100",
            ),
            (
                "mirostat_eta",
                self.mirostat_eta,
                is_fraction(self.mirostat_eta),
                fraction,
            ),
            (
                "dynatemp_range",
                self.dynatemp_range,
                is_between(0.0, self.dynatemp_range, 100.0),
                "from 0 to 100",
            ),
            (
                "dynatemp_exponent",
                self.dynatemp_exponent,
                is_between(0.0, self.dynatemp_exponent, 100.0),
                "from 0 to 100",
            ),
        ] {
            if !is_valid || !value.is_finite() {
                return Err(SamplingError::Setting { name, value, range });
            }
        }
        let is_valid_bias = |bias: f32| bias == f32::NEG_INFINITY || bias.abs() <= MAX_BIAS;
        match self.logit_bias.iter().find(|(_, bias)| !is_valid_bias(*bias)) {
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
        let invalid_changes: [fn(&mut SamplingParams); 29] = [
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
        for change in invalid_changes {
            let mut params = SamplingParams::greedy();
            change(&mut params);
            assert!(matches!(Sampler::new(params), Err(SamplingError::Setting { .. })));
        }
    }
}
