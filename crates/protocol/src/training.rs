//! What is said about fine-tuning: runs, the data they learn from, and the adapters that come of them.

use crate::{Problem, plan::GpuLayers};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Names one run, inspection or export; chosen by whoever asks, unique in the life of the worker.
pub type RunId = u64;

/// What a worker can be asked about fine-tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TrainingRequest {
    /// Reads a dataset as a run would, without training. Answered by [`TrainingEvent::Inspected`] or [`TrainingEvent::Failed`].
    Inspect(InspectRequest),
    /// Trains. Answered by [`TrainingEvent::Preparing`], [`TrainingEvent::Planned`], steps and evaluations, and last
    /// [`TrainingEvent::Finished`], [`TrainingEvent::Suspended`] or [`TrainingEvent::Failed`].
    Start(Box<TrainRequest>),
    /// Holds the run after the step under way. Answered by [`TrainingEvent::Paused`].
    Pause {
        /// Which.
        id: RunId,
    },
    /// Goes on with a run that is held. Answered by [`TrainingEvent::Resumed`].
    Resume {
        /// Which.
        id: RunId,
    },
    /// Ends the run after the step under way; what was learnt is kept. Answered by [`TrainingEvent::Finished`].
    Stop {
        /// Which.
        id: RunId,
    },
    /// Ends the run with a checkpoint after the step under way, and measures nothing more: the app closes. Answered by
    /// [`TrainingEvent::Suspended`].
    Suspend {
        /// Which.
        id: RunId,
    },
    /// Writes an adapter for other programs. Answered by [`TrainingEvent::Exported`] or [`TrainingEvent::Failed`].
    Export(ExportRequest),
}

/// A dataset to be looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// Comes back in the answer.
    pub id: RunId,
    /// The model whose tokenizer and template are used.
    pub model: PathBuf,
    /// The data.
    pub data: DataSource,
    /// Tokens an example may have; none: chosen from the data.
    pub sequence: Option<u32>,
    /// How many examples are shown token by token.
    pub previews: u32,
}

/// Where examples come from, and how they are to be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSource {
    /// A file of JSONL, JSON, CSV, Parquet, plain text or Markdown.
    pub path: PathBuf,
    /// Which column is what; none: recognised.
    pub mapping: Option<ColumnMapping>,
    /// Leave out lines that cannot be read, instead of refusing the file.
    pub skip_broken: bool,
}

/// Which columns of a table hold what. A column that is none is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ColumnMapping {
    /// Whole conversations (messages or ShareGPT).
    pub messages: Option<String>,
    /// Instructions for the whole example.
    pub system: Option<String>,
    /// What is asked.
    pub prompt: Option<String>,
    /// What the question is about (alpaca's `input`).
    pub input: Option<String>,
    /// What is answered.
    pub answer: Option<String>,
    /// Plain text to go on.
    pub text: Option<String>,
}

/// What came of looking at a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// `JSONL`, `CSV` and so on.
    pub container: String,
    /// How the examples are written: `messages`, `ShareGPT`, `alpaca`, `prompt and answer`, `text`.
    pub shape: String,
    /// The columns there are.
    pub columns: Vec<String>,
    /// Which of them is what, as recognised or as asked for.
    pub mapping: ColumnMapping,
    /// Whether a person should confirm the mapping.
    pub unsure: bool,
    /// Examples that can be used.
    pub examples: u32,
    /// Their tokens, template included.
    pub tokens: u64,
    /// Tokens that are learnt.
    pub trained_tokens: u64,
    /// Tokens of the median, the 95th percentile and the longest example.
    pub lengths: [u32; 3],
    /// The sequence length that a run would use.
    pub sequence: u32,
    /// Examples longer than it.
    pub truncated: u32,
    /// Some examples token by token.
    pub previews: Vec<Preview>,
    /// What a person should know, most serious first.
    pub findings: Vec<Finding>,
    /// Lines that cannot be read, the first hundred.
    pub broken: Vec<BrokenLine>,
    /// How many there are in all.
    pub broken_total: u32,
}

/// One example as the model will see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// Its line or row in the file, from 1.
    pub line: u32,
    /// Its text in pieces; neighbours with the same mark are one piece.
    pub pieces: Vec<Piece>,
    /// Tokens in all.
    pub tokens: u32,
}

/// A piece of an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// How many tokens.
    pub tokens: u32,
    /// Whether it is learnt.
    pub trained: bool,
    /// Whether the template put it there (special tokens, role names).
    pub template: bool,
    /// Whether it is cut off by the sequence length.
    pub cut: bool,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably not meant.
    Warning,
    /// A run would fail or teach the wrong thing.
    Error,
}

