//! Reads requests. This thread computes nothing, so that each request is handled at once.

use super::job::{Job, Kind, Task};
use super::queries::{Query, check, plan_with_checks};
use super::shared::Shared;
use crate::training::RunControl;
use hearth_protocol::{Envelope, Event, Problem, ProblemCode, Request, RequestId, WorkerReason};
use std::io::{self, BufRead};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Reads requests until the input ends, [`Request::Shutdown`] arrives, or the worker closes.
pub(super) fn read(
    mut input: impl BufRead,
    jobs: &mpsc::Sender<Job>,
    queries: &mpsc::Sender<Query>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 || shared.state().closing {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Envelope { id, message } = match serde_json::from_slice(&line) {
            Ok(Envelope {
                message: Request::Shutdown,
                ..
            }) => return Ok(()),
            Ok(request) => request,
            Err(error) => {
                refuse(&line, &error, shared);
                continue;
            }
        };
        // If the receiver was dropped, the worker is closing.
        if let Some(task) = handle(id, message, queries, shared)
            && jobs.send(Job { id, task }).is_err()
        {
            return Ok(());
        }
    }
}

/// Executes requests that cannot wait. Any other request becomes a job.
fn handle(id: RequestId, request: Request, queries: &mpsc::Sender<Query>, shared: &Arc<Shared>) -> Option<Task> {
    let query = |query| {
        // The receiver may have been dropped.
        let _ = queries.send(query);
        None
    };
    match request {
        Request::Load(request) => {
            shared.cancel_all();
            admit(id, Kind::Load, shared).then_some(Task::Load(request))
        }
        Request::Unload => {
            shared.cancel_all();
            Some(Task::Unload)
        }
        Request::Generate(request) => admit(id, Kind::Generation, shared).then(|| Task::Generate {
            request: Box::new(request),
            received: Instant::now(),
        }),
        Request::Cancel { request } => {
            shared.cancel(request);
            None
        }
        Request::Count { messages } => Some(Task::Count(messages)),
        Request::CountUnsent(request) => {
            let admitted = admit(id, Kind::Other, shared);
            if admitted {
                shared.supersede_count(id);
            }
            admitted.then_some(Task::CountUnsent(request))
        }
        Request::Devices => query(Query::Devices(id)),
        Request::Check { device } => {
            check(id, device, shared);
            None
        }
        Request::Plan(request) if request.check || request.measure_speed => {
            plan_with_checks(id, request, shared);
            None
        }
        Request::Plan(request) => query(Query::Plan(id, request)),
        Request::Measure => admit(id, Kind::Other, shared).then_some(Task::Measure),
        Request::RemovePromptCache { conversation } => Some(Task::RemovePromptCache(conversation)),
        Request::SetPromptCacheLimit { max_bytes } => Some(Task::SetPromptCacheLimit(max_bytes)),
        Request::Inspect(request) => admit(id, Kind::Other, shared).then_some(Task::Inspect(request)),
        Request::Export(request) => admit(id, Kind::Other, shared).then_some(Task::Export(request)),
        Request::Train(request) => {
            let control = Arc::<RunControl>::default();
            let admitted = admit(id, Kind::Other, shared);
            if admitted {
                shared.state().runs.insert(id, Arc::clone(&control));
            }
            admitted.then_some(Task::Train { request, control })
        }
        Request::ControlRun { run, command } => {
            if let Some(control) = shared.state().runs.get(&run) {
                control.set(command);
            }
            None
        }
        Request::Shutdown => None,
    }
}

/// Registers a request, unless its id is in use: its events could not be distinguished from events
/// of the request in progress.
fn admit(id: RequestId, kind: Kind, shared: &Shared) -> bool {
    let is_new = shared.admit(id, kind);
    if !is_new {
        tracing::warn!(id, "a request with this id is in progress; another one is not started");
    }
    is_new
}

/// Reports a malformed request as failed, if its id can be read.
fn refuse(line: &[u8], error: &serde_json::Error, shared: &Shared) {
    tracing::warn!("a request is invalid: {error}");
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    if let Some(id) = value["id"].as_u64() {
        let detail = error.to_string();
        let problem = Problem::new(ProblemCode::BadRequest, WorkerReason::InvalidRequest { detail });
        shared.emit(id, Event::Failed(problem));
    }
}
