//! A progress line on standard error. It is shown only if standard error is a terminal.

use crate::terminal::{say, stderr};
use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

/// Minimum interval between updates.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Control sequence that erases the line of the cursor.
const CLEAR: &str = "\r\x1b[2K";

/// A progress line. Each update overwrites it, and dropping it erases it.
pub struct Progress {
    is_shown: bool,
    /// Time of the last update; `None` while there is no line.
    last_update: Option<Instant>,
}

impl Progress {
    /// A progress that has no line yet.
    pub fn new() -> Self {
        Self {
            is_shown: stderr().is_terminal(),
            last_update: None,
        }
    }

    /// Shows the stage and its progress, from 0 to 1.
    pub fn show(&mut self, fraction: f32, stage: impl Display) {
        if self.is_shown && self.last_update.is_none_or(|last| last.elapsed() >= MIN_INTERVAL) {
            self.last_update = Some(Instant::now());
            // Write errors are ignored: the line is only for the user.
            let mut out = stderr();
            let _ = out.control(CLEAR);
            let _ = write!(out, "{:3.0} %  {stage}", fraction * 100.0);
        }
    }

    /// Prints a line above the progress.
    pub fn print_line(&mut self, line: &str) {
        if self.last_update.take().is_some() {
            let _ = stderr().control(CLEAR);
        }
        say(format_args!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last_update.is_some() {
            let _ = stderr().control(CLEAR);
        }
    }
}
