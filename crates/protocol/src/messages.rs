//! The messages: plain data, one JSON object per line.

use crate::{
    device::DeviceInfo,
    draft::{DraftChoice, DraftKind, DraftStats},
    message::{Message, Part, TextKind},
    notice::Notice,
    plan::{GpuLayers, KvType, Measured, Plan, PlanRequest, PlannedDevice},
    problem::Problem,
    stage::Stage,
    thinking::{Thinking, ThinkingSupport},
    training::{
        AdapterChoice, ExportRequest, Exported, InspectRequest, Inspection, RunCommand, TrainRequest, TrainingEvent,
    },
    unsent::{CountUnsent, UnsentTokens},
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of this protocol. The client refuses a worker that reports another one in
/// [`Event::Ready`].
pub const PROTOCOL_VERSION: u32 = 16;

/// Id of a request: chosen by the client, from 1 up, each greater than those before.
pub type RequestId = u64;

/// Id of a conversation in the client's store.
pub type ConversationId = i64;

/// A line: a request with its id, or an event with the id of its request. [`Event::Ready`], which
/// answers no request, has id 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// The id.
    pub id: RequestId,
    /// The message.
    #[serde(flatten)]
    pub message: T,
}

/// A request to a worker. Any number may be in progress; each is answered by events, of which
/// exactly one, the last, satisfies [`Event::is_last`]. If it fails, that is [`Event::Failed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Cancels all generations and measurements, and loads a model in place of the loaded one.
    /// Answered by [`Event::Progress`], then [`Event::Loaded`]. If it fails, no model is loaded.
    Load(LoadRequest),
    /// Cancels all generations and measurements, unloads the model and releases its memory.
    /// Answered by [`Event::Done`].
    Unload,
    /// Generates an answer. Answered by [`Event::Started`], [`Event::Prefill`], [`Event::Text`] and
    /// [`Event::Finished`].
    Generate(GenerateRequest),
    /// Cancels a request, which is then answered by [`Event::Finished`] with
    /// [`FinishReason::Cancelled`], or by [`Event::Failed`] with [`ProblemCode::Cancelled`]. Not
    /// answered itself.
    Cancel {
        /// Its id.
        request: RequestId,
    },
    /// Counts a conversation's tokens, template included. Answered by [`Event::Counted`].
    Count {
        /// The conversation.
        messages: Vec<Message>,
    },
    /// Counts the tokens of a message that is being written, also during a generation. Cancels the
    /// count before it. Answered by [`Event::UnsentCounted`].
    CountUnsent(Box<CountUnsent>),
    /// Lists the devices. Answered by [`Event::Devices`].
    Devices,
    /// Runs the device check: compares a device's results with the CPU's and benchmarks the device,
    /// in every build of Hearth that can use it. Answered by [`Event::Devices`]; the result is part
    /// of [`DeviceInfo`] from then on.
    Check {
        /// The device's id or identity.
        device: String,
    },
    /// Plans a model without loading it: the build and the devices that are predicted to answer
    /// soonest, and the memory on each. Answered by [`Event::Progress`] during device checks, then
    /// [`Event::Planned`], also during a generation.
    Plan(PlanRequest),
    /// Benchmarks the loaded model, once no generation is in progress. Answered by
    /// [`Event::Progress`], then [`Event::Measured`].
    Measure,
    /// Removes a conversation from the prompt cache ([`LoadRequest::prompt_cache`]), after all
    /// earlier requests. Answered by [`Event::Done`].
    RemovePromptCache {
        /// The conversation.
        conversation: ConversationId,
    },
    /// Sets the size limit of the prompt cache; least recently used files above it are removed.
    /// Answered by [`Event::Done`].
    SetPromptCacheLimit {
        /// See [`PromptCacheFolder::max_bytes`].
        max_bytes: u64,
    },
    /// Reads a dataset like a run, without training. Answered by [`Event::Inspected`].
    Inspect(InspectRequest),
    /// Trains. Answered by [`Event::Training`], whose last is [`TrainingEvent::Finished`] or
    /// [`TrainingEvent::Suspended`].
    Train(Box<TrainRequest>),
    /// Controls a run. Not answered itself.
    ControlRun {
        /// Its [`Request::Train`].
        run: RequestId,
        /// The command.
        command: RunCommand,
    },
    /// Exports an adapter. Answered by [`Event::Progress`], then [`Event::Exported`].
    Export(ExportRequest),
    /// Shuts the worker down. Closing the worker's standard input does the same. Not answered.
    Shutdown,
}

