//! The wire: commands' arguments and results, and events, between the window and the use cases, as
//! plain data.
//!
//! Field names are camelCase on the wire, enums carry their variant in `type`, times are
//! milliseconds since 1970, sizes are bytes. `ui/src/lib/host/wire.ts` is generated from the table
//! of commands ([`commands!`](crate::commands!)) and [`Event`] (see `tests/it/wire.rs`). Types of
//! the worker (`hearth_protocol`) to which the app adds nothing are part of the wire as they are.
//! The store's rows are separate types; [`crate::convert`] converts between them.

mod bounds;
mod chat;
mod commands;
mod hardware;
mod link;
mod models;
mod organizing;
mod presets;
mod sampling;
mod thinking;
mod transfer;
mod tray;
mod tune;
mod typescript;
mod unsent;

pub use crate::store::{message::Stats, search::Filter as SearchFilter};
pub use chat::*;
pub use hardware::*;
pub use hearth_protocol::{
    ChatReason, DroppedTurns, Effort, LogitBias, ModelInfo, Notice, Part, Problem, ProblemCode, Reason, Role,
    SamplingParams, SamplingSetting, Stage, TextKind, TextList, ThinkingSupport, TuneReason,
};
pub use link::*;
pub use models::*;
pub use organizing::*;
pub use presets::*;
pub use sampling::*;
pub use thinking::*;
pub use transfer::*;
pub use tray::*;
pub use tune::*;
pub use typescript::typescript;
pub use unsent::*;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use ts_rs::TS;

/// Language of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub enum Language {
    /// The first of the system's languages that has messages.
    #[default]
    #[serde(rename = "system")]
    System,
    /// English.
    #[serde(rename = "en")]
    English,
    /// German.
    #[serde(rename = "de")]
    German,
    /// Spanish.
    #[serde(rename = "es")]
    Spanish,
    /// Simplified Chinese.
    #[serde(rename = "zh-CN")]
    Chinese,
}

/// Color theme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Theme {
    /// The system's theme.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// Contrast of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Contrast {
    /// As the system prefers.
    #[default]
    System,
    /// At least 7 to 1 for text.
    More,
}

/// Motion in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Motion {
    /// As the system prefers.
    #[default]
    System,
    /// No animations.
    Reduce,
}

/// The app's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Settings {
    /// Language of the window.
    pub language: Language,
    /// Color theme.
    pub theme: Theme,
    /// Contrast.
    pub contrast: Contrast,
    /// Motion.
    pub motion: Motion,
    /// Text size in percent.
    pub text_size: u16,
    /// Whether Enter sends a message. Otherwise it begins a new line, and Ctrl or Command with
    /// Enter sends.
    pub enter_sends: bool,
    /// Repeated tokens after which an answer ends. 0 means that it never ends for this reason.
    pub repetition_limit: u32,
    /// Whether the model titles a conversation after its first answer. Otherwise the title is the
    /// first words.
    pub generated_titles: bool,
    /// Whether the system notifies when a long answer, a download or a run ends while the window is
    /// not in use.
    pub notifications: bool,
    /// Whether the tray has an icon.
    pub tray: TraySetting,
    /// Changed keyboard shortcuts: the key of an action (`Mod+Shift+K`; empty means none) by its
    /// id. Unknown ids are ignored.
    pub shortcuts: BTreeMap<String, String>,
    /// CPU threads. `None` means the number of physical cores.
    pub threads: Option<u32>,
    /// Context length in tokens. `None` means automatic.
    pub context: Option<u32>,
    /// Identity of the device for chat. `None` means automatic.
    pub device: Option<String>,
    /// Identity of the device for fine-tuning. `None` means automatic.
    pub training_device: Option<String>,
    /// The build of Hearth that uses the GPU. `None` means the fastest.
    pub build: Option<String>,
    /// Layers of the chat's model on GPUs.
    pub gpu_layers: GpuLayers,
    /// Type of the chat's KV cache.
    pub kv: KvType,
    /// The draft of speculative decoding, by id of the model that it drafts for: a draft model fits
    /// few others. A model without an entry has [`DraftSetting::Auto`].
    pub drafts: BTreeMap<String, DraftSetting>,
    /// The user's default sampling parameters, by id of the model, over the catalog's or file's.
    pub sampling: BTreeMap<String, SamplingOverrides>,
    /// Id of the last loaded model, which is loaded when a message is sent. Only loading a model
    /// changes it.
    pub last_model: Option<String>,
    /// Most bytes of the prompt cache on disk; 0 switches it off.
    pub prompt_cache_limit: u64,
    /// Whether searches and downloads are switched off. Nothing else of Hearth uses the network.
    pub offline: bool,
    /// Address of the hub or of a mirror. `None` means `HF_ENDPOINT`, or else huggingface.co.
    pub hub_endpoint: Option<String>,
    /// Whether models of other programs are listed: the Hugging Face cache, LM Studio, Ollama, Jan
    /// and llama.cpp.
    pub list_other_programs: bool,
    /// More folders with models.
    pub model_folders: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            language: Language::default(),
            theme: Theme::default(),
            contrast: Contrast::default(),
            motion: Motion::default(),
            text_size: 100,
            enter_sends: true,
            repetition_limit: 300,
            generated_titles: true,
            notifications: true,
            tray: TraySetting::default(),
            shortcuts: BTreeMap::new(),
            threads: None,
            context: None,
            device: None,
            training_device: None,
            build: None,
            gpu_layers: GpuLayers::default(),
            kv: KvType::default(),
            drafts: BTreeMap::new(),
            sampling: BTreeMap::new(),
            last_model: None,
            prompt_cache_limit: 2_000_000_000,
            offline: false,
            hub_endpoint: None,
            list_other_programs: true,
            model_folders: Vec::new(),
        }
    }
}

