//! The stages of loads, plans, measurements, exports and runs.

use crate::sentence::sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A stage, shown beside its progress. Its `Display` is English, in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Stage {
    /// The worker is being started.
    #[default]
    Starting,
    /// The model's file is opened.
    OpeningFile,
    /// The vocabulary is read.
    ReadingVocabulary,
    /// Weights are read and packed for the device's kernels.
    ReadingWeights,
    /// The KV cache is allocated.
    AllocatingCache,
    /// The loaded model is benchmarked.
    Measuring,
    /// A GPU is checked for the first time.
    CheckingDevice {
        /// The GPU's name.
        device: String,
    },
    /// A load waits for the memory of another model that is in use.
    WaitingForMemory,
    /// The model is loaded on the CPU after its GPU has failed.
    LoadingOnCpu,
    /// The base model of a run or an export is opened.
    OpeningModel,
    /// The dataset of a run is read.
    ReadingData,
    /// A run does its dry run.
    DryRun,
    /// An export is written.
    Writing,
    /// An adapter is merged with its base model.
    Merging,
    /// An export is compared with the trained model.
    Verifying,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("stage", self))
    }
}
