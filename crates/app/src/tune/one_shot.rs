//! One-shot worker processes: inspecting a dataset, exporting an adapter. Each job has its own
//! worker, so that a file that crashes it affects no run and no chat.

use crate::wire::{Code, Problem};
use hearth_protocol as protocol;
use protocol::{
    Event, ExportRequest, InspectRequest, Request, RunId, TrainingEvent, TrainingRequest, Worker, WorkerCommand,
    WorkerMessage,
};
use tokio::sync::{Mutex, watch};

/// The id of the only job of a one-shot worker.
pub(crate) const ONE_SHOT: RunId = 1;

/// Limits one-shot workers to one per kind.
#[derive(Default)]
pub(crate) struct OneShots {
    /// Held while an adapter is exported.
    exporting: Mutex<()>,
    /// Held while a dataset is inspected.
    inspecting: Mutex<()>,
    /// Number of the newest inspection.
    newest: watch::Sender<u64>,
}

impl OneShots {
    /// Exports an adapter in a one-shot worker. One at a time; dropping the future kills the
    /// worker.
    pub(crate) async fn export(
        &self,
        worker: &WorkerCommand,
        request: ExportRequest,
    ) -> Result<TrainingEvent, Problem> {
        let _one_at_a_time = self.exporting.lock().await;
        run_one_shot(worker, TrainingRequest::Export(request)).await
    }

    /// Cancels all inspections up to now, whose views are no longer shown. Returns the number of a
    /// new one. Call it before anything else, so that preparation does not change the order.
    pub(crate) fn new_inspection(&self) -> u64 {
        let mut number = 0;
        self.newest.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        number
    }

    /// Inspects a dataset in a one-shot worker, unless [`Self::new_inspection`] has cancelled this
    /// `number`. One at a time; dropping the future kills the worker.
    pub(crate) async fn inspect(
        &self,
        number: u64,
        worker: &WorkerCommand,
        request: InspectRequest,
    ) -> Result<TrainingEvent, Problem> {
        let mut newest = self.newest.subscribe();
        let inspection = async {
            let _one_at_a_time = self.inspecting.lock().await;
            run_one_shot(worker, TrainingRequest::Inspect(request)).await
        };
        tokio::select! {
            // A cancelled inspection starts no worker.
            biased;
            _ = newest.wait_for(|newest| *newest != number) => Err(Problem {
                code: Code::Cancelled,
                message: "Reading the dataset was cancelled because another inspection was started.".to_owned(),
            }),
            inspected = inspection => inspected,
        }
    }
}

/// Starts a worker for one request and waits for its response.
async fn run_one_shot(worker: &WorkerCommand, request: TrainingRequest) -> Result<TrainingEvent, Problem> {
    let (worker, mut messages) = Worker::start(worker)
        .await
        .map_err(|error| Problem::from(protocol::Problem::from(error)))?;
    // An exited worker is handled below.
    let _ = worker.send(Request::Training(request));
    loop {
        match messages.recv().await {
            Some(WorkerMessage::Event(Event::Training { event, .. })) => match event {
                TrainingEvent::Preparing { .. } => {}
                TrainingEvent::Failed(problem) => return Err(problem.into()),
                response => return Ok(response),
            },
            Some(WorkerMessage::Event(_)) => {}
            Some(WorkerMessage::Died(problem)) => return Err(problem.into()),
            None => return Err(no_response()),
        }
    }
}

/// The problem of a missing or unexpected response.
pub(crate) fn no_response() -> Problem {
    Problem {
        code: Code::Internal,
        message: "Hearth's worker did not respond. Try again.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::DataSource;

    #[tokio::test]
    async fn the_order_of_requests_decides_which_inspection_is_newer() {
        let shots = OneShots::default();
        let [older, newer] = [(); 2].map(|()| shots.new_inspection());
        let inspect = async |number| {
            let request = InspectRequest {
                id: ONE_SHOT,
                model: "a model".into(),
                data: DataSource {
                    path: "data".into(),
                    mapping: None,
                    skip_broken: false,
                },
                sequence: None,
                previews: 0,
            };
            let worker = WorkerCommand::new("no-such-worker");
            let ended = shots.inspect(number, &worker, request).await;
            ended.expect_err("there is no worker").code
        };
        // The newer one was prepared first, and starts a worker.
        assert_eq!(inspect(newer).await, Code::WorkerDied);
        assert_eq!(inspect(older).await, Code::Cancelled);
        assert_eq!(inspect(newer).await, Code::WorkerDied, "it is still the newest");
    }
}