/// Most changed shortcuts: more than the window has actions.
const MAX_SHORTCUTS: usize = 500;

/// Most bytes of an action's id, and of a key.
const MAX_SHORTCUT_LEN: usize = 100;

impl Settings {
    /// The reason to refuse these settings. `None` means that they can be saved.
    pub(crate) fn mistake(&self) -> Option<ChatReason> {
        if self.threads == Some(0) || self.context.is_some_and(|tokens| tokens < 128) {
            return Some(ChatReason::ThreadsOrContext);
        }
        if !(50..=400).contains(&self.text_size) {
            return Some(ChatReason::TextSize);
        }
        let is_too_long = |text: &String| text.len() > MAX_SHORTCUT_LEN;
        let shortcuts = &self.shortcuts;
        if shortcuts.len() > MAX_SHORTCUTS || shortcuts.iter().any(|(id, key)| is_too_long(id) || is_too_long(key)) {
            return Some(ChatReason::TooManyShortcuts);
        }
        None
    }
}

/// A cache on disk. It can be cleared at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Cache {
    /// KV cells of conversations, so that reopening one needs no prefill.
    Prompts,
    /// Packed weights, so that loading a model needs no packing.
    Weights,
}

/// Disk usage of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct CacheUsage {
    /// The cache.
    pub cache: Cache,
    /// Its folder, which may not exist yet.
    pub path: String,
    /// Total size of its files, in bytes.
    pub bytes: u64,
}

/// A model's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Bundled with the app.
    Bundled,
    /// Downloaded from the catalog, or found in the app's models folder.
    Catalog,
    /// Added by its path; Hearth never deletes the file.
    File,
    /// In a folder that the user added; Hearth never deletes the file. The same applies to the next
    /// ones.
    Folder,
    /// In the cache of the Hugging Face hub, which many programs share.
    HuggingFace,
    /// A file of LM Studio.
    LmStudio,
    /// A file of Ollama.
    Ollama,
    /// A file of Jan.
    Jan,
    /// In the cache of llama.cpp.
    LlamaCpp,
}

