//! The wire: what the window and the use cases say to each other, as plain data.
//!
//! Field names are camelCase on the wire, enums carry their variant in `type`, times are milliseconds since 1970, sizes
//! are bytes. `ui/src/lib/host/wire.ts` is generated from this module (see `tests/wire.rs`). The worker's types
//! (`hearth_protocol`) and the store's rows are not these; [`crate::convert`] is where they meet.

mod hardware;
mod tune;

pub use hardware::*;
pub use tune::*;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Light or dark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Theme {
    /// As the system has it.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// What a person chose for the whole app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Light or dark.
    pub theme: Theme,
    /// CPU threads; none: the number of physical cores.
    pub threads: Option<u32>,
    /// Context in tokens; none: the model's own, within reason.
    pub context: Option<u32>,
    /// The device that chats run on, by its identity; none: chosen by the worker.
    pub device: Option<String>,
    /// The device that runs of fine-tuning run on; none: chosen by the worker.
    pub training_device: Option<String>,
    /// The build of Hearth that uses the GPU; none: the fastest.
    pub build: Option<String>,
    /// How many layers of a model that chats lie on a GPU.
    pub gpu_layers: GpuLayers,
    /// What a chat's KV cache is kept as.
    pub kv: KvType,
    /// Id of the model that was loaded last; it is loaded again when a message is sent.
    pub last_model: Option<String>,
    /// Bytes that what was read of chats may take on the disk; 0 keeps nothing.
    pub kept_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            threads: None,
            context: None,
            device: None,
            training_device: None,
            build: None,
            gpu_layers: GpuLayers::default(),
            kv: KvType::default(),
            last_model: None,
            kept_bytes: 2_000_000_000,
        }
    }
}

/// What Hearth keeps on the disk to be quick. All of it can be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Cache {
    /// What models have read of chats, so that one that is opened again answers at once.
    Chats,
    /// Weights that were packed for this machine, so that a model loads at once.
    Weights,
}

/// What a cache takes now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Cached {
    /// Which.
    pub cache: Cache,
    /// Its folder, which may not be there yet.
    pub path: String,
    /// Bytes of its files.
    pub bytes: u64,
}

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// 0 takes the likeliest token always (greedy).
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: u32,
    /// Keep the likeliest whose probabilities reach p together; 1 keeps all.
    pub top_p: f32,
    /// Drop what is less likely than this share of the likeliest; 0 drops nothing.
    pub min_p: f32,
    /// Divides the score of tokens seen lately; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Taken from the score for every time a token was seen; 0 changes nothing.
    pub frequency_penalty: f32,
    /// Taken once from the score of a token that was seen; 0 changes nothing.
    pub presence_penalty: f32,
    /// How many tokens back the penalties look.
    pub repeat_last_n: u32,
    /// The same seed gives the same answer on a CPU; none draws one.
    pub seed: Option<u64>,
}

/// Where a model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// It came with the app.
    Bundled,
    /// It was downloaded through the catalog, or lies in the app's folder of models.
    Catalog,
    /// A person added the file; it is never deleted.
    File,
}

/// A model that is on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Names the model in every command.
    pub id: String,
    /// For people.
    pub name: String,
    /// The GGUF file (the first, of a split one).
    pub path: String,
    /// Bytes of the file.
    pub file_size: u64,
    /// `llama`, `qwen2` and so on; empty while the file cannot be read.
    pub architecture: String,
    /// `Q4_1` and so on; empty while the file cannot be read.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Context in tokens that the model was trained for.
    pub context_trained: u32,
    /// One sentence; may be empty.
    pub description: String,
    /// What a conversation begins with when it has no system prompt of its own.
    pub system_prompt: Option<String>,
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// Where it comes from.
    pub source: Source,
    /// Why it cannot be loaded, if so: the file is gone or cannot be read. A whole sentence.
    pub problem: Option<String>,
}

