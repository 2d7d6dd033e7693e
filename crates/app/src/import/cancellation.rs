//! Cancelling imports.

use crate::wire::{Problem, ProblemCode};
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Cancels all imports in progress.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Number of times that imports were cancelled.
    count: AtomicU64,
}

/// An import that may be cancelled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cancellable<'a> {
    cancellation: &'a Cancellation,
    /// The count when it began.
    began: u64,
}

/// The reason of an I/O error of a cancelled import.
#[derive(Debug, thiserror::Error)]
#[error("the import was cancelled")]
struct Cancelled;

impl Cancellation {
    /// The imports that begin later are not cancelled.
    pub fn cancel(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// The number by which [`Cancellation::import`] notices a cancellation.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// An import that began at this count.
    pub(super) fn import(&self, began: u64) -> Cancellable<'_> {
        Cancellable {
            cancellation: self,
            began,
        }
    }
}

impl Cancellable<'_> {
    /// # Errors
    /// It was cancelled.
    pub fn check(&self) -> Result<(), Problem> {
        self.check_io().map_err(|_| cancelled())
    }

    /// The same for a reader; [`is_cancelled`] recognises the error.
    ///
    /// # Errors
    /// It was cancelled.
    pub fn check_io(&self) -> io::Result<()> {
        match self.cancellation.count() == self.began {
            true => Ok(()),
            false => Err(io::Error::other(Cancelled)),
        }
    }
}

/// Whether an error is that of [`Cancellable::check_io`].
pub(super) fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|why| why.is::<Cancelled>())
}

/// The problem of a cancelled import.
pub(super) fn cancelled() -> Problem {
    Problem {
        code: ProblemCode::Cancelled,
        message: "The import was cancelled.".to_owned(),
    }
}
