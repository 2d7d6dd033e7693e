//! Wire types of fine-tuning: datasets, runs and adapters.

use super::{Problem, Stage};
pub use crate::store::{run_evaluation::RunEvaluation, run_point::RunPoint};
pub use hearth_protocol::{
    BrokenLine, Checkpointing, ColumnMapping, EndReason, ExportFormat, Exported, Finding, Inspection, Outcome, Piece,
    Precision, Preview, RunPlan, Schedule, Severity, Verification,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Settings of a run, with the id of the initial adapter.
pub type TrainSettings = hearth_protocol::TrainSettings<i64>;

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
    /// Why it cannot be used. `None` means it can.
    pub problem: Option<Problem>,
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

/// A new run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct NewRun {
    /// Display name. `None` means the dataset's name. A name that another run or an imported
    /// adapter has gets a number.
    pub name: Option<String>,
    /// Id of the base model; its file is never changed.
    pub model: String,
    /// Id of the dataset.
    pub dataset: i64,
    /// Column mapping. `None` means recognized.
    pub mapping: Option<ColumnMapping>,
    /// Whether malformed lines are skipped. Otherwise a file with one is refused.
    pub skip_broken: bool,
    /// Settings.
    pub settings: TrainSettings,
}

/// Why a run is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum PauseReason {
    /// Paused by the user, until the user resumes it.
    Person,
    /// The chat is busy; resumes automatically.
    Chat,
    /// The battery is low; resumes automatically on mains power.
    Battery,
}

/// A request of the user that takes effect after the current step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum PendingChange {
    /// It pauses.
    Pause,
    /// It stops and saves its adapter.
    Stop,
}

/// State of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunState {
    /// Starting the worker, or loading the model and the data.
    Preparing {
        /// From 0 to 1.
        fraction: f32,
        /// The stage.
        stage: Stage,
    },
    /// The plan is ready; the first step is running.
    Planned,
    /// Training.
    Running,
    /// Paused after a step.
    Paused {
        /// Why.
        reason: PauseReason,
    },
    /// Finished; its adapter is saved.
    Finished,
    /// Stopped by the user; its adapter is saved if it made a step.
    Stopped,
    /// Failed; resuming retries from the last checkpoint.
    Failed {
        /// Why.
        problem: Problem,
    },
    /// Interrupted by the end of the worker or the app; resuming continues from the last
    /// checkpoint.
    Interrupted {
        /// The reason.
        problem: Problem,
    },
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
    /// The request that takes effect after the current step. `None` if the run is not active.
    pub pending: Option<PendingChange>,
    /// Whether the user has seen its end. True for an active run.
    pub seen: bool,
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
    /// Id of the model that it was trained on here, or imported for. `None` means that it was
    /// imported or downloaded for whatever it fits.
    pub model: Option<String>,
    /// Name of that model.
    pub model_name: Option<String>,
    /// The name of its base, as its files give it: `OWNER/NAME`, a name, or a path.
    pub base_name: Option<String>,
    /// The same, if it is a repository of the hub.
    pub base_repository: Option<String>,
    /// Architecture of its base, if its files say so.
    pub architecture: Option<String>,
    /// Its fit to each readable model of the library. Empty if its files cannot be read.
    pub matches: Vec<AdapterMatch>,
    /// Size of its files in bytes.
    pub size: u64,
    /// Where Hearth downloaded it from, if it did.
    pub downloaded_from: Option<String>,
    /// License, if the hub says so.
    pub license: Option<String>,
    /// Whether deleting it deletes its files: true for adapters of runs and downloads.
    pub is_deletable: bool,
    /// File or folder.
    pub path: String,
    /// Time of creation or import.
    pub created_at: i64,
    /// Outcome of its run.
    pub outcome: Option<Outcome>,
    /// Votes of comparisons.
    pub votes: Votes,
    /// Why it cannot be used. `None` means it can.
    pub problem: Option<Problem>,
    /// Entries of its PEFT configuration that match no module, so that they have no effect.
    pub unmatched: Vec<UnmatchedEntries>,
}

/// Entries of a setting of PEFT that match no module of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct UnmatchedEntries {
    /// The setting's name: `alpha_pattern`.
    pub setting: String,
    /// The first of them, shortened.
    pub entries: Vec<String>,
    /// Number of the others.
    pub more: u32,
}

/// The fit of an adapter to a model of the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct AdapterMatch {
    /// Id of the model.
    pub model: String,
    /// The fit.
    pub fit: AdapterFit,
}

/// The fit of an adapter to a model, by their headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AdapterFit {
    /// It was trained on this file.
    Exact,
    /// It fits, and its base has this model's name; or it was trained on another quantization of
    /// this model.
    Named,
    /// It fits: its architecture, layers and sizes are this model's. Its base may be another model.
    Sizes,
    /// It was merged into this model.
    Merged,
    /// It does not.
    Mismatch {
        /// Why.
        reason: AdapterMismatch,
    },
}

/// Why an adapter does not fit a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AdapterMismatch {
    /// It is for another architecture.
    Architecture {
        /// The adapter's.
        adapter: String,
    },
    /// Hearth supports no adapters for the model's architecture.
    Unsupported,
    /// Its base has another number of layers.
    Layers {
        /// Its base's.
        adapter: u32,
        /// The model's.
        model: u32,
    },
    /// A linear of its base has other sizes.
    Linear {
        /// Name in a GGUF: `attn_q`.
        name: String,
        /// Input and output features of its base's.
        adapter: [u64; 2],
        /// The same of the model's.
        model: [u64; 2],
    },
    /// The base that it records has the same sizes but other weights, or other sizes elsewhere.
    OtherBase,
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
    /// Name at that time; empty if it was deleted before.
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

/// The user's rating of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Rating {
    /// Thumb.
    pub thumb: Thumb,
    /// The corrected answer.
    pub correction: Option<String>,
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
