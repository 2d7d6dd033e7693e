//! Fine-tuning messages: runs, datasets and adapters.

use crate::{
    broken_line::BrokenLine, finding::Finding, notice::Notice, plan::GpuLayers, stage::Stage,
    verification::Verification,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A command to a run. A later variant takes precedence over an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// Trains, also after a pause. Confirmed by [`TrainingEvent::Resumed`].
    #[default]
    Resume,
    /// Waits after the current batch. Confirmed by [`TrainingEvent::Paused`].
    Pause,
    /// Ends after the current step and keeps the adapter. Confirmed by [`TrainingEvent::Finished`].
    Stop,
    /// Ends after the current step with a checkpoint and without an evaluation: the app closes.
    /// Confirmed by [`TrainingEvent::Suspended`].
    Suspend,
}

/// A dataset to inspect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// The model whose tokenizer and template are used.
    pub model: PathBuf,
    /// The data.
    pub data: DataSource,
    /// Maximum sequence length in tokens. `None` means chosen from the data.
    pub sequence: Option<u32>,
    /// See [`TrainSettings::system_prompt`].
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Number of examples to preview token by token.
    pub previews: u32,
}

/// Source and format of the examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSource {
    /// A file of JSONL, JSON, CSV, Parquet, plain text or Markdown.
    pub path: PathBuf,
    /// Column mapping. `None` means automatic.
    pub mapping: Option<ColumnMapping>,
    /// Whether malformed lines are skipped instead of refusing the file.
    pub skip_broken: bool,
}

/// Column mapping of a dataset. `None`: not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(default, rename_all = "camelCase")]
pub struct ColumnMapping {
    /// Whole conversations (messages or ShareGPT).
    pub messages: Option<String>,
    /// System prompt.
    pub system: Option<String>,
    /// Prompt.
    pub prompt: Option<String>,
    /// Context of the prompt (Alpaca's `input`).
    pub input: Option<String>,
    /// Answer.
    pub answer: Option<String>,
    /// Plain text to continue.
    pub text: Option<String>,
}

/// Result of inspecting a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The file format.
    pub container: Container,
    /// The format of the examples.
    pub shape: ExampleShape,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The column mapping, detected or as requested.
    pub mapping: ColumnMapping,
    /// Whether the user should confirm the mapping.
    pub unsure: bool,
    /// Usable examples.
    pub examples: u32,
    /// Their tokens, template included.
    pub tokens: u64,
    /// Tokens in the loss.
    pub trained_tokens: u64,
    /// Length in tokens: median, 95th percentile, maximum.
    pub lengths: [u32; 3],
    /// Maximum sequence length that a run would use.
    pub sequence: u32,
    /// Examples longer than it.
    pub truncated: u32,
    /// Examples, token by token.
    pub previews: Vec<Preview>,
    /// Findings, most serious first.
    pub findings: Vec<Finding>,
    /// Malformed lines, the first hundred.
    pub broken: Vec<BrokenLine>,
    /// Total number of malformed lines.
    pub broken_total: u32,
}

/// One example as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Line or row in the file, from 1.
    pub line: u32,
    /// Its text in pieces; adjacent tokens with the same flags form one piece.
    pub pieces: Vec<Piece>,
    /// Total tokens.
    pub tokens: u32,
}

/// A piece of an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: u32,
    /// Whether it is in the loss.
    pub trained: bool,
    /// Whether it comes from the chat template (special tokens, role names).
    pub template: bool,
    /// Whether it is truncated by the maximum sequence length.
    pub truncated: bool,
}

/// The file format of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Container {
    /// JSONL.
    Jsonl,
    /// JSON.
    Json,
    /// CSV, with commas or semicolons.
    Csv,
    /// TSV.
    Tsv,
    /// Parquet.
    Parquet,
    /// Plain text.
    Text,
    /// Markdown.
    Markdown,
}

