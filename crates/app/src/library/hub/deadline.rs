//! Time limits of headers, configurations and JSON.

use super::client::{Failure, Hub};
use hearth_protocol::FetchFailure;
use std::time::{Duration, Instant};

/// The lowest accepted speed of a server in bytes per second: the speed of a slow mobile
/// connection.
const MIN_RATE: f64 = (16 << 10) as f64;

/// Longest time for all requests together: a header of 30 MB at 0.5 Mbit/s.
const MAX_DURATION: Duration = Duration::from_secs(480);

/// The time limit of an operation, over all of its requests. Without it, a server that sends a
/// byte now and then would block a thread for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    until: Instant,
    /// The latest value of `until`.
    latest: Instant,
}

impl Deadline {
    /// The deadline of a response of some kilobytes.
    pub fn new(hub: &Hub) -> Self {
        let now = Instant::now();
        Self {
            until: now + hub.patience,
            latest: now + hub.patience.max(MAX_DURATION),
        }
    }

    /// Extends the deadline by the time that `bytes` more take at [`MIN_RATE`].
    pub fn allow(&mut self, bytes: u64) {
        let until = self.until + Duration::from_secs_f64(bytes as f64 / MIN_RATE);
        self.until = until.min(self.latest);
    }

    /// The remaining time.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn remaining(&self) -> Result<Duration, Failure> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(Failure::Temporary(FetchFailure::TooSlow)),
            remaining => Ok(remaining),
        }
    }
}
