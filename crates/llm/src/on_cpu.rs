//! The matrices of a model that are on the CPU, to measure how they are multiplied best.

use hearth_kernels::{Calibrated, Layout, Matrix, Quant, ShapeError, calibrate};
use std::time::Duration;

/// Time of a calibration, after the weights that it uses were read once.
const BUDGET: Duration = Duration::from_millis(160);

/// Matrices on the CPU. The bytes are shared with the model.
#[derive(Default)]
pub(crate) struct OnCpu(Vec<OneOnCpu>);

struct OneOnCpu {
    quant: Quant,
    layout: Layout,
    size: [usize; 2],
    bytes: bytes::Bytes,
}

impl OnCpu {
    /// Adds a matrix of `size` rows and columns.
    pub fn add(&mut self, quant: Quant, layout: Layout, size: [usize; 2], bytes: bytes::Bytes) {
        self.0.push(OneOnCpu {
            quant,
            layout,
            size,
            bytes,
        });
    }

    /// Measures how the formats that were never measured are prefetched best, and uses that from
    /// now on. Returns what was measured.
    pub fn calibrate(&self) -> Vec<Calibrated> {
        let matrices: Result<Vec<_>, _> = self.0.iter().map(OneOnCpu::matrix).collect();
        let measured = matrices.and_then(|matrices| calibrate(&matrices, BUDGET));
        measured.unwrap_or_else(|error| {
            tracing::warn!("prefetching could not be measured: {error}");
            Vec::new()
        })
    }
}

impl OneOnCpu {
    fn matrix(&self) -> Result<Matrix<'_>, ShapeError> {
        let [rows, cols] = self.size;
        Matrix::new(self.quant, self.layout, rows, cols, &self.bytes)
    }
}
