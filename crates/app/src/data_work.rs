//! Exclusion of work on the whole data folder: backups, restorations and moves.

use crate::{
    lock::lock,
    wire::{Problem, ProblemCode},
};
use hearth_protocol::DataReason;
use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Allows one piece of work at a time.
#[derive(Debug, Default)]
pub(crate) struct DataWork(Arc<State>);

#[derive(Debug, Default)]
struct State {
    current: Mutex<Option<Work>>,
    ended: Condvar,
}

/// Work on the whole data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Backup,
    Restoration,
    Move,
}

/// Work in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<State>);

impl DataWork {
    /// Begins work.
    ///
    /// # Errors
    /// Other work is in progress ([`ProblemCode::Busy`]).
    pub fn begin(&self, work: Work) -> Result<InProgress, Problem> {
        self.begin_in(lock(&self.0.current), work)
    }

    /// Begins work, after the end of work of the same kind. Blocks.
    ///
    /// # Errors
    /// Other work is in progress ([`ProblemCode::Busy`]).
    pub fn begin_after_same(&self, work: Work) -> Result<InProgress, Problem> {
        let current = self
            .0
            .ended
            .wait_while(lock(&self.0.current), |current| *current == Some(work));
        self.begin_in(current.unwrap_or_else(PoisonError::into_inner), work)
    }

    fn begin_in(&self, mut current: MutexGuard<'_, Option<Work>>, work: Work) -> Result<InProgress, Problem> {
        let reason = match *current {
            None => {
                *current = Some(work);
                return Ok(InProgress(self.0.clone()));
            }
            Some(Work::Backup) => DataReason::BackupActive,
            Some(Work::Restoration) => DataReason::RestoreActive,
            Some(Work::Move) => DataReason::MoveActive,
        };
        Err(Problem::new(ProblemCode::Busy, reason))
    }
}

impl InProgress {
    /// Refuses other work until the app is restarted.
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        *lock(&self.0.current) = None;
        self.0.ended.notify_all();
    }
}