/// A model of the library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Id, used in every command.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The GGUF file; of a split model the first shard.
    pub path: String,
    /// File size in bytes.
    pub file_size: u64,
    /// `llama`, `qwen2` and so on; empty if the file cannot be read.
    pub architecture: String,
    /// Whether Hearth was checked with a real file of this architecture, and not only with models
    /// of random weights.
    pub checked_with_real_file: bool,
    /// `Q4_1` and so on; empty if the file cannot be read.
    pub quantization: String,
    /// Number of parameters.
    pub parameters: u64,
    /// The training context length in tokens.
    pub context_trained: u32,
    /// Its id in the catalog, if it is there, by which the page describes it.
    pub catalog_id: Option<String>,
    /// Default system prompt of conversations.
    pub system_prompt: Option<String>,
    /// Default sampling parameters.
    pub sampling: SamplingParams,
    /// Where these come from.
    pub sampling_source: SamplingSource,
    /// Origin.
    pub source: Source,
    /// License of the weights, if known.
    pub license: Option<String>,
    /// Where it was downloaded from, if Hearth downloaded it.
    pub downloaded_from: Option<String>,
    /// Whether removing it deletes its files.
    pub is_deletable: bool,
    /// Why the model cannot be loaded. `None` means it can.
    pub problem: Option<Problem>,
    /// Ids of the models that can draft for it.
    pub drafts: Vec<String>,
}

/// State of a model's worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ModelState {
    /// No model is loaded.
    None,
    /// A model is being loaded.
    Loading {
        /// Its id.
        model: String,
        /// From 0 to 1.
        fraction: f32,
        /// The stage.
        stage: Stage,
    },
    /// A model is loaded.
    Ready {
        /// Its id.
        model: String,
        /// The loaded model.
        info: Box<ModelInfo>,
        /// Why it does not use the chosen draft model. `None` means that it does, or that none was
        /// chosen.
        draft_problem: Option<DraftProblem>,
    },
    /// A model could not be loaded.
    Failed {
        /// Its id.
        model: String,
        /// Why.
        problem: Problem,
    },
}

/// Why an answer was truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum TruncationReason {
    /// It reached the maximum number of tokens.
    Length,
    /// The context is full.
    ContextFull,
    /// It repeated itself; see [`Settings::repetition_limit`].
    Repetition,
}

/// State of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MessageState {
    /// Complete.
    Complete,
    /// Queued until the model is free.
    Waiting,
    /// Its model is being loaded.
    Loading {
        /// From 0 to 1.
        fraction: f32,
        /// The stage.
        stage: Stage,
    },
    /// The prompt is being prefilled.
    Prefill {
        /// Tokens done, cached ones included.
        done: u32,
        /// Tokens of the prompt.
        total: u32,
    },
    /// Tokens are being generated.
    Streaming,
    /// Stopped by the user, or by the end of the app.
    Stopped,
    /// Truncated before the model was done.
    #[serde(alias = "cut")]
    Truncated {
        /// Why.
        reason: TruncationReason,
    },
    /// Failed; the text up to then is saved.
    Failed {
        /// Why.
        problem: Problem,
    },
}

/// One message: a node of a conversation's tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Id.
    pub id: i64,
    /// Id of the conversation.
    pub conversation: i64,
    /// Id of the previous message. `None` for a first message.
    pub parent: Option<i64>,
    /// Role.
    pub role: Role,
    /// Parts.
    pub parts: Vec<Part>,
    /// State.
    pub state: MessageState,
    /// Creation time.
    pub created_at: i64,
    /// Name of the model that answered.
    pub model: Option<String>,
    /// Speed and token counts, once it has ended.
    pub stats: Option<Stats>,
    /// The turns dropped from the prompt, because the context is too short.
    pub dropped: Option<DroppedTurns>,
    /// The active adapters. Empty means the base model.
    pub adapters: Vec<UsedAdapter>,
    /// Id of the next answer of a side-by-side comparison. The last answer has the id of the first
    /// one.
    pub comparison: Option<i64>,
    /// Whether the user preferred it to the other answers.
    pub better: bool,
    /// The user's rating.
    pub rating: Option<Rating>,
    /// The settings that made it. `None` means that it is no answer, or older than they are.
    pub settings: Option<AnswerSettings>,
    /// Whether the user wrote it, or its beginning, although it is an answer.
    pub edited: bool,
    /// The model and settings that are not its conversation's. `None` means none.
    pub overrides: Option<AnswerOverrides>,
}

impl Message {
    /// The text of its parts, which the user copies, edits and rates.
    pub fn text(&self) -> String {
        hearth_protocol::text_of(&self.parts)
    }
}

