//! GEMV over rows in the file's layout, for every format on every machine.
//!
//! The scalar form of each kernel is the specification. The SIMD form is written once, generic over
//! [`Simd`].

mod activations;
mod element;
mod kernels;
mod scalar;
mod simd_block;

pub(crate) use crate::lanes::Simd;
#[cfg(target_arch = "x86_64")]
pub(crate) use activations::MAX_CODE;
pub use activations::{ActivationChunk, Activations};
pub(crate) use element::Element;
pub(crate) use simd_block::{SimdBlock, negate};

use crate::blocks::{BlockError, Quant};
use crate::isa::Isa;

impl Quant {
    /// Dot product of one stored row with activations: in f32 for unquantized formats, in int8 for
    /// others.
    ///
    /// # Errors
    /// If `row` does not hold as many weights as there are activations.
    pub fn dot(self, row: &[u8], activations: &Activations) -> Result<f32, BlockError> {
        let mut y = [0.0];
        self.gemv(row, activations, &mut y)?;
        Ok(y[0])
    }

    /// Matrix-vector product: sets each `y[r]` to the dot product of row `r` of `rows` with the
    /// activations.
    ///
    /// # Errors
    /// If `rows` are not `y.len()` rows of as many weights as there are activations.
    pub fn gemv(self, rows: &[u8], activations: &Activations, y: &mut [f32]) -> Result<(), BlockError> {
        self.gemv_on(Isa::best(), rows, activations, y)
    }

    /// [`Quant::gemv`] with a given instruction set.
    ///
    /// # Errors
    /// See [`Quant::gemv`].
    pub fn gemv_on(self, isa: Isa, rows: &[u8], activations: &Activations, y: &mut [f32]) -> Result<(), BlockError> {
        let stride = self.check_rows(rows, activations.cols(), y.len())?;
        if stride == 0 {
            y.fill(0.0);
        } else {
            isa.run(kernels::Gemv {
                quant: self,
                rows,
                stride,
                activations: *activations,
                y,
            });
        }
        Ok(())
    }

    /// Dequantizes `src` to `dst.len()` weights.
    ///
    /// # Errors
    /// If `src` does not hold exactly `dst.len()` weights.
    pub fn dequantize_row(self, src: &[u8], dst: &mut [f32]) -> Result<(), BlockError> {
        self.dequantize_row_on(Isa::best(), src, dst)
    }

    /// [`Quant::dequantize_row`] with a given instruction set. All give the same bits.
    ///
    /// # Errors
    /// See [`Quant::dequantize_row`].
    pub fn dequantize_row_on(self, isa: Isa, src: &[u8], dst: &mut [f32]) -> Result<(), BlockError> {
        self.check(src, dst.len())?;
        isa.run(kernels::Dequantize {
            quant: self,
            row: src,
            out: dst,
        });
        Ok(())
    }

    /// Checks that `bytes` are `rows` rows of `cols` weights. Returns the bytes of a row.
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
        Ok(stride)
    }
}

impl<'a> Activations<'a> {
    /// Quantizes `floats` to `chunks` and borrows both. If an activation is NaN or infinite, the
    /// scale of its group of 32 is NaN, and so is every product with this group.
    ///
    /// # Errors
    /// If `chunks` are not [`Activations::chunks_for`] `floats.len()`.
    pub fn quantize(floats: &'a [f32], chunks: &'a mut [ActivationChunk]) -> Result<Self, BlockError> {
        Self::quantize_on(Isa::best(), floats, chunks)
    }

    /// [`Activations::quantize`] with a given instruction set. All give the same bits.
    ///
    /// # Errors
    /// See [`Activations::quantize`].
    pub fn quantize_on(isa: Isa, floats: &'a [f32], chunks: &'a mut [ActivationChunk]) -> Result<Self, BlockError> {
        if chunks.len() == Self::chunks_for(floats.len()) {
            isa.run(kernels::Quantize {
                floats,
                chunks: &mut *chunks,
            });
        }
        Self::from_parts(floats, chunks)
    }
}
