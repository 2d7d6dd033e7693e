//! Wire types of fine-tuning: datasets, runs and adapters.

use super::Problem;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A dataset, added by its path; Hearth never changes the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Dataset {
    /// Id, used in every command.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// The file.
    pub path: String,
    /// When it was added.
    pub added_at: i64,
    /// Number of examples at the last inspection.
    pub examples: Option<u32>,
    /// Why it cannot be used, as a sentence. `None` means it can.
    pub problem: Option<String>,
}

/// A sample dataset of the app; used by adding its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SampleDataset {
    /// Display name.
    pub name: String,
    /// The file.
    pub path: String,
    /// File size in bytes.
    pub size: u64,
}

/// Columns by role. `None` means that a role has no column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct ColumnMapping {
    /// Whole conversations (messages or ShareGPT).
    pub messages: Option<String>,
    /// System prompt.
    pub system: Option<String>,
    /// User message.
    pub prompt: Option<String>,
    /// Further input (alpaca's `input`).
    pub input: Option<String>,
    /// Answer.
    pub answer: Option<String>,
    /// Plain text for language modelling.
    pub text: Option<String>,
}

/// Result of inspecting a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// `JSONL`, `CSV` and so on.
    pub container: String,
    /// Format of the examples: `messages`, `ShareGPT`, `alpaca`, `prompt and answer`, `text`.
    pub shape: String,
    /// All columns.
    pub columns: Vec<String>,
    /// Column mapping, as recognised or as requested.
    pub mapping: ColumnMapping,
    /// Whether a person should confirm the mapping.
    pub unsure: bool,
    /// Number of usable examples.
    pub examples: u32,
    /// Tokens of the examples, chat template included.
    pub tokens: u64,
    /// Tokens that count towards the loss.
    pub trained_tokens: u64,
    /// Lengths in tokens of the median, the 95th percentile and the longest example.
    pub lengths: [u32; 3],
    /// Max sequence length of a run.
    pub sequence: u32,
    /// Number of examples longer than that.
    pub truncated: u32,
    /// Previews of some examples.
    pub previews: Vec<Preview>,
    /// Findings, most severe first.
    pub findings: Vec<Finding>,
    /// The first hundred malformed lines.
    pub broken: Vec<BrokenLine>,
    /// Number of malformed lines.
    pub broken_total: u32,
}

/// An example as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Line or row in the file, from 1.
    pub line: u32,
    /// Text in pieces; adjacent tokens with equal flags form one piece.
    pub pieces: Vec<Piece>,
    /// Total tokens.
    pub tokens: u32,
}

/// A piece of an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Number of tokens.
    pub tokens: u32,
    /// Whether it counts towards the loss.
    pub trained: bool,
    /// Whether it comes from the chat template (special tokens, role names).
    pub template: bool,
    /// Whether the max sequence length truncates it.
    pub cut: bool,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A note.
    Note,
    /// Probably a mistake.
    Warning,
    /// A run would fail or train on the wrong tokens.
    Error,
}

/// A finding about a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Code: `duplicates`, `near_duplicates`, `truncated`, `empty_answers`, `secrets`, `leaks`,
    /// `few`, `broken`, `retrieve`.
    pub kind: String,
    /// Severity.
    pub severity: Severity,
    /// The finding and what to do, as sentences.
    pub message: String,
    /// The first twenty lines concerned.
    pub lines: Vec<u32>,
}

/// A malformed line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct BrokenLine {
    /// Line number, from 1.
    pub line: u32,
    /// The reason, in one sentence.
    pub why: String,
}

/// Learning rate schedule after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Schedule {
    /// Half a cosine, to zero.
    Cosine,
    /// Linear, to zero.
    Linear,
    /// Constant.
    Constant,
}

/// Precision of matrix products' factors; accumulation is always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// bf16 if it is faster on every device with layers, else f32.
    Auto,
    /// f32.
    F32,
    /// bf16, even if slower.
    Bf16,
}

/// Gradient checkpointing: the activations saved for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Checkpointing {
    /// Chosen by free memory.
    Auto,
    /// The inputs of every operation.
    Operations,
    /// The inputs of every layer; each layer's forward runs twice.
    Layers,
}

