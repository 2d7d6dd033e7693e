//! What a worker does beside runs: reading a dataset, writing an adapter. Each has a worker of its own, so that a file that
//! is too much for it costs no run and no chat.

use crate::{
    shared::Shared,
    wire::{Code, Problem},
};
use hearth_protocol as protocol;
use protocol::{Event, Request, RunId, Said, TrainingEvent, TrainingRequest, Worker};
use std::sync::Arc;

/// The name of whatever a worker does that does only that.
pub(crate) const ERRAND: RunId = 1;

/// Asks a new worker, which is asked nothing else, and waits for its answer. One at a time; dropped, it ends.
pub(crate) async fn errand(shared: &Arc<Shared>, request: TrainingRequest) -> Result<TrainingEvent, Problem> {
    let _one_at_a_time = shared.errand.lock().await;
    let (worker, mut said) = Worker::start(&shared.worker)
        .await
        .map_err(|error| Problem::from(protocol::Problem::from(error)))?;
    // A worker that is gone says so by itself.
    let _ = worker.send(Request::Training(request));
    loop {
        match said.recv().await {
            Some(Said::Event(Event::Training { event, .. })) => match event {
                TrainingEvent::Preparing { .. } => {}
                TrainingEvent::Failed(problem) => return Err(problem.into()),
                answer => return Ok(answer),
            },
            Some(Said::Event(_)) => {}
            Some(Said::Died(problem)) => return Err(problem.into()),
            None => return Err(no_answer()),
        }
    }
}

/// The worker said something else than what it was asked.
pub(crate) fn no_answer() -> Problem {
    Problem {
        code: Code::Internal,
        message: "Hearth's worker gave no answer. Try again.".to_owned(),
    }
}
