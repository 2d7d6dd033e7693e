//! Loading a model.

use super::shared::Shared;
use crate::{Engine, hardware};
use hearth_protocol::{DraftChoice, Event, LoadRequest, Problem, ProblemCode, RequestId};
use std::ops::ControlFlow;

/// Minimum step of progress that is reported.
const PROGRESS_STEP: f32 = 0.01;

/// Loads a model as requested. If its draft cannot be used, it falls back to n-gram lookup; if its
/// GPU is gone, to the CPU. Each fallback adds a notice.
///
/// # Errors
/// It cannot be loaded, or the load was cancelled.
pub(super) fn load(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Box<Engine>, Problem> {
    let loaded = load_on_device(id, request, shared).or_else(|problem| {
        if problem.code != ProblemCode::DraftInvalid {
            return Err(problem);
        }
        let automatic = LoadRequest {
            draft: DraftChoice::Auto,
            ..request.clone()
        };
        let mut loaded = load_on_device(id, &automatic, shared)?;
        loaded.note(&format!("{} N-gram lookup is used instead.", problem.message));
        Ok(loaded)
    });
    loaded.map(Box::new)
}

fn load_on_device(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Engine, Problem> {
    load_here(id, request, shared).or_else(|problem| {
        let on_gpu = request.device.as_deref().is_some_and(|device| device != hardware::CPU);
        if problem.code != ProblemCode::NoDevice || !on_gpu {
            return Err(problem);
        }
        let on_cpu = LoadRequest {
            device: Some(hardware::CPU.to_owned()),
            ..request.clone()
        };
        let mut loaded = load_here(id, &on_cpu, shared)?;
        loaded.note(&format!("The model runs on the CPU. {problem}"));
        Ok(loaded)
    })
}

fn load_here(id: RequestId, request: &LoadRequest, shared: &Shared) -> Result<Engine, Problem> {
    let mut said = f32::NEG_INFINITY;
    Engine::load(request, &mut |fraction, stage| {
        if shared.is_cancelled(id) {
            return ControlFlow::Break(());
        }
        if fraction - said >= PROGRESS_STEP {
            said = fraction;
            let stage = stage.to_owned();
            shared.emit(id, Event::Progress { fraction, stage });
        }
        ControlFlow::Continue(())
    })
}
