//! A future that a task selects on.

use std::future::pending;
use tokio::time::{Instant, sleep_until};

/// Sleeps until an instant. Never completes without one.
pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
