//! Answers queries that need no engine: device lists and plans.

use super::guarded;
use super::shared::Shared;
use crate::hardware;
use hearth_protocol::{DeviceInfo, Event, PlanRequest, RequestId};
use std::sync::{Arc, mpsc};

/// A query with the id of its request.
pub(super) enum Query {
    Devices(RequestId),
    Plan(RequestId, PlanRequest),
}

/// Answers queries in order, until the channel is closed.
pub(super) fn run(queries: &mpsc::Receiver<Query>, shared: &Shared) {
    for query in queries {
        match query {
            Query::Devices(id) => shared.emit(id, Event::Devices { devices: devices() }),
            Query::Plan(id, request) => plan(id, &request, shared),
        }
    }
}

fn plan(id: RequestId, request: &PlanRequest, shared: &Shared) {
    let mut report = |stage| shared.emit(id, Event::Progress { fraction: 0.0, stage });
    let result = guarded(|| crate::plan::plan(request, &mut report));
    shared.emit(id, result.map_or_else(Event::Failed, Event::Planned));
}

/// Plans in a separate thread, since its device checks may take minutes.
pub(super) fn plan_with_checks(id: RequestId, request: PlanRequest, shared: &Arc<Shared>) {
    let thread_shared = Arc::clone(shared);
    spawn("plan", id, shared, move || plan(id, &request, &thread_shared));
}

fn devices() -> Vec<DeviceInfo> {
    guarded(|| Ok(hardware::devices())).unwrap_or_else(|problem| {
        tracing::error!("the devices could not be listed: {problem}");
        hardware::devices_for(Some(hardware::CPU))
    })
}

/// Runs a device check in a separate thread, since it may take minutes.
pub(super) fn check(id: RequestId, device: String, shared: &Arc<Shared>) {
    let thread_shared = Arc::clone(shared);
    spawn("check", id, shared, move || {
        let devices = guarded(|| hardware::check(&device)).map(|()| hardware::devices());
        let event = devices.map_or_else(Event::Failed, |devices| Event::Devices { devices });
        thread_shared.emit(id, event);
    });
}

/// Starts a thread for a request, which fails if that is not possible.
fn spawn(name: &str, id: RequestId, shared: &Shared, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        let problem = crate::problem::internal(&format!("the {name} could not be started: {error}"));
        shared.emit(id, Event::Failed(problem));
    }
}
