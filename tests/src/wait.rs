//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Time limit of most waits, which only a hang exceeds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two polls of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls a condition until it returns `Some`. Returns `None` after `limit`.
pub fn poll<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let value = condition();
        if value.is_some() || Instant::now() >= deadline {
            return value;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Polls a condition until it returns `Some`.
///
/// # Panics
/// Panics with `what` after `limit`.
pub fn until<T>(limit: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    poll(limit, condition).unwrap_or_else(|| panic!("not within {limit:?}: {what}"))
}