/// An entry of the list of conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// Id.
    pub id: i64,
    /// Title; empty if the first message has no visible character.
    pub title: String,
    /// Creation time.
    pub created_at: i64,
    /// Time of the last message.
    pub updated_at: i64,
    /// Name of the last model that answered.
    pub model: Option<String>,
    /// Whether it is at the top of the list.
    pub pinned: bool,
    /// Id of its folder.
    pub folder: Option<i64>,
    /// Tags, sorted.
    pub tags: Vec<String>,
}

/// A conversation and its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Id.
    pub id: i64,
    /// Title.
    pub title: String,
    /// Creation time.
    pub created_at: i64,
    /// Time of the last message.
    pub updated_at: i64,
    /// Name of the last model that answered.
    pub model: Option<String>,
    /// System prompt. `None` means the model's default.
    pub system_prompt: Option<String>,
    /// The adapters for new answers. Empty means the base model.
    pub adapters: Vec<AdapterChoice>,
    /// The settings for new answers.
    pub settings: ConversationSettings,
    /// Id of the last message of the selected branch.
    pub leaf: Option<i64>,
    /// All nodes of the tree, in creation order.
    pub messages: Vec<Message>,
    /// Its draft and queued messages.
    pub unsent: Unsent,
}

/// The result of deleting a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeletedMessages {
    /// The conversation without them.
    pub conversation: Conversation,
    /// Their number.
    pub count: usize,
}

/// A span of a snippet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SnippetPart {
    /// Text.
    pub text: String,
    /// Whether it matches the query.
    pub hit: bool,
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// Id of the conversation.
    pub conversation: i64,
    /// Its title.
    pub title: String,
    /// Id of the message. `None` means that the title matches.
    pub message: Option<i64>,
    /// Text around the match.
    pub snippet: Vec<SnippetPart>,
    /// Time of the conversation's last message.
    pub updated_at: i64,
}

/// The initial state of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Hearth's version.
    pub version: String,
    /// Settings.
    pub settings: Settings,
    /// Conversations, newest first.
    pub conversations: Vec<ConversationSummary>,
    /// Folders, in the order of their creation.
    pub folders: Vec<Folder>,
    /// Models of the library.
    pub models: Vec<Model>,
    /// State of the selected model.
    pub model_state: ModelState,
    /// States of all models that are loaded, being loaded or could not be loaded.
    pub live_models: Vec<ModelState>,
    /// Id of the default model for a new conversation.
    pub default_model: Option<String>,
    /// Address of the hub, unless the settings name another one.
    pub default_hub: String,
    /// The draft of a new conversation.
    pub unsent: Unsent,
    /// The answers being generated.
    pub answering: Vec<Answering>,
}

/// An answer being generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Answering {
    /// Id of the conversation.
    pub conversation: i64,
    /// Id of the answer.
    pub message: i64,
}

/// The result of sending, regenerating or editing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// The conversation, perhaps a new one.
    pub conversation: ConversationSummary,
    /// The new user message. `None` means that only the answer is new.
    pub user: Option<Message>,
    /// The new answer, still empty.
    pub answer: Message,
}

/// The result of comparing: one message, answered several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The conversation, perhaps a new one.
    pub conversation: ConversationSummary,
    /// The new user message.
    pub user: Message,
    /// The answers, still empty, in the order of the request.
    pub answers: Vec<Message>,
}

/// Tauri's event name for every [`Announced`].
pub const EVENT_NAME: &str = "hearth";

