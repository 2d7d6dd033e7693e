//! Cancelling long work: imports, restorations and moves.

use crate::wire::{Problem, ProblemCode, Reason};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Cancels all work of one kind that is in progress.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Number of cancellations.
    count: Arc<AtomicU64>,
}

/// Work that may be cancelled.
#[derive(Debug, Clone)]
pub(crate) struct Cancellable {
    count: Arc<AtomicU64>,
    /// The count when the work began.
    initial_count: u64,
}

/// The source of the I/O error of cancelled work.
#[derive(Debug, thiserror::Error)]
#[error("it was cancelled")]
struct Cancelled;

impl Cancellation {
    /// Cancels the work in progress. Work that begins later is not cancelled.
    pub fn cancel(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Begins work. To be called before the work waits for anything, so that no cancellation is
    /// missed.
    pub fn begin(&self) -> Cancellable {
        Cancellable {
            count: self.count.clone(),
            initial_count: self.count.load(Ordering::SeqCst),
        }
    }
}

impl Cancellable {
    /// Returns an error if the work was cancelled.
    ///
    /// # Errors
    /// The work was cancelled; [`is_cancelled`] recognizes the error.
    pub fn check(&self) -> io::Result<()> {
        if self.count.load(Ordering::SeqCst) == self.initial_count {
            Ok(())
        } else {
            Err(io::Error::other(Cancelled))
        }
    }
}

/// Whether [`Cancellable::check`] returned this error.
pub(crate) fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<Cancelled>())
}

/// The problem of cancelled work.
pub(crate) fn cancelled(reason: impl Into<Reason>) -> Problem {
    Problem::new(ProblemCode::Cancelled, reason)
}
