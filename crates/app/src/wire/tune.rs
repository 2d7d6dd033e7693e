//! The wire of fine-tuning: datasets, runs and adapters, as the window sees them.

use super::Problem;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A file that a person wants to teach a model from. It stays where it is, and stays the person's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Dataset {
    /// Names the dataset in every command.
    pub id: i64,
    /// For people.
    pub name: String,
    /// The file.
    pub path: String,
    /// When it was added.
    pub added_at: i64,
    /// How many examples it had when it was last looked at.
    pub examples: Option<u32>,
    /// Why it cannot be used, if so: the file is gone, say. A whole sentence.
    pub problem: Option<String>,
}

/// A dataset that came with the app; adding its path makes it one of the person's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct SampleDataset {
    /// For people.
    pub name: String,
    /// The file.
    pub path: String,
    /// Bytes of it.
    pub size: u64,
}

/// Which columns of a table hold what. A column that is none is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Its line or row in the file, from 1.
    pub line: u32,
    /// Its text in pieces; neighbours with the same marks are one piece.
    pub pieces: Vec<Piece>,
    /// Tokens in all.
    pub tokens: u32,
}

/// A piece of an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably not meant.
    Warning,
    /// A run would fail or teach the wrong thing.
    Error,
}

/// Something found in a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct BrokenLine {
    /// Its number, from 1.
    pub line: u32,
    /// Why, in one sentence.
    pub why: String,
}

/// How the learning rate falls after its rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Schedule {
    /// Along half a cosine, to nothing.
    Cosine,
    /// Along a line, to nothing.
    Linear,
    /// Not at all.
    Constant,
}

/// Factors of the products; sums are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// bf16 where every device that has layers multiplies it faster, f32 elsewhere.
    Auto,
    /// f32.
    F32,
    /// bf16, also where it is slower.
    Bf16,
}

/// What is kept of a forward pass for the backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Checkpointing {
    /// As memory allows.
    Auto,
    /// The inputs of every operation.
    Operations,
    /// The inputs of every layer; each layer runs twice.
    Layers,
}

/// How a run learns: the advanced drawer. What is none is chosen from the data and the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct TrainSettings {
    /// Rank of the adapters.
    pub rank: u32,
    /// An adapter counts for alpha / rank (alpha / sqrt(rank) with `rslora`).
    pub alpha: f32,
    /// Share of an adapter's inputs that is dropped in training.
    pub dropout: f32,
    /// Rank-stabilised scaling.
    pub rslora: bool,
    /// Linears with an adapter (`attn_q`, `q_proj`); empty: all.
    pub targets: Vec<String>,
    /// The highest learning rate.
    pub learning_rate: f32,
    /// How the learning rate falls.
    pub schedule: Schedule,
    /// Share of the steps in which it rises.
    pub warmup: f32,
    /// AdamW's decoupled decay.
    pub weight_decay: f32,
    /// The gradient is scaled down to this norm; 0: never.
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
    pub eval_split: f32,
    /// Steps from one evaluation to the next.
    pub eval_every: Option<u32>,
    /// Evaluations without a better loss after which the run ends; 0: never.
    pub patience: u32,
    /// Whether the order of the examples is drawn anew each epoch.
    pub shuffle: bool,
    /// Id of an adapter to begin with.
    pub init: Option<i64>,
    /// Steps from one checkpoint to the next.
    pub checkpoint_every: Option<u32>,
    /// Factors of the products.
    pub precision: Precision,
    /// What is kept for the backward.
    pub checkpointing: Checkpointing,
    /// Learn from everything, not only from answers.
    pub train_on_prompts: bool,
}

/// What a person asks for with the Train button.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NewRun {
    /// For people; none: made from the dataset's and the model's.
    pub name: Option<String>,
    /// Id of the model that is trained on; its file is never written to.
    pub model: String,
    /// Id of the dataset.
    pub dataset: i64,
    /// Which column is what; none: recognised.
    pub mapping: Option<ColumnMapping>,
    /// Leave out lines that cannot be read, instead of refusing the file.
    pub skip_broken: bool,
    /// How it learns.
    pub settings: TrainSettings,
}

/// What a run will do: from real steps on the longest examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
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
    pub step_seconds: f64,
    /// Seconds that the whole will take at most.
    pub total_seconds: f64,
    /// What a person should know. Whole sentences.
    pub notices: Vec<String>,
}

/// Why a run is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum PauseReason {
    /// A person paused it; it waits for a person.
    Person,
    /// A chat answer is being made; it goes on after that by itself.
    Chat,
    /// The battery is low; it goes on by itself when there is power.
    Battery,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunState {
    /// The worker is being started, or the model and the data are being read.
    Preparing {
        /// From 0 to 1.
        fraction: f32,
        /// What is being done, in a few words.
        stage: String,
    },
    /// The plan is known; the first step is under way.
    Planned,
    /// It learns.
    Running,
    /// It is held after a step.
    Paused {
        /// Why.
        why: PauseReason,
    },
    /// It has ended by itself; its adapter is there.
    Finished,
    /// A person stopped it; what it had learnt is there as an adapter, if it had made a step.
    Stopped,
    /// It could not go on; resuming tries again from its last checkpoint.
    Failed {
        /// Why.
        problem: Problem,
    },
    /// The worker or the app ended under it; resuming goes on from its last checkpoint.
    Interrupted {
        /// What happened.
        problem: Problem,
    },
}