/// What is known of the loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The model's own name.
    pub name: String,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// The file's quantisation.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the file.
    pub file_size: u64,
    /// Blocks.
    pub layers: u32,
    /// Context in tokens that was set aside.
    pub context: u32,
    /// Context in tokens that the model was trained for.
    pub context_trained: u32,
    /// The device's id.
    pub device: String,
    /// CPU threads in use.
    pub threads: u32,
    /// How long loading took, in seconds.
    pub load_seconds: f64,
    /// What a person should know. Whole sentences.
    pub notices: Vec<String>,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Layers there are: blocks, prediction blocks included, and the output layer.
    pub layers_total: u32,
    /// What the KV cache is kept as.
    pub kv: KvType,
    /// Where its bytes lie.
    pub placement: Vec<PlannedDevice>,
}

/// What the chat's worker has loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ModelState {
    /// Nothing.
    None,
    /// A model is being loaded.
    Loading {
        /// Its id.
        model: String,
        /// From 0 to 1.
        fraction: f32,
        /// What is being done, in a few words.
        stage: String,
    },
    /// A model is loaded.
    Ready {
        /// Its id.
        model: String,
        /// What is known of it.
        info: ModelInfo,
    },
    /// A model could not be loaded.
    Failed {
        /// Its id.
        model: String,
        /// Why.
        problem: Problem,
    },
}

/// An error for a person to act on and a program to match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Problem {
    /// For programs.
    #[ts(type = "string")]
    pub code: Code,
    /// For people: what happened, to what, what to do.
    pub message: String,
}

/// What kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Code {
    /// The file is not there or cannot be read.
    FileUnreadable,
    /// The file is damaged or of another kind.
    FileInvalid,
    /// A kind of model that Hearth does not know.
    Unsupported,
    /// Not enough memory.
    OutOfMemory,
    /// A dataset cannot be read or teaches nothing.
    DataInvalid,
    /// An adapter is damaged or belongs to another model.
    AdapterInvalid,
    /// The loss is no number any more, or exploded.
    Diverged,
    /// The model's chat template failed.
    Template,
    /// The prompt is longer than the context.
    PromptTooLong,
    /// There is no model to answer with.
    NoModel,
    /// The conversation, or the worker, is busy with another answer.
    Busy,
    /// A newer request of the same kind took its place.
    Superseded,
    /// A person ended it.
    Cancelled,
    /// No such device.
    NoDevice,
    /// The request made no sense.
    BadRequest,
    /// There is no such conversation, message, model, dataset, run or adapter.
    NotFound,
    /// The worker ended unexpectedly or could not be started.
    WorkerDied,
    /// The disk is full.
    DiskFull,
    /// Conversations could not be read or written.
    Store,
    /// The file of conversations is damaged.
    StoreDamaged,
    /// The file of conversations was written by a newer Hearth.
    StoreNewer,
    /// Another Hearth is using the same data.
    AlreadyRunning,
    /// A download failed.
    Download,
    /// A defect of Hearth.
    Internal,
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Why an answer was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum CutReason {
    /// As many tokens as an answer may have.
    Length,
    /// The context is full.
    ContextFull,
}

/// How far a message is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MessageState {
    /// It is whole.
    Complete,
    /// It waits for the model to be loaded or to begin.
    Waiting,
    /// The model reads the conversation.
    Reading {
        /// Tokens read.
        done: u32,
        /// Tokens in all.
        total: u32,
    },
    /// It is growing.
    Streaming,
    /// A person stopped it, or the app ended while it grew.
    Stopped,
    /// It ended before the model was done.
    Cut {
        /// Why.
        reason: CutReason,
    },
    /// It could not go on; what was there is kept.
    Failed {
        /// Why.
        problem: Problem,
    },
}

/// How fast an answer was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// How many of them were still in the cache.
    pub cached_tokens: u32,
    /// Tokens answered.
    pub tokens: u32,
    /// Tokens answered in a second.
    pub tokens_per_second: f64,
    /// Tokens of the prompt read in a second, without those from the cache.
    pub prompt_tokens_per_second: f64,
    /// From the request to the first token, in seconds.
    pub first_token_seconds: f64,
    /// Tokens of the context in use after the answer.
    pub context_used: u32,
    /// Tokens of the context in all.
    pub context: u32,
}

