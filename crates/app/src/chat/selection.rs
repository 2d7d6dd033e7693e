//! The model that new answers wait for, and its state in the window.

use super::Target;
use crate::{
    shared::Shared,
    wire::{ChatReason, Event, ModelState, Problem},
};
use hearth_protocol::{LoadError, Model, ModelStatus, ProblemCode};
use std::sync::Arc;
use tokio::sync::watch;

/// The model that new answers wait for.
#[derive(Clone)]
pub(super) struct Selection {
    pub target: Arc<Target>,
    pub model: Model,
}

/// The state of the selected model.
pub(super) fn state(selection: Option<&Selection>) -> ModelState {
    match selection {
        Some(selected) => state_of(selected, &selected.model.status().borrow()),
        None => ModelState::None,
    }
}

/// The state of a model with a status.
fn state_of(selected: &Selection, status: &ModelStatus) -> ModelState {
    let model = selected.target.id.clone();
    match status {
        ModelStatus::Unloaded | ModelStatus::Died(_) => ModelState::None,
        ModelStatus::Loading { fraction, stage } => ModelState::Loading {
            model,
            fraction: *fraction,
            stage: stage.clone(),
        },
        ModelStatus::Ready(info) => ModelState::Ready {
            model,
            info: Box::new(info.as_ref().clone()),
            draft_problem: selected.target.draft_problem.clone(),
        },
        ModelStatus::Failed { problem, has_died } => ModelState::Failed {
            model,
            problem: if *has_died {
                died(problem.clone())
            } else {
                problem.clone()
            },
        },
    }
}

/// Emits the state of the selected model whenever it changes, and its worker's death.
pub(super) async fn show(shared: Arc<Shared>, mut selection: watch::Receiver<Option<Selection>>) {
    let mut shown = ModelState::None;
    let mut show = |state: ModelState| {
        if state != shown {
            shown = state.clone();
            shared.emit(Event::ModelState { state });
        }
    };
    loop {
        let selected = selection.borrow_and_update().clone();
        let Some(selected) = selected else {
            show(ModelState::None);
            match selection.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let mut status = selected.model.status();
        loop {
            let current = status.borrow_and_update().clone();
            if let ModelStatus::Died(problem) = &current {
                let (model, problem) = (selected.target.id.clone(), died(problem.clone()));
                shared.emit(Event::WorkerDied { model, problem });
            }
            show(state_of(&selected, &current));
            tokio::select! {
                // The model in `selected` holds the sender.
                _ = status.changed() => {}
                changed = selection.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
            }
        }
    }
}

/// The problem of an answer whose model is not ready. `None` means that it was unloaded.
pub(super) fn not_ready(error: LoadError) -> Option<Problem> {
    match error {
        LoadError::Failed(problem) if problem.code == ProblemCode::Cancelled => None,
        LoadError::Failed(problem) => Some(problem),
        LoadError::Died(problem) => Some(died(problem)),
    }
}

/// The problem of a dead worker, with advice for the user.
pub(super) fn died(problem: Problem) -> Problem {
    let (code, cause) = (problem.code, Box::new(problem));
    let reason = match code {
        ProblemCode::OutOfMemory => ChatReason::WorkerOutOfMemory { cause },
        _ => ChatReason::WorkerDied { cause },
    };
    Problem::new(code, reason)
}