impl Request {
    /// Whether events answer it.
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::Cancel { .. } | Self::ControlRun { .. } | Self::Shutdown)
    }

    /// Whether [`Request::Cancel`] ends it soon.
    pub fn is_cancellable(&self) -> bool {
        matches!(
            self,
            Self::Load(_)
                | Self::Generate(_)
                | Self::CountUnsent(_)
                | Self::Measure
                | Self::Inspect(_)
                | Self::Export(_)
        )
    }
}

/// A model to load, with its settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The GGUF file (the first, of a split one).
    pub path: PathBuf,
    /// Context in tokens. `None` means automatic: the model's own, at most
    /// [`LoadRequest::DEFAULT_CONTEXT`] and the longest whose KV cache fits a GPU's buffer binding.
    pub context: Option<u32>,
    /// CPU threads. `None` means the number of physical cores.
    pub threads: Option<u32>,
    /// Id or identity of a device from [`Event::Devices`], or several separated by commas. `None`
    /// means automatic.
    pub device: Option<String>,
    /// The build of Hearth to use the GPU with, see [`BackendOption::build`]. `None` means the
    /// fastest measured. Used by the program that starts the worker; the worker never sees it.
    #[serde(skip)]
    pub build: Option<String>,
    /// Number of layers on GPUs.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// Element type of the KV cache.
    #[serde(default)]
    pub kv: KvType,
    /// The draft of speculative decoding.
    #[serde(default)]
    pub draft: DraftChoice,
    /// Fixed number of tokens that the draft proposes at a time, for tests and measurements. `None`
    /// means automatic, by their measured cost.
    #[serde(default)]
    pub draft_tokens: Option<u32>,
    /// The prompt cache: where KV cells are saved, so that a conversation continues without
    /// prefill. `None` disables it.
    #[serde(default)]
    pub prompt_cache: Option<PromptCacheFolder>,
}

/// The folder of the prompt cache. Each conversation has a subfolder named by its id, which the
/// client removes together with the conversation. Any of its files may be removed at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptCacheFolder {
    /// The folder; created on demand.
    pub path: PathBuf,
    /// Size limit in bytes; the least recently used files are removed first. 0 saves nothing.
    pub max_bytes: u64,
}

impl LoadRequest {
    /// The largest automatic context, in tokens.
    pub const DEFAULT_CONTEXT: u32 = 8192;

    /// Whether it loads this file: the model's or its draft's.
    pub fn uses(&self, path: &Path) -> bool {
        self.path == path || self.draft.path().is_some_and(|draft| draft == path)
    }
}

