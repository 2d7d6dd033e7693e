//! The log of a worker, on its standard error.

use super::lines::Lines;
use crate::memory_death::{Death, KillCount};
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

    /// The last non-empty line, as the end of an error message; all retained lines go to `tracing`.
    pub fn tail(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for line in tail.iter() {
            tracing::warn!(target: "worker", "{line}");
        }
        match tail.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!(
                " Last line of its log: \u{201c}{}\u{201d}.",
                line.trim().chars().take(200).collect::<String>()
            ),
            None => String::new(),
        }
    }
}
