//! Futures that a task with a worker selects on.

use hearth_protocol as protocol;
use protocol::{Event, Problem, Responses, StartError, Worker};
use std::future::pending;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// The result of starting a worker.
pub(crate) type Started = Result<Worker, StartError>;

/// The next event of a request. Never completes without one.
pub(crate) async fn next_event(request: &mut Option<Responses>) -> Option<Event> {
    match request {
        Some(events) => events.next().await,
        None => pending().await,
    }
}

/// The reason of the worker's exit. Never completes without a worker.
pub(crate) async fn died_worker(worker: &Option<Worker>) -> Problem {
    match worker {
        Some(worker) => worker.died().await,
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
        Err(StartError::Died(Problem {
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
