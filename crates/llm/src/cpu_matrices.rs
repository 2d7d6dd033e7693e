//! The weight matrices of a model on the CPU, for calibrating prefetching.

use hearth_kernels::{Calibrated, Layout, Matrix, Quant, ShapeError, calibrate};
use std::time::Duration;

/// Time of a calibration, excluding the first read of its weights.
const BUDGET: Duration = Duration::from_millis(160);

/// Weight matrices on the CPU. They share their bytes with the model.
#[derive(Default)]
pub(crate) struct CpuMatrices(Vec<CpuMatrix>);

struct CpuMatrix {
    quant: Quant,
    layout: Layout,
    /// Rows and columns.
    size: [usize; 2],
    bytes: bytes::Bytes,
}

impl CpuMatrices {
    /// Adds a matrix of `size` rows and columns.
    pub fn add(&mut self, quant: Quant, layout: Layout, size: [usize; 2], bytes: bytes::Bytes) {
        self.0.push(CpuMatrix {
            quant,
            layout,
            size,
            bytes,
        });
    }

    /// Measures the best prefetching for weight formats that were not measured yet, and sets it.
    /// Returns the results.
    pub fn calibrate(&self) -> Vec<Calibrated> {
        let matrices: Result<Vec<_>, _> = self.0.iter().map(CpuMatrix::matrix).collect();
        let results = matrices.and_then(|matrices| calibrate(&matrices, BUDGET));
        results.unwrap_or_else(|error| {
            tracing::warn!("prefetching could not be measured: {error}");
            Vec::new()
        })
    }
}

impl CpuMatrix {
    fn matrix(&self) -> Result<Matrix<'_>, ShapeError> {
        let [rows, cols] = self.size;
        Matrix::new(self.quant, self.layout, rows, cols, &self.bytes)
    }
}
