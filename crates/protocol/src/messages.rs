//! The messages: plain data, one JSON object a line.

use crate::{
    device::DeviceInfo,
    plan::{GpuLayers, KvType, Measured, Plan, PlanRequest, PlannedDevice},
    training::{AdapterChoice, RunId, TrainingEvent, TrainingRequest},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of this protocol; a worker says its own in [`Event::Ready`], and another number is refused.
pub const PROTOCOL_VERSION: u32 = 5;

/// Names one generation, plan or measurement; chosen by whoever asks, unique in the life of the worker.
pub type GenerationId = u64;

/// Names one conversation, for as long as whoever asks keeps it.
pub type ConversationId = i64;

/// What a worker can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Loads a model, in place of the one that is loaded. Answered by [`Event::LoadProgress`], then
    /// [`Event::Loaded`] or [`Event::LoadFailed`].
    Load(LoadRequest),
    /// Ends what is being generated, lets the model go and gives its memory back. Answered by [`Event::Unloaded`].
    Unload,
    /// Answers a conversation. Answered by [`Event::Started`], [`Event::Text`] and, last, [`Event::Finished`] or
    /// [`Event::GenerationFailed`].
    Generate(GenerateRequest),
    /// Ends one generation at once; its last event is [`Event::Finished`] with [`FinishReason::Cancelled`]. A measurement
    /// ends too, with [`Event::MeasureFailed`].
    Cancel {
        /// Which.
        id: GenerationId,
    },
    /// Counts the tokens a conversation takes, template included. Answered by [`Event::Counted`].
    Count {
        /// Comes back in the answer.
        id: GenerationId,
        /// The conversation.
        messages: Vec<Message>,
    },
    /// Asks what devices there are. Answered by [`Event::Devices`].
    Devices,
    /// Compares what a device computes with what the processor does, and measures it, in every build of Hearth that can use it.
    /// Answered by [`Event::Checked`]; what came of it is told of the device from then on.
    Check {
        /// The device's id or identity.
        device: String,
    },
    /// Asks where a model's bytes would go, without loading it. Answered by [`Event::Planned`] or [`Event::PlanFailed`],
    /// also while an answer is being written.
    Plan {
        /// Comes back in the answer.
        id: GenerationId,
        /// The model, and how it would be loaded.
        plan: PlanRequest,
    },
    /// Measures how fast the loaded model is. Answered by [`Event::MeasureProgress`], then [`Event::Measured`] or
    /// [`Event::MeasureFailed`].
    Measure {
        /// Comes back in the answer; [`Request::Cancel`] ends it.
        id: GenerationId,
    },
    /// Removes what [`LoadRequest::kept`] holds of a conversation, once what was asked before is done. Not answered.
    Forget {
        /// Which.
        conversation: ConversationId,
    },
    /// How much [`LoadRequest::kept`] may hold from now on; what is too much goes. Not answered.
    Keep {
        /// As [`KeptFolder::most_bytes`].
        most_bytes: u64,
    },
    /// Something about fine-tuning. Answered by [`Event::Training`].
    Training(TrainingRequest),
    /// Ends the worker. Closing its standard input does the same.
    Shutdown,
}

/// Which model to load, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The GGUF file (the first, of a split one).
    pub path: PathBuf,
    /// Context in tokens; none: automatic, the model's own, at most [`LoadRequest::DEFAULT_CONTEXT`] and what the GPUs' kernels see of a
    /// cache.
    pub context: Option<u32>,
    /// CPU threads; none: the number of physical cores.
    pub threads: Option<u32>,
    /// A device's id or identity from [`Event::Devices`], or several with commas between; none: chosen by the engine.
    pub device: Option<String>,
    /// The build of Hearth that is to use the GPU, as [`DeviceWay::build`] names it; none: the fastest that was measured.
    #[serde(default)]
    pub build: Option<String>,
    /// How many layers lie on a GPU.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// What the KV cache is kept as.
    #[serde(default)]
    pub kv: KvType,
    /// Where the worker keeps what it read of conversations, so that they go on without being read again; none: nothing is kept.
    #[serde(default)]
    pub kept: Option<KeptFolder>,
}

