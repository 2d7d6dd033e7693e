//! Benchmarks of the kernels; results are in `docs/tried/`.
//!
//! A separate package, with criterion as an ordinary dependency: as a development dependency of
//! `hearth-kernels` it would give shared crates different features in tests than in programs, so
//! that Burn would be built twice.

use hearth_kernels::attention::Heads;
use hearth_kernels::{Layout, Linear, Matrix, Quant, ShapeError, matrix};

/// SmolLM2's heads.
pub const HEADS: Heads = Heads {
    heads: 9,
    kv_heads: 3,
    head_dim: 64,
    scale: 0.125,
    softcap: None,
    window: None,
};

/// Varied values from -1 to 1.
pub fn noise(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + i / 64) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

/// A weight in the layout that products are fastest with.
pub struct Weight {
    quant: Quant,
    layout: Layout,
    rows: usize,
    cols: usize,
    /// The packed or stored rows.
    pub bytes: Vec<u8>,
}

impl Weight {
    /// Repeats one quantized row: quantization is not measured.
    ///
    /// # Errors
    /// If `cols` are not whole blocks.
    pub fn new(quant: Quant, rows: usize, cols: usize) -> Result<Self, ShapeError> {
        let mut row = vec![0; quant.row_bytes(cols).ok_or(ShapeError::Layout { quant })?];
        quant.quantize_row(&noise(cols), &mut row)?;
        let (layout, bytes) = matrix::pack(quant, rows, cols, &row.repeat(rows))?;
        Ok(Self {
            quant,
            layout,
            rows,
            cols,
            bytes,
        })
    }

    /// A linear layer without bias or adapter.
    ///
    /// # Errors
    /// If `bytes` were changed.
    pub fn linear(&self) -> Result<Linear<'_>, ShapeError> {
        let matrix = Matrix::new(self.quant, self.layout, self.rows, self.cols, &self.bytes)?;
        Ok(Linear::plain(matrix))
    }
}
