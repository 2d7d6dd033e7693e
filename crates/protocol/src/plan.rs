//! The memory plan of a model, and its measured speed.

use crate::{draft::DraftChoice, notice::Notice};
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// Number of layers on GPUs, counted from the output layer backwards: 1 is the output layer alone,
/// N the output layer and the last N - 1 transformer layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", content = "count", rename_all = "camelCase")]
pub enum GpuLayers {
    /// As many as fit.
    #[default]
    Auto,
    /// Every layer; the token embedding stays on the CPU.
    All,
    /// This many; 0 means the whole model on the CPU.
    Count(u32),
}

impl fmt::Display for GpuLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::All => f.write_str("all"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl FromStr for GpuLayers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            number => number
                .parse()
                .map(Self::Count)
                .map_err(|_| format!("\"{number}\" is not a number of layers: use a whole number, auto or all.")),
        }
    }
}

/// Element type of the KV cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum KvType {
    /// Two bytes per element.
    #[default]
    F16,
    /// Blocks of 32 elements in 34 bytes: half the memory, slightly less exact.
    #[serde(rename = "q8_0")]
    Q8_0,
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        })
    }
}

impl FromStr for KvType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f16" => Ok(Self::F16),
            "q8_0" => Ok(Self::Q8_0),
            other => Err(format!("\"{other}\" is not a KV cache type: use f16 or q8_0.")),
        }
    }
}

/// A model to plan for, without loading it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// The GGUF file (the first, of a split one).
    pub path: PathBuf,
    /// Context in tokens. `None` means automatic, as for a load.
    pub context: Option<u32>,
    /// Id or identity of a device, or several separated by commas. `None` means automatic.
    pub device: Option<String>,
    /// Number of layers on GPUs.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// Element type of the KV cache.
    #[serde(default)]
    pub kv: KvType,
    /// The draft of speculative decoding, whose memory counts.
    #[serde(default)]
    pub draft: DraftChoice,
    /// The build of Hearth to use the GPUs with. `None` means the one that is predicted to answer
    /// soonest.
    #[serde(default)]
    pub build: Option<String>,
    /// Bytes of a hypothetical GPU that replaces the machine's GPUs in the plan.
    pub assume_gpu: Option<u64>,
    /// Memory of loaded models that this one would replace: the part that they use counts as free.
    #[serde(default)]
    pub replaced: Vec<Reservation>,
    /// Memory of other processes of Hearth that stay.
    #[serde(default)]
    pub reserved: Vec<Reservation>,
    /// Whether GPUs that were never checked are checked first, which may take minutes.
    #[serde(default)]
    pub check: bool,
    /// CPU threads, on which the decode speed depends. `None` means the number of physical cores.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Whether to measure the inputs of [`Plan::tokens_per_second`] that are not on record: about a
    /// second per format of the weights.
    #[serde(default)]
    pub measure_speed: bool,
}

/// The memory that a process of Hearth has planned to use. Until it has touched all of it, the
/// operating system reports a part of it as free.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its id. `None` means that it is not started yet.
    pub process: Option<u32>,
    /// Whether it has allocated its GPU memory, so that the drivers count it.
    pub is_allocated: bool,
    /// Its plan.
    pub devices: Vec<PlannedDevice>,
}

/// Whether a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Verdict {
    /// As requested.
    Fits,
    /// With a shorter context than requested.
    FitsWithLessContext {
        /// The longest that fits, in tokens.
        context: u32,
    },
    /// It fits, but decode will be slower than reading speed.
    Slow,
    /// Not in the memory that is free now.
    WontFit,
}

/// The memory plan of a model: shown before a load, and used by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Whether every device has enough free memory for its part.
    pub fits: bool,
    /// The same, as a verdict for the user.
    pub verdict: Verdict,
    /// The reasons, and what limits the plan.
    pub notices: Vec<Notice>,
    /// Planned context in tokens.
    pub context: u32,
    /// Longest context that fits with these layers on GPUs, in tokens; 0 if none does.
    pub context_fits: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Total layers: transformer layers, prediction layers included, and the output layer.
    pub layers_total: u32,
    /// Maximum number of layers that fit on GPUs with this context.
    pub layers_fit: u32,
    /// Element type of the KV cache.
    pub kv: KvType,
    /// The devices of the plan; the CPU is always first.
    pub devices: Vec<PlannedDevice>,
    /// The build of Hearth that it is for: `portable`, `vulkan`, `cuda` or `rocm`.
    #[serde(default)]
    pub build: String,
    /// That build's executable. `None` means the one that made the plan.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The GPUs of the plan as a value for [`PlanRequest::device`], or `cpu`.
    #[serde(default)]
    pub device: String,
    /// Predicted seconds of a typical turn. `None` means that the devices were not measured.
    #[serde(default)]
    pub turn_seconds: Option<f64>,
    /// Expected decode speed in tokens per second, after a short prompt and without a draft.
    /// `None` means that the devices were not measured with weights in the model's formats.
    #[serde(default)]
    pub tokens_per_second: Option<f64>,
}

/// One device's part of a plan, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct PlannedDevice {
    /// Its id, as in [`crate::DeviceInfo`].
    pub id: String,
    /// Its identity, as in [`crate::DeviceInfo`].
    #[serde(default)]
    pub identity: String,
    /// Product name.
    pub name: String,
    /// Weights.
    pub weights: u64,
    /// KV cache for the planned context.
    pub kv: u64,
    /// The part of `kv` for snapshots, which make regeneration possible in windowed layers.
    #[serde(default)]
    pub snapshots: u64,
    /// The draft of speculative decoding: weights, KV cache and buffers of a draft model. Pages
    /// that a draft borrows from its target are part of `kv`.
    #[serde(default)]
    pub draft: u64,
    /// Activations and other buffers of a pass.
    pub compute: u64,
    /// Reserved for other programs.
    pub margin: u64,
    /// Total memory. `None` means unknown.
    pub total: Option<u64>,
    /// Free memory, without this model. `None` means unknown.
    pub free: Option<u64>,
    /// Layers on this device: `token_embd`, `blk.0` and so on, `output`.
    pub layers: Vec<String>,
    /// Whether all of it fits.
    pub fits: bool,
}

impl PlannedDevice {
    /// Bytes that its part takes: weights, KV cache, draft and buffers.
    pub fn needed(&self) -> u64 {
        let parts = [self.weights, self.kv, self.draft, self.compute];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Measured speed of the loaded model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The prefill speed in tokens/s.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub prompt_tokens_per_second: f64,
    /// The decode speed in tokens/s.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Tokens prefilled.
    pub prompt_tokens: u32,
    /// Tokens decoded.
    pub tokens: u32,
}
