//! One-shot worker processes: inspecting a dataset, exporting an adapter. Each job has its own
//! worker, so that a file that crashes it affects no run and no chat.

use crate::wire::{Code, Problem};
use hearth_protocol as protocol;
use protocol::{Event, ExportRequest, InspectRequest, Request, Worker, WorkerCommand};
use tokio::sync::{Mutex, watch};

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
    pub(crate) async fn export(&self, worker: &WorkerCommand, request: ExportRequest) -> Result<Event, Problem> {
        let _one_at_a_time = self.exporting.lock().await;
        run_one_shot(worker, Request::Export(request)).await
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
    ) -> Result<Event, Problem> {
        let mut newest = self.newest.subscribe();
        let inspection = async {
            let _one_at_a_time = self.inspecting.lock().await;
            run_one_shot(worker, Request::Inspect(request)).await
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
async fn run_one_shot(worker: &WorkerCommand, request: Request) -> Result<Event, Problem> {
    let worker = Worker::start(worker).await.map_err(protocol::Problem::from)?;
    Ok(worker.call(request).await?)
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
