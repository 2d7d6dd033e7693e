//! Import, export and backup of conversations on the wire.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ImportFormat {
    /// Hearth.
    Hearth,
    /// ChatGPT.
    ChatGpt,
    /// Claude.
    Claude,
    /// LM Studio.
    LmStudio,
    /// Jan.
    Jan,
    /// Exports of Open WebUI.
    OpenWebUi,
    /// llama.cpp's UI.
    LlamaCpp,
    /// ShareGPT.
    ShareGpt,
    /// `messages` of OpenAI's API.
    OpenAi,
}

/// Why a conversation of an export was not imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum SkipReason {
    /// It has no messages with content.
    Empty,
    /// It is not JSON, or nested too deeply, or from a newer Hearth.
    Malformed,
    /// It has more bytes than the limit. The limit of Hearth's conversations differs from the limit
    /// of other programs' conversations.
    TooLarge,
    /// It has more JSON values than the limit.
    TooManyValues,
    /// It has more messages than the limit.
    TooManyMessages,
    /// It is of another format than the rest.
    UnknownFormat,
    /// Its file in the archive is encrypted or compressed in an unknown way.
    Unreadable,
}

/// Conversations that were not imported, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Why.
    pub reason: SkipReason,
    /// The limit that they exceed, if that is why.
    pub limit: Option<u64>,
    /// Number of these conversations.
    pub count: u32,
    /// The title of one of them.
    pub example: Option<String>,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// The formats that were found.
    pub formats: Vec<ImportFormat>,
    /// Conversations in the export.
    pub found: u32,
    /// New conversations.
    pub imported: u32,
    /// Conversations that were imported before and got new messages.
    pub extended: u32,
    /// Conversations that were imported before, without new messages.
    pub known: u32,
    /// New messages.
    pub messages: u32,
    /// Conversations that were not imported.
    pub skipped: Vec<Skipped>,
}

/// The format of exported conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum ChatFormat {
    /// Markdown, with the selected branch of each conversation.
    Markdown,
    /// One HTML page, with the selected branch of each conversation.
    Html,
    /// JSON, with every branch, rating and part; Hearth imports it.
    Json,
}

/// The words of an export in the language of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExportLabels {
    /// BCP 47 tag of the language.
    pub language: String,
    /// The title of several conversations.
    pub conversations: String,
    /// The user as author.
    pub user: String,
    /// The model as author, if its name is unknown.
    pub assistant: String,
    /// The system as author.
    pub system: String,
    /// The heading of the system prompt.
    pub system_prompt: String,
    /// The heading of a thought.
    pub thought: String,
    /// The heading of a tool call, before its name.
    pub tool_call: String,
    /// The heading of a tool's result, before its name.
    pub tool_result: String,
    /// The label before an image's name.
    pub image: String,
    /// The label before a file's name.
    pub file: String,
}

/// The result of exporting conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExportedChats {
    /// The file.
    pub path: String,
    /// Number of conversations.
    pub conversations: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why a file is not in a backup, or is not restored from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum SkippedFileReason {
    /// Its name is not Unicode, or this system has no files of such a name beside the others.
    Name,
    /// It is in too many folders.
    TooDeep,
    /// It is a link or another special file.
    NotAFile,
    /// It is in the folder of presets and is none.
    NotAPreset,
    /// It cannot be read.
    Unreadable,
}

/// Files that are not in a backup, or are not restored from it, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SkippedFiles {
    /// Why.
    pub reason: SkippedFileReason,
    /// Number of these files.
    pub count: u32,
    /// One of them, in the data folder.
    pub example: String,
}

/// A backup that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBackup {
    /// The file.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of files in it.
    pub files: u32,
    /// Files of the data folder that are not in it.
    pub skipped: Vec<SkippedFiles>,
}

/// A backup that replaces the present data at the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PendingRestore {
    /// When it was made.
    pub made_at: i64,
    /// Number of its conversations.
    pub conversations: u32,
    /// Number of files that are restored.
    pub files: u32,
    /// Files in it that are not restored.
    #[serde(default, alias = "leftOut")]
    pub skipped: Vec<SkippedFiles>,
    /// The folder to which the present data is moved.
    pub aside: String,
}

/// Where the data is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DataPlace {
    /// The data folder.
    pub path: String,
    /// Bytes of Hearth's files in it.
    pub bytes: u64,
    /// The copy that a move left in the folder before.
    pub former: Option<FormerData>,
    /// The backup that replaces it at the next start.
    pub pending: Option<PendingRestore>,
}

/// The data that a move left in the former folder, until the user deletes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct FormerData {
    /// The folder.
    pub path: String,
    /// Bytes of Hearth's files in it.
    pub bytes: u64,
}

/// The result of deleting the copy in the former data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeletedFormer {
    /// Number of files in Hearth's folders there that were not copied, and stay.
    pub left: u32,
    /// The path of one of them.
    pub example: Option<String>,
}

/// A deleted conversation, which can be restored for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeletedConversation {
    /// Id.
    pub id: i64,
    /// Title.
    pub title: String,
    /// Days until it is purged, rounded up. That happens at the first start after them.
    pub days_left: u32,
}

/// Messages that were deleted together, which can be restored for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct MessageDeletion {
    /// Id of the first message: the others are below it.
    pub id: i64,
    /// Id of the conversation.
    pub conversation: i64,
    /// Title of the conversation.
    pub title: String,
    /// First words of the first message. Empty if it has no text.
    pub first_words: String,
    /// Number of messages.
    pub count: u32,
    /// Days until they are purged, rounded up. That happens at the first start after them.
    pub days_left: u32,
}