/// An event, and its place among all. The page's type is `HostEvent` in `host.ts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announced {
    /// Grows with each event. What is read once `revision` has returned a number is at least as new
    /// as the events up to that number.
    pub revision: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event that every window receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The selected model changed state, or another one was selected.
    ModelState {
        /// The new state.
        state: ModelState,
    },
    /// A model that answers or has answered changed state, selected or not.
    LiveModel {
        /// Its id.
        model: String,
        /// The new state.
        state: ModelState,
    },
    /// An answer got more text.
    MessageDelta {
        /// Id of the conversation.
        conversation: i64,
        /// The message.
        message: i64,
        /// Whether it is a thought.
        kind: TextKind,
        /// Text to append to the last part if that is of this kind, else the text of a new part.
        text: String,
        /// Tokens generated so far.
        tokens: u32,
        /// Speed of decoding so far, in tokens per second.
        tokens_per_second: f64,
        /// Tokens of the context in use.
        context_used: u32,
    },
    /// The text of an answer became a thought: the model ended a thought that it never began.
    MessageFolded {
        /// The message in full.
        message: Box<Message>,
    },
    /// A message changed; here in full.
    MessageChanged {
        /// The message.
        message: Box<Message>,
    },
    /// A conversation was created, renamed, restored or switched to another branch.
    ConversationChanged {
        /// The conversation.
        conversation: ConversationSummary,
        /// Id of the last message of the selected branch.
        leaf: Option<i64>,
    },
    /// A conversation was deleted.
    ConversationRemoved {
        /// Its id.
        id: i64,
    },
    /// Many conversations were created or changed.
    ConversationsChanged {
        /// All conversations now, newest first.
        conversations: Vec<ConversationSummary>,
    },
    /// Progress of an import.
    ImportProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// Progress of an export of an adapter.
    ExportProgress {
        /// Id of the adapter.
        adapter: i64,
        /// From 0 to 1.
        fraction: f32,
        /// The stage.
        stage: Stage,
    },
    /// Progress of the extraction of a backup.
    RestoreProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// Progress of a move of the data folder.
    MoveProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// A folder was created, changed, deleted or restored.
    FoldersChanged {
        /// All folders now.
        folders: Vec<Folder>,
    },
    /// A saved prompt was added, changed or deleted.
    PromptsChanged {
        /// All of them now, by name.
        prompts: Vec<SavedPrompt>,
    },
    /// A preset was saved, changed, deleted or restored.
    PresetsChanged {
        /// All presets now.
        presets: Presets,
    },
    /// A model was added or removed.
    ModelsChanged {
        /// Models of the library now.
        models: Vec<Model>,
    },
    /// A download was added or removed, or changed state.
    DownloadsChanged {
        /// All downloads now, newest first.
        downloads: Vec<Download>,
    },
    /// A download got more bytes.
    DownloadProgress {
        /// Its id.
        id: i64,
        /// Bytes on disk.
        done: u64,
        /// Total bytes.
        total: u64,
        /// Present speed in bytes per second.
        bytes_per_second: f64,
    },
    /// The worker of the selected model ended unexpectedly.
    WorkerDied {
        /// Id of the model.
        model: String,
        /// The reason.
        problem: Problem,
    },
    /// Progress of a measurement.
    MeasureProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// The CPU was measured again: what to expect of models that are not loaded changed.
    DevicesMeasured,
    /// Context usage of a conversation.
    ContextUsed {
        /// The conversation.
        conversation: i64,
        /// Tokens in use.
        used: u32,
        /// Context length in tokens.
        total: u32,
    },
    /// A dataset was added, inspected, renamed, removed or restored.
    DatasetsChanged {
        /// All datasets now.
        datasets: Vec<Dataset>,
    },
    /// A run was created, renamed or restored, or changed state.
    RunChanged {
        /// The run.
        run: Box<Run>,
    },
    /// A run was deleted.
    RunRemoved {
        /// Its id.
        id: i64,
    },
    /// A run made a step. A resumed run repeats steps: earlier points from this step on are void.
    RunPoint {
        /// Id of the run.
        run: i64,
        /// The step.
        point: RunPoint,
    },
    /// A run evaluated its validation split.
    RunEvaluated {
        /// Id of the run.
        run: i64,
        /// The result.
        evaluation: RunEvaluation,
    },
    /// A run ended without the user's request; for a notification. Sent once.
    RunEnded {
        /// The run, in its final state.
        run: Box<Run>,
    },
    /// Another program has locked the store for long, or released it. Answers continue meanwhile.
    StoreLocked {
        /// Whether it is still locked.
        locked: bool,
    },
    /// Links were opened; `takeLinks` returns them.
    LinksOpened,
    /// The app closes once this run has completed its step and written a checkpoint.
    Closing {
        /// Id of the run.
        run: i64,
    },
    /// An adapter was created, imported, renamed, voted on, deleted or restored.
    AdaptersChanged {
        /// All adapters now.
        adapters: Vec<Adapter>,
    },
}
