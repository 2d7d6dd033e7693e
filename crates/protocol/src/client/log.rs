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

/// Maximum lines of a worker's log that are retained.
const MAX_TAIL_LINES: usize = 12;
/// Maximum bytes of a line; drivers write to the log, too.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum characters of a line in a problem.
const MAX_LINE_CHARS: usize = 200;

/// The last lines of a worker's log.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    /// Forwards the log to `tracing`, line by line, and retains the last lines.
    pub async fn follow(self, stderr: ChildStderr) {
        let mut lines = Lines::for_log(stderr, MAX_LINE_BYTES);
        while let Ok(Some(line)) = lines.next().await {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            tracing::debug!(target: "worker", "{line}");
            let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == MAX_TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
    }

    /// The cause of the death of the process that wrote this log.
    pub fn death(&self, status: ExitStatus, kills_at_start: KillCount) -> Death {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Death::new(
            status,
            kills_at_start,
            KillCount::now(),
            tail.iter().map(String::as_str),
        )
    }

    /// The last non-empty line, for the user; all retained lines go to `tracing`. `None` means that
    /// the log is empty.
    pub fn last_line(&self) -> Option<String> {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in tail.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        let last_line = tail.iter().map(|line| line.trim()).rfind(|line| !line.is_empty())?;
        Some(last_line.chars().take(MAX_LINE_CHARS).collect())
    }
}

/// The problem of a worker, with the last line of its log.
pub(super) fn with_log_line(problem: Problem, line: Option<String>) -> Problem {
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