/// The format of examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum ExampleShape {
    /// Conversations in OpenAI's format.
    Messages,
    /// Conversations in ShareGPT's format.
    ShareGpt,
    /// Prompts and answers with Alpaca's column names.
    Alpaca,
    /// Prompts and answers.
    PromptAnswer,
    /// Plain text.
    Text,
}

/// A run to start or resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainRequest {
    /// The base model's GGUF file; never written to.
    pub model: PathBuf,
    /// The dataset.
    pub data: DataSource,
    /// Output folder of the adapter, the checkpoints and the log.
    pub out: PathBuf,
    /// Training settings.
    pub settings: TrainSettings,
    /// Whether to resume from the checkpoint in `out`.
    pub resume: bool,
    /// CPU threads. `None` means the number of physical cores.
    pub threads: Option<u32>,
    /// Id or identity of a device, or several separated by commas. `None` means automatic.
    pub device: Option<String>,
    /// See [`crate::LoadRequest::build`].
    #[serde(skip)]
    pub build: Option<String>,
    /// Number of layers on GPUs.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// Whether to run at low CPU priority.
    pub low_priority: bool,
}

/// Settings of a run. `None` means automatic: chosen from the data and the machine. `Adapter` is
/// what names an adapter: for a worker its path, in an app its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(concrete(Adapter = i64)))]
#[serde(default, rename_all = "camelCase")]
#[serde(bound(deserialize = "Adapter: Deserialize<'de>"))]
pub struct TrainSettings<Adapter = PathBuf> {
    /// LoRA rank.
    pub rank: u32,
    /// LoRA alpha: the adapter's scale is alpha / rank (alpha / sqrt(rank) with
    /// [`TrainSettings::rslora`]).
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub alpha: f32,
    /// LoRA dropout, from 0 to 1.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub dropout: f32,
    /// Rank-stabilized scaling. <https://arxiv.org/abs/2312.03732>
    pub rslora: bool,
    /// Target modules, by GGUF name (`attn_q`) or Hugging Face name (`q_proj`); empty means all.
    pub targets: Vec<String>,
    /// Peak learning rate.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub learning_rate: f32,
    /// Learning rate schedule.
    pub schedule: Schedule,
    /// Warm-up, as a fraction of the steps.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub warmup: f32,
    /// AdamW's decoupled weight decay. <https://arxiv.org/abs/1711.05101>
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub weight_decay: f32,
    /// Gradient clipping: maximum norm; 0 disables it.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub max_gradient_norm: f32,
    /// Maximum epochs. `None`: chosen from the number of examples.
    pub epochs: Option<f32>,
    /// Maximum steps.
    pub max_steps: Option<u32>,
    /// Batch size in examples.
    pub batch: Option<u32>,
    /// Gradient accumulation: batches per step.
    pub accumulation: Option<u32>,
    /// Maximum sequence length in tokens; longer examples are truncated and reported.
    pub sequence: Option<u32>,
    /// Random seed. The same seed on the same machine gives the same run.
    pub seed: u64,
    /// Validation split, as a fraction of the examples.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub eval_split: f32,
    /// Steps between evaluations.
    pub eval_every: Option<u32>,
    /// Early stopping: evaluations without improvement; 0 disables it.
    pub patience: u32,
    /// Whether to shuffle the examples in each epoch.
    pub shuffle: bool,
    /// An adapter to start from.
    pub init: Option<Adapter>,
    /// Steps between checkpoints.
    pub checkpoint_every: Option<u32>,
    /// Precision of the GEMMs.
    pub precision: Precision,
    /// Gradient checkpointing.
    pub checkpointing: Checkpointing,
    /// Whether the loss includes prompts, too, not only answers.
    pub train_on_prompts: bool,
    /// System prompt of conversations in the data that have none. `None`: the chat template
    /// decides; empty: an empty system message.
    pub system_prompt: Option<String>,
}

