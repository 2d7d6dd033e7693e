//! Cancelling long work: imports, restorations and moves.

use crate::wire::{Problem, ProblemCode};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Cancels all work of one kind that has begun.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    /// Number of times that it was cancelled.
    count: Arc<AtomicU64>,
}

/// Work that may be cancelled.
#[derive(Debug, Clone)]
pub(crate) struct Cancellable {
    count: Arc<AtomicU64>,
    /// The count when it began.
    began: u64,
}

/// The reason of an I/O error of cancelled work.
#[derive(Debug, thiserror::Error)]
#[error("it was cancelled")]
struct Cancelled;

impl Cancellation {
    /// Work that begins later is not cancelled.
    pub fn cancel(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Work that begins now: call it before the work waits for anything.
    pub fn begin(&self) -> Cancellable {
        Cancellable {
            count: self.count.clone(),
            began: self.count.load(Ordering::SeqCst),
        }
    }
}

impl Cancellable {
    /// # Errors
    /// It was cancelled; [`is_cancelled`] recognizes the error.
    pub fn check(&self) -> io::Result<()> {
        if self.count.load(Ordering::SeqCst) == self.began {
            Ok(())
        } else {
            Err(io::Error::other(Cancelled))
        }
    }
}

/// Whether [`Cancellable::check`] returned this error.
pub(crate) fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|why| why.is::<Cancelled>())
}

/// The problem of cancelled work, with this sentence.
pub(crate) fn cancelled(message: &str) -> Problem {
    Problem {
        code: ProblemCode::Cancelled,
        message: message.to_owned(),
    }
}
