//! Workers for one request: inspecting a dataset, exporting an adapter. Each has its own worker, so
//! that a file that crashes it affects no run and no model.

use super::unexpected_answer;
use crate::{
    Event, ExportRequest, Exported, InspectRequest, Inspection, Problem, ProblemCode, Request, RequestReason, Stage,
    Worker, WorkerCommand, WorkerReason,
};
use std::pin::pin;
use tokio::sync::{Mutex, watch};

/// Limits workers for one request to one per kind.
#[derive(Debug, Default)]
pub(super) struct OneShots {
    /// Locked while an adapter is exported.
    export_lock: Mutex<()>,
    /// Locked while a dataset is inspected.
    inspection_lock: Mutex<()>,
    /// Number of the newest inspection.
    newest_inspection: watch::Sender<u64>,
}

impl OneShots {
    /// Exports an adapter, one at a time. `progress` receives the completed fraction and the stage.
    /// The export is cancelled when `cancelled` completes.
    pub async fn export(
        &self,
        command: &WorkerCommand,
        request: ExportRequest,
        mut progress: impl FnMut(f32, Stage),
        cancelled: impl Future<Output = ()>,
    ) -> Result<Exported, Problem> {
        let mut cancelled = pin!(cancelled);
        let _one_at_a_time = tokio::select! {
            biased;
            () = &mut cancelled => return Err(Problem::new(ProblemCode::Cancelled, RequestReason::Cancelled)),
            guard = self.export_lock.lock() => guard,
        };
        let worker = Worker::start(command).await?;
        let mut events = worker.request(Request::Export(request));
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                () = &mut cancelled, if !is_cancelled => {
                    is_cancelled = true;
                    events.cancel();
                }
                event = events.next() => match event {
                    Some(Event::Progress { fraction, stage }) => progress(fraction, stage),
                    Some(Event::Exported(exported)) => return Ok(exported),
                    Some(Event::Failed(problem)) => return Err(problem),
                    _ => return Err(unexpected_answer()),
                },
            }
        }
    }

    /// Cancels all inspections up to now, whose views are no longer shown. Returns the number of a
    /// new one.
    pub fn new_inspection(&self) -> u64 {
        let mut number = 0;
        self.newest_inspection.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        number
    }

    /// Inspects a dataset, unless [`Self::new_inspection`] has cancelled this `number`. One
    /// inspection runs at a time; dropping the future kills the worker.
    pub async fn inspect(
        &self,
        number: u64,
        command: &WorkerCommand,
        request: InspectRequest,
    ) -> Result<Inspection, Problem> {
        let mut newest = self.newest_inspection.subscribe();
        let inspection = async {
            let _one_at_a_time = self.inspection_lock.lock().await;
            match call(command, Request::Inspect(request)).await? {
                Event::Inspected(inspection) => Ok(*inspection),
                _ => Err(unexpected_answer()),
            }
        };
        tokio::select! {
            // A cancelled inspection starts no worker.
            biased;
            _ = newest.wait_for(|newest| *newest != number) => {
                Err(Problem::new(ProblemCode::Cancelled, WorkerReason::InspectionReplaced))
            }
            result = inspection => result,
        }
    }
}

/// Starts a worker for one request and waits for the last event of its answer.
async fn call(command: &WorkerCommand, request: Request) -> Result<Event, Problem> {
    Worker::start(command).await?.call(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataSource;

    #[tokio::test]
    async fn the_order_of_requests_decides_which_inspection_is_newer() {
        let one_shots = OneShots::default();
        let [older, newer] = [(); 2].map(|()| one_shots.new_inspection());
        let inspect = async |number| {
            let request = InspectRequest {
                model: "a model".into(),
                data: DataSource {
                    path: "data".into(),
                    mapping: None,
                    skip_broken: false,
                },
                sequence: None,
                system_prompt: None,
                previews: 0,
            };
            let worker = WorkerCommand::new("no-such-worker");
            let result = one_shots.inspect(number, &worker, request).await;
            result.expect_err("there is no worker").code
        };
        // The newer one was prepared first, and starts a worker.
        assert_eq!(inspect(newer).await, ProblemCode::WorkerDied);
        assert_eq!(inspect(older).await, ProblemCode::Cancelled);
        assert_eq!(inspect(newer).await, ProblemCode::WorkerDied, "it is still the newest");
    }
}
