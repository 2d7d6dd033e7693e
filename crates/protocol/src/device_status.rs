//! Whether a device can be used, and why not.

use crate::sentence::sentence;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::fmt;

/// Why a device is or is not usable. Its `Display` is the English sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DeviceStatus {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// The CPU, which is always usable.
    Cpu {
        /// Physical cores.
        cores: u32,
        /// The instruction set in use: `AVX2`.
        instructions: String,
    },
    /// A GPU that can be used.
    Usable {
        /// Names of its APIs: `Vulkan`, `CUDA`.
        apis: Vec<String>,
    },
    /// A software renderer on the CPU, which is never selected automatically.
    Software,
    /// A software renderer on the CPU, which this build cannot use.
    SoftwareUnusable,
    /// It was available when Hearth started and is gone.
    Lost,
    /// It is assigned to a virtual machine.
    VirtualMachine,
    /// It has no Vulkan driver.
    NoVulkanDriver,
    /// NVIDIA's driver is not in use for it.
    NvidiaDriverUnused,
    /// NVIDIA's driver is installed without Vulkan.
    NvidiaWithoutVulkan,
    /// CUDA does not support it with the installed driver.
    CudaDriverTooOld,
    /// CUDA's device library is missing.
    LibdeviceMissing,
    /// This build has no Vulkan.
    BuildWithoutVulkan,
    /// Its Vulkan driver has not passed Vulkan's tests.
    NotConformant,
    /// Its driver lacks features that Hearth needs.
    FeaturesMissing {
        /// The driver's API and version: `Vulkan 1.0.3`.
        api: String,
    },
    /// Its results differ from the CPU's.
    Mismatch {
        /// The mismatch.
        mismatch: Mismatch,
    },
}

impl fmt::Display for DeviceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("device_status", self))
    }
}

/// Why the graphics drivers could not be queried, so that no GPU is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DriverProblem {
    /// The process that queries them failed.
    Process {
        /// The failure.
        failure: ProcessFailure,
    },
}

impl fmt::Display for DriverProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("driver_problem", self))
    }
}

/// The failure of a process that queries or checks a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ProcessFailure {
    /// It could not be started.
    NotStarted {
        /// The program.
        program: String,
        /// The system's error.
        detail: String,
    },
    /// It crashed.
    Crashed {
        /// The signal or exception.
        detail: String,
    },
    /// It exited with an error.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// It exited without a readable answer.
    NoAnswer,
    /// It did not answer in time.
    TimedOut {
        /// The time limit in seconds.
        seconds: u64,
    },
}

/// The first result of a device check that differs from the CPU's, or why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Mismatch {
    /// In the words of an earlier version.
    Detail {
        /// A whole sentence, in English.
        detail: String,
    },
    /// Elements of an output are off.
    Elements {
        /// The check's case: an operation and its shapes.
        case: String,
        /// The output's name.
        output: String,
        /// Elements out of tolerance.
        wrong: u64,
        /// Total elements.
        elements: u64,
        /// Row of the worst element.
        row: u64,
        /// Column of the worst element.
        column: u64,
        /// Its value, perhaps `NaN`.
        actual: String,
        /// The CPU's value.
        expected: String,
    },
    /// The losses of a sample run are off.
    Losses {
        /// Its error in percent, perhaps `NaN`.
        percent: String,
    },
    /// The check panicked.
    Crashed {
        /// The panic's message.
        detail: String,
    },
    /// The process that checks the device failed.
    Process {
        /// The failure.
        failure: ProcessFailure,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("mismatch", self))
    }
}

/// Reads a recorded mismatch. A sentence, as in records of an earlier version, and an unknown
/// variant become [`Mismatch::Detail`].
pub(crate) fn read_mismatch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mismatch>, D::Error> {
    let recorded_value = Option::<Value>::deserialize(deserializer)?;
    Ok(recorded_value.map(|value| match value {
        Value::String(detail) => Mismatch::Detail { detail },
        value => {
            let detail = value.to_string();
            serde_json::from_value(value).unwrap_or(Mismatch::Detail { detail })
        }
    }))
}
