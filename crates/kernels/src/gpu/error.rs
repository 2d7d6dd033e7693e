//! Errors of GPU kernel arguments.

use crate::blocks::Quant;

/// Invalid arguments of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// Rows are not whole blocks, or the size overflows.
    #[error(
        "a weight of {rows} rows of {cols} cannot be {quant}: its rows are not whole blocks, or it is too large to \
         address"
    )]
    Shape {
        /// The block format.
        quant: Quant,
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
    },
    /// A buffer is shorter than its shape.
    #[error("the {what} takes {needed} bytes, and its buffer on the device has {found}")]
    Short {
        /// The buffer's name.
        what: &'static str,
        /// Bytes that its shape needs.
        needed: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A size does not match the others.
    #[error("the {what} is {found}, and {expected} would fit the rest")]
    Size {
        /// The size's name.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Its required value.
        expected: usize,
    },
    /// A buffer exceeds the 32-bit addresses of a kernel.
    #[error("the {what} takes {needed} bytes at once, and a kernel can address 4 GiB")]
    Large {
        /// The buffer's name.
        what: &'static str,
        /// Bytes that it takes.
        needed: u64,
    },
    /// The device has no matrix units for this matrix multiplication.
    #[error("the device has no matrix units for this matrix multiplication")]
    NoMatrixUnits,
}
