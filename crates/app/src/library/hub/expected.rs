//! The estimated performance of a model of a given size on this machine.

use hearth_protocol::{DeviceInfo, Estimate, Verdict, estimate};

/// Bytes of a parameter in Q4_K_M, the quantization that is chosen by default.
const BYTES_PER_PARAMETER: f64 = 0.6;

/// Estimates of a model's performance on the devices of this machine.
#[derive(Debug, Clone)]
pub struct Expected<'a>(pub &'a [DeviceInfo]);

impl Expected<'_> {
    /// Estimates the performance of a model whose files have this many bytes.
    pub fn of_size(&self, bytes: u64) -> Estimate {
        estimate(bytes, self.0)
    }

    /// Estimates the performance of a model with this many parameters, in 4 bits.
    pub fn of_parameters(&self, parameters: u64) -> Estimate {
        self.of_size((parameters as f64 * BYTES_PER_PARAMETER) as u64)
    }

    /// Whether a model runs well: it fits, and decode is at least as fast as the user reads.
    pub fn runs_well(&self, bytes: u64) -> bool {
        self.of_size(bytes).verdict == Verdict::Fits
    }
}
