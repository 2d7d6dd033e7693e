//! Progress on standard error, only where a person looks at it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line changes at most.
const PAUSE: Duration = Duration::from_millis(50);

/// One line that is written over, and gone at the end.
pub struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// Nothing shown yet.
    pub fn new() -> Self {
        Self {
            shown: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Shows what is being done, and how much of it is done, from 0 to 1.
    pub fn show(&mut self, fraction: f32, what: &str) {
        if self.shown && self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(Instant::now());
            // To a person alone, who loses nothing if it cannot be written.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{:3.0} %  {what}", fraction * 100.0);
        }
    }

    /// Leaves a line above.
    pub fn say(&mut self, line: &str) {
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