/// Something found in a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// For programs: `duplicates`, `near_duplicates`, `truncated`, `empty_answers`, `secrets`, `leaks`, `few`, `broken`, `retrieve`.
    pub kind: String,
    /// How serious it is.
    pub severity: Severity,
    /// What was found and what to do: whole sentences.
    pub message: String,
    /// Lines concerned, the first twenty.
    pub lines: Vec<u32>,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenLine {
    /// Its number, from 1.
    pub line: u32,
    /// Why, in one sentence.
    pub why: String,
}

/// A run to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainRequest {
    /// Names the run in every event about it.
    pub id: RunId,
    /// The GGUF file that is trained on; it is never written to.
    pub model: PathBuf,
    /// What it learns.
    pub data: DataSource,
    /// The folder that gets the adapter, the checkpoints and the log.
    pub out: PathBuf,
    /// How it learns.
    pub settings: TrainSettings,
    /// Go on from the checkpoint in `out`.
    pub resume: bool,
    /// CPU threads; none: the number of physical cores.
    pub threads: Option<u32>,
    /// A device's id or identity, or several with commas between; none: chosen by the engine.
    pub device: Option<String>,
    /// As [`crate::LoadRequest::build`].
    #[serde(default)]
    pub build: Option<String>,
    /// How many layers lie on a GPU.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// Leave the processor to whatever else runs.
    pub low_priority: bool,
}

/// How a run learns. What is none is chosen from the data and the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainSettings {
    /// Rank of the adapters.
    pub rank: u32,
    /// An adapter counts for alpha / rank (alpha / sqrt(rank) with [`TrainSettings::rslora`]).
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub alpha: f32,
    /// Share of an adapter's inputs that is dropped in training.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub dropout: f32,
    /// Rank-stabilised scaling. <https://arxiv.org/abs/2312.03732>
    pub rslora: bool,
    /// Linears with an adapter, as the file names them (`attn_q`) or as Hugging Face does (`q_proj`); empty: all.
    pub targets: Vec<String>,
    /// The highest learning rate.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub learning_rate: f32,
    /// How the learning rate falls.
    pub schedule: Schedule,
    /// Share of the steps in which it rises.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub warmup: f32,
    /// AdamW's decoupled decay. <https://arxiv.org/abs/1711.05101>
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub weight_decay: f32,
    /// The gradient is scaled down to this norm; 0: never.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub max_gradient_norm: f32,
    /// Times through the data, at most; none: chosen by how many examples there are.
    pub epochs: Option<f32>,
    /// Steps, at most.
    pub max_steps: Option<u32>,
    /// Examples that go through the model together.
    pub batch: Option<u32>,
    /// Batches a step.
    pub accumulation: Option<u32>,
    /// Tokens an example may have; longer ones are cut, which is said.
    pub sequence: Option<u32>,
    /// The same seed on the same machine gives the same run.
    pub seed: u64,
    /// Share of the examples that is not trained on but measured with.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub eval_split: f32,
    /// Steps from one evaluation to the next.
    pub eval_every: Option<u32>,
    /// Evaluations without a better loss after which the run ends; 0: never.
    pub patience: u32,
    /// Whether the order of the examples is drawn anew each epoch.
    pub shuffle: bool,
    /// An adapter to begin with.
    pub init: Option<PathBuf>,
    /// Steps from one checkpoint to the next.
    pub checkpoint_every: Option<u32>,
    /// Factors of the products.
    pub precision: Precision,
    /// What is kept for the backward.
    pub checkpointing: Checkpointing,
    /// Learn from everything, not only from answers.
    pub train_on_prompts: bool,
}

impl Default for TrainSettings {
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
        }
    }
}

/// How the learning rate falls after its rise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Along half a cosine, to nothing.
    #[default]
    Cosine,
    /// Along a line, to nothing.
    Linear,
    /// Not at all.
    Constant,
}

/// Factors of the products; sums are always f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// bf16 where every device that has layers multiplies it faster, f32 elsewhere.
    #[default]
    Auto,
    /// f32.
    F32,
    /// bf16, also where it is slower.
    Bf16,
}

/// What is kept of a forward pass for the backward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// As memory allows.
    #[default]
    Auto,
    /// The inputs of every operation.
    Operations,
    /// The inputs of every layer; each layer runs twice.
    Layers,
}

/// An adapter to be written for other programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportRequest {
    /// Comes back in the answer.
    pub id: RunId,
    /// The model that the adapter belongs to.
    pub model: PathBuf,
    /// The adapter.
    pub adapter: PathBuf,
    /// As what.
    pub format: ExportFormat,
    /// The file or folder to write.
    pub out: PathBuf,
    /// Reload what was written and compare.
    pub verify: bool,
}

/// What an adapter is written as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "snake_case")]
pub enum ExportFormat {
    /// An adapter for llama.cpp and Ollama.
    GgufLora,
    /// A folder for Hugging Face's PEFT.
    Peft,
    /// The whole model with the adapter in its weights.
    Gguf {
        /// The type of its weights (`Q4_K`, `Q8_0`, `F16`); none: each as it is in the base model.
        kind: Option<String>,
    },
}

