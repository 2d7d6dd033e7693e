//! Progress on standard error, only if it is a terminal.

use crate::terminal::{say, stderr};
use std::io::Write;
use std::time::{Duration, Instant};

/// Minimum interval between updates.
const PAUSE: Duration = Duration::from_millis(50);

/// Clears the line of the cursor.
const CLEAR: &str = "\r\x1b[2K";

/// A progress line that is overwritten, and erased on drop.
pub struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// No line yet.
    pub fn new() -> Self {
        Self {
            shown: stderr().is_terminal(),
            last: None,
        }
    }

    /// Shows the stage and its progress, from 0 to 1.
    pub fn show(&mut self, fraction: f32, stage: &str) {
        if self.shown && self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(Instant::now());
            // Write errors are ignored: it is only for people.
            let mut out = stderr();
            let _ = out.control(CLEAR);
            let _ = write!(out, "{:3.0} %  {stage}", fraction * 100.0);
        }
    }

    /// Prints a line above the progress.
    pub fn print_line(&mut self, line: &str) {
        if self.last.take().is_some() {
            let _ = stderr().control(CLEAR);
        }
        say(format_args!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = stderr().control(CLEAR);
        }
    }
}
