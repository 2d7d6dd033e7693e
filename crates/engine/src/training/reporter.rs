//! Reports of a run: saved, logged and forwarded to the client.

use super::best_adapter::{BestAdapter, Score};
use super::control::RunControl;
use super::folder::{RunFile, RunFolder};
use crate::memory;
use crate::numbers::saturating_u32;
use hearth_formats::adapter::{AdapterManifest, BaseShape};
use hearth_llm::LoraPart;
use hearth_protocol::{Problem, RunCommand, StepReport, TrainingEvent};
use hearth_train::{Control, Report, Step};

/// Minimum duration that rates are computed with, so that they are finite.
const MIN_SECONDS: f64 = 1e-9;

/// Training speed in tokens per second.
pub(super) fn tokens_per_second(tokens: f64, seconds: f64) -> f64 {
    tokens / seconds.max(MIN_SECONDS)
}

/// Handles a run's reports: saves, logs and forwards them.
pub(super) struct RunReporter<'a> {
    pub folder: &'a RunFolder,
    pub run_file: &'a RunFile,
    /// The manifest of saved adapters. Each has its own metrics.
    pub manifest: AdapterManifest,
    pub base: &'a BaseShape,
    pub control: &'a RunControl,
    pub emit: &'a mut dyn FnMut(TrainingEvent),
    /// Completed steps.
    pub completed_steps: u32,
    pub time_left: TimeLeft,
    /// The best adapter so far, unless it is from before a resume.
    pub best: Option<BestAdapter>,
    /// The error that aborted the run, if any.
    pub failure: Option<Problem>,
}

impl RunReporter<'_> {
    /// Handles a report. While the run is paused, blocks until the next command.
    pub fn handle_report(&mut self, report: Report) -> Control {
        let result = match report {
            Report::Batch => Ok(()),
            Report::Step(step) => self.report_step(&step),
            Report::Evaluated { step, loss, best } => {
                let step = saturating_u32(step);
                let loss = Some(loss).filter(|loss| loss.is_finite());
                (self.emit)(TrainingEvent::Evaluated { step, loss, best });
                Ok(())
            }
            Report::Improved { parameters, step, loss } => self.save_best(parameters.parts(), step, loss),
            Report::Checkpointed { step } => {
                let step = saturating_u32(step);
                (self.emit)(TrainingEvent::Checkpointed { step });
                Ok(())
            }
        };
        match result {
            Ok(()) => self.wait_while_paused(),
            Err(problem) => {
                self.failure = Some(problem);
                Control::Abort
            }
        }
    }

    /// Blocks while the run is paused. Returns the decision for the command that follows.
    fn wait_while_paused(&mut self) -> Control {
        let mut command = self.control.get();
        if command == RunCommand::Pause {
            (self.emit)(TrainingEvent::Paused {
                step: self.completed_steps,
            });
            command = self.control.wait();
            if command == RunCommand::Resume {
                (self.emit)(TrainingEvent::Resumed);
            }
        }
        match command {
            RunCommand::Stop => Control::Stop,
            RunCommand::Suspend => Control::Suspend,
            RunCommand::Resume | RunCommand::Pause => Control::Continue,
        }
    }

    /// Saves an adapter that is the best so far.
    fn save_best(&mut self, parts: Vec<LoraPart>, step: usize, loss: Option<f64>) -> Result<(), Problem> {
        let score = Score {
            best_step: step,
            eval_loss: loss,
        };
        let manifest = AdapterManifest {
            metrics: serde_json::to_value(score).unwrap_or_default(),
            ..self.manifest.clone()
        };
        self.folder.save_adapter(&parts, self.run_file, manifest, self.base)?;
        self.best = Some(BestAdapter { parts, score });
        Ok(())
    }

    /// Logs and forwards a step.
    fn report_step(&mut self, step: &Step) -> Result<(), Problem> {
        self.completed_steps = saturating_u32(step.step);
        let report = StepReport {
            step: self.completed_steps,
            steps: saturating_u32(step.steps),
            epoch: step.epoch as f32,
            loss: step.loss,
            learning_rate: step.learning_rate,
            gradient_norm: step.gradient_norm,
            tokens: saturating_u32(step.tokens),
            tokens_per_second: tokens_per_second(step.tokens as f64, step.seconds),
            memory: memory::resident().unwrap_or(0),
            seconds_left: self.time_left.update(step),
        };
        self.folder.log(&report)?;
        (self.emit)(TrainingEvent::Step(report));
        Ok(())
    }
}

/// Estimate of the remaining time.
pub(super) struct TimeLeft {
    /// Moving average.
    pub seconds_per_token: f64,
    /// Mean over an epoch.
    pub tokens_per_step: f64,
}

impl TimeLeft {
    /// Weight of a new step in the moving average.
    const NEW_STEP_WEIGHT: f64 = 0.2;

    /// Updates the average with a step. Returns the remaining seconds.
    fn update(&mut self, step: &Step) -> f64 {
        let measured = step.seconds / step.tokens.max(1) as f64;
        self.seconds_per_token += Self::NEW_STEP_WEIGHT * (measured - self.seconds_per_token);
        (step.steps - step.step) as f64 * self.tokens_per_step * self.seconds_per_token
    }
}
