//! Products of stored rows with activations, one row at a time: the path that every format has on every machine.

mod activations;
mod scalar;

pub use activations::{ActivationChunk, Activations};

use crate::blocks::{BlockError, Quant};

impl Quant {
    /// The product of one stored row with activations. Plain formats meet the activations in f32, others in int8.
    ///
    /// # Errors
    /// Where `row` does not hold as many weights as there are activations.
    pub fn dot(self, row: &[u8], activations: &Activations) -> Result<f32, BlockError> {
        self.check(row, activations.cols())?;
        Ok(scalar::dot(self, row, activations))
    }

    /// `y[r]` becomes the product of row `r` of `rows` with the activations, for every element of `y`.
    ///
    /// # Errors
    /// Where `rows` are not `y.len()` rows of as many weights as there are activations.
    pub fn gemv(self, rows: &[u8], activations: &Activations, y: &mut [f32]) -> Result<(), BlockError> {
        let stride = self.check_rows(rows, activations.cols(), y.len())?;
        for (y, row) in y.iter_mut().zip(rows.chunks_exact(stride)) {
            *y = scalar::dot(self, row, activations);
        }
        Ok(())
    }

    /// The bytes of one row, where `bytes` are `rows` rows of `cols` weights.
    fn check_rows(self, bytes: &[u8], cols: usize, rows: usize) -> Result<usize, BlockError> {
        let stride = self.row_bytes(cols).ok_or(BlockError::PartialBlock {
            quant: self,
            weights: cols,
        })?;
        let expected = stride.saturating_mul(rows);
        if bytes.len() != expected {
            let weights = cols.saturating_mul(rows);
            return Err(BlockError::Bytes {
                quant: self,
                weights,
                expected,
                found: bytes.len(),
            });
        }
        Ok(stride.max(1))
    }
}