/// A folder for what was read of conversations. Each conversation has a folder in it, named by its id, which whoever deletes the
/// conversation has to remove. Anybody may remove any of it at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFolder {
    /// The folder, which is made when it is needed.
    pub path: PathBuf,
    /// Bytes that all of it may take: what was not used for longest gives way. 0 keeps nothing.
    pub most_bytes: u64,
}

impl LoadRequest {
    /// The largest context, in tokens, that is set aside unless a person asks for more.
    pub const DEFAULT_CONTEXT: u32 = 8192;
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said; never read for special tokens.
    pub content: String,
}

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// 0 takes the likeliest token always (greedy).
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: u32,
    /// Keep the likeliest whose probabilities reach p together; 1 keeps all.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub top_p: f32,
    /// Drop what is less likely than this share of the likeliest; 0 drops nothing.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub min_p: f32,
    /// Divides the score of tokens seen in the last [`Sampling::repeat_last_n`]; 1 changes nothing.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub repetition_penalty: f32,
    /// Taken from the score for every time a token was seen; 0 changes nothing.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub frequency_penalty: f32,
    /// Taken once from the score of a token that was seen; 0 changes nothing.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub presence_penalty: f32,
    /// How many tokens back the penalties look.
    pub repeat_last_n: u32,
    /// The same seed gives the same answer on a CPU; none draws one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: 64,
            seed: None,
        }
    }
}

/// A conversation to be answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// Names this generation in every event about it.
    pub id: GenerationId,
    /// What is to be answered.
    pub prompt: Prompt,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The most tokens to answer with; none: until the model ends or the context is full.
    pub max_tokens: Option<u32>,
    /// Texts at which the answer ends; they are not part of it.
    pub stop: Vec<String>,
    /// Adapters that the answer is made with, over the model that is loaded.
    #[serde(default)]
    pub adapters: Vec<AdapterChoice>,
    /// The conversation it belongs to; none: nothing is kept of it.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
}

/// What is to be answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Through the model's chat template.
    Chat(Vec<Message>),
    /// As it is, without a template.
    Raw(String),
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The first line of a worker.
    Ready {
        /// See [`PROTOCOL_VERSION`].
        protocol: u32,
        /// Hearth's version.
        version: String,
    },
    /// A model is being loaded.
    LoadProgress {
        /// From 0 to 1.
        #[serde(deserialize_with = "crate::number::or_nan")]
        fraction: f32,
        /// What is being done, in a few words for a person.
        stage: String,
    },
    /// A model is loaded.
    Loaded(ModelInfo),
    /// It is not, and the one before it is gone too.
    LoadFailed(Problem),
    /// No model is loaded any more.
    Unloaded,
    /// A generation has read its prompt's beginning; more comes.
    Started {
        /// Which.
        id: GenerationId,
        /// Tokens of the prompt, template included, after what was left out.
        prompt_tokens: u32,
        /// How many of them were still in the cache.
        cached_tokens: u32,
        /// What did not fit and was left out, if anything.
        left_out: Option<LeftOut>,
    },
    /// The prompt is being read.
    Prefill {
        /// Which.
        id: GenerationId,
        /// Tokens read.
        done: u32,
        /// Tokens in all.
        total: u32,
    },
    /// A piece of the answer: whole characters only.
    Text {
        /// Which.
        id: GenerationId,
        /// The piece.
        text: String,
        /// Tokens answered so far.
        tokens: u32,
    },
    /// A generation has ended.
    Finished {
        /// Which.
        id: GenerationId,
        /// Why, and how fast it was.
        summary: Summary,
    },
    /// A generation could not go on.
    GenerationFailed {
        /// Which.
        id: GenerationId,
        /// Why.
        problem: Problem,
    },
    /// The answer to [`Request::Count`].
    Counted {
        /// Which.
        id: GenerationId,
        /// Tokens, template included.
        tokens: u32,
    },
    /// The answer to [`Request::Devices`].
    Devices {
        /// Every device; `cpu` is always there.
        devices: Vec<DeviceInfo>,
    },
    /// The answer to [`Request::Check`].
    Checked {
        /// As it was asked for.
        device: String,
        /// Every device, as [`Event::Devices`] tells it; or why none was checked.
        devices: Result<Vec<DeviceInfo>, Problem>,
    },
    /// Another build of Hearth does better what was asked last, a load or a run: whoever asked starts this program in place of this
    /// worker, with [`HANDED_OVER`] in its environment, and asks it the same.
    HandOver {
        /// The program.
        program: PathBuf,
    },
    /// The answer to [`Request::Plan`].
    Planned {
        /// Which.
        id: GenerationId,
        /// Where the bytes would go.
        plan: Plan,
    },
    /// There is no plan: the file cannot be read, say.
    PlanFailed {
        /// Which.
        id: GenerationId,
        /// Why.
        problem: Problem,
    },
    /// A measurement goes on.
    MeasureProgress {
        /// Which.
        id: GenerationId,
        /// From 0 to 1.
        #[serde(deserialize_with = "crate::number::or_nan")]
        fraction: f32,
    },
    /// The answer to [`Request::Measure`].
    Measured {
        /// Which.
        id: GenerationId,
        /// How fast the loaded model is.
        measured: Measured,
    },
    /// Nothing was measured: no model is loaded, an answer is being written, or it was cancelled.
    MeasureFailed {
        /// Which.
        id: GenerationId,
        /// Why.
        problem: Problem,
    },
    /// Something about fine-tuning.
    Training {
        /// The run, inspection or export it is about.
        id: RunId,
        /// What happened.
        event: TrainingEvent,
    },
}