impl<Adapter> Default for TrainSettings<Adapter> {
    fn default() -> Self {
        Self {
            rank: 16,
            alpha: 32.0,
            dropout: 0.0,
            rslora: false,
            targets: Vec::new(),
            learning_rate: 2e-4,
            schedule: Schedule::Cosine,
            warmup: 0.03,
            weight_decay: 0.0,
            max_gradient_norm: 1.0,
            epochs: None,
            max_steps: None,
            batch: None,
            accumulation: None,
            sequence: None,
            seed: 42,
            eval_split: 0.1,
            eval_every: None,
            patience: 3,
            shuffle: true,
            init: None,
            checkpoint_every: None,
            precision: Precision::Auto,
            checkpointing: Checkpointing::Auto,
            train_on_prompts: false,
            system_prompt: None,
        }
    }
}

impl<Adapter> TrainSettings<Adapter> {
    /// The same settings with another initial adapter, which may have another type of name.
    pub fn with_init<Other>(self, init: Option<Other>) -> TrainSettings<Other> {
        TrainSettings {
            rank: self.rank,
            alpha: self.alpha,
            dropout: self.dropout,
            rslora: self.rslora,
            targets: self.targets,
            learning_rate: self.learning_rate,
            schedule: self.schedule,
            warmup: self.warmup,
            weight_decay: self.weight_decay,
            max_gradient_norm: self.max_gradient_norm,
            epochs: self.epochs,
            max_steps: self.max_steps,
            batch: self.batch,
            accumulation: self.accumulation,
            sequence: self.sequence,
            seed: self.seed,
            eval_split: self.eval_split,
            eval_every: self.eval_every,
            patience: self.patience,
            shuffle: self.shuffle,
            init,
            checkpoint_every: self.checkpoint_every,
            precision: self.precision,
            checkpointing: self.checkpointing,
            train_on_prompts: self.train_on_prompts,
            system_prompt: self.system_prompt,
        }
    }
}

/// Learning rate schedule after warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Schedule {
    /// Half a cosine, to 0.
    #[default]
    Cosine,
    /// Linear, to 0.
    Linear,
    /// Constant.
    Constant,
}

/// Precision of the factors in GEMMs; accumulators are always f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// bf16 if it is faster on every device that has layers, else f32.
    #[default]
    Auto,
    /// f32.
    F32,
    /// bf16, even if slower.
    Bf16,
}

/// Gradient checkpointing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Checkpointing {
    /// Chosen by the available memory.
    #[default]
    Auto,
    /// Saves the activations of all layers at once: no layer is recomputed.
    Operations,
    /// Saves each layer's inputs and recomputes the layer in the backward pass.
    Layers,
}

/// An adapter to export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportRequest {
    /// The adapter's base model.
    pub model: PathBuf,
    /// The adapter.
    pub adapter: PathBuf,
    /// Output format.
    pub format: ExportFormat,
    /// The file or folder to write to.
    pub out: PathBuf,
    /// The name of a merged model. `None` means the base's name followed by the name of the
    /// adapter's folder.
    pub name: Option<String>,
    /// Whether to reload the export and compare it with the adapter.
    pub verify: bool,
}

/// Export format of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ExportFormat {
    /// An adapter for llama.cpp and Ollama.
    GgufLora,
    /// A PEFT folder.
    Peft,
    /// The whole model with the adapter merged.
    Gguf {
        /// Quantization of its weights (`Q4_K`, `Q8_0`, `F16`). `None`: as in the base model.
        kind: Option<String>,
    },
}

/// An adapter to apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterChoice {
    /// A run's folder, a PEFT folder or a GGUF adapter.
    pub path: PathBuf,
    /// Adapter scale; 1 is as trained.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub scale: f32,
}

