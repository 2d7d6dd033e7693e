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

/// Answer queries, in order.
pub(super) fn run(queries: &mpsc::Receiver<Query>, shared: &Shared) {
    for query in queries {
        match query {
            Query::Devices(id) => shared.emit(id, Event::Devices { devices: devices() }),
            Query::Plan(id, request) => {
                let planned = guarded(|| crate::plan::plan(&request));
                shared.emit(id, planned.map_or_else(Event::Failed, Event::Planned));
            }
        }
    }
}

fn devices() -> Vec<DeviceInfo> {
    guarded(|| Ok(hardware::devices())).unwrap_or_else(|problem| {
        tracing::error!("the devices could not be listed: {problem}");
        hardware::devices_for(Some(hardware::CPU))
    })
}

/// Run a device check, which may take minutes, in its own thread.
pub(super) fn check(id: RequestId, device: String, shared: &Arc<Shared>) {
    let checking = Arc::clone(shared);
    let spawned = std::thread::Builder::new().name("check".to_owned()).spawn(move || {
        let devices = guarded(|| hardware::check(&device)).map(|()| hardware::devices());
        let event = devices.map_or_else(Event::Failed, |devices| Event::Devices { devices });
        checking.emit(id, event);
    });
    if let Err(error) = spawned {
        let problem = crate::problem::internal(&format!("the device check could not be started: {error}"));
        shared.emit(id, Event::Failed(problem));
    }
}
