//! Loads a model for a worker, with fallbacks.

use super::shared::Shared;
use crate::{Engine, hardware};
use hearth_protocol::{DraftChoice, Event, LoadRequest, Notice, Problem, ProblemCode, RequestId};
use std::ops::ControlFlow;

/// Minimum increase of the completed fraction between two progress events.
const MIN_PROGRESS: f32 = 0.01;

/// Loads a model as requested. If the draft cannot be used, falls back to the automatic draft. If
/// the requested GPU does not exist any more, falls back to the CPU. Each fallback adds a notice.
///
/// # Errors
/// The model cannot be loaded, or the load was cancelled.
pub(super) fn load(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Box<Engine>, Problem> {
    let engine = load_or_use_cpu(id, request, shared).or_else(|problem| {
        if problem.code != ProblemCode::DraftInvalid {
            return Err(problem);
        }
        let with_auto_draft = LoadRequest {
            draft: DraftChoice::Auto,
            ..request.clone()
        };
        let mut engine = load_or_use_cpu(id, &with_auto_draft, shared)?;
        let cause = Box::new(problem);
        engine.note(Notice::DraftUnused { cause });
        Ok(engine)
    });
    engine.map(Box::new)
}

/// Loads a model on the requested device, or on the CPU if that device does not exist any more.
fn load_or_use_cpu(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Engine, Problem> {
    load_with_progress(id, request, shared).or_else(|problem| {
        let names_gpu = request.device.as_deref().is_some_and(|device| device != hardware::CPU);
        if problem.code != ProblemCode::NoDevice || !names_gpu {
            return Err(problem);
        }
        let on_cpu = LoadRequest {
            device: Some(hardware::CPU.to_owned()),
            ..request.clone()
        };
        let mut engine = load_with_progress(id, &on_cpu, shared)?;
        let cause = Box::new(problem);
        engine.note(Notice::GpuGone { cause });
        Ok(engine)
    })
}

fn load_with_progress(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Engine, Problem> {
    let mut reported = f32::NEG_INFINITY;
    Engine::load(request, &mut |fraction, stage| {
        if shared.is_cancelled(id) {
            return ControlFlow::Break(());
        }
        if fraction - reported >= MIN_PROGRESS {
            reported = fraction;
            shared.emit(id, Event::Progress { fraction, stage });
        }
        ControlFlow::Continue(())
    })
}
