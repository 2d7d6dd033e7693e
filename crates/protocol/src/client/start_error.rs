//! Why a worker could not be started.

use super::{log::with_log_line, whole_seconds};
use crate::{Problem, ProblemCode, WorkerReason};
use std::{error::Error, fmt, io, path::PathBuf, time::Duration};

/// Why a worker could not be started. Its `Display` is the English sentence of its [`Problem`].
#[derive(Debug)]
pub enum StartError {
    /// The executable does not exist.
    Missing(PathBuf),
    /// The operating system refused to start it.
    Refused {
        /// The executable.
        executable: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It was not ready in time.
    NotReady {
        /// The time limit.
        within: Duration,
        /// The line of its log that says why, if any.
        log: Option<String>,
    },
    /// Its first line is not [`Event::Ready`](crate::Event::Ready).
    NotAWorker {
        /// The executable.
        executable: PathBuf,
        /// The line of its log that says why, if any.
        log: Option<String>,
    },
    /// Its protocol has another version.
    OtherVersion {
        /// Hearth's version as reported by the worker.
        version: String,
    },
    /// It exited during its start.
    Died(Problem),
}

impl From<&StartError> for Problem {
    fn from(error: &StartError) -> Self {
        let worker_died = |reason: WorkerReason| Self::new(ProblemCode::WorkerDied, reason);
        match error {
            StartError::Missing(path) => {
                let path = path.display().to_string();
                worker_died(WorkerReason::Missing { path })
            }
            StartError::Refused { executable, source } => worker_died(WorkerReason::NotStarted {
                path: executable.display().to_string(),
                detail: source.to_string(),
            }),
            StartError::NotReady { within, log } => {
                let seconds = whole_seconds(*within);
                with_log_line(worker_died(WorkerReason::NotReady { seconds }), log.clone())
            }
            StartError::NotAWorker { executable, log } => {
                let path = executable.display().to_string();
                with_log_line(worker_died(WorkerReason::NotAWorker { path }), log.clone())
            }
            StartError::OtherVersion { version } => {
                let version = version.clone();
                Self::new(ProblemCode::Updated, WorkerReason::OtherVersion { version })
            }
            StartError::Died(problem) => Self::new(ProblemCode::WorkerDied, (*problem.reason).clone()),
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        Self::from(&error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Problem::from(self))
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { source, .. } => Some(source),
            _ => None,
        }
    }
}