/// What no longer fitted the context when an answer was made: the oldest turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// How many messages from the beginning.
    pub messages: u32,
    /// How many tokens they took.
    pub tokens: u32,
}

/// One message: a node of a conversation's tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Names the message.
    pub id: i64,
    /// Whose it is.
    pub conversation: i64,
    /// What it follows; none for the first.
    pub parent: Option<i64>,
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// How far it is.
    pub state: MessageState,
    /// When it was begun.
    pub created_at: i64,
    /// Name of the model that answered.
    pub model: Option<String>,
    /// How fast it was, once it has ended.
    pub stats: Option<Stats>,
    /// What the model could not see of the conversation.
    pub left_out: Option<LeftOut>,
    /// The adapters it is made with; empty: the model as it is.
    pub adapters: Vec<UsedAdapter>,
    /// The other answer of two that are compared side by side, without and with adapters.
    pub comparison: Option<i64>,
    /// Whether a person preferred it to that one.
    pub better: bool,
    /// What a person thinks of it.
    pub rating: Option<Rating>,
}

/// A conversation as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// Names the conversation.
    pub id: i64,
    /// For people.
    pub title: String,
    /// When it was begun.
    pub created_at: i64,
    /// When something was last said in it.
    pub updated_at: i64,
    /// Name of the model that answered last.
    pub model: Option<String>,
}

/// A conversation with all its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Names the conversation.
    pub id: i64,
    /// For people.
    pub title: String,
    /// When it was begun.
    pub created_at: i64,
    /// When something was last said in it.
    pub updated_at: i64,
    /// Name of the model that answered last.
    pub model: Option<String>,
    /// The conversation's own system prompt; none: the model's.
    pub system_prompt: Option<String>,
    /// The adapters that new answers are made with; empty: the model as it is.
    pub adapters: Vec<AdapterChoice>,
    /// The last message of the branch that is shown.
    pub leaf: Option<i64>,
    /// All nodes of the tree, in order of creation.
    pub messages: Vec<Message>,
}

/// A piece of a snippet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SnippetPart {
    /// The text.
    pub text: String,
    /// Whether it is what was searched for.
    pub hit: bool,
}

/// Where a search found something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The conversation.
    pub conversation: i64,
    /// Its title.
    pub title: String,
    /// The message; none where only the title has it.
    pub message: Option<i64>,
    /// The text around the hit.
    pub snippet: Vec<SnippetPart>,
    /// When something was last said in the conversation.
    pub updated_at: i64,
}

/// All that a window needs to begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Hearth's version.
    pub version: String,
    /// What a person chose.
    pub settings: Settings,
    /// Newest first.
    pub conversations: Vec<ConversationSummary>,
    /// What is on this machine.
    pub models: Vec<Model>,
    /// What is loaded.
    pub model_state: ModelState,
    /// Id of the model a new conversation begins with.
    pub default_model: Option<String>,
}

/// What sending (or regenerating, or editing) began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// The conversation, perhaps a new one.
    pub conversation: ConversationSummary,
    /// What the person said; none when only the answer is new.
    pub user: Option<Message>,
    /// The answer, still empty.
    pub answer: Message,
}

/// What comparing began: one message, answered twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The conversation, perhaps a new one.
    pub conversation: ConversationSummary,
    /// What the person said.
    pub user: Message,
    /// The answer of the model as it is, still empty; it is made first.
    pub base: Message,
    /// The answer with adapters, still empty; it is made after the other.
    pub tuned: Message,
}

