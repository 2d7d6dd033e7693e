//! Thinking: the variables of a chat template, and the user's choice.

use serde::{Deserialize, Serialize};

/// The length of a model's thinking: the template's `reasoning_effort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Effort {
    /// `low`.
    Low,
    /// `medium`.
    Medium,
    /// `high`.
    High,
}

impl Effort {
    /// Its name in chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A choice of thinking, passed to the chat template. `None` leaves its variable undefined, so that
/// the template's default applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(default, rename_all = "camelCase")]
pub struct Thinking {
    /// Whether the model thinks: `enable_thinking` or `thinking`.
    pub enabled: Option<bool>,
    /// The length of its thinking.
    pub effort: Option<Effort>,
}

/// The thinking that a chat template can switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(default, rename_all = "camelCase")]
pub struct ThinkingSupport {
    /// Whether the model thinks by default. `None` means that it cannot be switched on or off.
    pub switch: Option<bool>,
    /// Whether [`Effort`] has an effect.
    pub effort: bool,
}
