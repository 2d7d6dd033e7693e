//! Unsent texts and files of a conversation.

use super::{ChatReason, NewConversation, Problem, TextFile, bounds::refuse};
use hearth_protocol::{MAX_UNSENT_BYTES, TextChange, UnsentTokens};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Most queued messages of a conversation.
const MAX_QUEUED: usize = 100;

/// A message that is sent once the answer in progress is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMessage {
    /// Its text.
    pub text: String,
    /// Its files.
    pub files: Vec<TextFile>,
}

/// The user's unsent texts and files in a conversation: a draft, and queued messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Unsent {
    /// The draft's text.
    pub text: String,
    /// The draft's files.
    pub files: Vec<TextFile>,
    /// The queued messages, in order.
    pub queue: Vec<QueuedMessage>,
}

/// A change of the unsent texts and files. `None` leaves a part unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct UnsentChange {
    /// The draft's text.
    pub text: Option<String>,
    /// The draft's files.
    pub files: Option<Vec<TextFile>>,
    /// The queued messages.
    pub queue: Option<Vec<QueuedMessage>>,
}

impl UnsentChange {
    /// Refuses unsent texts and files beyond the limits.
    ///
    /// # Errors
    /// There are too many files or messages, or a file is too large.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.files.as_deref().map_or(Ok(()), TextFile::check)?;
        let queue = self.queue.as_deref().unwrap_or_default();
        if queue.len() > MAX_QUEUED {
            return refuse(ChatReason::TooManyQueued { limit: MAX_QUEUED });
        }
        queue.iter().try_for_each(|message| TextFile::check(&message.files))
    }
}

/// A message that is being written, as a change since an earlier count of its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct UnsentDraft {
    /// Id of the conversation. `None` means a new one.
    pub conversation: Option<i64>,
    /// Id of the message before it. `None` means that it is the first.
    pub leaf: Option<i64>,
    /// The change of its text.
    pub text: TextChange,
    /// Its files. `None` means that they have not changed.
    pub files: Option<Vec<TextFile>>,
    /// The initial state of a new conversation.
    pub fresh: NewConversation,
}

impl UnsentDraft {
    /// Refuses files and settings beyond the limits.
    ///
    /// # Errors
    /// There are too many files, a file is too large, or a setting is out of range.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.files.as_deref().map_or(Ok(()), TextFile::check)?;
        self.fresh.settings.check()
    }

    /// Whether the inserted text and the files are too long to be counted.
    pub(crate) fn is_too_long(&self) -> bool {
        let files = self.files.iter().flatten();
        let files: usize = files.map(|file| file.name.len() + file.text.len()).sum();
        self.text.inserted.len() + files > MAX_UNSENT_BYTES
    }
}

/// The outcome of a count of a message that is being written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UnsentCount {
    /// It was counted.
    Counted {
        /// Token counts.
        tokens: UnsentTokens,
    },
    /// The worker does not have the text that was changed. The message has to be sent in full.
    Unknown,
    /// The model that would answer is not loaded, there is a newer count, or the message is too
    /// long.
    Unavailable,
}
