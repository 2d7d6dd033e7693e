//! The log of a worker, on its standard error.

use super::lines::Lines;
use crate::{
    Problem, WorkerReason,
    memory_death::{Death, KillCount},
};
use std::{
    collections::VecDeque,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::process::ChildStderr;

/// Lines of the worker's log that a death report quotes.
const LOG_TAIL_LINES: usize = 12;
/// Maximum bytes of a line; drivers write to the log, too.
const LOG_LINE: usize = 4 << 10;
/// Most characters of a line in a problem.
const MAX_LINE_CHARS: usize = 200;

/// The last lines of a worker's log.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    /// Forward the log to `tracing`, line by line, and retain the last lines.
    pub async fn follow(self, stderr: ChildStderr) {
        let mut lines = Lines::texts(stderr, LOG_LINE);
        while let Ok(Some(line)) = lines.next().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!(target: "worker", "{line}");
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == LOG_TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
    }

    /// Kind of the death of the process that wrote this log.
    pub fn death(&self, status: ExitStatus, started: KillCount) -> Death {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Death::new(status, started, KillCount::now(), tail.iter().map(String::as_str))
    }

    /// The last non-empty line, for the user; all retained lines go to `tracing`. `None` means that
    /// the log is empty.
    pub fn last_line(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in tail.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        let last = tail.iter().map(|line| line.trim()).rfind(|line| !line.is_empty())?;
        Some(last.chars().take(MAX_LINE_CHARS).collect())
    }
}

/// The problem of a worker, with the last line of its log.
pub(super) fn logged(problem: Problem, line: Option<String>) -> Problem {
    match line {
        Some(line) => Problem::new(
            problem.code,
            WorkerReason::Logged {
                cause: Box::new(problem),
                line,
            },
        ),
        None => problem,
    }
}
