//! Conversations, settings, presets and prompts: what can go wrong.

use super::Problem;
use serde::{Deserialize, Serialize};

/// Conversations, settings, presets and prompts: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ChatReason {
    /// A task of the app panicked.
    Panicked {
        /// The runtime's error.
        detail: String,
    },
    /// A name has no characters that are shown.
    EmptyName,
    /// The conversation does not exist or is deleted.
    NoConversation,
    /// The message does not exist.
    NoMessage,
    /// The message is deleted, so that nothing can follow it or be made from it.
    MessageDeleted,
    /// Deleted messages cannot be restored before the message that they follow.
    ParentDeleted,
    /// A message has neither text nor files.
    EmptyMessage,
    /// An answer would be replaced by an empty text.
    EmptyAnswer,
    /// A message that is not the user's was edited as one.
    NotUserMessage,
    /// A message that is no answer was edited as one.
    NotAnAnswer,
    /// A message that is no answer cannot be continued.
    NotContinuable,
    /// An answer with replies cannot be continued.
    HasReplies,
    /// The conversation has an unfinished answer.
    Answering,
    /// An answer among messages to delete did not stop in time. Nothing was deleted.
    AnswerNotStopped,
    /// An answer failed, and its problem cannot be read.
    AnswerFailed,
    /// A vote for an answer that was not compared.
    NotCompared,
    /// A rating of a message that is no finished answer.
    NotRatable,
    /// The number of answers side by side is out of range.
    ComparedAnswerCount {
        /// Most answers.
        limit: usize,
    },
    /// A message has too many files.
    TooManyFiles {
        /// Most files.
        limit: usize,
        /// Their number.
        count: usize,
    },
    /// A file of a message is too large.
    FileTooLarge {
        /// Its name, shortened.
        name: String,
        /// Bytes of its text.
        length: usize,
        /// Most bytes.
        limit: usize,
    },
    /// A conversation has too many queued messages.
    TooManyQueued {
        /// Most messages.
        limit: usize,
    },
    /// The model that the conversation names is not in the library.
    ConversationModelGone,
    /// The model that a compared answer names is not in the library.
    AnswerModelGone,
    /// The library has no model.
    NoModelYet,
    /// The worker died because memory ran out.
    WorkerOutOfMemory {
        /// Its end.
        cause: Box<Problem>,
    },
    /// The worker died for another reason.
    WorkerDied {
        /// Its end.
        cause: Box<Problem>,
    },
    /// The measurement was cancelled.
    MeasurementCancelled,
    /// A measurement is in progress.
    Measuring,
    /// An answer is being generated, so no measurement starts.
    AnsweringWhileMeasuring,
    /// No model is loaded that could be measured.
    NothingToMeasure,
    /// No thread, or a context that is too short.
    ThreadsOrContext,
    /// The text size is out of range.
    TextSize,
    /// The settings have too many keyboard shortcuts.
    TooManyShortcuts,
    /// Too many models have default sampling parameters of the user.
    TooManySamplingDefaults {
        /// Most models.
        limit: usize,
    },
    /// A sampling parameter is out of range.
    OutOfRange {
        /// The parameter.
        setting: SamplingSetting,
        /// The smallest value.
        least: String,
        /// The largest value.
        most: String,
        /// The value.
        value: String,
    },
    /// A list of texts is too long.
    TooManyTexts {
        /// The list.
        list: TextList,
        /// Most texts.
        limit: usize,
        /// Their number.
        count: usize,
    },
    /// A text of a list is empty or too long.
    TextLength {
        /// The list.
        entry: TextList,
        /// Most bytes.
        limit: usize,
        /// Bytes of the text.
        length: usize,
    },
    /// A banned string has the replacement character.
    BannedReplacement,
    /// The seed is larger than an integer that the window represents exactly.
    SeedTooLarge {
        /// The largest seed.
        limit: u64,
        /// The seed.
        seed: u64,
    },
    /// The length limit of answers is out of range.
    LengthLimit {
        /// Most tokens.
        limit: u32,
    },
    /// The id is too long to be a model's.
    UnknownModel,
    /// The id is too long to be a preset's.
    UnknownPreset,
    /// The preset does not exist.
    NoPreset,
    /// A preset of Hearth would be changed.
    BuiltInPreset,
    /// The user has the most presets.
    TooManyPresets {
        /// Most presets.
        limit: usize,
    },
    /// The name of a preset is too long.
    PresetNameTooLong {
        /// Most characters.
        limit: usize,
        /// Its characters.
        count: usize,
    },
    /// Another preset has this name.
    PresetNameTaken {
        /// The name.
        name: String,
    },
    /// The system prompt of a preset is too long.
    PresetPromptTooLong {
        /// Most bytes.
        limit: usize,
        /// Its bytes.
        length: usize,
    },
    /// A preset is too large for a file.
    PresetTooLarge {
        /// Most bytes.
        limit: u64,
        /// Its bytes.
        length: usize,
    },
    /// A file cannot be read as a preset.
    PresetUnreadable {
        /// The file.
        path: String,
        /// Why.
        cause: Box<Problem>,
    },
    /// A preset's file cannot be opened.
    PresetNotOpened {
        /// The system's error.
        detail: String,
    },
    /// A preset's path is not a file.
    PresetNotAFile,
    /// A preset's file is too large.
    PresetFileTooLarge {
        /// Most bytes.
        limit: u64,
    },
    /// A preset's file is not JSON.
    PresetNotJson,
    /// A file has no version of the preset format.
    NotAPreset,
    /// A preset's file has a newer version of the format.
    PresetNewer,
    /// A value in a preset's file has the wrong type.
    PresetValue {
        /// The parser's error, shortened.
        detail: String,
    },
    /// A preset's file has an unknown field.
    PresetField {
        /// The field, shortened.
        name: String,
    },
    /// The files of presets before this one are as many bytes as are read.
    PresetsTooLarge {
        /// Most bytes.
        limit: u64,
    },
    /// The folder of presets has more files than are read.
    MorePresets {
        /// The number of those that are not read.
        count: usize,
        /// Most presets.
        limit: usize,
    },
    /// The folder does not exist or is deleted.
    NoFolder,
    /// The instructions of a folder are too long.
    FolderPromptTooLong {
        /// Most bytes.
        limit: usize,
        /// Their bytes.
        length: usize,
    },
    /// A tag is too long.
    TagTooLong {
        /// Most characters.
        limit: usize,
    },
    /// A conversation has too many tags.
    TooManyTags {
        /// Most tags.
        limit: usize,
        /// Their number.
        count: usize,
    },
    /// The saved prompt does not exist.
    NoPrompt,
    /// Another saved prompt has this name.
    PromptNameTaken {
        /// The name, without the slash.
        name: String,
    },
    /// The name of a saved prompt has a wrong length or wrong characters.
    PromptName {
        /// Most characters.
        limit: usize,
    },
    /// The text of a saved prompt is empty or too long.
    PromptText {
        /// Most bytes.
        limit: usize,
    },
    /// The user has the most saved prompts.
    TooManyPrompts {
        /// Most prompts.
        limit: usize,
    },
    /// The system's file dialog could not be opened.
    DialogNotOpened,
    /// The dialog returned an item that is not a file.
    ChosenNotAFile,
    /// The icon in the system's tray could not be set.
    TrayNotSet,
    /// The data folder could not be shown by the system.
    DataFolderNotOpened {
        /// The system's error.
        detail: String,
    },
}