/// One step of a run: a point of its curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunPoint {
    /// The step, from 1.
    pub step: u32,
    /// Times through the data so far.
    pub epoch: f32,
    /// Mean loss a trained token.
    pub loss: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// Norm of the gradient before it was clipped.
    pub gradient_norm: f64,
    /// Tokens a second in this step.
    pub tokens_per_second: f64,
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Seconds that were left, about.
    pub seconds_left: f64,
}

/// The held-out examples, measured once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunEvaluation {
    /// After which step; 0 before the first.
    pub step: u32,
    /// Mean loss a token; none where it came to no number (NaN or infinite).
    pub loss: Option<f64>,
    /// Whether it was the best so far; the best adapter is kept.
    pub best: bool,
}

/// The curves of a run, each in the order of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct RunCurves {
    /// One a step.
    pub points: Vec<RunPoint>,
    /// Now and then.
    pub evaluations: Vec<RunEvaluation>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    /// All steps were made.
    Completed,
    /// The held-out loss did not improve any more.
    EarlyStop,
    /// Someone asked for it.
    Stopped,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Why.
    pub reason: EndReason,
    /// Steps made, those before a resume included.
    pub steps: u32,
    /// The step whose adapter is kept: the best by the held-out loss, or the last.
    pub best_step: u32,
    /// Mean loss of the last tenth of the steps.
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
    pub tokens_per_second: f64,
    /// Seconds that the steps took.
    pub seconds: f64,
    /// The largest resident memory, in bytes.
    pub peak_memory: u64,
}

/// One fine-tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Names the run in every command.
    pub id: i64,
    /// For people.
    pub name: String,
    /// Id of the model that is trained on.
    pub model: String,
    /// Its name when the run was begun.
    pub model_name: String,
    /// Id of the dataset; none once it is forgotten for good.
    pub dataset: Option<i64>,
    /// Its name when the run was begun.
    pub dataset_name: String,
    /// How it learns.
    pub settings: TrainSettings,
    /// How far it is.
    pub state: RunState,
    /// What it does, once that is known.
    pub plan: Option<RunPlan>,
    /// Its last step so far.
    pub last: Option<RunPoint>,
    /// The step of the checkpoint that resuming goes on from; none: it would begin anew.
    pub checkpoint: Option<u32>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Id of the adapter that came of it.
    pub adapter: Option<i64>,
    /// When it was begun.
    pub created_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
}

/// Which answers people preferred when they compared blindly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Votes {
    /// The answer with the adapter was better.
    pub tuned: u32,
    /// The answer without it was.
    pub base: u32,
}

/// Something learnt, to be put over a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Adapter {
    /// Names the adapter in every command.
    pub id: i64,
    /// For people.
    pub name: String,
    /// The run that it came of; none: it was imported.
    pub run: Option<i64>,
    /// Id of the model it belongs to.
    pub model: String,
    /// That model's name.
    pub model_name: String,
    /// Its file or folder.
    pub path: String,
    /// When it was made or imported.
    pub created_at: i64,
    /// How its run ended.
    pub outcome: Option<Outcome>,
    /// What comparing said.
    pub votes: Votes,
    /// Why it cannot be used, if so: its file or its model is gone. A whole sentence.
    pub problem: Option<String>,
}

/// An adapter that answers are made with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct AdapterChoice {
    /// Id of the adapter.
    pub adapter: i64,
    /// What it counts for; 1 as it was trained.
    pub scale: f32,
}

/// An adapter that an answer was made with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct UsedAdapter {
    /// Its id; the adapter may be gone.
    pub adapter: i64,
    /// Its name then.
    pub name: String,
    /// What it counted for.
    pub scale: f32,
}

/// Whether an answer was good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum Thumb {
    /// It was.
    Up,
    /// It was not.
    Down,
}

/// What a person thinks of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Rating {
    /// Whether it was good.
    pub thumb: Thumb,
    /// What it should have been.
    pub correction: Option<String>,
}

/// What an adapter is written as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExportFormat {
    /// An adapter for llama.cpp and Ollama: a file.
    GgufLora,
    /// For Hugging Face's PEFT: a folder.
    Peft,
    /// The whole model with the adapter in its weights: a file.
    Gguf {
        /// The type of its weights (`Q4_K`, `IQ4_XS`, `Q8_0`, `F16`); none: each as it is in the base model.
        kind: Option<String>,
    },
}

/// An adapter to be written for other programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct ExportOrder {
    /// Id of the adapter.
    pub adapter: i64,
    /// As what.
    pub format: ExportFormat,
    /// The file or folder to write.
    pub out: String,
    /// Reload what was written and compare.
    pub verify: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Exported {
    /// The file or folder.
    pub path: String,
    /// Bytes of it.
    pub bytes: u64,
    /// How reloading it went, if that was asked for.
    pub verification: Option<Verification>,
}

/// How what was exported compares with what was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Whether it may be used.
    pub passed: bool,
    /// Prompts that were replayed.
    pub prompts: u32,
    /// How far it is from what was trained: the mean Kullback-Leibler divergence of the tokens expected, in nats a token.
    pub divergence: f64,
    /// How far the base model is from it, which is how much was taught, in nats a token.
    pub taught: f64,
    /// Prompts whose greedy answers are the same.
    pub same_text: u32,
    /// In a sentence.
    pub summary: String,
}
