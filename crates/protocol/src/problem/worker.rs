//! The worker's process: what can go wrong.

use crate::Problem;
use serde::{Deserialize, Serialize};

/// The worker's process: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WorkerReason {
    /// The worker's executable does not exist.
    Missing {
        /// Its path.
        path: String,
    },
    /// The system refused to start the worker.
    NotStarted {
        /// The executable.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// The worker was not ready in time.
    NotReady {
        /// The time limit.
        seconds: u32,
    },
    /// An executable is not Hearth's worker.
    NotAWorker {
        /// The executable.
        path: String,
    },
    /// The worker is of another version.
    OtherVersion {
        /// Its version.
        version: String,
    },
    /// The worker ran out of memory.
    OutOfMemory,
    /// The worker was killed, by the system or another program.
    Killed,
    /// The worker exited.
    Exited {
        /// The way in which it ended.
        exit: WorkerExit,
    },
    /// The worker closed its output.
    ClosedOutput,
    /// The worker's output could not be read.
    OutputUnreadable {
        /// The system's error.
        detail: String,
    },
    /// The worker sent a line that is no event.
    InvalidMessage {
        /// The beginning of the line.
        line: String,
    },
    /// The worker sent an event of a request that was not made.
    UnaskedAnswer {
        /// The request's id.
        request: u64,
    },
    /// The worker sent nothing for a long time after a request was cancelled.
    Silent {
        /// The time limit.
        seconds: u32,
    },
    /// The end of a worker, with the line of its log that says why.
    Logged {
        /// The end.
        cause: Box<Problem>,
        /// The line.
        line: String,
    },
    /// The worker was ended by its client.
    Ended,
    /// The worker has not confirmed that a request was cancelled.
    CancelNotConfirmed {
        /// The time limit.
        seconds: u32,
    },
    /// The worker did not respond.
    NoResponse {
        /// The time limit.
        seconds: u32,
    },
    /// The worker gave an answer of the wrong kind.
    UnexpectedAnswer,
    /// The worker received an invalid request.
    InvalidRequest {
        /// The parser's error.
        detail: String,
    },
    /// The model was unloaded while a request waited for it.
    ModelUnloaded,
    /// Another inspection of a dataset was started.
    InspectionReplaced,
    /// A newer plan was requested.
    PlanReplaced,
    /// The disk is full.
    DiskFull {
        /// The file or folder.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A file or folder cannot be read or written.
    FileUnreadable {
        /// The file or folder.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A bug in Hearth.
    Internal {
        /// The error.
        detail: String,
    },
}

/// The exit of a worker's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WorkerExit {
    /// By a signal.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// With an exit code.
    Code {
        /// The exit code.
        code: i32,
    },
    /// Without an exit code.
    None,
    /// Its status could not be read.
    Unknown {
        /// The system's error.
        detail: String,
    },
}
