//! Devices and their checks.

use crate::device_status::{DeviceStatus, DriverProblem, Mismatch};
use serde::{Deserialize, Serialize};

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(rename = "Device"))]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfo {
    /// Value for `--device`: `cpu`, `gpu0` and so on.
    pub id: String,
    /// Identity that is stable across restarts; also accepted by `--device`.
    #[serde(default)]
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
    /// Why it is or is not usable.
    pub status: DeviceStatus,
    /// Why no GPU is known, of the CPU. `None` means that the graphics drivers answered.
    #[serde(default)]
    pub driver_problem: Option<DriverProblem>,
    /// Driver name and version. `None` for a CPU, or if unknown.
    #[serde(default)]
    pub driver: Option<String>,
    /// API version of the driver: `Vulkan 1.3.280`.
    #[serde(default)]
    pub api: Option<String>,
    /// Utilization from 0 to 1. `None` means unknown.
    #[serde(default)]
    pub load: Option<f32>,
    /// Physical cores of a CPU. `None` for a GPU.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Performance cores among them; all, if there is only one kind.
    #[serde(default)]
    pub performance_cores: Option<u32>,
    /// Backends that can use it: `cpu`, `vulkan`, `metal`, `dx12`, `cuda`, `rocm`. The first is the
    /// one in `backend`.
    #[serde(default)]
    pub backend_names: Vec<String>,
    /// Largest buffer binding of a GPU kernel, in bytes. `None` means unknown.
    #[serde(default)]
    pub largest_buffer: Option<u64>,
    /// The builds of Hearth that can use it; the automatic choice first.
    #[serde(default)]
    pub backends: Vec<BackendOption>,
    /// Whether a GPU is used without being requested, and why not. `None` for a CPU.
    #[serde(default)]
    pub selection: Option<AutoSelection>,
    /// Why the first of [`DeviceInfo::backends`] is the automatic choice of a GPU. `None` if none
    /// of them matches the CPU's results, and for a CPU.
    #[serde(default)]
    pub build_reason: Option<BuildReason>,
}

impl DeviceInfo {
    /// Whether `name` is its id or identity.
    pub fn is(&self, name: &str) -> bool {
        name == self.id || (name == self.identity && !name.is_empty())
    }
}

/// Splits a comma-separated list of ids or identities: `gpu0, gpu1`.
pub fn device_names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// Whether a GPU is used without being requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum AutoSelection {
    /// It may be used; the plan of a model decides.
    Selected,
    /// No: it cannot be used, see [`DeviceInfo::status`].
    Unusable,
    /// No: it is a software renderer, which computes on the CPU.
    Software,
    /// No: it shares the CPU's memory, and it was not measured to be faster.
    SharesMemory,
    /// No: the CPU was measured to be at least as fast.
    SlowerThanCpu,
}

/// Why a build is the automatic choice for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum BuildReason {
    /// No other installed build matches the CPU's results on it.
    Only,
    /// None was measured yet.
    Unmeasured,
    /// No other one was measured yet.
    OnlyMeasured,
    /// It was measured to be the fastest.
    Fastest,
}

/// A build of Hearth that can use a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BackendOption {
    /// `portable`, `vulkan`, `cuda` or `rocm`.
    pub build: String,
    /// The backend it uses.
    pub backend: String,
    /// Result of the device check. `None` means not checked yet.
    #[serde(default)]
    pub check: Option<DeviceCheck>,
    /// Largest buffer binding of a GPU kernel in this build, in bytes. `None` means unknown.
    #[serde(default)]
    pub largest_buffer: Option<u64>,
}

impl BackendOption {
    /// The mismatch that the device check found.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.check.as_ref()?.mismatch.as_ref()
    }
}