/// Sampling parameters. The aliases are the keys in the model catalog. Temperature 0 is greedy: of
/// the others only the penalties, DRY, the logit bias and the banned strings then have an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(default, rename_all = "camelCase")]
pub struct SamplingParams {
    /// 0 means greedy.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub temperature: f32,
    /// Top-k: the number of most likely tokens to keep; 0 disables it.
    #[serde(alias = "top_k")]
    pub top_k: u32,
    /// Nucleus sampling: keep the most likely tokens whose probabilities add up to p; 1 disables
    /// it.
    #[serde(alias = "top_p", deserialize_with = "crate::number::or_nan")]
    pub top_p: f32,
    /// Min-p: tokens less likely than this fraction of the most likely one are dropped; 0 disables
    /// it.
    #[serde(alias = "min_p", deserialize_with = "crate::number::or_nan")]
    pub min_p: f32,
    /// Divides the logits of tokens seen in the last [`SamplingParams::repeat_last_n`]; 1 disables
    /// it.
    #[serde(alias = "repetition_penalty", deserialize_with = "crate::number::or_nan")]
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit for each time it was seen; 0 disables it.
    #[serde(alias = "frequency_penalty", deserialize_with = "crate::number::or_nan")]
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of a token that was seen; 0 disables it.
    #[serde(alias = "presence_penalty", deserialize_with = "crate::number::or_nan")]
    pub presence_penalty: f32,
    /// Window of the penalties, in tokens.
    #[serde(alias = "repeat_last_n")]
    pub repeat_last_n: u32,
    /// Locally typical sampling: keep the tokens whose surprise is closest to the expected one,
    /// until their probabilities add up to p; 1 disables it.
    #[serde(alias = "typical_p", deserialize_with = "crate::number::or_nan")]
    pub typical_p: f32,
    /// Top-nσ: keep tokens within this many standard deviations of the highest logit; 0 or less
    /// disables it.
    #[serde(alias = "top_n_sigma", deserialize_with = "crate::number::or_nan")]
    pub top_n_sigma: f32,
    /// XTC: the chance, per token, that the most likely tokens are excluded; 0 disables it.
    #[serde(alias = "xtc_probability", deserialize_with = "crate::number::or_nan")]
    pub xtc_probability: f32,
    /// XTC excludes all tokens at least this likely but the least likely of them; more than 0.5
    /// disables it.
    #[serde(alias = "xtc_threshold", deserialize_with = "crate::number::or_nan")]
    pub xtc_threshold: f32,
    /// DRY: scale of the penalty for tokens that would continue a repetition; 0 disables it.
    #[serde(alias = "dry_multiplier", deserialize_with = "crate::number::or_nan")]
    pub dry_multiplier: f32,
    /// DRY: growth of the penalty with each further repeated token.
    #[serde(alias = "dry_base", deserialize_with = "crate::number::or_nan")]
    pub dry_base: f32,
    /// DRY: length in tokens from which a repetition is penalized.
    #[serde(alias = "dry_allowed_length")]
    pub dry_allowed_length: u32,
    /// DRY: window in tokens; 0 disables it.
    #[serde(alias = "dry_last_n")]
    pub dry_last_n: u32,
    /// DRY: texts at which a repetition ends.
    #[serde(alias = "dry_breakers")]
    pub dry_breakers: Vec<String>,
    /// Mirostat 2: keeps the surprise of the tokens near a target, in place of all filters but the
    /// temperature.
    pub mirostat: bool,
    /// Mirostat: target surprise, in bits.
    #[serde(alias = "mirostat_tau", deserialize_with = "crate::number::or_nan")]
    pub mirostat_tau: f32,
    /// Mirostat: learning rate.
    #[serde(alias = "mirostat_eta", deserialize_with = "crate::number::or_nan")]
    pub mirostat_eta: f32,
    /// Dynamic temperature: the temperature varies by this much up and down, with the entropy of
    /// the tokens; 0 disables it.
    #[serde(alias = "dynatemp_range", deserialize_with = "crate::number::or_nan")]
    pub dynatemp_range: f32,
    /// Dynamic temperature: exponent of the normalized entropy.
    #[serde(alias = "dynatemp_exponent", deserialize_with = "crate::number::or_nan")]
    pub dynatemp_exponent: f32,
    /// Added to the logits of tokens.
    #[serde(alias = "logit_bias")]
    pub logit_bias: Vec<LogitBias>,
    /// Texts that the answer never contains; case matters.
    #[serde(alias = "banned_strings")]
    pub banned_strings: Vec<String>,
    /// The same seed gives the same answer on a CPU. `None` draws a random one.
    pub seed: Option<u64>,
}

impl Default for SamplingParams {
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
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_last_n: 64,
            dry_breakers: ["\n", ":", "\"", "*"].map(String::from).into(),
            mirostat: false,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            logit_bias: Vec::new(),
            banned_strings: Vec::new(),
            seed: None,
        }
    }
}

/// A bias on the logits of a token, or of the tokens of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(untagged, deny_unknown_fields)]
pub enum LogitBias {
    /// All tokens of a text; a special token if the text is its name, such as `<|im_end|>`.
    Text {
        /// The text.
        text: String,
        /// Added to their logits. `None` bans them.
        bias: Option<f32>,
    },
    /// One token.
    Id {
        /// Its id.
        id: u32,
        /// Added to its logit. `None` bans it.
        bias: Option<f32>,
    },
}