/// Settings of a run. `None` means chosen from the data and the hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct TrainSettings {
    /// LoRA rank.
    pub rank: u32,
    /// LoRA alpha: the scale is alpha / rank (alpha / sqrt(rank) with `rslora`).
    pub alpha: f32,
    /// LoRA dropout: probability of dropping an adapter's input.
    pub dropout: f32,
    /// Rank-stabilised LoRA scaling.
    pub rslora: bool,
    /// Target modules (`attn_q`, `q_proj`). Empty means all linear layers.
    pub targets: Vec<String>,
    /// Peak learning rate.
    pub learning_rate: f32,
    /// Learning rate schedule.
    pub schedule: Schedule,
    /// Warm-up ratio: the fraction of steps with a rising learning rate.
    pub warmup: f32,
    /// AdamW's weight decay.
    pub weight_decay: f32,
    /// Gradient clipping norm; 0 disables it.
    pub max_gradient_norm: f32,
    /// Maximum epochs. `None` means chosen by the number of examples.
    pub epochs: Option<f32>,
    /// Maximum steps.
    pub max_steps: Option<u32>,
    /// Batch size in examples.
    pub batch: Option<u32>,
    /// Gradient accumulation: batches per step.
    pub accumulation: Option<u32>,
    /// Max sequence length in tokens; longer examples are truncated, with a notice.
    pub sequence: Option<u32>,
    /// Seed: reproducible on the same machine.
    pub seed: u64,
    /// Validation split: the fraction of examples for evaluation only.
    pub eval_split: f32,
    /// Steps between evaluations.
    pub eval_every: Option<u32>,
    /// Early stopping: evaluations without improvement; 0 disables it.
    pub patience: u32,
    /// Whether examples are shuffled each epoch.
    pub shuffle: bool,
    /// Id of the initial adapter.
    pub init: Option<i64>,
    /// Steps between checkpoints.
    pub checkpoint_every: Option<u32>,
    /// Precision of matrix products' factors.
    pub precision: Precision,
    /// Gradient checkpointing.
    pub checkpointing: Checkpointing,
    /// Whether prompts count towards the loss, too.
    pub train_on_prompts: bool,
}

/// A new run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NewRun {
    /// Display name. `None` means made from those of dataset and model.
    pub name: Option<String>,
    /// Id of the base model; its file is never changed.
    pub model: String,
    /// Id of the dataset.
    pub dataset: i64,
    /// Column mapping. `None` means recognised.
    pub mapping: Option<ColumnMapping>,
    /// Skip malformed lines instead of refusing the file.
    pub skip_broken: bool,
    /// Settings.
    pub settings: TrainSettings,
}

/// The plan of a run, measured by a dry run on the longest examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// Training examples.
    pub examples: u32,
    /// Examples in the validation split.
    pub eval_examples: u32,
    /// Truncated examples.
    pub truncated: u32,
    /// Maximum steps.
    pub steps: u32,
    /// Batch size in examples.
    pub batch: u32,
    /// Gradient accumulation: batches per step.
    pub accumulation: u32,
    /// Max sequence length in tokens.
    pub sequence: u32,
    /// Trainable parameters.
    pub parameters: u64,
    /// Precision of matrix products' factors.
    pub precision: Precision,
    /// Gradient checkpointing.
    pub checkpointing: Checkpointing,
    /// CPU threads.
    pub threads: u32,
    /// Peak resident memory of the measured steps, in bytes.
    pub peak_memory: u64,
    /// Measured seconds per step.
    pub step_seconds: f64,
    /// Estimated seconds of the whole run, at most.
    pub total_seconds: f64,
    /// Notices, as sentences.
    pub notices: Vec<String>,
}

/// Why a run is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum PauseReason {
    /// Paused by a person, until a person resumes it.
    Person,
    /// The chat is busy; resumes automatically.
    Chat,
    /// The battery is low; resumes automatically on mains power.
    Battery,
}

/// State of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunState {
    /// Starting the worker, or loading the model and the data.
    Preparing {
        /// From 0 to 1.
        fraction: f32,
        /// The stage, in a few words.
        stage: String,
    },
    /// The plan is ready; the first step is running.
    Planned,
    /// Training.
    Running,
    /// Paused after a step.
    Paused {
        /// Why.
        why: PauseReason,
    },
    /// Finished; its adapter is saved.
    Finished,
    /// Stopped by a person; its adapter is saved if it made a step.
    Stopped,
    /// Failed; resuming retries from the last checkpoint.
    Failed {
        /// Why.
        problem: Problem,
    },
    /// Interrupted by the end of the worker or the app; resuming continues from the last
    /// checkpoint.
    Interrupted {
        /// What happened.
        problem: Problem,
    },
}

/// A step of a run: a point of its curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunPoint {
    /// The step, from 1.
    pub step: u32,
    /// Epochs so far.
    pub epoch: f32,
    /// Mean loss per trained token.
    pub loss: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm before clipping.
    pub gradient_norm: f64,
    /// Tokens per second in this step.
    pub tokens_per_second: f64,
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Estimated seconds left.
    pub seconds_left: f64,
}

/// An evaluation on the validation split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunEvaluation {
    /// Step after which it was made; 0 before the first.
    pub step: u32,
    /// Mean loss per token. `None` means NaN or infinite.
    pub loss: Option<f64>,
    /// Whether it is the best so far; the best adapter is saved.
    pub best: bool,
}

