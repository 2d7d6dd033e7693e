//! The choice of thinking of a conversation, a folder or a preset.

use hearth_protocol::{Effort, Thinking};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A choice of thinking. `None` means the folder's, or else the model's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(default, rename_all = "camelCase")]
pub struct ThinkingChoice {
    /// Whether the model thinks.
    pub enabled: Option<ThinkingSwitch>,
    /// The thinking effort.
    pub effort: Option<ThinkingEffort>,
}

/// Whether the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(untagged, expecting = "expected true, false or \"model\"")]
pub enum ThinkingSwitch {
    /// It does, or does not.
    Fixed(bool),
    /// The model's own.
    Model(ModelsOwn),
}

/// The thinking effort of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(untagged, expecting = "expected an effort or \"model\"")]
pub enum ThinkingEffort {
    /// This effort.
    Fixed(Effort),
    /// The model's own.
    Model(ModelsOwn),
}

/// The default of the model's chat template, also in a folder that has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
pub enum ModelsOwn {
    /// Written as `"model"`.
    #[serde(rename = "model")]
    Model,
}

impl ThinkingChoice {
    /// This choice, with unset parts taken from the folder.
    #[must_use]
    pub fn or(self, folder: Self) -> Self {
        Self {
            enabled: self.enabled.or(folder.enabled),
            effort: self.effort.or(folder.effort),
        }
    }
}

impl From<ThinkingChoice> for Thinking {
    fn from(choice: ThinkingChoice) -> Self {
        Self {
            enabled: choice.enabled.and_then(|enabled| match enabled {
                ThinkingSwitch::Fixed(enabled) => Some(enabled),
                ThinkingSwitch::Model(_) => None,
            }),
            effort: choice.effort.and_then(|effort| match effort {
                ThinkingEffort::Fixed(effort) => Some(effort),
                ThinkingEffort::Model(_) => None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a choice, and checks that it round-trips.
    fn parsed(json: &str) -> ThinkingChoice {
        let choice = serde_json::from_str(json).expect(json);
        assert_eq!(
            serde_json::from_str::<ThinkingChoice>(&serde_json::to_string(&choice).unwrap()).unwrap(),
            choice
        );
        choice
    }

    #[test]
    fn choices_of_earlier_versions_are_read() {
        let none = parsed(r#"{"enabled":null}"#);
        assert_eq!(none, ThinkingChoice::default());
        let high = parsed(r#"{"enabled":true,"effort":"high"}"#);
        let thinking = Thinking {
            enabled: Some(true),
            effort: Some(Effort::High),
        };
        assert_eq!(Thinking::from(high), thinking);
        assert_eq!(Thinking::from(none.or(high)), thinking);
    }

    #[test]
    fn the_models_own_choice_overrides_a_folder() {
        let own = parsed(r#"{"enabled":"model","effort":"model"}"#);
        let folder = parsed(r#"{"enabled":false,"effort":"low"}"#);
        assert_eq!(Thinking::from(own.or(folder)), Thinking::default());
        for (invalid, expected) in [
            (r#"{"enabled":"models"}"#, "true, false"),
            (r#"{"effort":"hihg"}"#, "an effort"),
        ] {
            let error = serde_json::from_str::<ThinkingChoice>(invalid).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