/// An adapter that an answer is made with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdapterChoice {
    /// A run's folder, a PEFT folder or a GGUF adapter.
    pub path: PathBuf,
    /// What it counts for; 1 as it was trained.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub scale: f32,
}

/// What a worker says about fine-tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum TrainingEvent {
    /// The answer to [`TrainingRequest::Inspect`].
    Inspected(Box<Inspection>),
    /// The model or the data is being read.
    Preparing {
        /// From 0 to 1.
        #[serde(deserialize_with = "crate::number::or_nan")]
        fraction: f32,
        /// What is being done, in a few words for a person.
        stage: String,
    },
    /// What the run will do: from real steps on the longest examples.
    Planned(RunPlan),
    /// A step was made.
    Step(StepReport),
    /// The held-out examples were measured.
    Evaluated {
        /// After which step; 0 before the first.
        step: u32,
        /// Mean loss a token; none where it came to no number (NaN or infinite).
        loss: Option<f64>,
        /// Whether it is the best so far; the best adapter is kept. What is no number never is.
        best: bool,
    },
    /// Everything needed to go on from here is on the disk.
    Checkpointed {
        /// After which step.
        step: u32,
    },
    /// The run is held.
    Paused {
        /// After which step.
        step: u32,
    },
    /// It goes on.
    Resumed,
    /// The run has ended, and its adapter is on the disk.
    Finished(Box<Outcome>),
    /// The answer to [`TrainingRequest::Suspend`]: the run has ended, and can be resumed from its last checkpoint.
    Suspended,
    /// The answer to [`TrainingRequest::Export`].
    Exported {
        /// What was written.
        path: PathBuf,
        /// Bytes of it.
        bytes: u64,
        /// How reloading it went, if that was asked for.
        verification: Option<Verification>,
    },
    /// It could not be done; of a run, what was learnt up to the last checkpoint is kept.
    Failed(Problem),
}

/// What a run will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Examples trained on.
    pub examples: u32,
    /// Examples held out.
    pub eval_examples: u32,
    /// Examples that are cut to the sequence length.
    pub truncated: u32,
    /// Steps at most.
    pub steps: u32,
    /// Examples that go through the model together.
    pub batch: u32,
    /// Batches a step.
    pub accumulation: u32,
    /// Tokens an example may have.
    pub sequence: u32,
    /// Numbers that are trained.
    pub parameters: u64,
    /// The factors of its products.
    pub precision: Precision,
    /// What is kept for the backward.
    pub checkpointing: Checkpointing,
    /// CPU threads.
    pub threads: u32,
    /// The largest resident memory that the measured steps took, in bytes.
    pub peak_memory: u64,
    /// Seconds that a step takes, from those.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub step_seconds: f64,
    /// Seconds that the whole will take at most.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub total_seconds: f64,
    /// What a person should know. Whole sentences.
    pub notices: Vec<String>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Its number, from 1.
    pub step: u32,
    /// Steps at most.
    pub steps: u32,
    /// Times through the data so far.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub epoch: f32,
    /// Mean loss a trained token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub loss: f64,
    /// The learning rate of this step.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub learning_rate: f64,
    /// Norm of the gradient before it was clipped.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub gradient_norm: f64,
    /// Tokens that went through the model in this step.
    pub tokens: u32,
    /// The same a second.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Resident memory now, in bytes.
    pub memory: u64,
    /// Seconds left, about.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub seconds_left: f64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All steps were made.
    Completed,
    /// The held-out loss did not improve any more.
    EarlyStop,
    /// Someone asked for it.
    Stopped,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why.
    pub reason: EndReason,
    /// Steps made, those before a resume included.
    pub steps: u32,
    /// The step whose adapter is kept: the best by the held-out loss, or the last.
    pub best_step: u32,
    /// Mean loss of the last tenth of the steps.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub train_loss: f64,
    /// Held-out loss before the first step.
    pub eval_loss_before: Option<f64>,
    /// Held-out loss of the adapter that is kept.
    pub eval_loss: Option<f64>,
    /// Perplexity of a small general text, of the base model.
    pub general_before: Option<f64>,
    /// The same with the adapter: much more means that the model forgot.
    pub general_after: Option<f64>,
    /// Tokens a second over the steps.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Seconds that the steps took.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub seconds: f64,
    /// The largest resident memory, in bytes.
    pub peak_memory: u64,
    /// The adapter.
    pub adapter: PathBuf,
}

/// How what was exported compares with what was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Whether it may be used.
    pub passed: bool,
    /// Prompts that were replayed.
    pub prompts: u32,
    /// How far it is from what was trained: the mean Kullback-Leibler divergence of the tokens expected, in nats a token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub divergence: f64,
    /// How far the base model is from it, which is how much was taught, in nats a token.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub taught: f64,
    /// Prompts whose greedy answers are the same.
    pub same_text: u32,
    /// In a sentence.
    pub summary: String,
}
