//! Folders, tags, saved prompts and files of messages.

use super::{
    ChatReason, ConversationSettings, Problem,
    bounds::{MAX_PROMPT, refuse},
};
use hearth_protocol::Part;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Most bytes of a file in a message.
pub const MAX_FILE: usize = 4 << 20;
/// Most files in a message.
pub const MAX_FILES: usize = 50;

/// A folder of conversations, with what they begin from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// Id.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Default system prompt of its conversations. `None` means the model's default.
    pub system_prompt: Option<String>,
    /// Default settings of its conversations.
    pub settings: ConversationSettings,
}

impl Folder {
    /// Refuses values out of range, with a reason that names the setting.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.settings.check()?;
        match self.system_prompt.as_ref().map_or(0, String::len) {
            length if length > MAX_PROMPT => refuse(ChatReason::FolderPromptTooLong {
                limit: MAX_PROMPT,
                length,
            }),
            _ => Ok(()),
        }
    }
}

/// A text that the user inserts into a message by `/name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SavedPrompt {
    /// Id.
    pub id: i64,
    /// The name after the slash: letters, digits, `-` and `_`.
    pub name: String,
    /// The text. A `{{variable}}` in it is asked for when it is inserted.
    pub text: String,
}

/// A text file for a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct TextFile {
    /// File name.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl TextFile {
    /// Refuses files that are too many or too large.
    pub(crate) fn check(files: &[Self]) -> Result<(), Problem> {
        if files.len() > MAX_FILES {
            return refuse(ChatReason::TooManyFiles {
                limit: MAX_FILES,
                count: files.len(),
            });
        }
        match files
            .iter()
            .find(|file| file.text.len() > MAX_FILE || file.name.len() > 1024)
        {
            Some(file) => refuse(ChatReason::FileTooLarge {
                name: file.name.chars().take(80).collect(),
                length: file.text.len(),
                limit: MAX_FILE,
            }),
            None => Ok(()),
        }
    }
}

impl From<TextFile> for Part {
    fn from(file: TextFile) -> Self {
        Self::File {
            name: file.name,
            media_type: "text/plain".to_owned(),
            text: file.text,
        }
    }
}
