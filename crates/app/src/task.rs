//! Futures that a task with a worker selects on.

use hearth_protocol as protocol;
use protocol::{StartError, Worker, WorkerMessage};
use std::future::pending;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// A worker and its messages.
pub(crate) type Connected = (Worker, mpsc::Receiver<WorkerMessage>);

/// The result of starting a worker.
pub(crate) type Started = Result<Connected, StartError>;

/// The worker's next message. Never completes without a worker.
pub(crate) async fn next_message(worker: &mut Option<Connected>) -> Option<WorkerMessage> {
    match worker {
        Some((_, messages)) => messages.recv().await,
        None => pending().await,
    }
}

/// The worker that is being started. Never completes without one.
pub(crate) async fn started_worker(starting: &mut Option<JoinHandle<Started>>) -> Started {
    let Some(handle) = starting else { return pending().await };
    let result = handle.await;
    *starting = None;
    result.unwrap_or_else(|error| {
        let message = format!("Hearth's worker could not be started ({error}). Try again.");
        Err(StartError::Died(protocol::Problem {
            code: protocol::ProblemCode::Internal,
            message,
        }))
    })
}

/// Sleeps until an instant. Never completes without one.
pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
