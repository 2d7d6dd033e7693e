//! The wire of the machine: devices, where a model's bytes go, and how fast it was.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// How many of a model's layers lie on a GPU, counted from the output layer backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum GpuLayers {
    /// As many as fit.
    #[default]
    Auto,
    /// Every layer, and the token embedding.
    All,
    /// This many; 0 leaves the whole model on the processor.
    Count {
        /// How many.
        count: u32,
    },
}

/// What the numbers of the KV cache are kept as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub enum KvType {
    /// Two bytes a number.
    #[default]
    F16,
    /// Half of that, a little less exact.
    #[serde(rename = "q8_0")]
    Q8_0,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// `cpu`, `gpu0` and so on.
    pub id: String,
    /// What it is called from start to start: what settings name it by.
    pub identity: String,
    /// `cpu`, `discrete`, `integrated` or `software`.
    pub kind: String,
    /// The maker's name for it.
    pub name: String,
    /// How a model would run on it: `cpu`, `vulkan`, `metal`, `dx12` and so on; empty where it cannot.
    pub backend: String,
    /// Bytes; none where it cannot be told. A device that shares main memory says main memory here.
    pub memory_total: Option<u64>,
    /// Bytes; none where it cannot be told.
    pub memory_free: Option<u64>,
    /// Whether a model can run on it.
    pub usable: bool,
    /// Why (not), in one sentence.
    pub why: String,
    /// The driver's name and version; none for a processor and where it cannot be told.
    pub driver: Option<String>,
    /// The version of the interface the driver offers: `Vulkan 1.3.280`.
    pub api: Option<String>,
    /// How busy it is, 0 to 1; none where it cannot be told.
    pub load: Option<f32>,
    /// Physical cores of a processor; none for a GPU.
    pub cores: Option<u32>,
    /// How many of them are the fast ones.
    pub performance_cores: Option<u32>,
    /// Every backend that can use it.
    pub backends: Vec<String>,
    /// The builds of Hearth that can use it, the one that is chosen by itself first.
    pub ways: Vec<DeviceWay>,
}

/// A build of Hearth that can use a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeviceWay {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// The backend that it uses.
    pub backend: String,
    /// What was found when it was checked; none: it was not.
    pub check: Option<DeviceCheck>,
}

/// What was found when a device was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCheck {
    /// What it does otherwise than the processor, in one sentence; none: it computes the same.
    pub wrong: Option<String>,
    /// Bytes of weights that it reads in a second while it answers.
    pub bytes_per_second: f64,
    /// Weights that meet a token in a second while a prompt is read.
    pub products_per_second: f64,
}

/// How a model would be loaded: the settings that a person tries out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase", default)]
pub struct WhatIf {
    /// CPU threads; none: the number of physical cores.
    pub threads: Option<u32>,
    /// Context in tokens; none: the model's own, within reason.
    pub context: Option<u32>,
    /// A device's identity; none: chosen by the worker.
    pub device: Option<String>,
    /// The build of Hearth that uses the GPU; none: the fastest.
    pub build: Option<String>,
    /// How many layers lie on a GPU.
    pub gpu_layers: GpuLayers,
    /// What the KV cache is kept as.
    pub kv: KvType,
}

/// Whether a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// As it was asked for.
    Fits,
    /// With a shorter context than was asked for.
    FitsWithLessContext {
        /// The longest that fits, in tokens.
        context: u32,
    },
    /// It fits, and answers will come slower than a person reads.
    Slow,
    /// Not on this machine as it is now.
    WontFit,
}

/// Where a model's bytes would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Whether every device has room for what is planned there.
    pub fits: bool,
    /// The same for a person.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub why: String,
    /// Context in tokens that is planned for.
    pub context: u32,
    /// The longest context that fits with these layers; 0 if none does.
    pub context_fits: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Layers there are: blocks, prediction blocks included, and the output layer.
    pub layers_total: u32,
    /// The most layers that fit on GPUs with this context.
    pub layers_fit: u32,
    /// What the KV cache is kept as.
    pub kv: KvType,
    /// Every device that gets something.
    pub devices: Vec<PlannedDevice>,
}

/// What a plan puts on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDevice {
    /// Its id.
    pub id: String,
    /// The maker's name for it.
    pub name: String,
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of the KV cache.
    pub kv: u64,
    /// Bytes of the computation's buffers.
    pub compute: u64,
    /// Bytes left free on purpose.
    pub margin: u64,
    /// Its memory; none where it cannot be told.
    pub total: Option<u64>,
    /// What of it is free without this model; none where it cannot be told.
    pub free: Option<u64>,
    /// What lies there: `token_embd`, `blk.0` and so on, `output`.
    pub layers: Vec<String>,
    /// Whether there is room for all that.
    pub fits: bool,
}

/// How fast a model was on this machine, loaded in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, TS)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Id of the model in the library.
    pub model: String,
    /// Its name then.
    pub model_name: String,
    /// The device's identity.
    pub device: String,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Layers there are.
    pub layers_total: u32,
    /// What the KV cache was kept as.
    pub kv: KvType,
    /// CPU threads.
    pub threads: u32,
    /// Tokens of a prompt read in a second.
    pub prompt_tokens_per_second: f64,
    /// Tokens answered in a second.
    pub tokens_per_second: f64,
    /// Tokens of the prompt that was read.
    pub prompt_tokens: u32,
    /// Tokens that were answered.
    pub tokens: u32,
    /// When.
    pub measured_at: i64,
}
