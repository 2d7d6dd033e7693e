//! The comparison of an export with the trained adapter.

use crate::sentence::sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Comparison of an export with the trained adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Whether the export passed.
    pub passed: bool,
    /// Whether the adapter changes what the model says. Without, there is nothing to compare.
    pub learned: bool,
    /// Replayed prompts.
    pub prompts: u32,
    /// Mean Kullback-Leibler divergence from the trained model, in nats per token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub divergence: f64,
    /// The same divergence of the base model, as a measure of how much was learnt, in nats per
    /// token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub taught: f64,
    /// Prompts with identical greedy answers.
    pub same_text: u32,
    /// The result, for the user.
    pub result: VerificationResult,
}

/// The result of a verification. Its `Display` is in English, in one or two sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum VerificationResult {
    /// The adapter learned nothing, so there is nothing to compare.
    NothingLearned,
    /// The export matches the adapter.
    Matches {
        /// Retained part of the training in percent, rounded down.
        retained_percent: u32,
        /// Prompts with identical greedy answers.
        same: u32,
        /// All prompts.
        prompts: u32,
    },
    /// A merged model does not match the adapter: its quantization is too coarse.
    TooCoarse {
        /// Retained part of the training in percent, rounded down.
        retained_percent: u32,
        /// Prompts with identical greedy answers.
        same: u32,
        /// All prompts.
        prompts: u32,
    },
    /// The same, of an adapter that learned nothing.
    NothingLearnedTooCoarse {
        /// Prompts with identical greedy answers.
        same: u32,
        /// All prompts.
        prompts: u32,
    },
    /// An exported adapter does not match the adapter.
    Differs {
        /// Retained part of the training in percent, rounded down.
        retained_percent: u32,
        /// Prompts with identical greedy answers.
        same: u32,
        /// All prompts.
        prompts: u32,
    },
    /// The same, of an adapter that learned nothing.
    NothingLearnedDiffers {
        /// Prompts with identical greedy answers.
        same: u32,
        /// All prompts.
        prompts: u32,
    },
}

impl fmt::Display for VerificationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("verification", self))
    }
}
