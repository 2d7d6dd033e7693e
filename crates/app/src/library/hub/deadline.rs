//! Time limits of headers, configurations and JSON.

use super::client::{Failure, Hub};
use std::time::{Duration, Instant};

/// The lowest accepted speed of a server in bytes per second: the speed of a slow mobile
/// connection.
const MIN_RATE: f64 = (16 << 10) as f64;

/// Longest time for all requests together: a header of 30 MB at 0.5 Mbit/s.
const MAX_DURATION: Duration = Duration::from_secs(480);

/// The end of the time for something, however many requests it takes. A server that sends a byte
/// now and then would hold a thread for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    until: Instant,
    /// The limit of `until`.
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

    /// Adds the time for this many bytes more.
    pub fn allow(&mut self, bytes: u64) {
        let until = self.until + Duration::from_secs_f64(bytes as f64 / MIN_RATE);
        self.until = until.min(self.latest);
    }

    /// The time left.
    ///
    /// # Errors
    /// There is none.
    pub fn left(&self) -> Result<Duration, Failure> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(Failure::Temporary(
                "the server is too slow, or the connection is; try again".to_owned(),
            )),
            left => Ok(left),
        }
    }
}
