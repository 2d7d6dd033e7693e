//! Checks of slice sizes, and their errors.

use crate::blocks::{BlockError, Quant};
use std::sync::{Mutex, PoisonError};

/// Mismatched sizes of slices or matrices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A slice of invalid length.
    #[error("{what}: expected {expected} elements, got {found}")]
    Length {
        /// Name of the slice.
        what: &'static str,
        /// The required length.
        expected: usize,
        /// The length of the slice.
        found: usize,
    },
    /// A size that must be a multiple of another.
    #[error("{what} is {found}, which is not a multiple of {of}")]
    Multiple {
        /// Name of the size.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The required divisor; not zero.
        of: usize,
    },
    /// An index out of range.
    #[error("{what} is {index}, but there are only {count}")]
    Index {
        /// Name of the index.
        what: &'static str,
        /// Its value.
        index: usize,
        /// The number of valid indices.
        count: usize,
    },
    /// Sizes whose product overflows `usize`.
    #[error("{what} is too large for this machine")]
    TooLarge {
        /// Name of the item that is too large.
        what: &'static str,
    },
    /// A packed layout that the format does not have.
    #[error("a matrix in {quant} cannot be packed in groups of sixteen rows")]
    Layout {
        /// The format of the matrix.
        quant: Quant,
    },
    /// A dropout rate out of range.
    #[error("dropout must be at least 0 and less than 1, but is {found}")]
    Rate {
        /// The rate.
        found: String,
    },
    /// Rows that do not match their format.
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// Checks the length of a slice. `None` means the expected length overflowed.
pub(crate) fn length(what: &'static str, found: usize, expected: Option<usize>) -> Result<(), ShapeError> {
    match expected {
        None => Err(ShapeError::TooLarge { what }),
        Some(expected) if expected != found => Err(ShapeError::Length { what, expected, found }),
        Some(_) => Ok(()),
    }
}

/// Checks that `found` is a multiple of `of`, which may be zero only if `found` is.
pub(crate) fn multiple(what: &'static str, found: usize, of: usize) -> Result<(), ShapeError> {
    if found.is_multiple_of(of) {
        Ok(())
    } else {
        Err(ShapeError::Multiple { what, found, of })
    }
}

/// The number of rows of `width` in a slice of `length`; both may be zero.
pub(crate) fn rows(what: &'static str, length: usize, width: usize) -> Result<usize, ShapeError> {
    multiple(what, length, width)?;
    Ok(length.checked_div(width).unwrap_or(0))
}

/// Collects the errors of work chunks; only the first is stored.
#[derive(Default)]
pub(crate) struct Outcome(Mutex<Option<ShapeError>>);

impl Outcome {
    /// Stores the error of `result` if it is the first one.
    pub fn note(&self, result: Result<(), ShapeError>) {
        if let Err(error) = result {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
    }

    /// Returns the first error.
    pub fn into_result(self) -> Result<(), ShapeError> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
