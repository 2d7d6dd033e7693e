//! Progress on standard error, only if it is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Minimum interval between updates.
const PAUSE: Duration = Duration::from_millis(50);

/// A progress line that is overwritten, and erased on drop.
pub struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// No line yet.
    pub fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Show the stage and its progress, from 0 to 1.
    pub fn show(&mut self, fraction: f32, stage: &str) {
        if self.shown && self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(Instant::now());
            // Write errors are ignored: it is only for people.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{:3.0} %  {stage}", fraction * 100.0);
        }
    }

    /// Print a line above.
    pub fn print_line(&mut self, line: &str) {
        let clear = if self.last.take().is_some() { "\r\x1b[2K" } else { "" };
        eprintln!("{clear}{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
