//! Executes inspections, runs and exports.

use super::guarded;
use super::shared::Shared;
use crate::memory;
use crate::training::{self, RunControl};
use hearth_protocol::{Event, ExportRequest, InspectRequest, RequestId, TrainRequest, TrainingEvent};
use std::ops::ControlFlow;

pub(super) fn inspect(id: RequestId, request: &InspectRequest, shared: &Shared) {
    let result = guarded(|| training::inspect(request, &|| !shared.is_cancelled(id)));
    memory::release();
    let event = result.map_or_else(Event::Failed, |inspection| Event::Inspected(Box::new(inspection)));
    shared.end(id, event);
}

pub(super) fn train(id: RequestId, request: &TrainRequest, control: &RunControl, shared: &Shared) {
    if request.low_priority {
        training::lower();
    }
    let mut emit = |event| shared.emit(id, Event::Training { event });
    let result = guarded(|| training::train(request, control, &mut emit));
    memory::release();
    shared.state().runs.remove(&id);
    let event = match result {
        Ok(Some(outcome)) => {
            let event = TrainingEvent::Finished(Box::new(outcome));
            Event::Training { event }
        }
        Ok(None) => Event::Training {
            event: TrainingEvent::Suspended,
        },
        Err(problem) => Event::Failed(problem),
    };
    shared.end(id, event);
}

pub(super) fn export(id: RequestId, request: &ExportRequest, shared: &Shared) {
    let result = guarded(|| {
        training::export(request, &mut |fraction, stage| {
            shared.emit(id, Event::Progress { fraction, stage });
            if shared.is_cancelled(id) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    memory::release();
    shared.end(id, result.map_or_else(Event::Failed, Event::Exported));
}
