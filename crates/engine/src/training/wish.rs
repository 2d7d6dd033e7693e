//! What is wanted of a run while it runs: said from one thread, heard by another.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What is wanted of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// That it goes on.
    #[default]
    Go,
    /// That it waits.
    Hold,
    /// That it ends, with what it has learnt.
    Stop,
    /// That it ends at once after the step, to be resumed later.
    Suspend,
}

/// The latest wish about one run.
#[derive(Debug, Default)]
pub struct Wishes {
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Wishes {
    /// Wants something else from now on. What was told to end stays told, and can only be told to end sooner.
    pub fn set(&self, wish: Wish) {
        let mut held = self.lock();
        if *held < Wish::Stop || wish > *held {
            *held = wish;
            self.changed.notify_all();
        }
    }

    /// What is wanted now.
    pub fn get(&self) -> Wish {
        *self.lock()
    }

    /// Waits until it is not [`Wish::Hold`] that is wanted.
    pub fn wait(&self) -> Wish {
        let held = self.changed.wait_while(self.lock(), |wish| *wish == Wish::Hold);
        *held.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
