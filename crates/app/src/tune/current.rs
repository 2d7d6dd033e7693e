//! The run that is under way: what its worker says of it, shown and saved as it comes.

use super::closed;
use crate::{
    convert::to_json,
    saving::{SAVE_AGAIN, Saved},
    shared::Shared,
    store::{self, adapter, run, run_evaluation, run_point},
    wire::{EndReason, Event, Outcome, PauseReason, Problem, Run, RunEvaluation, RunPoint, RunState},
};
use hearth_protocol::{TrainRequest, TrainingEvent};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::time::Instant;

/// What comes in is saved this often: what a crash of the app may cost of the curves.
const SAVE_EVERY: Duration = Duration::from_millis(500);

/// Where saving failed it is tried again after this long.
const SAVE_REFUSED_AGAIN: Duration = Duration::from_secs(5);

pub(super) struct Current {
    shared: Arc<Shared>,
    pub(super) id: i64,
    /// What the worker is to be asked.
    pub(super) request: Box<TrainRequest>,
    /// Whether it was.
    pub(super) asked: bool,
    /// The build of Hearth that its worker is to be of, where the usual one has handed it over.
    pub(super) program: Option<PathBuf>,
    pub(super) paused_by_person: bool,
    /// Whether a low battery holds it; a person may say otherwise, until there is power again.
    pub(super) spare_battery: bool,
    /// Why it is to be held now.
    pub(super) why: Option<PauseReason>,
    /// Whether the worker was told to hold it.
    pub(super) hold: bool,
    /// Whether the worker said that it does.
    pub(super) paused: bool,
    /// Whether the worker was told to stop.
    pub(super) stopping: bool,
    /// Whether it has ended, and only has to be saved.
    pub(super) over: bool,
    /// Whether another process held the store when it was saved last.
    pub(super) held: bool,
    /// When it is saved next; none: nothing is new.
    pub(super) save_at: Option<Instant>,
    points: Vec<RunPoint>,
    evaluations: Vec<RunEvaluation>,
    adapter: Option<PathBuf>,
}

impl Current {
    pub(super) fn new(shared: Arc<Shared>, request: TrainRequest) -> Self {
        Self {
            shared,
            id: request.id as i64,
            request: Box::new(request),
            asked: false,
            program: None,
            paused_by_person: false,
            spare_battery: true,
            why: None,
            hold: false,
            paused: false,
            stopping: false,
            over: false,
            held: false,
            save_at: None,
            points: Vec::new(),
            evaluations: Vec::new(),
            adapter: None,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Run)) {
        self.shared.change_run(self.id, change);
    }

    fn soon(&mut self) {
        self.save_at.get_or_insert_with(|| Instant::now() + SAVE_EVERY);
    }

    /// Its worker wants it done by another program: the next worker is of that. The state it has ended in, if it has.
    pub(super) fn handed_over(&mut self, program: PathBuf) -> Option<RunState> {
        (self.asked, self.hold, self.program) = (false, false, Some(program));
        // Nothing was learnt yet.
        self.stopping.then_some(RunState::Stopped)
    }

    /// Takes in what the worker says; the state it has ended in, if it has.
    pub(super) fn hear(&mut self, event: TrainingEvent) -> Option<RunState> {
        match event {
            TrainingEvent::Preparing { fraction, stage } => {
                self.change(|run| run.state = RunState::Preparing { fraction, stage });
            }
            TrainingEvent::Planned(plan) => {
                self.change(|run| {
                    run.plan = Some(plan.into());
                    run.state = RunState::Planned;
                });
                self.soon();
            }
            TrainingEvent::Step(report) => {
                let point = RunPoint::from(report);
                self.points.push(point);
                self.shared.run_stepped(self.id, point);
                if !self.paused {
                    self.change(|run| run.state = RunState::Running);
                }
                self.soon();
            }
            TrainingEvent::Evaluated { step, loss, best } => {
                let evaluation = RunEvaluation { step, loss, best };
                self.evaluations.push(evaluation);
                self.shared.emit(Event::RunEvaluated {
                    run: self.id,
                    evaluation,
                });
                self.soon();
            }
            TrainingEvent::Checkpointed { step } => {
                self.change(|run| run.checkpoint = Some(step));
                self.soon();
            }
            TrainingEvent::Paused { .. } => self.paused = true,
            TrainingEvent::Resumed => {
                self.paused = false;
                self.change(|run| run.state = RunState::Running);
            }
            TrainingEvent::Finished(outcome) => {
                // Stopped before its first step, a run has learnt nothing.
                self.adapter = (outcome.steps > 0).then(|| outcome.adapter.clone());
                let outcome = Outcome::from(*outcome);
                let state = match outcome.reason {
                    EndReason::Stopped => RunState::Stopped,
                    EndReason::Completed | EndReason::EarlyStop => RunState::Finished,
                };
                self.change(|run| run.outcome = Some(outcome));
                return Some(state);
            }
            TrainingEvent::Failed(problem) => {
                return Some(RunState::Failed {
                    problem: problem.into(),
                });
            }
            TrainingEvent::Suspended => return Some(RunState::Interrupted { problem: closed() }),
            TrainingEvent::Inspected(_) | TrainingEvent::Exported { .. } => {}
        }
        None
    }

