//! The lock of another process on the store, which is announced if it lasts.

use std::time::{Duration, Instant};

/// The state of the lock; by default there is none.
#[derive(Debug, Default)]
pub(crate) struct ForeignLock {
    since: Option<Instant>,
    is_announced: bool,
}

impl ForeignLock {
    /// Records that another process locks the store. Returns `Some(true)` once, when the lock has
    /// lasted for `patience`, to announce it.
    pub(crate) fn locked(&mut self, patience: Duration) -> Option<bool> {
        match self.since {
            None => self.since = Some(Instant::now()),
            Some(since) if !self.is_announced && since.elapsed() >= patience => {
                self.is_announced = true;
                return Some(true);
            }
            Some(_) => {}
        }
        None
    }

    /// Records that the store could be written. Returns `Some(false)` if the lock was announced.
    pub(crate) fn unlocked(&mut self) -> Option<bool> {
        self.since = None;
        std::mem::take(&mut self.is_announced).then_some(false)
    }
}
