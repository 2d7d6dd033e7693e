//! Fine-tuning in a worker: what can go wrong.

use crate::broken_line::BrokenReason;
use serde::{Deserialize, Serialize};

/// Fine-tuning in a worker: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TrainingReason {
    /// The `run.json` of a run cannot be read.
    RunUnreadable {
        /// The run's folder.
        folder: String,
        /// The error.
        detail: String,
    },
    /// A run has a checkpoint, but no `run.json`.
    RunFileMissing {
        /// The run's folder.
        folder: String,
    },
    /// The settings of a run are of a newer Hearth.
    RunNewer {
        /// The run's folder.
        folder: String,
        /// Version of the settings.
        version: u32,
        /// The newest version that this Hearth reads.
        supported: u32,
    },
    /// A run has another base model.
    RunOfOtherModel {
        /// The run's folder.
        folder: String,
        /// The difference, without a full stop.
        detail: String,
    },
    /// A new run's folder may already hold a run.
    FolderInUse {
        /// The folder.
        folder: String,
        /// The file in it.
        path: String,
    },
    /// The folder that a run's adapter would replace has another file.
    FolderHasOtherFile {
        /// The folder.
        folder: String,
        /// The file's name.
        name: String,
    },
    /// Another process uses a run's folder.
    RunLocked {
        /// The folder.
        folder: String,
    },
    /// The GPU failed during a run.
    GpuFailed {
        /// The driver's message.
        detail: String,
    },
    /// An export would replace its Modelfile.
    OutIsModelfile {
        /// The file to write to.
        path: String,
    },
    /// An export would replace its base model.
    OutIsModel {
        /// The file to write to.
        path: String,
    },
    /// An export would replace its adapter.
    OutIsAdapter {
        /// The file to write to.
        path: String,
    },
    /// The folder of an export has an adapter beside other files.
    AdapterBesideFiles {
        /// The folder.
        folder: String,
    },
    /// An export was asked for with an unknown quantization.
    UnknownQuantization {
        /// Its name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A line of a dataset cannot be read.
    BrokenLine {
        /// The dataset.
        path: String,
        /// The line, from 1.
        line: u32,
        /// Why it cannot be read.
        broken: BrokenReason,
    },
    /// Several lines of a dataset cannot be read.
    BrokenLines {
        /// The dataset.
        path: String,
        /// The first of the lines, from 1.
        line: u32,
        /// Why it cannot be read.
        broken: BrokenReason,
        /// The number of the other lines.
        count: u32,
    },
    /// No line of a dataset can be read.
    NoReadableLine {
        /// The dataset.
        path: String,
        /// The first line, from 1.
        line: u32,
        /// Why it cannot be read.
        broken: BrokenReason,
    },
    /// The copies of a system prompt in a dataset would take too much memory.
    SystemPromptTooLong {
        /// The size of one copy.
        bytes: u64,
        /// The number of examples.
        examples: u64,
    },
    /// The validation split is not a fraction.
    ValidationSplit {
        /// The requested fraction.
        split: String,
    },
}
