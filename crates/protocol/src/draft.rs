//! Speculative decoding: the source of the tokens that the model verifies in one step.

use serde::{Deserialize, Serialize};
use std::{convert::Infallible, fmt, path::PathBuf, str::FromStr};

/// The draft of a loaded model. On a CPU answers are the same with any of them; only their speed
/// differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum DraftChoice {
    /// The draft that takes no memory: n-gram lookup.
    #[default]
    Auto,
    /// Plain decoding.
    None,
    /// N-gram lookup: what followed the last tokens where they occurred before, in the prompt or in
    /// the answer.
    Ngram,
    /// The model's own first layers and its output layer, on the KV cells of those layers.
    #[serde(alias = "own")]
    FirstLayers {
        /// The number of layers. `None` means a third of them.
        layers: Option<u32>,
    },
    /// A smaller model.
    Model {
        /// Its GGUF file.
        path: PathBuf,
    },
}

impl DraftChoice {
    /// The file of a draft model.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Model { path } => Some(path),
            Self::Auto | Self::None | Self::Ngram | Self::FirstLayers { .. } => None,
        }
    }
}

impl fmt::Display for DraftChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Ngram => f.write_str("ngram"),
            Self::FirstLayers { layers: None } => f.write_str("self"),
            Self::FirstLayers { layers: Some(layers) } => write!(f, "self:{layers}"),
            Self::Model { path } => path.display().fmt(f),
        }
    }
}

impl FromStr for DraftChoice {
    type Err = Infallible;

    /// `auto`, `none`, `ngram`, `self`, `self:LAYERS`, or else the path of a model.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let layers = text.strip_prefix("self:").and_then(|layers| layers.parse().ok());
        Ok(match text {
            "auto" => Self::Auto,
            "none" => Self::None,
            "ngram" => Self::Ngram,
            "self" => Self::FirstLayers { layers: None },
            path => match layers {
                Some(layers) => Self::FirstLayers { layers: Some(layers) },
                None => Self::Model { path: path.into() },
            },
        })
    }
}

/// A kind of draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum DraftKind {
    /// N-gram lookup.
    Ngram,
    /// The model's own first layers.
    #[serde(alias = "own")]
    FirstLayers,
    /// A smaller model.
    Model,
}

impl fmt::Display for DraftKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ngram => "ngram",
            Self::FirstLayers => "self",
            Self::Model => "model",
        })
    }
}

/// Statistics of the draft of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DraftStats {
    /// The kind of draft.
    pub kind: DraftKind,
    /// Tokens that it proposed.
    pub drafted: u32,
    /// Proposed tokens that the model chose too.
    pub accepted: u32,
    /// Measured decode speed divided by the speed of plain decoding, whose steps were measured too;
    /// 1 if nothing was drafted.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub gain: f64,
    /// Share of the decode steps that verified a draft.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub used: f64,
    /// Whether it had switched itself off when the answer ended, and `gain` is below 1.
    pub stopped: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        let check = |text: &str, expected: DraftChoice| {
            let Ok(actual) = text.parse::<DraftChoice>();
            assert_eq!(actual, expected);
            assert_eq!(actual.to_string(), text);
        };
        check("auto", DraftChoice::Auto);
        check("none", DraftChoice::None);
        check("ngram", DraftChoice::Ngram);
        check("self", DraftChoice::FirstLayers { layers: None });
        check("self:7", DraftChoice::FirstLayers { layers: Some(7) });
        check("self:x", DraftChoice::Model { path: "self:x".into() });
        let path = "models/small.gguf";
        check(path, DraftChoice::Model { path: path.into() });
        // The name in earlier versions.
        let kind: DraftKind = serde_json::from_str(r#""own""#).expect("a kind");
        assert_eq!(kind, DraftKind::FirstLayers);
        let choice: DraftChoice = serde_json::from_str(r#"{"type":"own","layers":7}"#).expect("a choice");
        assert_eq!(choice, DraftChoice::FirstLayers { layers: Some(7) });
    }
}
