//! What a model can run on.

use serde::{Deserialize, Serialize};

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `cpu`, `gpu0` and so on: what `--device` takes.
    pub id: String,
    /// What it is called from start to start, wherever it stands in the list; `--device` takes this too.
    #[serde(default)]
    pub identity: String,
    /// `cpu`, `discrete`, `integrated` or `software`.
    pub kind: String,
    /// The maker's name for it.
    pub name: String,
    /// How a model would run on it: `cpu`, `vulkan`, `metal` or `dx12`; empty where it cannot.
    pub backend: String,
    /// Bytes; none where it cannot be told. A device that shares main memory says main memory here.
    pub memory_total: Option<u64>,
    /// Bytes; none where it cannot be told.
    pub memory_free: Option<u64>,
    /// Whether a model can run on it.
    pub usable: bool,
    /// Why (not), in one sentence; a processor's says too what went wrong when the graphics drivers were asked.
    pub why: String,
    /// The driver's name and version; none for a processor and where it cannot be told.
    #[serde(default)]
    pub driver: Option<String>,
    /// The version of the interface the driver offers, as people write it: `Vulkan 1.3.280`.
    #[serde(default)]
    pub api: Option<String>,
    /// How busy it is, 0 to 1; none where it cannot be told.
    #[serde(default)]
    pub load: Option<f32>,
    /// Physical cores of a processor; none for a GPU.
    #[serde(default)]
    pub cores: Option<u32>,
    /// How many of them are the fast ones, where there are two kinds; else all.
    #[serde(default)]
    pub performance_cores: Option<u32>,
    /// Every backend that can use it: `cpu`, `vulkan`, `metal`, `dx12`, `cuda`, `rocm`; the first is the one in `backend`.
    #[serde(default)]
    pub backends: Vec<String>,
    /// Bytes of a buffer that a kernel on a GPU sees at most; none where nothing says so.
    #[serde(default)]
    pub largest_buffer: Option<u64>,
    /// The builds of Hearth that can use it, the one that is chosen by itself first.
    #[serde(default)]
    pub ways: Vec<DeviceWay>,
}

/// A build of Hearth that can use a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceWay {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// The backend that it uses.
    pub backend: String,
    /// What was found when it was checked; none: it was not.
    #[serde(default)]
    pub check: Option<DeviceCheck>,
}

/// What was found when a device was checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceCheck {
    /// What it does otherwise than the processor, in one sentence; none: it computes the same.
    pub wrong: Option<String>,
    /// Bytes of weights that it reads in a second while it answers.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub bytes_per_second: f64,
    /// Weights that meet a token in a second while a prompt is read.
    #[serde(deserialize_with = "crate::number::or_nan")]
    pub products_per_second: f64,
    /// How long the check took.
    #[serde(default, deserialize_with = "crate::number::or_nan")]
    pub seconds: f64,
    /// Kernels that it started on a GPU.
    #[serde(default)]
    pub kernels_launched: u64,
    /// How many different ones, each of which the driver compiled.
    #[serde(default)]
    pub kernels_compiled: u64,
}

impl DeviceCheck {
    /// The check's number. A check that asks more has another one, so that what an earlier one found does not count for it.
    pub const VERSION: u32 = 3;

    /// Seconds that a usual turn of a chat would take with a model of a billion weights in 4 bits: 512 tokens read, 128 answered.
    pub fn turn_seconds(&self) -> f64 {
        const WEIGHTS: f64 = 1e9;
        const BYTES_A_WEIGHT: f64 = 18.0 / 32.0;
        512.0 * WEIGHTS / self.products_per_second.max(1.0)
            + 128.0 * WEIGHTS * BYTES_A_WEIGHT / self.bytes_per_second.max(1.0)
    }
}
