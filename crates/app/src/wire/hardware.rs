//! Wire types of the hardware: load settings and measurements; devices and plans are the
//! protocol's.

pub use hearth_protocol::{
    AutoSelection, BackendOption, BuildReason, DeviceCheck, DeviceInfo as Device, GpuLayers, KvType, Plan,
    PlannedDevice, Verdict,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

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
    /// Decode speed in tokens per second.
    pub tokens_per_second: f64,
    /// Prefilled tokens.
    pub prompt_tokens: u32,
    /// Decoded tokens.
    pub tokens: u32,
    /// Time of the measurement.
    pub measured_at: i64,
}
