//! Planning and loading a model: what can go wrong.

use crate::{DeviceStatus, MemoryNeed, Mismatch, Notice, Problem};
use serde::{Deserialize, Serialize};

/// Planning and loading a model: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoadReason {
    /// A device was asked for that does not exist.
    NoSuchDevice {
        /// The requested id or identity.
        name: String,
        /// The ids that exist.
        known: Vec<String>,
    },
    /// A number of threads that is not possible.
    BadThreads {
        /// The number.
        threads: u32,
        /// The most.
        max: u32,
    },
    /// No device can run the model.
    NoDevice,
    /// The CPU was named in a list of GPUs.
    CpuAmongGpus,
    /// A device was asked for that cannot be used.
    DeviceUnusable {
        /// Its name.
        device: String,
        /// Why.
        device_status: DeviceStatus,
    },
    /// A GPU was asked for that this build cannot use.
    NotInThisBuild {
        /// Its name.
        device: String,
        /// Why.
        device_status: DeviceStatus,
    },
    /// A GPU could not be checked.
    NotChecked {
        /// Its name.
        device: String,
        /// The build.
        build: String,
        /// The error.
        detail: String,
    },
    /// A build of Hearth was asked for that does not exist.
    UnknownBuild {
        /// Its name.
        build: String,
    },
    /// A build of Hearth was asked for that is not installed.
    BuildNotInstalled {
        /// Its name.
        build: String,
    },
    /// The same, for these devices.
    BuildNotInstalledFor {
        /// Its name.
        build: String,
        /// Names of the devices.
        devices: Vec<String>,
    },
    /// The results of a build on a device differ from the CPU's.
    BuildMismatch {
        /// The build.
        build: String,
        /// Names of the devices.
        devices: Vec<String>,
        /// The first mismatch.
        mismatch: Box<Mismatch>,
    },
    /// A build cannot use these devices.
    BuildCannotUse {
        /// The build.
        build: String,
        /// Names of the devices.
        devices: Vec<String>,
    },
    /// The model does not fit this machine.
    ModelTooLarge {
        /// The memory that it needs.
        need: MemoryNeed,
    },
    /// The model does not fit this machine with this context.
    ContextTooLarge {
        /// The memory that it needs.
        need: MemoryNeed,
    },
    /// A buffer of the training batch is above a GPU's limit.
    BatchTooLargeForGpu {
        /// The buffer.
        notice: Box<Notice>,
    },
    /// A buffer is above a GPU's limit, whatever the context.
    TooManyGpuLayers {
        /// The buffer.
        notice: Box<Notice>,
    },
    /// A buffer is above a GPU's limit.
    ContextTooLargeForGpu {
        /// The buffer.
        notice: Box<Notice>,
        /// The longest context that fits, in tokens.
        context: u32,
    },
    /// A draft model cannot be used.
    DraftUnusable {
        /// Its file.
        path: String,
        /// Why.
        cause: Box<Problem>,
    },
    /// A draft model has fewer embeddings than tokens.
    DraftCorrupt {
        /// Its file.
        path: String,
    },
    /// The vocabulary of a draft model has too little in common with the model's.
    DraftVocabulary {
        /// Its file.
        path: String,
        /// Share of the model's tokens that it has, in percent.
        percent: u32,
    },
    /// The model's own first layers cannot draft.
    DraftLayers {
        /// The requested number of them.
        layers: u32,
        /// Layers of the model.
        total: u32,
        /// The most that can draft.
        most: u32,
    },
    /// There is no adapter at a path.
    AdapterMissing {
        /// The path.
        path: String,
    },
    /// The scale of an adapter is NaN or infinite.
    AdapterScale {
        /// The scale.
        scale: String,
    },
}
