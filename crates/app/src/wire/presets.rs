//! Presets: named settings of conversations.

use super::{
    ChatReason, ConversationSettings, NewConversation, Problem, SamplingOverrides, ThinkingChoice,
    bounds::{MAX_PROMPT, refuse},
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The settings of a preset. `None` means the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct PresetValues {
    /// System prompt. `None` means that the preset has none, and leaves a conversation's own.
    pub system_prompt: Option<String>,
    /// Sampling parameters.
    pub sampling: SamplingOverrides,
    /// Most tokens of an answer. `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Texts that end an answer. `None` means none.
    pub stop: Option<Vec<String>>,
    /// Thinking.
    pub thinking: ThinkingChoice,
    /// JSON schema that answers follow. `None` means any text.
    pub json_schema: Option<String>,
}

impl PresetValues {
    /// Refuses values out of range, with a reason that names the setting.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Problem> {
        self.settings(None, None).check()?;
        match self.system_prompt.as_ref().map_or(0, String::len) {
            length if length > MAX_PROMPT => refuse(ChatReason::PresetPromptTooLong {
                limit: MAX_PROMPT,
                length,
            }),
            _ => Ok(()),
        }
    }

    /// Applies this preset, whose id is `preset`, to the settings of a conversation. The model
    /// stays. The system prompt stays unless this preset has one, or it is the prompt of
    /// `replaced`, the previous preset of the conversation.
    pub fn apply(&self, preset: String, to: NewConversation, replaced: Option<&Self>) -> NewConversation {
        let is_of_replaced = replaced.is_some_and(|replaced| replaced.system_prompt == to.system_prompt);
        let own_prompt = to.system_prompt.filter(|_| !is_of_replaced);
        NewConversation {
            settings: self.settings(to.settings.model, Some(preset)),
            system_prompt: self.system_prompt.clone().or(own_prompt),
            folder: to.folder,
            adapters: to.adapters,
        }
    }

    /// The settings of a conversation with this model and preset.
    pub(crate) fn settings(&self, model: Option<String>, preset: Option<String>) -> ConversationSettings {
        ConversationSettings {
            model,
            preset,
            sampling: self.sampling.clone(),
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            thinking: self.thinking,
            json_schema: self.json_schema.clone(),
        }
    }
}

/// A preset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    /// Id, used in every command. It stays when the preset is renamed.
    pub id: String,
    /// Name.
    pub name: String,
    /// Whether it is Hearth's own, which cannot be changed.
    pub is_built_in: bool,
    /// Its settings.
    pub values: PresetValues,
}

/// A file in the folder of presets that is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct BrokenPreset {
    /// Its name.
    pub file: String,
    /// Why.
    pub problem: Problem,
}

/// All presets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Presets {
    /// The built-in ones, then the user's by name.
    pub presets: Vec<Preset>,
    /// Files that cannot be read.
    pub broken: Vec<BrokenPreset>,
}