/// A generation to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// The prompt.
    pub prompt: Prompt,
    /// Sampling parameters.
    pub sampling: SamplingParams,
    /// Maximum tokens to generate. `None` means until the model stops or the context is full.
    pub max_tokens: Option<u32>,
    /// The stop strings, which are not part of the answer.
    pub stop: Vec<String>,
    /// Repeated tokens after which the answer ends with [`FinishReason::Repetition`], unless the
    /// prompt asks for the repetition. `None`: it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repeated: Option<u32>,
    /// Whether generation continues after an end of turn, for benchmarks.
    #[serde(default)]
    pub ignore_end: bool,
    /// Adapters to apply to the loaded model.
    #[serde(default)]
    pub adapters: Vec<AdapterChoice>,
    /// The conversation it belongs to. `None` means that the prompt cache saves nothing of it.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    /// Thinking, for [`Prompt::Chat`] and [`Prompt::Continue`].
    #[serde(default)]
    pub thinking: Thinking,
    /// A JSON schema that the answer follows, after its thought; see
    /// [`parse_json_schema`](crate::parse_json_schema).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<String>,
    /// Whether the machine runs on battery: decode may then be somewhat slower if it needs fewer
    /// threads, unless [`LoadRequest::threads`] is set. The value of the latest request applies to
    /// all requests.
    #[serde(default)]
    pub on_battery: bool,
    /// Whether it runs only while no other generation waits or runs. It keeps no session, takes no
    /// memory from sessions of others, and has no draft. If that leaves no room, or too many tokens
    /// of its prompt would have to be read, it ends with [`FinishReason::Cancelled`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

impl GenerateRequest {
    /// A generation with the default sampling, until the model stops or the context is full.
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            sampling: SamplingParams::default(),
            max_tokens: None,
            stop: Vec::new(),
            max_repeated: None,
            ignore_end: false,
            adapters: Vec::new(),
            conversation: None,
            thinking: Thinking::default(),
            json_schema: None,
            on_battery: false,
            background: false,
        }
    }
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Messages, rendered with the model's chat template.
    Chat(Vec<Message>),
    /// Messages whose last, an answer, is continued: its turn is left open.
    Continue {
        /// The messages.
        messages: Vec<Message>,
        /// The tokens of the answer so far ([`Summary::ids`]), with which it continues token for
        /// token. If they do not decode to its parts, the text is tokenized instead.
        #[serde(default)]
        ids: Vec<u32>,
    },
    /// Text, used verbatim.
    Raw(String),
    /// Tokens, used verbatim.
    Tokens(Vec<u32>),
}

/// An event from a worker: a part of the answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The first event of a worker.
    Ready {
        /// See [`PROTOCOL_VERSION`].
        protocol: u32,
        /// Hearth's version.
        version: String,
    },
    /// Progress of a load, a plan, a measurement or an export.
    Progress {
        /// From 0 to 1.
        #[serde(deserialize_with = "crate::number::or_nan")]
        fraction: f32,
        /// The current stage.
        stage: Stage,
    },
    /// The model is loaded.
    Loaded(ModelInfo),
    /// A generation has started.
    Started {
        /// Tokens of the prompt, template included, without dropped turns.
        prompt_tokens: u32,
        /// Prompt tokens found in the KV cache.
        cached_tokens: u32,
        /// Turns dropped because the context is too short.
        dropped: Option<DroppedTurns>,
        /// The parts of a continued answer, to which its next text is appended: without the text
        /// that was held back when it ended, which is emitted again. `None` means the parts of the
        /// request.
        #[serde(default)]
        so_far: Option<Vec<Part>>,
    },
    /// Progress of prefill.
    Prefill {
        /// Tokens processed.
        done: u32,
        /// Total tokens.
        total: u32,
    },
    /// A piece of the answer, in whole characters.
    Text {
        /// Whether it is a thought.
        #[serde(default)]
        kind: TextKind,
        /// The piece.
        text: String,
        /// Tokens generated so far.
        tokens: u32,
    },
    /// The text since the answer's last thought, if any, is a thought as well: the model has ended
    /// one that it never began. See [`fold_text`](crate::fold_text).
    Folded,
    /// A generation has ended: reason, token counts and speed.
    Finished(Summary),
    /// The answer to [`Request::Count`].
    Counted {
        /// Token count, template included.
        tokens: u32,
    },
    /// The answer to [`Request::CountUnsent`].
    UnsentCounted {
        /// Token counts. `None` means that the worker does not have the text or the conversation
        /// that the request refers to, so that it has to be sent in full.
        tokens: Option<UnsentTokens>,
    },
    /// The answer to [`Request::Devices`] and [`Request::Check`].
    Devices {
        /// All devices; `cpu` always exists.
        devices: Vec<DeviceInfo>,
    },
    /// The answer to [`Request::Plan`].
    Planned(Plan),
    /// The answer to [`Request::Measure`].
    Measured(Measured),
    /// The answer to [`Request::Inspect`].
    Inspected(Box<Inspection>),
    /// The answer to [`Request::Export`].
    Exported(Exported),
    /// A fine-tuning event.
    Training {
        /// The event.
        event: TrainingEvent,
    },
    /// A request without a result is done.
    Done,
    /// The request failed. A run can be resumed from its last checkpoint.
    Failed(Problem),
}

