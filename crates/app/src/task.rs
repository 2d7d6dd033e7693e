//! What a task that owns a worker waits for.

use hearth_protocol as protocol;
use protocol::{Said, StartError, Worker};
use std::future::pending;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// A worker, and what it says.
pub(crate) type Connected = (Worker, mpsc::Receiver<Said>);

/// What came of starting one.
pub(crate) type Started = Result<Connected, StartError>;

/// The next thing a worker says; for ever where there is none.
pub(crate) async fn heard(worker: &mut Option<Connected>) -> Option<Said> {
    match worker {
        Some((_, said)) => said.recv().await,
        None => pending().await,
    }
}

/// The worker that is being started; for ever where none is.
pub(crate) async fn joined(starting: &mut Option<JoinHandle<Started>>) -> Started {
    let Some(handle) = starting else { return pending().await };
    let result = handle.await;
    *starting = None;
    result.unwrap_or_else(|error| {
        let message = format!("Starting Hearth's worker went wrong ({error}). Try again.");
        Err(StartError::Died(protocol::Problem {
            code: protocol::ProblemCode::Internal,
            message,
        }))
    })
}

/// A moment; for ever where there is none.
pub(crate) async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
