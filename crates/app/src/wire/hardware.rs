//! Wire types of the hardware: devices, memory plans and measurements.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Layers on GPUs, counted from the output layer backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum GpuLayers {
    /// As many as fit.
    #[default]
    Auto,
    /// Every layer, and the token embedding.
    All,
    /// A number of layers; 0 runs the whole model on the CPU.
    Count {
        /// Number of layers.
        count: u32,
    },
}

/// Element type of the KV cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum KvType {
    /// f16: two bytes per element.
    #[default]
    F16,
    /// Q8_0: half the memory of f16, slightly less precise.
    #[serde(rename = "q8_0")]
    Q8_0,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// `cpu`, `gpu0` and so on.
    pub id: String,
    /// Identity that is stable across restarts; settings refer to it.
    pub identity: String,
    /// `cpu`, `discrete`, `integrated` or `software`.
    pub kind: String,
    /// Product name.
    pub name: String,
    /// Backend that a model would use: `cpu`, `vulkan`, `metal`, `dx12` and so on. Empty means
    /// none.
    pub backend: String,
    /// Total memory in bytes; main memory for a device that shares it. `None` means unknown.
    pub memory_total: Option<u64>,
    /// Free memory in bytes. `None` means unknown.
    pub memory_free: Option<u64>,
    /// Whether a model can run on it.
    pub usable: bool,
    /// Why it is or is not usable, in one sentence.
    pub why: String,
    /// Driver name and version. `None` for a CPU, or if unknown.
    pub driver: Option<String>,
    /// API version of the driver: `Vulkan 1.3.280`.
    pub api: Option<String>,
    /// Utilisation from 0 to 1. `None` means unknown.
    pub load: Option<f32>,
    /// Physical cores of a CPU. `None` for a GPU.
    pub cores: Option<u32>,
    /// Performance cores among them.
    pub performance_cores: Option<u32>,
    /// Backends that can use it.
    pub backend_names: Vec<String>,
    /// The builds of Hearth that can use it; the automatic choice first.
    pub backends: Vec<BackendOption>,
}

/// A build of Hearth that can use a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct BackendOption {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// The build's backend.
    pub backend: String,
    /// Result of the device check. `None` means not checked.
    pub check: Option<DeviceCheck>,
}

/// Result of a device check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCheck {
    /// The first mismatch with the CPU's results, in one sentence. `None` means that all results
    /// match.
    pub mismatch: Option<String>,
    /// Decode throughput in bytes of weights per second.
    pub bytes_per_second: f64,
    /// Prefill throughput in multiply-accumulates per second.
    pub macs_per_second: f64,
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
}

/// Whether a model fits this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// With the requested settings.
    Fits,
    /// With a shorter context than requested.
    FitsWithLessContext {
        /// The longest context that fits, in tokens.
        context: u32,
    },
    /// It fits, but decodes slower than a person reads.
    Slow,
    /// Not with the memory that is free now.
    WontFit,
}

/// A memory plan: a model's placement on the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Whether the plan fits every device.
    pub fits: bool,
    /// The verdict for a person.
    pub verdict: Verdict,
    /// The reason, in one sentence.
    pub why: String,
    /// Planned context length in tokens.
    pub context: u32,
    /// The longest context that fits with this placement; 0 if none does.
    pub context_fits: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Total layers: transformer layers, those for multi-token prediction included, and the output
    /// layer.
    pub layers_total: u32,
    /// Most layers that fit on GPUs with this context.
    pub layers_fit: u32,
    /// Type of the KV cache.
    pub kv: KvType,
    /// The devices in use.
    pub devices: Vec<PlannedDevice>,
}

/// A plan's memory on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDevice {
    /// Id of the device.
    pub id: String,
    /// Product name.
    pub name: String,
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of the KV cache.
    pub kv: u64,
    /// Bytes of compute buffers.
    pub compute: u64,
    /// Bytes left free as a margin.
    pub margin: u64,
    /// Total memory in bytes. `None` means unknown.
    pub total: Option<u64>,
    /// Free memory in bytes, without this model. `None` means unknown.
    pub free: Option<u64>,
    /// Layers on it: `token_embd`, `blk.0` and so on, `output`.
    pub layers: Vec<String>,
    /// Whether all of it fits.
    pub fits: bool,
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
