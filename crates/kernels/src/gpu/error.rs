//! What can be wrong with what a GPU kernel is given.

use crate::blocks::Quant;

/// A kernel that cannot run on what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// Rows that are not whole blocks, or more than a number can hold.
    #[error(
        "a weight of {rows} rows of {cols} cannot be {quant}: its rows are not whole blocks, or it is too large to address"
    )]
    Shape {
        /// The block format.
        quant: Quant,
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
    },
    /// A buffer that holds less than its shape says.
    #[error("the {what} takes {needed} bytes, and its buffer on the device has {found}")]
    Short {
        /// Which buffer.
        what: &'static str,
        /// What its shape takes.
        needed: u64,
        /// What it has.
        found: u64,
    },
    /// A size that does not fit the others.
    #[error("the {what} is {found}, and {expected} would fit the rest")]
    Size {
        /// Which size.
        what: &'static str,
        /// What it is.
        found: usize,
        /// What it has to be.
        expected: usize,
    },
    /// More than a kernel, which counts in 32 bits, can address.
    #[error("the {what} takes {needed} bytes at once, and a kernel can address 4 GiB")]
    Large {
        /// Which buffer.
        what: &'static str,
        /// What it takes.
        needed: u64,
    },
    /// A product for matrix units on a device that has none for it.
    #[error("the device has no matrix units for this product")]
    NoMatrixUnits,
}
