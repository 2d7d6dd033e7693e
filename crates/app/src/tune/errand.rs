//! What a worker does beside runs: reading a dataset, writing an adapter. Each has a worker of its own, so that a file that
//! is too much for it costs no run and no chat.

use crate::{
    shared::Shared,
    wire::{Code, Problem},
};
use hearth_protocol as protocol;
use protocol::{Event, ExportRequest, InspectRequest, Request, RunId, Said, TrainingEvent, TrainingRequest, Worker};
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

/// The name of whatever a worker does that does only that.
pub(crate) const ERRAND: RunId = 1;

/// What keeps errands apart.
#[derive(Default)]
pub(crate) struct Errands {
    /// Held while an adapter is exported.
    exporting: Mutex<()>,
    /// Held while a dataset is inspected.
    inspecting: Mutex<()>,
    /// The number of the newest inspection.
    newest: watch::Sender<u64>,
}

/// Exports an adapter in a worker of its own. One at a time; dropped, it ends.
pub(crate) async fn export(shared: &Arc<Shared>, request: ExportRequest) -> Result<TrainingEvent, Problem> {
    let _one_at_a_time = shared.errands.exporting.lock().await;
    ask(shared, TrainingRequest::Export(request)).await
}

/// Inspects a dataset in a worker of its own. One at a time: a newer inspection ends an older one, of which the view that asked for it shows
/// nothing any more. Dropped, it ends.
pub(crate) async fn inspect(shared: &Arc<Shared>, request: InspectRequest) -> Result<TrainingEvent, Problem> {
    let errands = &shared.errands;
    let mut newest = errands.newest.subscribe();
    let mut number = 0;
    errands.newest.send_modify(|newest| {
        *newest += 1;
        number = *newest;
    });
    let inspection = async {
        let _one_at_a_time = errands.inspecting.lock().await;
        ask(shared, TrainingRequest::Inspect(request)).await
    };
    tokio::select! {
        inspected = inspection => inspected,
        _ = newest.wait_for(|newest| *newest != number) => Err(Problem {
            code: Code::Cancelled,
            message: "Reading the dataset was stopped, because another inspection was asked for.".to_owned(),
        }),
    }
}

/// Asks a new worker, which is asked nothing else, and waits for its answer.
async fn ask(shared: &Arc<Shared>, request: TrainingRequest) -> Result<TrainingEvent, Problem> {
    let (worker, mut said) = Worker::start(&shared.worker)
        .await
        .map_err(|error| Problem::from(protocol::Problem::from(error)))?;
    // A worker that is gone reports its death below.
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
