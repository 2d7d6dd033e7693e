//! Why a worker could not be started.

use crate::{Problem, ProblemCode};
use std::{io, path::PathBuf, time::Duration};

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The executable does not exist.
    #[error("Hearth's worker is missing at {}. Reinstall Hearth, or build the whole workspace.", .0.display())]
    Missing(PathBuf),
    /// The operating system refused to start it.
    #[error("Hearth's worker at {} could not be started: {source}.", .executable.display())]
    Refused {
        /// The executable.
        executable: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It was not ready in time.
    #[error("Hearth's worker did not answer within {} seconds and was killed. Try again.{log}", .within.as_secs())]
    NotReady {
        /// The time limit.
        within: Duration,
        /// The end of its log, or empty.
        log: String,
    },
    /// Its first line is not [`Event::Ready`](crate::Event::Ready).
    #[error("{} is not Hearth's worker: its first message is invalid. Reinstall Hearth.{log}", .executable.display())]
    NotAWorker {
        /// The executable.
        executable: PathBuf,
        /// The end of its log, or empty.
        log: String,
    },
    /// Its protocol has another version.
    #[error(
        "Hearth was updated while it was running (its worker is now of version {version}). Restart Hearth; if this \
         happens again, reinstall it."
    )]
    OtherVersion {
        /// Hearth's version as reported by the worker.
        version: String,
    },
    /// It exited during its start.
    #[error("{0}")]
    Died(Problem),
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        Self {
            code: match error {
                StartError::OtherVersion { .. } => ProblemCode::Updated,
                _ => ProblemCode::WorkerDied,
            },
            message: error.to_string(),
        }
    }
}
