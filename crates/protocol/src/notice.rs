//! Notices for the user about a plan, a model, a run or an export, other than errors.

use crate::{Problem, finding::FindingKind, sentence::sentence};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::fmt;

/// A notice. Its `Display` is the English sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// In the words of an earlier version.
    Detail {
        /// A whole sentence or more, in English.
        detail: String,
    },
    /// The plan fits.
    Fits,
    /// The plan fits, but decode will be slow.
    SlowOnCpu {
        /// Bytes of weights that the CPU reads per token.
        bytes: u64,
    },
    /// The plan fits, but decode will be slower than the user reads, with all layers on GPUs.
    SlowDecode,
    /// A device has too little free memory.
    DeviceFull {
        /// Its name.
        device: String,
        /// The memory that the plan needs on it.
        needed_bytes: u64,
        /// Its free memory.
        free_bytes: u64,
    },
    /// The context does not fit, a shorter one does.
    ContextTooLong {
        /// The planned context in tokens.
        context: u32,
        /// The longest that fits, in tokens.
        fits: u32,
    },
    /// A shorter context fits.
    ContextFits {
        /// The longest that fits, in tokens.
        context: u32,
    },
    /// A buffer is above a GPU's limit.
    BufferTooLarge(LargeBuffer),
    /// The context was shortened, since a buffer would be above a GPU's limit.
    ContextShortened {
        /// The planned context in tokens.
        context: u32,
        /// The usual one in tokens.
        usual: u32,
    },
    /// Layers are on the CPU, since a buffer would be above a GPU's limit.
    LayersOnCpu {
        /// Layers on GPUs.
        on_gpus: u32,
        /// All layers.
        total: u32,
    },
    /// The longest context with which all layers are on GPUs.
    ContextAvoids {
        /// Its length in tokens.
        context: u32,
    },
    /// The largest batch that can be trained with all layers on GPUs.
    BatchAvoids {
        /// Its tokens.
        tokens: u64,
    },
    /// The model takes more than the memory that is free.
    MemoryTight {
        /// The memory that it needs.
        need: MemoryNeed,
    },
    /// The GPU failed with its layers, and fewer are tried.
    FewerGpuLayers {
        /// Layers on GPUs now.
        layers: u32,
        /// Layers that failed.
        failed: u32,
        /// The GPU's error.
        cause: Box<Problem>,
    },
    /// The GPU failed, and the CPU computes all layers.
    CpuAlone {
        /// Layers that failed.
        failed: u32,
        /// The GPU's error.
        cause: Box<Problem>,
    },
    /// The context is longer than in training.
    BeyondTraining {
        /// The context in tokens.
        context: u32,
        /// The context in tokens that the model was trained with.
        trained: u32,
    },
    /// The file has no chat template, but the tokens of ChatML.
    ChatMlTemplate,
    /// The file has no chat template.
    PlainTemplate,
    /// The vocabulary has no token for some bytes of text, and no unknown token.
    MissingBytes {
        /// The first of these bytes, in hexadecimal.
        byte: String,
    },
    /// The file has settings of its architecture that are unknown.
    UnknownSettings {
        /// Names of settings in the file.
        names: Vec<String>,
    },
    /// The same, of more settings than are named.
    MoreUnknownSettings {
        /// Names of settings in the file.
        names: Vec<String>,
        /// The number of others.
        more: u64,
    },
    /// The requested draft cannot be used, and n-gram lookup is.
    DraftUnused {
        /// Why.
        cause: Box<Problem>,
    },
    /// The requested GPU cannot be used, and the model is on the CPU.
    GpuGone {
        /// Why.
        cause: Box<Problem>,
    },
    /// The GPU failed during an answer, and the model is on the CPU until it is reloaded.
    GpuFailed,
    /// An adapter was trained on another quantization of the model, or on a fine-tune of it.
    AdapterOfOtherQuantization {
        /// Name of the file that it was trained on.
        file: String,
    },
    /// Entries of an adapter's PEFT configuration match no module.
    EntriesUnmatched {
        /// The setting that has them.
        setting: String,
        /// The entries.
        entries: Vec<String>,
    },
    /// The same, of more entries than are named.
    MoreEntriesUnmatched {
        /// The setting that has them.
        setting: String,
        /// The first of the entries.
        entries: Vec<String>,
        /// The number of others.
        more: u32,
    },
    /// Layers are trained on GPUs.
    TrainedOnGpus {
        /// The number of them.
        layers: u32,
        /// All layers.
        total: u32,
        /// Names of the GPUs.
        devices: Vec<String>,
    },
    /// The best adapter of a resumed run cannot be read.
    BestAdapterLost {
        /// Why.
        cause: Box<Problem>,
    },
    /// A finding about the dataset of a run.
    Finding {
        /// The finding.
        finding: FindingKind,
    },
}

/// A buffer above a GPU's limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LargeBuffer {
    /// The GPU's name.
    pub device: String,
    /// Its content.
    pub buffer: BufferContent,
    /// Its size.
    pub bytes: u64,
    /// The GPU's limit.
    pub limit_bytes: u64,
}

/// The content of a buffer that a GPU kernel binds as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum BufferContent {
    /// The RoPE table.
    RopeTable,
    /// The activations of a prompt.
    PromptActivations,
    /// The keys of a layer's cache.
    Keys,
    /// The logits of a step.
    StepLogits,
    /// The activations of a training batch.
    BatchActivations,
    /// The logits of a training batch.
    BatchLogits,
}

/// The main memory that a model needs, and the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MemoryNeed {
    /// Of a model alone.
    Model {
        /// The weights.
        weights_bytes: u64,
        /// The context in tokens.
        context: u32,
        /// Its KV cache.
        context_bytes: u64,
        /// Buffers of a pass.
        buffers_bytes: u64,
        /// The machine's memory.
        total_bytes: u64,
        /// The free part of it.
        free_bytes: u64,
    },
    /// Of a model and its draft model.
    WithDraft {
        /// The weights.
        weights_bytes: u64,
        /// The context in tokens.
        context: u32,
        /// Its KV cache.
        context_bytes: u64,
        /// The draft model.
        draft_bytes: u64,
        /// Buffers of a pass.
        buffers_bytes: u64,
        /// The machine's memory.
        total_bytes: u64,
        /// The free part of it.
        free_bytes: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("notice", self))
    }
}

/// The English sentences of notices, separated by spaces.
pub fn sentences(notices: &[Notice]) -> String {
    let sentences: Vec<String> = notices.iter().map(Notice::to_string).collect();
    sentences.join(" ")
}

/// Reads notices of a stored plan. An earlier version stored sentences; a notice of a later
/// version, unknown here, is skipped.
///
/// # Errors
/// The value is not a list.
pub fn read_notices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Notice>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    let notices = values.into_iter().filter_map(|value| match value {
        Value::String(detail) => Some(Notice::Detail { detail }),
        value => serde_json::from_value(value)
            .inspect_err(|error| tracing::warn!(%error, "a stored notice is unknown"))
            .ok(),
    });
    Ok(notices.collect())
}
