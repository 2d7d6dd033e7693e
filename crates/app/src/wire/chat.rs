//! The settings of a conversation, and those that made an answer.

use super::{Problem, ProblemCode};
use hearth_protocol::{Effort, SamplingParams, Thinking};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Most stop strings of a conversation.
const MAX_STOP_STRINGS: usize = 64;
/// Most bytes of a stop string, and of a model's id.
const MAX_TEXT: usize = 1024;
/// Most tokens of an answer that can be set.
const MAX_TOKENS: u32 = 10_000_000;
/// The largest integer that the window represents exactly.
const MAX_SEED: u64 = (1 << 53) - 1;

/// Defines [`SamplingOverrides`]: the parameters that are numbers, each with its range.
macro_rules! overrides {
    ($($(#[$doc:meta])+ $field:ident: $type:ty = $least:literal..=$most:literal, $label:literal;)+) => {
        /// Sampling parameters of a conversation. `None` means the model's default.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
        #[serde(rename_all = "camelCase", default)]
        pub struct SamplingOverrides {
            $($(#[$doc])+ pub $field: Option<$type>,)+
            /// See [`SamplingParams::seed`]. `None` draws a random one for each answer.
            pub seed: Option<u64>,
        }

        impl SamplingOverrides {
            /// The parameters, with those that are set in place of the defaults.
            pub fn apply(&self, mut defaults: SamplingParams) -> SamplingParams {
                $(if let Some(value) = self.$field {
                    defaults.$field = value;
                })+
                defaults.seed = self.seed.or(defaults.seed);
                defaults
            }

            fn check(&self) -> Result<(), Problem> {
                $(if let Some(value) = self.$field {
                    in_range($label, f64::from(value), $least, $most)?;
                })+
                match self.seed {
                    Some(seed) if seed > MAX_SEED => refuse(format!("The seed must be at most {MAX_SEED}, not {seed}.")),
                    _ => Ok(()),
                }
            }
        }
    };
}

overrides! {
    /// See [`SamplingParams::temperature`].
    temperature: f32 = 0.0..=100.0, "temperature";
    /// See [`SamplingParams::top_k`].
    top_k: u32 = 0.0..=1_000_000.0, "top-k";
    /// See [`SamplingParams::top_p`].
    top_p: f32 = 0.0..=1.0, "top-p";
    /// See [`SamplingParams::min_p`].
    min_p: f32 = 0.0..=1.0, "min-p";
    /// See [`SamplingParams::repetition_penalty`].
    repetition_penalty: f32 = 0.01..=100.0, "repetition penalty";
    /// See [`SamplingParams::frequency_penalty`].
    frequency_penalty: f32 = -100.0..=100.0, "frequency penalty";
    /// See [`SamplingParams::presence_penalty`].
    presence_penalty: f32 = -100.0..=100.0, "presence penalty";
    /// See [`SamplingParams::repeat_last_n`].
    repeat_last_n: u32 = 0.0..=1_000_000.0, "penalty window";
}

/// The settings of a conversation's new answers. `None` means the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversationSettings {
    /// Id of the model. `None` means the selected one.
    pub model: Option<String>,
    /// Sampling parameters.
    pub sampling: SamplingOverrides,
    /// Most tokens of an answer. `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Stop strings. `None` means none.
    pub stop: Option<Vec<String>>,
    /// Thinking, if the model's chat template can switch it.
    pub thinking: Thinking,
}

impl ConversationSettings {
    /// Refuses values out of range, with a sentence that names the setting.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Problem> {
        self.sampling.check()?;
        if self.max_tokens.is_some_and(|max| !(1..=MAX_TOKENS).contains(&max)) {
            return refuse(format!("The length limit must be between 1 and {MAX_TOKENS} tokens."));
        }
        let stop = self.stop.as_deref().unwrap_or_default();
        if stop.len() > MAX_STOP_STRINGS {
            return refuse(format!(
                "A conversation can have {MAX_STOP_STRINGS} stop strings, not {}.",
                stop.len()
            ));
        }
        if stop.iter().any(|text| text.is_empty() || text.len() > MAX_TEXT) {
            return refuse(format!("A stop string must have between 1 and {MAX_TEXT} bytes."));
        }
        if self.model.as_ref().is_some_and(|id| id.len() > MAX_TEXT) {
            return refuse("This model does not exist. Choose another one.".to_owned());
        }
        Ok(())
    }
}

/// What a new conversation begins with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct NewConversation {
    /// Settings of its answers.
    pub settings: ConversationSettings,
    /// System prompt. `None` means the model's default.
    pub system_prompt: Option<String>,
}

/// Where the defaults of a model's sampling parameters come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum SamplingSource {
    /// The model catalog.
    Catalog,
    /// The model's file.
    File,
    /// Hearth's own, if neither has any.
    BuiltIn,
}

fn in_range(name: &str, value: f64, least: f64, most: f64) -> Result<(), Problem> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => refuse(format!("The {name} must be between {least} and {most}, not {value}.")),
    }
}

fn refuse(message: String) -> Result<(), Problem> {
    Err(Problem {
        code: ProblemCode::BadRequest,
        message,
    })
}

/// The settings that made an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct AnswerSettings {
    /// Sampling parameters, with the seed that was drawn.
    pub sampling: SamplingParams,
    /// Most tokens. `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Stop strings.
    pub stop: Vec<String>,
    /// Whether the model was told to think. `None` means the chat template's default.
    pub thinking: Option<bool>,
    /// How long it was told to think. `None` means the chat template's default.
    pub effort: Option<Effort>,
}