/// What happened, told to every window as it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// Another model, or none, is loaded or being loaded.
    ModelState {
        /// The new state.
        state: ModelState,
    },
    /// An answer has grown.
    MessageDelta {
        /// Whose message it is.
        conversation: i64,
        /// The message.
        message: i64,
        /// What to append.
        text: String,
        /// Tokens answered so far.
        tokens: u32,
        /// Tokens answered in a second so far.
        tokens_per_second: f64,
    },
    /// A message is in another state; its content is whole here.
    MessageChanged {
        /// The message.
        message: Message,
    },
    /// A conversation is new, was renamed, shows another branch or was restored.
    ConversationChanged {
        /// The conversation.
        conversation: ConversationSummary,
        /// The last message of the branch that is shown.
        leaf: Option<i64>,
    },
    /// A conversation was deleted.
    ConversationRemoved {
        /// Which.
        id: i64,
    },
    /// A model was added or forgotten.
    ModelsChanged {
        /// What is on this machine now.
        models: Vec<Model>,
    },
    /// The worker ended unexpectedly.
    WorkerDied {
        /// What happened.
        problem: Problem,
    },
    /// A measurement goes on.
    MeasureProgress {
        /// From 0 to 1.
        fraction: f32,
    },
    /// A conversation takes this much of the context.
    ContextUsed {
        /// The conversation.
        conversation: i64,
        /// Tokens in use.
        used: u32,
        /// Tokens in all.
        total: u32,
    },
    /// A dataset was added, looked at, forgotten or restored.
    DatasetsChanged {
        /// All there are now.
        datasets: Vec<Dataset>,
    },
    /// A run is new or in another state, was renamed or restored.
    RunChanged {
        /// The run.
        run: Box<Run>,
    },
    /// A run was deleted.
    RunRemoved {
        /// Which.
        id: i64,
    },
    /// A run has made a step. One that was resumed makes steps again: what was known from this one on is gone.
    RunPoint {
        /// Which run.
        run: i64,
        /// The step.
        point: RunPoint,
    },
    /// A run has measured the held-out examples.
    RunEvaluated {
        /// Which run.
        run: i64,
        /// What came of it.
        evaluation: RunEvaluation,
    },
    /// A run has ended otherwise than by a person: told once, for whoever looks elsewhere.
    RunEnded {
        /// Which run.
        run: i64,
        /// How, in a sentence.
        message: String,
    },
    /// Another program has held the store for long, or has let it go; answers go on meanwhile.
    StoreHeld {
        /// Whether it holds it.
        held: bool,
    },
    /// The app closes once this run has ended its step and made a checkpoint.
    Closing {
        /// Which run.
        run: i64,
    },
    /// An adapter was made, imported, renamed, voted on, deleted or restored.
    AdaptersChanged {
        /// All there are now.
        adapters: Vec<Adapter>,
    },
}

/// The TypeScript declarations of everything above, one module.
pub fn typescript() -> String {
    let config = ts_rs::Config::new().with_large_int("number");
    let mut text = String::from("// Generated from crates/app/src/wire; its test says how. Do not edit.\n");
    macro_rules! declare {
        ($($t:ty),* $(,)?) => { $(
            text.push_str("\nexport ");
            for line in <$t as TS>::decl(&config).lines() {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        )* };
    }
    declare!(
        Theme,
        GpuLayers,
        KvType,
        Settings,
        Cache,
        Cached,
        Sampling,
        Source,
        Model,
        ModelInfo,
        ModelState,
        Problem,
        Role,
        CutReason,
        MessageState,
        Stats,
        LeftOut,
        Message,
        ConversationSummary,
        Conversation,
        SnippetPart,
        SearchHit,
        Device,
        DeviceWay,
        DeviceCheck,
        WhatIf,
        Verdict,
        Plan,
        PlannedDevice,
        Measurement,
        Snapshot,
        Sent,
        Compared,
        Dataset,
        SampleDataset,
        ColumnMapping,
        Inspection,
        Preview,
        Piece,
        Severity,
        Finding,
        BrokenLine,
        Schedule,
        Precision,
        Checkpointing,
        TrainSettings,
        NewRun,
        RunPlan,
        PauseReason,
        RunState,
        RunPoint,
        RunEvaluation,
        RunCurves,
        EndReason,
        Outcome,
        Run,
        Votes,
        Adapter,
        AdapterChoice,
        UsedAdapter,
        Thumb,
        Rating,
        ExportFormat,
        ExportOrder,
        Exported,
        Verification,
        Event,
    );
    text
}
