//! Answering a request: what can go wrong.

use crate::Problem;
use serde::{Deserialize, Serialize};

/// Answering a request: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RequestReason {
    /// No model is loaded.
    NoModel,
    /// The operation was cancelled.
    Cancelled,
    /// The measurement was cancelled.
    MeasurementCancelled,
    /// The GPU failed during the answer, and the model is being reloaded on the CPU.
    GpuFailed {
        /// The GPU's error.
        cause: Box<Problem>,
    },
    /// The message is empty.
    EmptyMessage,
    /// The prompt does not fit the context.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: u32,
        /// The most that fit.
        fits: u32,
        /// The context in tokens.
        context: u32,
        /// Tokens of the context that are reserved for the answer.
        reserved: u32,
    },
    /// An answer fills the context, so it cannot be continued.
    AnswerTooLong {
        /// Tokens of the answer.
        tokens: u32,
        /// The same with the message before it.
        needed: u32,
        /// The context in tokens.
        context: u32,
    },
    /// The conversation does not end with an answer that could be continued.
    NoAnswerToContinue,
    /// An answer has more than text, or no message before it, so it cannot be continued.
    AnswerNotContinuable,
    /// The model cannot read images.
    ImageUnsupported {
        /// The image's name.
        name: String,
    },
    /// The context is too short for a measurement.
    ContextTooShort {
        /// The context in tokens.
        context: u32,
    },
    /// A sampling parameter is invalid.
    SettingInvalid {
        /// Which, and why, without a full stop.
        detail: String,
    },
    /// The logit bias names a token that does not exist.
    NoSuchToken {
        /// The token's id.
        id: u32,
        /// Tokens of the model.
        tokens: u32,
        /// Id of the last of them.
        last: u32,
    },
    /// The sampling parameters exclude every token.
    NoTokenLeft,
    /// The model's logits are NaN or infinite.
    LogitsNotFinite,
    /// A JSON schema is too long.
    SchemaTooLong {
        /// Its length in bytes.
        length: u32,
        /// The longest in bytes.
        most: u32,
    },
    /// A JSON schema is not JSON.
    SchemaNotJson {
        /// The parser's error.
        detail: String,
    },
    /// A JSON schema is JSON, but no object.
    SchemaNotAnObject,
    /// A JSON schema needs an end-of-turn token, which the model does not have.
    SchemaNeedsEndOfTurn,
    /// JSON schemas of earlier requests are still being compiled.
    SchemasCompiling,
    /// A JSON schema takes too long to compile.
    SchemaTooSlow,
    /// A continued answer does not follow the JSON schema.
    SchemaNotFollowed,
    /// The grammar of a JSON schema reached a limit.
    SchemaFailed {
        /// The library's reason, without a full stop.
        detail: String,
    },
    /// A JSON schema is not supported.
    SchemaUnsupported {
        /// The library's reason, without a full stop.
        detail: String,
    },
    /// A pattern of a JSON schema cannot be parsed.
    PatternInvalid {
        /// The pattern.
        pattern: String,
        /// The parser's error, without a full stop.
        detail: String,
    },
    /// A pattern of a JSON schema has an assertion.
    PatternAssertion {
        /// The pattern.
        pattern: String,
    },
}