/// The curves of a run, in order of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunCurves {
    /// One point per step.
    pub points: Vec<RunPoint>,
    /// Evaluations.
    pub evaluations: Vec<RunEvaluation>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    /// All steps are complete.
    Completed,
    /// Early stopping: the validation loss no longer improved.
    EarlyStop,
    /// Stopped by a person.
    Stopped,
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Reason of the end.
    pub reason: EndReason,
    /// Steps, those before a resume included.
    pub steps: u32,
    /// Step of the saved adapter: the best by validation loss, or the last.
    pub best_step: u32,
    /// Mean loss of the last tenth of the steps.
    pub train_loss: f64,
    /// Validation loss before the first step.
    pub eval_loss_before: Option<f64>,
    /// Validation loss of the saved adapter.
    pub eval_loss: Option<f64>,
    /// The base model's perplexity on a small general text.
    pub general_before: Option<f64>,
    /// The same with the adapter; much higher means catastrophic forgetting.
    pub general_after: Option<f64>,
    /// Tokens per second over the steps.
    pub tokens_per_second: f64,
    /// Seconds of the steps.
    pub seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_memory: u64,
}

/// A fine-tuning run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Id, used in every command.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// Id of the base model.
    pub model: String,
    /// The model's name when the run was created.
    pub model_name: String,
    /// Id of the dataset. `None` means that it was removed for good.
    pub dataset: Option<i64>,
    /// The dataset's name when the run was created.
    pub dataset_name: String,
    /// Settings.
    pub settings: TrainSettings,
    /// State.
    pub state: RunState,
    /// Plan, once known.
    pub plan: Option<RunPlan>,
    /// Last step so far.
    pub last: Option<RunPoint>,
    /// Step of the last checkpoint. `None` means that resuming starts again.
    pub checkpoint: Option<u32>,
    /// Outcome, once ended.
    pub outcome: Option<Outcome>,
    /// Id of its adapter.
    pub adapter: Option<i64>,
    /// Creation time.
    pub created_at: i64,
    /// End time.
    pub ended_at: Option<i64>,
}

/// Votes of blind comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Votes {
    /// For the answer with the adapter.
    pub tuned: u32,
    /// For the base model's answer.
    pub base: u32,
}

/// A LoRA adapter of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Adapter {
    /// Id, used in every command.
    pub id: i64,
    /// Display name.
    pub name: String,
    /// Id of its run. `None` means imported.
    pub run: Option<i64>,
    /// Id of the base model.
    pub model: String,
    /// Name of the base model.
    pub model_name: String,
    /// File or folder.
    pub path: String,
    /// Time of creation or import.
    pub created_at: i64,
    /// Outcome of its run.
    pub outcome: Option<Outcome>,
    /// Votes of comparisons.
    pub votes: Votes,
    /// Why it cannot be used, as a sentence. `None` means it can.
    pub problem: Option<String>,
}

/// An adapter to apply, and its scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct AdapterChoice {
    /// Id of the adapter.
    pub adapter: i64,
    /// Scale; 1 is as trained.
    pub scale: f32,
}

/// An adapter applied to an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct UsedAdapter {
    /// Id; the adapter may be deleted.
    pub adapter: i64,
    /// Name at that time.
    pub name: String,
    /// Scale.
    pub scale: f32,
}

/// A thumb up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Thumb {
    /// A good answer.
    Up,
    /// A bad answer.
    Down,
}

/// A person's rating of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Rating {
    /// Thumb.
    pub thumb: Thumb,
    /// The corrected answer.
    pub correction: Option<String>,
}

/// Format of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExportFormat {
    /// A GGUF adapter file, for llama.cpp and Ollama.
    GgufLora,
    /// A folder for Hugging Face PEFT.
    Peft,
    /// A GGUF model file with the adapter merged into its weights.
    Gguf {
        /// Quant type of the weights (`Q4_K`, `IQ4_XS`, `Q8_0`, `F16`). `None` means that of each
        /// base weight.
        kind: Option<String>,
    },
}

/// Options of exporting an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExportOptions {
    /// Id of the adapter.
    pub adapter: i64,
    /// Format.
    pub format: ExportFormat,
    /// The file or folder to write.
    pub out: String,
    /// Whether to reload the export and compare it.
    pub verify: bool,
}

/// Result of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    /// The file or folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Result of verifying, if requested.
    pub verification: Option<Verification>,
}

/// Comparison of an export with the trained adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Whether the export is usable.
    pub passed: bool,
    /// Number of prompts compared.
    pub prompts: u32,
    /// Mean Kullback-Leibler divergence of the export from the trained adapter, in nats per token.
    pub divergence: f64,
    /// Mean Kullback-Leibler divergence of the base model from the trained adapter, in nats per
    /// token.
    pub taught: f64,
    /// Prompts with identical greedy answers.
    pub same_text: u32,
    /// Summary in a sentence.
    pub summary: String,
}
