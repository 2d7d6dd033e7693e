//! The active run: its worker's events, shown and saved as they arrive.

use super::{closed, interrupted};
use crate::{
    adapters,
    convert::to_json,
    saving::{SAVE_RETRY_INTERVAL, Saved},
    shared::Shared,
    store::{self, adapter, run, run_evaluation, run_point},
    wire::{EndReason, Event, PauseReason, PendingChange, Run, RunEvaluation, RunPoint, RunState},
};
use hearth_protocol::{RunEvent, TrainRequest, TrainingEvent};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Interval between saves of new points. A crash of the app loses at most this part of the curves.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// The delay after a failed save.
const SAVE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The stage of a run and its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not started.
    Pending,
    /// Its worker has started or is starting.
    Started,
    /// It has ended and only has to be saved.
    Ended,
}

/// The reasons for a run to pause, and the state of its worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    /// The user paused it.
    pub(super) by_person: bool,
    /// A low battery pauses it. The user may clear this; mains power sets it again.
    pub(super) on_low_battery: bool,
    /// The current reason. `None` means that it should run.
    pub(super) reason: Option<PauseReason>,
    /// The worker was requested to pause.
    pub(super) is_requested: bool,
    /// The worker has paused.
    pub(super) is_confirmed: bool,
}

/// The active run.
pub(super) struct Current {
    shared: Arc<Shared>,
    pub(super) id: i64,
    /// The request for the worker.
    pub(super) request: Box<TrainRequest>,
    pub(super) stage: Stage,
    pub(super) pause: Pause,
    /// The worker was requested to stop.
    pub(super) is_stopping: bool,
    /// The last save found the store locked by another process.
    pub(super) is_store_locked: bool,
    /// Time of the next save. `None` means that nothing is new.
    pub(super) save_at: Option<Instant>,
    /// Points that are not saved yet.
    points: Vec<RunPoint>,
    /// Evaluations that are not saved yet.
    evaluations: Vec<RunEvaluation>,
    /// The adapter of a finished run.
    adapter: Option<PathBuf>,
}

impl Current {
    pub(super) fn new(shared: Arc<Shared>, id: i64, request: Box<TrainRequest>) -> Self {
        Self {
            shared,
            id,
            request,
            stage: Stage::Pending,
            pause: Pause {
                by_person: false,
                on_low_battery: true,
                reason: None,
                is_requested: false,
                is_confirmed: false,
            },
            is_stopping: false,
            is_store_locked: false,
            save_at: None,
            points: Vec::new(),
            evaluations: Vec::new(),
            adapter: None,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Run)) {
        self.shared.change_run(self.id, change);
    }

    fn schedule_save(&mut self) {
        self.save_at.get_or_insert_with(|| Instant::now() + SAVE_INTERVAL);
    }

    /// Handles an event of the run. `None` means that its worker exited without a final event.
    /// Returns the final state if the run has ended.
    pub(super) fn handle(&mut self, event: Option<RunEvent>) -> Option<RunState> {
        match event {
            Some(RunEvent::Training(event)) => self.handle_training(event),
            Some(RunEvent::Failed(problem)) => Some(RunState::Failed { problem }),
            Some(RunEvent::Interrupted(problem)) => Some(RunState::Interrupted {
                problem: interrupted(problem),
            }),
            None => Some(RunState::Interrupted {
                problem: super::ended(),
            }),
        }
    }

    fn handle_training(&mut self, event: TrainingEvent) -> Option<RunState> {
        match event {
            TrainingEvent::Preparing { fraction, stage } => {
                self.change(|run| run.state = RunState::Preparing { fraction, stage });
            }
            TrainingEvent::Planned(plan) => {
                self.change(|run| {
                    run.plan = Some(plan);
                    run.state = RunState::Planned;
                });
                self.schedule_save();
            }
            TrainingEvent::Step(report) => {
                let point = RunPoint::from(report);
                self.points.push(point);
                self.shared.run_stepped(self.id, point);
                if !self.pause.is_confirmed {
                    self.change(|run| run.state = RunState::Running);
                }
                self.schedule_save();
            }
            TrainingEvent::Evaluated { step, loss, best } => {
                let evaluation = RunEvaluation { step, loss, best };
                self.evaluations.push(evaluation);
                self.shared.emit(Event::RunEvaluated {
                    run: self.id,
                    evaluation,
                });
                self.schedule_save();
            }
            TrainingEvent::Checkpointed { step } => {
                self.change(|run| run.checkpoint = Some(step));
                self.schedule_save();
            }
            TrainingEvent::Paused { .. } => self.pause.is_confirmed = true,
            TrainingEvent::Resumed => {
                self.pause.is_confirmed = false;
                self.change(|run| run.state = RunState::Running);
            }
            TrainingEvent::Finished(outcome) => {
                // A run that was stopped before its first step has no adapter.
                self.adapter = (outcome.steps > 0).then(|| outcome.adapter.clone());
                let outcome = *outcome;
                let state = match outcome.reason {
                    EndReason::Stopped => RunState::Stopped,
                    EndReason::Completed | EndReason::EarlyStop => RunState::Finished,
                };
                self.change(|run| run.outcome = Some(outcome));
                return Some(state);
            }
            TrainingEvent::Suspended => return Some(RunState::Interrupted { problem: closed() }),
        }
        None
    }