impl Event {
    /// Whether it is the last of its request.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Ready { .. } | Self::Progress { .. } => false,
            Self::Started { .. } | Self::Prefill { .. } | Self::Text { .. } | Self::Folded => false,
            Self::Training { event } => {
                matches!(event, TrainingEvent::Finished(_) | TrainingEvent::Suspended)
            }
            _ => true,
        }
    }
}

/// Turns dropped from the context: the oldest ones, never the system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DroppedTurns {
    /// Number of messages dropped from the beginning (after the system prompt).
    pub messages: u32,
    /// Their tokens.
    pub tokens: u32,
}

/// Statistics of a finished generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens generated, without those that a continued answer had.
    pub tokens: u32,
    /// Ids of the answer's tokens, with those that a continued answer had.
    pub ids: Vec<u32>,
    /// The prefill speed in tokens/s, without cached tokens.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub prompt_tokens_per_second: f64,
    /// The decode speed in tokens/s, from the first token to the last.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Time to first token, in seconds.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub first_token_seconds: f64,
    /// Tokens of the context in use.
    pub context_used: u32,
    /// Context size in tokens.
    pub context: u32,
    /// Statistics of the draft. `None` means that the model has no draft.
    #[serde(default)]
    pub draft: Option<DraftStats>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// End of turn, or a stop string.
    Stop,
    /// The maximum number of tokens was reached.
    Length,
    /// The context is full.
    ContextFull,
    /// The answer repeats itself; see [`GenerateRequest::max_repeated`].
    Repetition,
    /// Cancelled by the client.
    Cancelled,
}

/// Properties of the loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The file.
    pub path: PathBuf,
    /// The model's name from its metadata.
    pub name: String,
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// The file's quantization: `Q4_1`.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the file.
    pub file_size: u64,
    /// Transformer layers.
    pub layers: u32,
    /// Allocated context in tokens.
    pub context: u32,
    /// Context in tokens that the model was trained with.
    pub context_trained: u32,
    /// Id of the device that computes the output layer.
    pub device: String,
    /// CPU threads in use.
    pub threads: u32,
    /// The load time in seconds.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub load_seconds: f64,
    /// Notices for the user, for example that the file has no chat template.
    pub notices: Vec<Notice>,
    /// Layers on GPUs.
    #[serde(default)]
    pub gpu_layers: u32,
    /// Total layers: transformer layers, prediction layers included, and the output layer.
    #[serde(default)]
    pub layers_total: u32,
    /// Element type of the KV cache.
    #[serde(default)]
    pub kv: KvType,
    /// The memory plan of the loaded model.
    #[serde(default)]
    pub placement: Vec<PlannedDevice>,
    /// The draft of speculative decoding. `None` means plain decoding.
    #[serde(default)]
    pub draft: Option<DraftKind>,
    /// The thinking that its chat template can switch.
    #[serde(default)]
    pub thinking: ThinkingSupport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logit_bias_is_a_text_or_an_id() {
        let text_bias = |bias| LogitBias::Text {
            text: "a".to_owned(),
            bias,
        };
        for (json, expected) in [
            (r#"{"text":"a","bias":-1.5}"#, text_bias(Some(-1.5))),
            (r#"{"text":"a","bias":null}"#, text_bias(None)),
            (r#"{"id":7,"bias":2.0}"#, LogitBias::Id { id: 7, bias: Some(2.0) }),
        ] {
            assert_eq!(serde_json::from_str::<LogitBias>(json).expect("valid"), expected);
            assert_eq!(serde_json::to_string(&expected).expect("it is written"), json);
        }
        for json in [
            r#"{"bias":1}"#,
            r#"{"id":-1,"bias":1}"#,
            r#"{"id":7,"text":"a","bias":1}"#,
            "7",
        ] {
            assert!(serde_json::from_str::<LogitBias>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn parameters_that_are_absent_are_neutral() {
        let json = r#"{"temperature":0.5,"topK":20,"dry_multiplier":0.8}"#;
        let expected = SamplingParams {
            temperature: 0.5,
            top_k: 20,
            dry_multiplier: 0.8,
            ..SamplingParams::default()
        };
        assert_eq!(serde_json::from_str::<SamplingParams>(json).expect("valid"), expected);
    }
}