    /// Shows why a run is held that is.
    pub(super) fn show_why(&self) {
        if let (true, false, Some(why)) = (self.paused, self.over, self.why) {
            self.change(|run| run.state = RunState::Paused { why });
        }
    }

    /// Tells whoever looks elsewhere that it ended by itself.
    pub(super) fn told(&self, state: &RunState) {
        let Some(run) = self.shared.live_run(self.id) else {
            return;
        };
        let message = match state {
            RunState::Finished => finished(&run),
            RunState::Failed { problem } => format!("{} failed: {problem}", run.name),
            RunState::Interrupted { problem } => format!("{} was interrupted: {problem}", run.name),
            _ => return,
        };
        self.shared.emit(Event::RunEnded { run: self.id, message });
    }

    /// Says that it has ended.
    pub(super) fn end(&mut self, state: RunState) {
        self.over = true;
        self.change(|run| {
            run.state = state;
            run.ended_at = Some(store::now());
        });
    }

    /// Saves what is new; whether that went well. Where it did not, what is new waits in memory.
    pub(super) async fn save(&mut self) -> bool {
        self.save_at = None;
        let Some(run) = self.shared.live_run(self.id) else {
            return true;
        };
        let (id, over, new_adapter) = (self.id, self.over, self.adapter.is_some());
        let points: Vec<run_point::Point> = self.points.iter().map(|&point| point.into()).collect();
        let evaluations: Vec<_> = self
            .evaluations
            .iter()
            .map(|&one| run_evaluation::Evaluation::from(one))
            .collect();
        let path = self.adapter.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        let saved = self.shared.blocking(move |shared| {
            let saved = shared.save(|t| {
                run_point::add(t, id, &points)?;
                for evaluation in &evaluations {
                    run_evaluation::add(t, id, evaluation)?;
                }
                save_progress(t, &run)?;
                if let Some(path) = &path {
                    let new = adapter::New {
                        name: &run.name,
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
            if saved == Saved::Held {
                return Ok(saved);
            }
            if over {
                shared.settle_run(id);
                shared.emit_run(id)?;
            }
            if over && new_adapter {
                shared.emit_adapters()?;
            }
            Ok(saved)
        });
        let saved = saved.await;
        self.held = saved == Ok(Saved::Held);
        match saved {
            Ok(Saved::Done(())) => {
                self.points.clear();
                self.evaluations.clear();
                true
            }
            Ok(Saved::Held) => {
                self.save_at = Some(Instant::now() + SAVE_AGAIN);
                false
            }
            Err(Problem { message, .. }) => {
                tracing::warn!(id, message, "a run could not be saved");
                self.save_at = Some(Instant::now() + SAVE_REFUSED_AGAIN);
                false
            }
        }
    }
}

fn save_progress(t: &rusqlite::Transaction<'_>, run: &Run) -> rusqlite::Result<bool> {
    let (plan, outcome) = (run.plan.as_ref().map(to_json), run.outcome.as_ref().map(to_json));
    let progress = run::Progress {
        state: (&run.state).into(),
        plan: plan.as_deref(),
        outcome: outcome.as_deref(),
        checkpoint: run.checkpoint,
        ended_at: run.ended_at,
    };
    run::save(t, run.id, &progress)
}

fn finished(run: &Run) -> String {
    let losses = run
        .outcome
        .as_ref()
        .map(|outcome| (outcome.eval_loss_before, outcome.eval_loss));
    match losses {
        Some((Some(before), Some(after))) => format!(
            "{} is done: the loss on examples that it had not seen went from {before:.2} to {after:.2}.",
            run.name
        ),
        _ => format!("{} is done.", run.name),
    }
}