/// Set in the environment of a worker, or a command, that another build of Hearth has handed its work to: it does it, whatever
/// build it is.
pub const HANDED_OVER: &str = "HEARTH_HANDED_OVER";

/// What was left out of the context: the oldest turns, never the system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many messages from the beginning (after the system prompt).
    pub messages: u32,
    /// How many tokens they took.
    pub tokens: u32,
}

/// How a generation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens answered.
    pub tokens: u32,
    /// The ids that were answered.
    pub ids: Vec<u32>,
    /// Tokens of the prompt read in a second, without those from the cache.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub prompt_tokens_per_second: f64,
    /// Tokens answered in a second, from the first to the last.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// From the request to the first token, in seconds.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub first_token_seconds: f64,
    /// Tokens of the context that are in use now.
    pub context_used: u32,
    /// Tokens of the context in all.
    pub context: u32,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn, or a stop text came.
    Stop,
    /// As many tokens as were asked for.
    Length,
    /// The context is full.
    ContextFull,
    /// Someone asked for it.
    Cancelled,
}

/// What is known of the loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The file.
    pub path: PathBuf,
    /// The model's own name.
    pub name: String,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// The file's quantisation, as people call it: `Q4_1`.
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
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub load_seconds: f64,
    /// What a person should know: the file has no chat template, say. Whole sentences.
    pub notices: Vec<String>,
    /// Layers on GPUs.
    #[serde(default)]
    pub gpu_layers: u32,
    /// Layers there are: blocks, prediction blocks included, and the output layer.
    #[serde(default)]
    pub layers_total: u32,
    /// What the KV cache is kept as.
    #[serde(default)]
    pub kv: KvType,
    /// Where its bytes lie: the plan that was carried out.
    #[serde(default)]
    pub placement: Vec<PlannedDevice>,
}

/// An error for a person to act on and a program to match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// For programs.
    pub code: ProblemCode,
    /// For people: what happened, to what, what to do.
    pub message: String,
}

/// What kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The file is not there or cannot be read.
    FileUnreadable,
    /// The file is damaged or is no GGUF.
    FileInvalid,
    /// A kind of model, or of weights, that Hearth does not know.
    Unsupported,
    /// Not enough memory.
    OutOfMemory,
    /// A dataset cannot be read or teaches nothing.
    DataInvalid,
    /// An adapter is damaged or belongs to another model.
    AdapterInvalid,
    /// The loss is no number any more, or exploded.
    Diverged,
    /// The disk is full or cannot be written to.
    DiskFull,
    /// The chat template failed.
    Template,
    /// The prompt is longer than the context, whatever is left out.
    PromptTooLong,
    /// No model is loaded.
    NoModel,
    /// Another generation is under way.
    Busy,
    /// No such device.
    NoDevice,
    /// The request made no sense.
    BadRequest,
    /// The worker ended unexpectedly, and not for want of memory (said by the client, never by a worker).
    WorkerDied,
    /// A defect of Hearth.
    Internal,
}
