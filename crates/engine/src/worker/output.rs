//! The worker's output: one event per line.

use hearth_protocol::{Envelope, Event};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// The pipe to the client.
pub(super) struct Output(Mutex<Box<dyn Write + Send>>);

impl Output {
    pub fn new(pipe: Box<dyn Write + Send>) -> Self {
        Self(Mutex::new(pipe))
    }

    /// Writes an event.
    ///
    /// # Errors
    /// The client closed the pipe.
    pub fn write(&self, event: &Envelope<Event>) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(&line)?;
        pipe.flush()
    }
}
