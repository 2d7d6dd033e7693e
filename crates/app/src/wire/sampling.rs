//! Sampling parameters of a conversation.

use super::{
    ChatReason, Problem, SamplingSetting, Settings, TextList,
    bounds::{MAX_TEXT, check_count, check_range, check_text_length, check_texts, refuse},
};
use hearth_protocol::{LogitBias, SamplingParams};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The largest integer that the window represents exactly.
const MAX_SEED: u64 = (1 << 53) - 1;
/// Most texts of a list. The engine accepts more.
const MAX_TEXTS: usize = 256;
/// Most bytes of a text, as in the engine.
const MAX_TEXT_BYTES: usize = 256;
/// Most models for which the user has set defaults.
const MAX_MODELS: usize = 256;
/// Largest absolute value of a logit bias, as in the engine.
const MAX_BIAS: f64 = 1000.0;

/// Defines [`SamplingOverrides`] from the numeric parameters, each with its range, and the other
/// parameters, which [`SamplingOverrides::check_others`] checks.
macro_rules! overrides {
    (
        numbers { $($(#[$doc:meta])+ $field:ident: $type:ty = $min:literal..=$max:literal, $setting:ident;)+ }
        others { $($(#[$other_doc:meta])+ $other:ident: $other_type:ty;)+ }
    ) => {
        /// Sampling parameters of a conversation. `None` means the model's default.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
        #[serde(rename_all = "camelCase", default)]
        pub struct SamplingOverrides {
            $($(#[$doc])+ pub $field: Option<$type>,)+
            $($(#[$other_doc])+ pub $other: Option<$other_type>,)+
            /// See [`SamplingParams::seed`]. `None` draws a random one for each answer.
            pub seed: Option<u64>,
        }

        impl SamplingOverrides {
            /// Replaces the defaults of the parameters that are set.
            pub fn apply(&self, mut defaults: SamplingParams) -> SamplingParams {
                $(if let Some(value) = self.$field {
                    defaults.$field = value;
                })+
                $(if let Some(value) = &self.$other {
                    defaults.$other.clone_from(value);
                })+
                defaults.seed = self.seed.or(defaults.seed);
                defaults
            }

            /// These parameters, with unset ones taken from `defaults`.
            #[must_use]
            pub fn or(self, defaults: Self) -> Self {
                Self {
                    $($field: self.$field.or(defaults.$field),)+
                    $($other: self.$other.or(defaults.$other),)+
                    seed: self.seed.or(defaults.seed),
                }
            }

            /// Refuses values out of range, with a reason that names the parameter.
            pub(super) fn check(&self) -> Result<(), Problem> {
                $(if let Some(value) = self.$field {
                    check_range(SamplingSetting::$setting, value, $min, $max)?;
                })+
                self.check_others()
            }
        }
    };
}

overrides! {
    numbers {
        /// See [`SamplingParams::temperature`].
        temperature: f32 = 0.0..=100.0, Temperature;
        /// See [`SamplingParams::top_k`].
        top_k: u32 = 0.0..=1_000_000.0, TopK;
        /// See [`SamplingParams::top_p`].
        top_p: f32 = 0.0..=1.0, TopP;
        /// See [`SamplingParams::min_p`].
        min_p: f32 = 0.0..=1.0, MinP;
        /// See [`SamplingParams::typical_p`].
        typical_p: f32 = 0.0..=1.0, TypicalP;
        /// See [`SamplingParams::top_n_sigma`].
        top_n_sigma: f32 = -1.0..=100.0, TopNSigma;
        /// See [`SamplingParams::repetition_penalty`].
        repetition_penalty: f32 = 0.01..=100.0, RepetitionPenalty;
        /// See [`SamplingParams::frequency_penalty`].
        frequency_penalty: f32 = -100.0..=100.0, FrequencyPenalty;
        /// See [`SamplingParams::presence_penalty`].
        presence_penalty: f32 = -100.0..=100.0, PresencePenalty;
        /// See [`SamplingParams::repeat_last_n`].
        repeat_last_n: u32 = 0.0..=1_000_000.0, RepeatLastN;
        /// See [`SamplingParams::xtc_probability`].
        xtc_probability: f32 = 0.0..=1.0, XtcProbability;
        /// See [`SamplingParams::xtc_threshold`].
        xtc_threshold: f32 = 0.0..=1.0, XtcThreshold;
        /// See [`SamplingParams::dry_multiplier`].
        dry_multiplier: f32 = 0.0..=100.0, DryMultiplier;
        /// See [`SamplingParams::dry_base`].
        dry_base: f32 = 1.0..=100.0, DryBase;
        /// See [`SamplingParams::dry_allowed_length`].
        dry_allowed_length: u32 = 0.0..=1_000_000.0, DryAllowedLength;
        /// See [`SamplingParams::dry_last_n`].
        dry_last_n: u32 = 0.0..=1_000_000.0, DryLastN;
        /// See [`SamplingParams::mirostat_tau`].
        mirostat_tau: f32 = 0.0..=100.0, MirostatTau;
        /// See [`SamplingParams::mirostat_eta`].
        mirostat_eta: f32 = 0.0..=1.0, MirostatEta;
        /// See [`SamplingParams::dynatemp_range`].
        dynatemp_range: f32 = 0.0..=100.0, DynatempRange;
        /// See [`SamplingParams::dynatemp_exponent`].
        dynatemp_exponent: f32 = 0.0..=100.0, DynatempExponent;
    }
    others {
        /// See [`SamplingParams::mirostat`].
        mirostat: bool;
        /// See [`SamplingParams::dry_breakers`]. An empty list means none.
        dry_breakers: Vec<String>;
        /// See [`SamplingParams::logit_bias`].
        logit_bias: Vec<LogitBias>;
        /// See [`SamplingParams::banned_strings`].
        banned_strings: Vec<String>;
    }
}

impl SamplingOverrides {
    /// Refuses values out of range of the parameters that are not numbers, and of the seed.
    fn check_others(&self) -> Result<(), Problem> {
        if let Some(breakers) = &self.dry_breakers {
            check_texts(TextList::SequenceBreakers, breakers, MAX_TEXTS, MAX_TEXT_BYTES)?;
        }
        if let Some(banned) = &self.banned_strings {
            check_texts(TextList::BannedStrings, banned, MAX_TEXTS, MAX_TEXT_BYTES)?;
            // It also stands for invalid UTF-8, which cannot be searched for.
            if banned.iter().any(|text| text.contains('\u{fffd}')) {
                return refuse(ChatReason::BannedReplacement);
            }
        }
        if let Some(biases) = &self.logit_bias {
            check_biases(biases)?;
        }
        match self.seed {
            Some(seed) if seed > MAX_SEED => refuse(ChatReason::SeedTooLarge { limit: MAX_SEED, seed }),
            _ => Ok(()),
        }
    }
}

impl Settings {
    /// Refuses default sampling parameters out of range, with a reason that names the parameter.
    pub(crate) fn check_sampling(&self) -> Result<(), Problem> {
        if self.sampling.len() > MAX_MODELS || self.sampling.keys().any(|id| id.len() > MAX_TEXT) {
            return refuse(ChatReason::TooManySamplingDefaults { limit: MAX_MODELS });
        }
        self.sampling.values().try_for_each(SamplingOverrides::check)
    }
}

/// Refuses logit biases that are too many or out of range.
fn check_biases(biases: &[LogitBias]) -> Result<(), Problem> {
    check_count(TextList::BiasedTokens, biases.len(), MAX_TEXTS)?;
    for entry in biases {
        let (LogitBias::Text { bias, .. } | LogitBias::Id { bias, .. }) = entry;
        if let Some(bias) = bias {
            check_range(SamplingSetting::LogitBias, *bias, -MAX_BIAS, MAX_BIAS)?;
        }
        if let LogitBias::Text { text, .. } = entry {
            check_text_length(TextList::BiasedTokens, text, MAX_TEXT_BYTES)?;
        }
    }
    Ok(())
}
