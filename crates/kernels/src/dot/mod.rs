//! Products of stored rows with activations, one row at a time: the path that every format has on every machine.
//!
//! The scalar form of each is the specification. The fast form is written once on the words of [`simd::Simd`]; a
//! machine's vectors are one file each, and [`Isa`] chooses among them.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod fast;
mod isa;
mod kernels;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod scalar;
mod simd;

pub use activations::{ActivationChunk, Activations};
pub(crate) use fast::{Fast, negate};
pub use isa::{Isa, Level};
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use neon::widen_f16;
pub(crate) use simd::Simd;

use crate::blocks::{BlockError, Quant};

impl Quant {
    /// The product of one stored row with activations. Plain formats meet the activations in f32, others in int8.
    ///
    /// # Errors
    /// Where `row` does not hold as many weights as there are activations.
    pub fn dot(self, row: &[u8], activations: &Activations) -> Result<f32, BlockError> {
        let mut y = [0.0];
        self.gemv(row, activations, &mut y)?;
        Ok(y[0])
    }

    /// `y[r]` becomes the product of row `r` of `rows` with the activations, for every element of `y`.
    ///
    /// # Errors
    /// Where `rows` are not `y.len()` rows of as many weights as there are activations.
    pub fn gemv(self, rows: &[u8], activations: &Activations, y: &mut [f32]) -> Result<(), BlockError> {
        self.gemv_on(Isa::best(), rows, activations, y)
    }

    /// [`Quant::gemv`] on the instructions given.
    ///
    /// # Errors
    /// As [`Quant::gemv`].
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

    /// Expands `src` to `dst.len()` weights.
    ///
    /// # Errors
    /// Where `src` does not hold exactly `dst.len()` weights.
    pub fn dequantize_row(self, src: &[u8], dst: &mut [f32]) -> Result<(), BlockError> {
        self.dequantize_row_on(Isa::best(), src, dst)
    }

    /// [`Quant::dequantize_row`] on the instructions given. The same to the bit on all.
    ///
    /// # Errors
    /// As [`Quant::dequantize_row`].
    pub fn dequantize_row_on(self, isa: Isa, src: &[u8], dst: &mut [f32]) -> Result<(), BlockError> {
        self.check(src, dst.len())?;
        isa.run(kernels::Dequantize {
            quant: self,
            row: src,
            out: dst,
        });
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
        Ok(stride)
    }
}

impl<'a> Activations<'a> {
    /// Quantises `floats` into `chunks`, and keeps both. Where an activation is NaN or infinite, the scale of its 32 is
    /// NaN, and so is every product with them.
    ///
    /// # Errors
    /// Where `chunks` are not [`Activations::chunks_for`] `floats.len()`.
    pub fn quantize(floats: &'a [f32], chunks: &'a mut [ActivationChunk]) -> Result<Self, BlockError> {
        Self::quantize_on(Isa::best(), floats, chunks)
    }

    /// [`Activations::quantize`] on the instructions given. The same to the bit on all.
    ///
    /// # Errors
    /// As [`Activations::quantize`].
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
