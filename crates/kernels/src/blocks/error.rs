//! Errors of row operations.

use super::Quant;

/// Mismatched sizes of a row, or weights that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A row that is not a whole number of blocks.
    #[error("a row of {weights} weights cannot be {quant}, which needs a multiple of {}", quant.block_elements())]
    PartialBlock {
        /// The requested format.
        quant: Quant,
        /// The row's length.
        weights: usize,
    },
    /// Invalid number of bytes for the weights.
    #[error("{weights} weights in {quant} take {expected} bytes, but {found} were given")]
    Bytes {
        /// The format of the bytes.
        quant: Quant,
        /// Number of weights.
        weights: usize,
        /// Required bytes.
        expected: usize,
        /// Actual bytes.
        found: usize,
    },
    /// Weights that a format cannot represent.
    #[error("weights from index {at} cannot be stored as {quant}: one of them is NaN, infinite or too large")]
    NotStorable {
        /// The requested format.
        quant: Quant,
        /// Index of the first weight of the invalid block.
        at: usize,
    },
    /// Activations whose length differs from the length of the rows.
    #[error("rows of {cols} weights cannot be multiplied with {found} activations")]
    Activations {
        /// The length of a row.
        cols: usize,
        /// Number of activations.
        found: usize,
    },
}
