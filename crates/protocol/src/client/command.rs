//! The command that starts a worker.

use crate::{client::StartError, hidden_command};
use std::{ffi::OsString, io, path::PathBuf, process::Stdio, time::Duration};
use tokio::process::{Child, Command};

/// Command line and environment of a worker.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The `hearth` executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Additions to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Time limit for [`Event::Ready`](crate::Event::Ready).
    pub ready_within: Duration,
    /// Time limit for the answer to a cancelled request, which then fails.
    pub cancelled_within: Duration,
    /// A worker that has not ended a cancelled request is killed if it sends nothing at all for
    /// this long.
    pub silent_within: Duration,
}

impl WorkerCommand {
    /// The command `executable worker`, with 30 s to start: a virus scanner may read the whole
    /// executable first.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            arguments: vec!["worker".into()],
            environment: Vec::new(),
            ready_within: Duration::from_secs(30),
            cancelled_within: Duration::from_secs(3),
            silent_within: Duration::from_secs(30),
        }
    }

    /// The same command, for the executable of another build
    /// ([`Plan::program`](crate::Plan::program)). `None` means the same executable.
    #[must_use]
    pub fn for_build(&self, program: Option<PathBuf>) -> Self {
        let mut command = self.clone();
        command.executable = program.unwrap_or(command.executable);
        command
    }
}

/// Starts the process, with pipes.
pub(super) fn spawn(command: &WorkerCommand) -> Result<Child, StartError> {
    let mut process = Command::from(hidden_command(&command.executable));
    process
        .args(&command.arguments)
        .envs(command.environment.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    process.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => StartError::Missing(command.executable.clone()),
        _ => StartError::Refused {
            executable: command.executable.clone(),
            source,
        },
    })
}
