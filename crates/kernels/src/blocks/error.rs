//! What can be wrong with the slices handed to a row operation.

use super::Quant;

/// A row whose sizes do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A row that is not a whole number of blocks.
    #[error("a row of {weights} weights cannot be {quant}, which needs a multiple of {}", quant.block_elements())]
    PartialBlock {
        /// The format asked for.
        quant: Quant,
        /// The row's length.
        weights: usize,
    },
    /// A slice of bytes that is not what the weights take.
    #[error("{weights} weights in {quant} take {expected} bytes, but {found} were given")]
    Bytes {
        /// The format of the bytes.
        quant: Quant,
        /// How many weights there are.
        weights: usize,
        /// The bytes that they take.
        expected: usize,
        /// The bytes given.
        found: usize,
    },
    /// Weights that a format cannot hold.
    #[error("the weights from number {at} on cannot be stored as {quant}: one of them is NaN, infinite or too large")]
    NotStorable {
        /// The format asked for.
        quant: Quant,
        /// The first weight of the block that holds the bad one.
        at: usize,
    },
    /// Activations that are not as long as the rows they meet.
    #[error("rows of {cols} weights cannot meet {found} activations")]
    Activations {
        /// The length of a row.
        cols: usize,
        /// The activations given.
        found: usize,
    },
}
