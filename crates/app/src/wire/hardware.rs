//! Wire types of the hardware: load settings and measurements; devices, plans and the statistics of
//! drafts are the protocol's.

pub use hearth_protocol::{
    AutoSelection, BackendOption, BuildReason, DeviceCheck, DeviceInfo as Device, DraftKind, DraftStats, GpuLayers,
    KvType, Plan, PlannedDevice, Verdict,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// The draft of speculative decoding for one model. Answers are the same with any of them; only
/// their speed differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DraftSetting {
    /// N-gram lookup, which takes no memory.
    #[default]
    Auto,
    /// Plain decoding.
    None,
    /// The model's own first layers.
    #[serde(alias = "own")]
    FirstLayers,
    /// A smaller model of the library. If it cannot be used, the model is loaded with
    /// [`DraftSetting::Auto`].
    Model {
        /// Its id.
        model: String,
    },
}

/// Why the chosen draft model is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DraftProblem {
    /// It is not in the library any more.
    Missing,
    /// Its file cannot be read.
    Unreadable {
        /// Its name.
        name: String,
    },
    /// It has another vocabulary, or too many parameters.
    CannotDraft {
        /// Its name.
        name: String,
    },
}

/// Settings for loading a model, also to plan for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadSettings {
    /// CPU threads. `None` means the number of physical cores.
    pub threads: Option<u32>,
    /// Context length in tokens. `None` means automatic.
    pub context: Option<u32>,
    /// Identity of the device. `None` means automatic.
    pub device: Option<String>,
    /// The build of Hearth that uses the GPU. `None` means the fastest.
    pub build: Option<String>,
    /// Layers on GPUs.
    pub gpu_layers: GpuLayers,
    /// Type of the KV cache.
    pub kv: KvType,
    /// The draft of speculative decoding.
    pub draft: DraftSetting,
}

/// A speed measurement of a model with its load settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Id of the model in the library.
    pub model: String,
    /// The model's name at that time.
    pub model_name: String,
    /// Identity of the device.
    pub device: String,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Total layers.
    pub layers_total: u32,
    /// Type of the KV cache.
    pub kv: KvType,
    /// CPU threads.
    pub threads: u32,
    /// Prefill speed in tokens per second.
    pub prompt_tokens_per_second: f64,
    /// Speed of decoding, in tokens per second.
    pub tokens_per_second: f64,
    /// Prefilled tokens.
    pub prompt_tokens: u32,
    /// Decoded tokens.
    pub tokens: u32,
    /// Time of the measurement.
    pub measured_at: i64,
}
