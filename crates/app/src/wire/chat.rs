//! The settings of a conversation, and those that made an answer.

use super::{
    AdapterChoice, ChatReason, Preset, Problem, SamplingOverrides, TextList, ThinkingChoice,
    bounds::{MAX_TEXT, check_json_schema, check_texts, refuse},
};
use hearth_protocol::{Effort, SamplingParams};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Most stop strings of a conversation.
const MAX_STOP_STRINGS: usize = 64;
/// The largest length limit of an answer, in tokens.
const MAX_TOKENS: u32 = 10_000_000;

/// The settings of a conversation's new answers. `None` means the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversationSettings {
    /// Id of the model. `None` means the selected one.
    pub model: Option<String>,
    /// Id of the preset that was chosen. The settings may differ from it since.
    pub preset: Option<String>,
    /// Sampling parameters.
    pub sampling: SamplingOverrides,
    /// Most tokens of an answer. `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Texts that end an answer. `None` means none.
    pub stop: Option<Vec<String>>,
    /// Thinking, if the model's chat template can switch it.
    pub thinking: ThinkingChoice,
    /// JSON schema that answers follow. `None` means any text.
    pub json_schema: Option<String>,
}

impl ConversationSettings {
    /// These settings, with missing ones taken from a folder.
    #[must_use]
    pub fn or(self, folder: Self) -> Self {
        Self {
            model: self.model.or(folder.model),
            preset: self.preset.or(folder.preset),
            sampling: self.sampling.or(folder.sampling),
            max_tokens: self.max_tokens.or(folder.max_tokens),
            stop: self.stop.or(folder.stop),
            thinking: self.thinking.or(folder.thinking),
            json_schema: self.json_schema.or(folder.json_schema),
        }
    }

    /// Refuses values out of range, with a reason that names the setting.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Problem> {
        self.sampling.check()?;
        if self.max_tokens.is_some_and(|max| !(1..=MAX_TOKENS).contains(&max)) {
            return refuse(ChatReason::LengthLimit { limit: MAX_TOKENS });
        }
        if let Some(stop) = &self.stop {
            check_texts(TextList::StopStrings, stop, MAX_STOP_STRINGS, MAX_TEXT)?;
        }
        self.json_schema.as_deref().map_or(Ok(()), check_json_schema)?;
        check_model_id(self.model.as_deref())?;
        if self.preset.as_ref().is_some_and(|id| id.len() > MAX_TEXT) {
            return refuse(ChatReason::UnknownPreset);
        }
        Ok(())
    }
}

/// Refuses an id that is longer than the id of any model.
fn check_model_id(id: Option<&str>) -> Result<(), Problem> {
    match id {
        Some(id) if id.len() > MAX_TEXT => refuse(ChatReason::UnknownModel),
        _ => Ok(()),
    }
}

/// The model and settings of an answer that are not its conversation's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct AnswerOverrides {
    /// Id of the model. `None` means the conversation's.
    pub model: Option<String>,
    /// Preset, as it was, with its system prompt if it has one. `None` means the conversation's
    /// settings.
    pub preset: Option<Preset>,
    /// Sampling parameters that replace the conversation's or the preset's. `None` means none.
    pub sampling: Option<SamplingOverrides>,
}

impl AnswerOverrides {
    /// Refuses values out of range, with a reason that names the setting.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Problem> {
        check_model_id(self.model.as_deref())?;
        self.sampling.as_ref().map_or(Ok(()), SamplingOverrides::check)?;
        let Some(preset) = &self.preset else { return Ok(()) };
        if preset.id.len().max(preset.name.len()) > MAX_TEXT {
            return refuse(ChatReason::UnknownPreset);
        }
        preset.values.check()
    }
}

/// The model and settings of one of several answers side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct ComparedAnswer {
    /// Model and settings that are not the conversation's.
    pub overrides: AnswerOverrides,
    /// Adapters; none means the base model.
    pub adapters: Vec<AdapterChoice>,
}

impl ComparedAnswer {
    /// Most answers side by side.
    pub const MAX: usize = 4;

    /// Refuses values out of range.
    ///
    /// # Errors
    /// A value is out of range, or the number of answers is not from 2 to [`Self::MAX`].
    pub fn check(answers: &[Self]) -> Result<(), Problem> {
        if !(2..=Self::MAX).contains(&answers.len()) {
            return refuse(ChatReason::ComparedAnswerCount { limit: Self::MAX });
        }
        answers.iter().try_for_each(|answer| answer.overrides.check())
    }
}

/// The initial state of a new conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct NewConversation {
    /// Settings of its answers.
    pub settings: ConversationSettings,
    /// System prompt. `None` means the folder's or model's default.
    pub system_prompt: Option<String>,
    /// Id of the folder that it is created in.
    pub folder: Option<i64>,
    /// The adapters of its answers. Empty means the base model.
    pub adapters: Vec<AdapterChoice>,
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

/// The settings that made an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct AnswerSettings {
    /// Sampling parameters, with the seed that was drawn.
    pub sampling: SamplingParams,
    /// Most tokens. `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Texts that end it.
    pub stop: Vec<String>,
    /// Whether the model was told to think. `None` means the chat template's default.
    pub thinking: Option<bool>,
    /// The thinking effort that the model was told to use. `None` means the chat template's
    /// default.
    pub effort: Option<Effort>,
    /// JSON schema that it follows. `None` means any text.
    pub json_schema: Option<String>,
}
