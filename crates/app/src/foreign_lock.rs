//! A lock on the store by another process, which is announced once it lasts.

use std::time::{Duration, Instant};

/// The state of the lock; by default there is none.
#[derive(Debug, Default)]
pub(crate) struct ForeignLock {
    since: Option<Instant>,
    is_announced: bool,
}

impl ForeignLock {
    /// Another process locks the store. Returns the state to announce, if it lasts for `patience`.
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

    /// The store could be written. Returns the state to announce, if the lock was announced.
    pub(crate) fn unlocked(&mut self) -> Option<bool> {
        self.since = None;
        std::mem::take(&mut self.is_announced).then_some(false)
    }
}
