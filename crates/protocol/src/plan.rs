//! What is said about where a model's bytes go, and how fast that turned out to be.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// How many of a model's layers lie on a GPU, counted from the output layer backwards: 1 is the output layer alone, N the
/// output layer and the last N - 1 blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuLayers {
    /// As many as fit.
    #[default]
    Auto,
    /// Every layer; the token embedding stays with the processor.
    All,
    /// This many; 0 leaves the whole model on the processor.
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
                .map_err(|_| format!("\"{number}\" is no number of layers: give a whole number, auto or all.")),
        }
    }
}

/// What the numbers of the KV cache are kept as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// Two bytes a number.
    #[default]
    F16,
    /// Blocks of 32 numbers in 34 bytes: half the memory, a little less exact.
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
            other => Err(format!("\"{other}\" is no type of KV cache: give f16 or q8_0.")),
        }
    }
}

/// A model to be planned for, without loading it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// The GGUF file (the first, of a split one).
    pub path: PathBuf,
    /// Context in tokens; none: what a load without one would set aside.
    pub context: Option<u32>,
    /// A device's id or identity, or several with commas between; none: chosen by the engine.
    pub device: Option<String>,
    /// How many layers lie on a GPU.
    #[serde(default)]
    pub gpu_layers: GpuLayers,
    /// What the KV cache is kept as.
    #[serde(default)]
    pub kv: KvType,
    /// Plan for a GPU of this many bytes instead of those that are there.
    pub assume_gpu: Option<u64>,
}

/// Whether a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
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

/// Where a model's bytes go: what is shown before a load, and what a load carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether every device has room for what this plan puts there.
    pub fits: bool,
    /// The same for a person, with what to do.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub why: String,
    /// Context in tokens that is planned for.
    pub context: u32,
    /// The longest context that fits with these layers, in tokens; 0 if none does.
    pub context_fits: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Layers there are: blocks, prediction blocks included, and the output layer.
    pub layers_total: u32,
    /// The most layers that fit on GPUs with this context.
    pub layers_fit: u32,
    /// What the KV cache is kept as.
    pub kv: KvType,
    /// Every device that gets something; the processor always does.
    pub devices: Vec<PlannedDevice>,
}

/// What a plan puts on one device, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDevice {
    /// Its id, as in [`crate::DeviceInfo`].
    pub id: String,
    /// Its identity, likewise.
    #[serde(default)]
    pub identity: String,
    /// The maker's name for it.
    pub name: String,
    /// Weights.
    pub weights: u64,
    /// KV cache for the planned context.
    pub kv: u64,
    /// Buffers of the computation.
    pub compute: u64,
    /// Left free on purpose.
    pub margin: u64,
    /// Its memory; none where it cannot be told.
    pub total: Option<u64>,
    /// What of it is free now, without this model; none where it cannot be told.
    pub free: Option<u64>,
    /// What lies there: `token_embd`, `blk.0` and so on, `output`.
    pub layers: Vec<String>,
    /// Whether there is room for all that.
    pub fits: bool,
}

/// How fast the loaded model is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Tokens of a prompt read in a second.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub prompt_tokens_per_second: f64,
    /// Tokens answered in a second.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub tokens_per_second: f64,
    /// Tokens of the prompt that was read.
    pub prompt_tokens: u32,
    /// Tokens that were answered.
    pub tokens: u32,
}
