//! Queries that need no engine: devices and plans.

use super::guarded;
use super::shared::Shared;
use crate::hardware;
use hearth_protocol::{DeviceInfo, Event, PlanRequest, RequestId};
use std::sync::{Arc, mpsc};

/// A query.
pub(super) enum Query {
    Devices(RequestId),
    Plan(RequestId, PlanRequest),
}

/// Answers queries, in order.
pub(super) fn run(queries: &mpsc::Receiver<Query>, shared: &Shared) {
    for query in queries {
        match query {
            Query::Devices(id) => shared.emit(id, Event::Devices { devices: devices() }),
            Query::Plan(id, request) => plan(id, &request, shared),
        }
    }
}

fn plan(id: RequestId, request: &PlanRequest, shared: &Shared) {
    let mut report = |stage: &str| {
        let (fraction, stage) = (0.0, stage.to_owned());
        shared.emit(id, Event::Progress { fraction, stage });
    };
    let planned = guarded(|| crate::plan::plan(request, &mut report));
    shared.emit(id, planned.map_or_else(Event::Failed, Event::Planned));
}

/// Makes a plan in a separate thread, since its device checks may take minutes.
pub(super) fn plan_with_checks(id: RequestId, request: PlanRequest, shared: &Arc<Shared>) {
    let planning = Arc::clone(shared);
    spawn("plan", id, shared, move || plan(id, &request, &planning));
}

fn devices() -> Vec<DeviceInfo> {
    guarded(|| Ok(hardware::devices())).unwrap_or_else(|problem| {
        tracing::error!("the devices could not be listed: {problem}");
        hardware::devices_for(Some(hardware::CPU))
    })
}

/// Runs a device check in a separate thread, since it may take minutes.
pub(super) fn check(id: RequestId, device: String, shared: &Arc<Shared>) {
    let checking = Arc::clone(shared);
    spawn("check", id, shared, move || {
        let devices = guarded(|| hardware::check(&device)).map(|()| hardware::devices());
        let event = devices.map_or_else(Event::Failed, |devices| Event::Devices { devices });
        checking.emit(id, event);
    });
}

fn spawn(name: &str, id: RequestId, shared: &Shared, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        let problem = crate::problem::internal(&format!("the {name} could not be started: {error}"));
        shared.emit(id, Event::Failed(problem));
    }
}
