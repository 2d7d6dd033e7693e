//! Messages that count the tokens of a message that is being written.

use crate::{
    message::{Message, Part},
    thinking::Thinking,
};
use serde::{Deserialize, Serialize};

/// Maximum bytes of a message that is being written, with its files. A longer one is not counted.
pub const MAX_UNSENT_BYTES: usize = 16 << 20;

/// A message that is being written, as a change since an earlier count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountUnsent {
    /// Identifies the conversation before the message.
    pub conversation: u64,
    /// The conversation. `None` means that it is the one of the last count.
    #[serde(default)]
    pub before: Option<ConversationBefore>,
    /// The change of the text.
    pub text: TextChange,
    /// The message's files. `None` means that they have not changed.
    #[serde(default)]
    pub files: Option<Vec<Part>>,
}

/// The conversation before a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationBefore {
    /// The messages. If the last one is the user's, the new message is joined to it.
    pub messages: Vec<Message>,
    /// Thinking of the answer to come.
    pub thinking: Thinking,
}

/// A change of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TextChange {
    /// Revision of the text that is changed. `None` means an empty text.
    pub base: Option<u32>,
    /// Revision of the changed text, which no other text of any page has.
    pub revision: u32,
    /// First UTF-16 code unit of the change.
    pub start: u32,
    /// Number of removed code units.
    pub removed: u32,
    /// The text in their place.
    pub inserted: String,
}

/// The tokens of a conversation and of a message that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct UnsentTokens {
    /// Tokens of the conversation without the message.
    pub conversation: u32,
    /// Tokens of the prompt if the message is sent, without dropped turns.
    pub total: u32,
}