    /// Shows the requests of the user that wait for the end of the step, and the reason of a
    /// confirmed pause.
    pub(super) fn show_requests(&self) {
        let is_pausing = self.pause.by_person && self.pause.is_requested && !self.pause.is_confirmed;
        let pending = match self.stage {
            Stage::Ended => None,
            _ if self.is_stopping => Some(PendingChange::Stop),
            _ => is_pausing.then_some(PendingChange::Pause),
        };
        self.change(|run| run.pending = pending);
        if let (true, Some(reason)) = (self.pause.is_confirmed && self.stage != Stage::Ended, self.pause.reason) {
            self.change(|run| run.state = RunState::Paused { reason });
        }
    }

    /// Emits [`Event::RunEnded`], for a notification, if the run ended without the user's request.
    pub(super) fn notify_ended(&self, state: &RunState) {
        let needs_notification = matches!(
            state,
            RunState::Finished | RunState::Failed { .. } | RunState::Interrupted { .. }
        );
        let Some(run) = self.shared.live_run(self.id).filter(|_| needs_notification) else {
            return;
        };
        let state = state.clone();
        self.shared.emit(Event::RunEnded {
            run: Box::new(Run { state, ..run }),
        });
    }

    /// Marks the run as ended.
    pub(super) fn end(&mut self, state: RunState) {
        self.stage = Stage::Ended;
        self.change(|run| {
            // The user knows of a run that they stopped.
            run.seen = state == RunState::Stopped;
            run.state = state;
            run.pending = None;
            run.ended_at = Some(store::now());
        });
    }

    /// Saves new points, evaluations and the state. Returns `false` if that fails; they then stay
    /// in memory.
    pub(super) async fn save(&mut self) -> bool {
        self.save_at = None;
        let Some(mut run) = self.shared.live_run(self.id) else {
            return true;
        };
        let (id, has_ended, has_adapter) = (self.id, self.stage == Stage::Ended, self.adapter.is_some());
        let (points, evaluations) = (self.points.clone(), self.evaluations.clone());
        let path = self.adapter.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        let saved = self.shared.blocking(move |shared| {
            let saved = shared.save(|t| {
                run_point::add(t, id, &points)?;
                for evaluation in &evaluations {
                    run_evaluation::add(t, id, evaluation)?;
                }
                if let Some(outcome) = &run.outcome {
                    // Points and evaluations of later steps belong to no adapter. The saved adapter
                    // may be of a later step than the checkpoint that the run resumed from.
                    run_point::remove_after(t, id, outcome.steps)?;
                    run_evaluation::remove_after(t, id, outcome.steps.max(outcome.best_step))?;
                }
                // The user may have seen it since its state was read.
                run.seen = shared.live_run(id).map_or(run.seen, |live| live.seen);
                save_progress(t, &run)?;
                if let Some(path) = &path {
                    // The run may have been renamed since its state was read.
                    let name = run::get(t, id)?.map_or_else(|| run.name.clone(), |row| row.name);
                    let new = adapter::New {
                        name: &name,
                        run: Some(id),
                        model: &run.model,
                        model_name: &run.model_name,
                        path,
                        created_at: store::now(),
                    };
                    adapter::add(t, &new)?;
                }
                Ok(())
            })?;
            if saved == Saved::Locked {
                return Ok(saved);
            }
            if has_ended {
                shared.clear_live_run(id);
                shared.announce_run(id)?;
            }
            Ok(saved)
        });
        let saved = saved.await;
        if saved == Ok(Saved::Done(())) && has_ended && has_adapter {
            adapters::announce_later(&self.shared);
        }
        self.is_store_locked = saved == Ok(Saved::Locked);
        match saved {
            Ok(Saved::Done(())) => {
                self.points.clear();
                self.evaluations.clear();
                true
            }
            Ok(Saved::Locked) => {
                self.save_at = Some(Instant::now() + SAVE_RETRY_INTERVAL);
                false
            }
            Err(problem) => {
                tracing::warn!(id, %problem, "a run could not be saved");
                self.save_at = Some(Instant::now() + SAVE_RETRY_DELAY);
                false
            }
        }
    }
}

/// Saves the state, the plan and the outcome of a run in its row.
fn save_progress(t: &rusqlite::Transaction<'_>, run: &Run) -> rusqlite::Result<bool> {
    let (plan, outcome) = (run.plan.as_ref().map(to_json), run.outcome.as_ref().map(to_json));
    let progress = run::Progress {
        state: (&run.state).into(),
        plan: plan.as_deref(),
        outcome: outcome.as_deref(),
        checkpoint: run.checkpoint,
        ended_at: run.ended_at,
        seen: run.seen,
    };
    run::save(t, run.id, &progress)
}
