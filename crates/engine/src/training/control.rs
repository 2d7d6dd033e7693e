//! Control of a run from another thread.

use hearth_protocol::RunCommand;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The latest command to one run.
#[derive(Debug, Default)]
pub struct RunControl {
    wish: Mutex<RunCommand>,
    changed: Condvar,
}

impl RunControl {
    /// Sets the command. A run that is ending can only be ended sooner.
    pub fn set(&self, wish: RunCommand) {
        let mut held = self.lock();
        if *held < RunCommand::Stop || wish > *held {
            *held = wish;
            self.changed.notify_all();
        }
    }

    /// The current command.
    pub fn get(&self) -> RunCommand {
        *self.lock()
    }

    /// Blocks while the command is [`RunCommand::Pause`].
    pub fn wait(&self) -> RunCommand {
        let held = self.changed.wait_while(self.lock(), |wish| *wish == RunCommand::Pause);
        *held.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, RunCommand> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
