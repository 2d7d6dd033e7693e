//! What can be wrong with the sizes of the slices handed to a loop.

use crate::blocks::{BlockError, Quant};
use std::sync::{Mutex, PoisonError};

/// Slices whose sizes do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A slice of the wrong length.
    #[error("{what} must have {expected} elements here, but has {found}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// The length that its neighbours ask for.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// A size that must be a multiple of another.
    #[error("{what} is {found}, which is not a multiple of {of}")]
    Multiple {
        /// Which size.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What it must be a multiple of; not zero.
        of: usize,
    },
    /// An index past the end.
    #[error("{what} is {index}, but there are only {count}")]
    Index {
        /// Which index.
        what: &'static str,
        /// Its value.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Sizes whose product no address can hold.
    #[error("{what} is too large for this machine")]
    TooLarge {
        /// Of what.
        what: &'static str,
    },
    /// A matrix in a packed order that this build has no code for.
    #[error("a matrix in {quant} cannot be packed in groups of sixteen rows")]
    Layout {
        /// Its format.
        quant: Quant,
    },
    /// A dropout that would drop everything, or less than nothing.
    #[error("a dropout of {found} is not possible: choose one from 0 to below 1")]
    Rate {
        /// The rate.
        found: String,
    },
    /// Rows that do not fit their format.
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// Checks the length of a slice.
pub(crate) fn length(what: &'static str, found: usize, expected: Option<usize>) -> Result<(), ShapeError> {
    match expected {
        None => Err(ShapeError::TooLarge { what }),
        Some(expected) if expected != found => Err(ShapeError::Length { what, expected, found }),
        Some(_) => Ok(()),
    }
}

/// Checks that `found` is a multiple of `of`, which may be zero only where `found` is.
pub(crate) fn multiple(what: &'static str, found: usize, of: usize) -> Result<(), ShapeError> {
    match found.is_multiple_of(of) {
        true => Ok(()),
        false => Err(ShapeError::Multiple { what, found, of }),
    }
}

/// The number of rows of `width` in a slice of `length`; both may be zero.
pub(crate) fn rows(what: &'static str, length: usize, width: usize) -> Result<usize, ShapeError> {
    multiple(what, length, width)?;
    Ok(length.checked_div(width).unwrap_or(0))
}

/// Gathers what goes wrong in chunks of work: the first error is kept.
#[derive(Default)]
pub(crate) struct Outcome(Mutex<Option<ShapeError>>);

impl Outcome {
    pub fn note(&self, result: Result<(), ShapeError>) {
        if let Err(error) = result {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
    }

    pub fn into_result(self) -> Result<(), ShapeError> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