/// Result of a device check. The aliases are the names in records of earlier versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DeviceCheck {
    /// The first mismatch with the CPU's results. `None` means that all results match.
    #[serde(alias = "wrong", default, deserialize_with = "crate::device_status::read_mismatch")]
    pub mismatch: Option<Mismatch>,
    /// Bandwidth of weights in decode, in bytes per second, without the overheads below.
    #[serde(alias = "bytes_per_second", deserialize_with = "crate::number::or_nan")]
    pub bytes_per_second: f64,
    /// Overhead of a decode step, in seconds.
    #[serde(default, deserialize_with = "crate::number::or_nan")]
    pub step_seconds: f64,
    /// Overhead of each layer in a decode step, in seconds: a GPU launches about twelve kernels for
    /// it.
    #[serde(default, deserialize_with = "crate::number::or_nan")]
    pub layer_seconds: f64,
    /// Prefill throughput in multiply-accumulates per second.
    #[serde(alias = "macs_per_second", deserialize_with = "crate::number::or_nan")]
    pub macs_per_second: f64,
    /// Duration of the check in seconds.
    #[serde(default, deserialize_with = "crate::number::or_nan")]
    pub seconds: f64,
    /// Kernels launched on a GPU.
    #[serde(alias = "kernels_launched", default)]
    pub kernels_launched: u64,
    /// Distinct kernels, each compiled by the driver.
    #[serde(alias = "kernels_compiled", default)]
    pub kernels_compiled: u64,
    /// Utilization of the CPU around its check, from 0 to 1, by other programs and by other
    /// processes of Hearth. `None` means unknown, and for a GPU.
    #[serde(default)]
    pub load: Option<f32>,
}

impl DeviceCheck {
    /// Utilization above which other processes slow a check down.
    const BUSY_LOAD: f32 = 0.3;

    /// Version of the check, raised when the check changes, so that earlier results are ignored.
    pub const VERSION: u32 = 8;

    /// Assumed speeds of a CPU that was not measured: two channels of memory.
    pub const ASSUMED_CPU: Self = Self::from_speeds(20e9, 100e9, 0.0, 0.0);
    /// Assumed speeds of a GPU that was not measured: dedicated memory, and about the overheads of
    /// an H100 (docs/tried/gpu.md).
    pub const ASSUMED_GPU: Self = Self::from_speeds(200e9, 2e12, 0.6e-3, 0.1e-3);

    const fn from_speeds(bytes_per_second: f64, macs_per_second: f64, step_seconds: f64, layer_seconds: f64) -> Self {
        Self {
            mismatch: None,
            bytes_per_second,
            step_seconds,
            layer_seconds,
            macs_per_second,
            seconds: 0.0,
            kernels_launched: 0,
            kernels_compiled: 0,
            load: None,
        }
    }

    /// Whether all measurements are finite and none is negative. A stored record may have others.
    pub fn is_sound(&self) -> bool {
        let Self {
            bytes_per_second,
            step_seconds,
            layer_seconds,
            macs_per_second,
            seconds,
            ..
        } = *self;
        [bytes_per_second, step_seconds, layer_seconds, macs_per_second, seconds]
            .iter()
            .all(|value| value.is_finite() && *value >= 0.0)
    }

    /// Whether other processes slowed it down, which may be Hearth's.
    pub fn was_busy(&self) -> bool {
        self.load.is_some_and(|load| load > Self::BUSY_LOAD)
    }

    /// Time of a typical turn in seconds, for a model of a billion weights in 4 bits.
    pub fn turn_seconds(&self) -> f64 {
        const WEIGHTS: f64 = 1e9;
        const BYTES_PER_WEIGHT: f64 = 18.0 / 32.0;
        const LAYERS: f64 = 16.0;
        self.turn_seconds_of(WEIGHTS, WEIGHTS * BYTES_PER_WEIGHT, LAYERS)
    }

    /// Time of a typical turn in seconds for this many weights in layers, and their bytes: prefill
    /// of 512 tokens, decode of 128.
    pub fn turn_seconds_of(&self, weights: f64, bytes: f64, layers: f64) -> f64 {
        512.0 * weights / self.macs_per_second.max(1.0)
            + 128.0 * (self.step_seconds + self.decode_seconds(bytes, layers))
    }

    /// Time of these layers in a decode step, in seconds, without the overhead of the step.
    pub fn decode_seconds(&self, bytes: f64, layers: f64) -> f64 {
        layers * self.layer_seconds + bytes / self.bytes_per_second.max(1.0)
    }
}