/// A sampling parameter that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum SamplingSetting {
    /// See [`SamplingParams::temperature`](crate::SamplingParams::temperature).
    Temperature,
    /// See [`SamplingParams::top_k`](crate::SamplingParams::top_k).
    TopK,
    /// See [`SamplingParams::top_p`](crate::SamplingParams::top_p).
    TopP,
    /// See [`SamplingParams::min_p`](crate::SamplingParams::min_p).
    MinP,
    /// See [`SamplingParams::typical_p`](crate::SamplingParams::typical_p).
    TypicalP,
    /// See [`SamplingParams::top_n_sigma`](crate::SamplingParams::top_n_sigma).
    TopNSigma,
    /// See [`SamplingParams::repetition_penalty`](crate::SamplingParams::repetition_penalty).
    RepetitionPenalty,
    /// See [`SamplingParams::frequency_penalty`](crate::SamplingParams::frequency_penalty).
    FrequencyPenalty,
    /// See [`SamplingParams::presence_penalty`](crate::SamplingParams::presence_penalty).
    PresencePenalty,
    /// See [`SamplingParams::repeat_last_n`](crate::SamplingParams::repeat_last_n).
    RepeatLastN,
    /// See [`SamplingParams::xtc_probability`](crate::SamplingParams::xtc_probability).
    XtcProbability,
    /// See [`SamplingParams::xtc_threshold`](crate::SamplingParams::xtc_threshold).
    XtcThreshold,
    /// See [`SamplingParams::dry_multiplier`](crate::SamplingParams::dry_multiplier).
    DryMultiplier,
    /// See [`SamplingParams::dry_base`](crate::SamplingParams::dry_base).
    DryBase,
    /// See [`SamplingParams::dry_allowed_length`](crate::SamplingParams::dry_allowed_length).
    DryAllowedLength,
    /// See [`SamplingParams::dry_last_n`](crate::SamplingParams::dry_last_n).
    DryLastN,
    /// See [`SamplingParams::mirostat_tau`](crate::SamplingParams::mirostat_tau).
    MirostatTau,
    /// See [`SamplingParams::mirostat_eta`](crate::SamplingParams::mirostat_eta).
    MirostatEta,
    /// See [`SamplingParams::dynatemp_range`](crate::SamplingParams::dynatemp_range).
    DynatempRange,
    /// See [`SamplingParams::dynatemp_exponent`](crate::SamplingParams::dynatemp_exponent).
    DynatempExponent,
    /// The bias of an entry of [`SamplingParams::logit_bias`](crate::SamplingParams::logit_bias).
    LogitBias,
}

/// A list of texts in the settings of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum TextList {
    /// Texts that end an answer.
    StopStrings,
    /// See [`SamplingParams::dry_breakers`](crate::SamplingParams::dry_breakers).
    SequenceBreakers,
    /// See [`SamplingParams::banned_strings`](crate::SamplingParams::banned_strings).
    BannedStrings,
    /// Tokens of [`SamplingParams::logit_bias`](crate::SamplingParams::logit_bias), or their texts.
    BiasedTokens,
}
