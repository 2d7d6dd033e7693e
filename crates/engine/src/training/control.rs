//! Controls a run from another thread.

use hearth_protocol::RunCommand;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The latest command to a run.
#[derive(Debug, Default)]
pub struct RunControl {
    command: Mutex<RunCommand>,
    changed: Condvar,
}

impl RunControl {
    /// Sets the command. After a command that ends the run, only a command that ends it sooner has
    /// an effect.
    pub fn set(&self, command: RunCommand) {
        let mut current = self.lock();
        if *current < RunCommand::Stop || command > *current {
            *current = command;
            self.changed.notify_all();
        }
    }

    /// The current command.
    pub fn get(&self) -> RunCommand {
        *self.lock()
    }

    /// Blocks while the command is [`RunCommand::Pause`]. Returns the next command.
    pub fn wait(&self) -> RunCommand {
        let command = self
            .changed
            .wait_while(self.lock(), |command| *command == RunCommand::Pause);
        *command.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, RunCommand> {
        self.command.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
