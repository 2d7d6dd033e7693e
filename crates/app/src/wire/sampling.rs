//! Sampling parameters of a conversation.

use super::{
    Problem, Settings,
    bounds::{MAX_TEXT, count, in_range, refuse, texts},
};
use hearth_protocol::{LogitBias, SamplingParams};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The largest integer that the window represents exactly.
const MAX_SEED: u64 = (1 << 53) - 1;
/// Most texts of a list; the engine takes more.
const MAX_TEXTS: usize = 256;
/// Most bytes of a text, in the engine too.
const MAX_TEXT_BYTES: usize = 256;
/// Most models for which the user has set defaults.
const MAX_MODELS: usize = 256;
/// Largest logit bias, up or down, in the engine too.
const MAX_BIAS: f64 = 1000.0;

/// Defines [`SamplingOverrides`]: the parameters that are numbers, each with its range, and the
/// others, which [`SamplingOverrides::check_others`] checks.
macro_rules! overrides {
    (
        numbers { $($(#[$doc:meta])+ $field:ident: $type:ty = $least:literal..=$most:literal, $label:literal;)+ }
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
            /// The parameters, with those that are set in place of the defaults.
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

            /// These parameters, with others where they have none.
            #[must_use]
            pub fn or(self, defaults: Self) -> Self {
                Self {
                    $($field: self.$field.or(defaults.$field),)+
                    $($other: self.$other.or(defaults.$other),)+
                    seed: self.seed.or(defaults.seed),
                }
            }

            /// Refuses values out of range, with a sentence that names the parameter.
            pub(super) fn check(&self) -> Result<(), Problem> {
                $(if let Some(value) = self.$field {
                    in_range($label, f64::from(value), $least, $most)?;
                })+
                self.check_others()
            }
        }
    };
}

overrides! {
    numbers {
        /// See [`SamplingParams::temperature`].
        temperature: f32 = 0.0..=100.0, "temperature";
        /// See [`SamplingParams::top_k`].
        top_k: u32 = 0.0..=1_000_000.0, "top-k";
        /// See [`SamplingParams::top_p`].
        top_p: f32 = 0.0..=1.0, "top-p";
        /// See [`SamplingParams::min_p`].
        min_p: f32 = 0.0..=1.0, "min-p";
        /// See [`SamplingParams::typical_p`].
        typical_p: f32 = 0.0..=1.0, "typical-p";
        /// See [`SamplingParams::top_n_sigma`].
        top_n_sigma: f32 = -1.0..=100.0, "top-nσ";
        /// See [`SamplingParams::repetition_penalty`].
        repetition_penalty: f32 = 0.01..=100.0, "repetition penalty";
        /// See [`SamplingParams::frequency_penalty`].
        frequency_penalty: f32 = -100.0..=100.0, "frequency penalty";
        /// See [`SamplingParams::presence_penalty`].
        presence_penalty: f32 = -100.0..=100.0, "presence penalty";
        /// See [`SamplingParams::repeat_last_n`].
        repeat_last_n: u32 = 0.0..=1_000_000.0, "penalty window";
        /// See [`SamplingParams::xtc_probability`].
        xtc_probability: f32 = 0.0..=1.0, "XTC probability";
        /// See [`SamplingParams::xtc_threshold`].
        xtc_threshold: f32 = 0.0..=1.0, "XTC threshold";
        /// See [`SamplingParams::dry_multiplier`].
        dry_multiplier: f32 = 0.0..=100.0, "DRY multiplier";
        /// See [`SamplingParams::dry_base`].
        dry_base: f32 = 1.0..=100.0, "DRY base";
        /// See [`SamplingParams::dry_allowed_length`].
        dry_allowed_length: u32 = 0.0..=1_000_000.0, "DRY allowed length";
        /// See [`SamplingParams::dry_last_n`].
        dry_last_n: u32 = 0.0..=1_000_000.0, "DRY window";
        /// See [`SamplingParams::mirostat_tau`].
        mirostat_tau: f32 = 0.0..=100.0, "Mirostat tau";
        /// See [`SamplingParams::mirostat_eta`].
        mirostat_eta: f32 = 0.0..=1.0, "Mirostat eta";
        /// See [`SamplingParams::dynatemp_range`].
        dynatemp_range: f32 = 0.0..=100.0, "dynamic temperature range";
        /// See [`SamplingParams::dynatemp_exponent`].
        dynatemp_exponent: f32 = 0.0..=100.0, "dynamic temperature exponent";
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
    fn check_others(&self) -> Result<(), Problem> {
        if let Some(breakers) = &self.dry_breakers {
            texts("DRY sequence breaker", breakers, MAX_TEXTS, MAX_TEXT_BYTES)?;
        }
        if let Some(banned) = &self.banned_strings {
            texts("banned string", banned, MAX_TEXTS, MAX_TEXT_BYTES)?;
            // It also stands for invalid UTF-8, which cannot be searched for.
            if banned.iter().any(|text| text.contains('\u{fffd}')) {
                return refuse("A banned string cannot have the replacement character “\u{fffd}”.".to_owned());
            }
        }
        if let Some(biases) = &self.logit_bias {
            check_biases(biases)?;
        }
        match self.seed {
            Some(seed) if seed > MAX_SEED => refuse(format!("The seed must be at most {MAX_SEED}, not {seed}.")),
            _ => Ok(()),
        }
    }
}

impl Settings {
    /// Refuses default sampling parameters out of range, with a sentence that names the parameter.
    pub(crate) fn check_sampling(&self) -> Result<(), Problem> {
        if self.sampling.len() > MAX_MODELS || self.sampling.keys().any(|id| id.len() > MAX_TEXT) {
            return refuse(format!(
                "At most {MAX_MODELS} models can have sampling defaults of yours. Remove those of another one."
            ));
        }
        self.sampling.values().try_for_each(SamplingOverrides::check)
    }
}

fn check_biases(biases: &[LogitBias]) -> Result<(), Problem> {
    count("tokens with a logit bias", biases.len(), MAX_TEXTS)?;
    for given in biases {
        let (LogitBias::Text { bias, .. } | LogitBias::Id { bias, .. }) = given;
        if let Some(bias) = bias {
            in_range("logit bias", f64::from(*bias), -MAX_BIAS, MAX_BIAS)?;
        }
        if let LogitBias::Text { text, .. } = given {
            texts("text of a logit bias", std::slice::from_ref(text), 1, MAX_TEXT_BYTES)?;
        }
    }
    Ok(())
}