/// A fine-tuning event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TrainingEvent {
    /// Progress of loading the model and the data.
    Preparing {
        /// From 0 to 1.
        #[serde(deserialize_with = "crate::number::or_nan")]
        fraction: f32,
        /// The current stage.
        stage: Stage,
    },
    /// The plan of the run, measured by a dry run on the longest examples.
    Planned(RunPlan),
    /// A finished step.
    Step(StepReport),
    /// An evaluation on the validation split.
    Evaluated {
        /// The step it follows; 0 before the first.
        step: u32,
        /// Mean loss per token. `None` means NaN or infinite.
        loss: Option<f64>,
        /// Whether it is the best so far; the best adapter is saved. NaN or infinite never is.
        best: bool,
    },
    /// A checkpoint was written.
    Checkpointed {
        /// The last step before it.
        step: u32,
    },
    /// The run is paused.
    Paused {
        /// The last step before the pause.
        step: u32,
    },
    /// The run continues.
    Resumed,
    /// The run has ended, and its adapter is saved.
    Finished(Box<Outcome>),
    /// The answer to [`RunCommand::Suspend`]: the run has ended, and can be resumed from its
    /// last checkpoint.
    Suspended,
}

/// A finished export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    /// The file or folder written.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The Modelfile for Ollama beside a GGUF.
    pub modelfile: Option<PathBuf>,
    /// Result of the verification, if requested.
    pub verification: Option<Verification>,
    /// Notices about the adapter.
    pub notices: Vec<Notice>,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// Training examples.
    pub examples: u32,
    /// Validation examples.
    pub eval_examples: u32,
    /// Examples truncated to the maximum sequence length.
    pub truncated: u32,
    /// Maximum steps.
    pub steps: u32,
    /// Batch size in examples.
    pub batch: u32,
    /// Gradient accumulation: batches per step.
    pub accumulation: u32,
    /// Maximum sequence length in tokens.
    pub sequence: u32,
    /// Trainable parameters.
    pub parameters: u64,
    /// Precision of its GEMMs.
    pub precision: Precision,
    /// Gradient checkpointing.
    pub checkpointing: Checkpointing,
    /// CPU threads.
    pub threads: u32,
    /// Peak resident memory of the dry run, in bytes.
    pub peak_memory: u64,
    /// Estimated seconds per step.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub step_seconds: f64,
    /// Estimated total seconds.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub total_seconds: f64,
    /// Notices for the user.
    #[serde(deserialize_with = "crate::notice::read_notices")]
    pub notices: Vec<Notice>,
}

/// Report of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step, from 1.
    pub step: u32,
    /// Maximum steps.
    pub steps: u32,
    /// Epochs so far.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub epoch: f32,
    /// Mean loss per token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub loss: f64,
    /// Learning rate of this step.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub learning_rate: f64,
    /// Gradient norm before clipping.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub gradient_norm: f64,
    /// Tokens processed in this step.
    pub tokens: u32,
    /// Tokens per second.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Estimated seconds left.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub seconds_left: f64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    /// All steps are done.
    Completed,
    /// The validation loss stopped improving.
    EarlyStop,
    /// Stopped by the user.
    Stopped,
}

/// Result of a finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Why it ended.
    pub reason: EndReason,
    /// Steps done, including those before a resume.
    pub steps: u32,
    /// The step of the saved adapter: the best by validation loss, or the last.
    pub best_step: u32,
    /// Mean loss over the last tenth of the steps.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub train_loss: f64,
    /// Validation loss before the first step.
    pub eval_loss_before: Option<f64>,
    /// Validation loss of the saved adapter.
    pub eval_loss: Option<f64>,
    /// Perplexity of the base model on a short general text.
    pub general_before: Option<f64>,
    /// The same with the adapter: a large increase means forgetting.
    pub general_after: Option<f64>,
    /// Tokens per second over the steps.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Duration of the steps in seconds.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_memory: u64,
    /// The adapter's folder; empty in outcomes that an earlier version stored.
    #[serde(default)]
    pub adapter: PathBuf,
}
