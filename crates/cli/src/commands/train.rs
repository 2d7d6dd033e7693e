//! `hearth train`: fine-tunes an adapter on examples.

use super::print_json;
use crate::args::Train;
use crate::failure::Failure;
use crate::model::ChosenModel;
use crate::progress::Progress;
use crate::say;
use crate::switch_build;
use crate::terminal::stdout;
use hearth_engine::training::{self, RunControl};
use hearth_formats::byte_size;
use hearth_protocol::{
    DataSource, DraftChoice, EndReason, Outcome, Precision, RunCommand, RunPlan, StepReport, TrainRequest,
    TrainSettings, TrainingEvent,
};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code after Ctrl-C: 128 plus the signal's number, as in shells.
const INTERRUPTED: i32 = 130;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    steps: u32,
    losses: Vec<f64>,
    train_loss: f64,
    eval_loss_before: Option<f64>,
    eval_loss: Option<f64>,
    tok_s: f64,
    peak_rss_mb: f64,
    adapter: PathBuf,
}

/// Trains the adapter. Shows the progress and prints the result.
pub fn run(args: &Train) -> Result<(), Failure> {
    let model = ChosenModel::find(&args.load.model)?;
    let device = switch_build::choose(&model.path, args.seq, &DraftChoice::None, &args.load.options)?;
    let request = TrainRequest {
        model: model.path,
        data: DataSource {
            path: args.data.clone(),
            mapping: None,
            skip_broken: args.flags.skip_broken,
        },
        out: args.out.clone(),
        settings: settings(args),
        resume: args.resume,
        threads: args.load.options.threads,
        device: Some(device),
        build: None,
        gpu_layers: args.load.options.gpu_layers,
        low_priority: false,
    };
    let control = Arc::<RunControl>::default();
    stop_on_ctrl_c(&control)?;
    let mut progress = RunProgress::new();
    let outcome = training::train(&request, &control, &mut |event| progress.show_event(&event))?;
    drop(progress);
    let Some(outcome) = outcome else {
        return Err(Failure::new(
            "The run was suspended. Run it again with --resume.".to_owned(),
        ));
    };
    let losses = training::RunFolder(args.out.clone()).losses();
    print_outcome(&outcome);
    if !args.output.json {
        writeln!(stdout(), "{}", outcome.adapter.display())?;
        return Ok(());
    }
    print_json(&Report {
        steps: outcome.steps,
        losses,
        train_loss: outcome.train_loss,
        eval_loss_before: outcome.eval_loss_before,
        eval_loss: outcome.eval_loss,
        tok_s: outcome.tokens_per_second,
        peak_rss_mb: outcome.peak_memory as f64 / f64::from(1 << 20),
        adapter: outcome.adapter,
    })
}

/// The settings from the command line. Other settings have their defaults.
fn settings(args: &Train) -> TrainSettings {
    let defaults = TrainSettings::default();
    let rank = args.rank.unwrap_or(defaults.rank);
    // All steps of --max-steps run, without a limit of epochs or early stopping, unless these are
    // requested.
    let (epochs, patience) = match args.max_steps {
        None => (defaults.epochs, defaults.patience),
        Some(_) => (Some(f32::MAX), 0),
    };
    TrainSettings {
        rank,
        alpha: args.alpha.unwrap_or(2.0 * rank as f32),
        dropout: args.dropout.unwrap_or(defaults.dropout),
        rslora: args.rslora,
        targets: args.targets.clone(),
        learning_rate: args.lr.unwrap_or(defaults.learning_rate),
        schedule: args.schedule.unwrap_or(defaults.schedule),
        warmup: args.warmup.unwrap_or(defaults.warmup),
        weight_decay: args.weight_decay.unwrap_or(defaults.weight_decay),
        epochs: args.epochs.or(epochs),
        max_steps: args.max_steps,
        batch: args.batch,
        accumulation: args.accum,
        sequence: args.seq,
        seed: args.seed.unwrap_or(defaults.seed),
        eval_split: args.eval_split.unwrap_or(defaults.eval_split),
        patience: args.patience.unwrap_or(patience),
        shuffle: !args.no_shuffle,
        init: args.init.clone(),
        precision: args.precision.unwrap_or(defaults.precision),
        checkpointing: args.checkpointing.unwrap_or(defaults.checkpointing),
        train_on_prompts: args.flags.train_on_prompts,
        system_prompt: args.flags.system.clone(),
        ..defaults
    }
}

/// The first Ctrl-C stops the run after the current step, the second exits the process.
fn stop_on_ctrl_c(control: &Arc<RunControl>) -> Result<(), Failure> {
    let (control, interrupted) = (Arc::clone(control), AtomicBool::new(false));
    let handler = move || {
        if interrupted.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        say!(
            "\nTraining stops after the current step and saves the best adapter so far. Before the steps it stops \
             without saving one. Press Ctrl-C again to exit immediately."
        );
        control.set(RunCommand::Stop);
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::new(format!("The Ctrl-C handler could not be installed: {error}.")))
}

/// Progress of a run on standard error.
struct RunProgress {
    line: Progress,
}

impl RunProgress {
    fn new() -> Self {
        Self { line: Progress::new() }
    }

    /// Shows the event if it has progress or results.
    fn show_event(&mut self, event: &TrainingEvent) {
        match event {
            TrainingEvent::Preparing { fraction, stage } => self.line.show(*fraction, stage),
            TrainingEvent::Planned(plan) => self.print_plan(plan),
            TrainingEvent::Step(step) => self
                .line
                .show(step.step as f32 / step.steps.max(1) as f32, step_line(step)),
            TrainingEvent::Evaluated { step, loss, best } => {
                self.line.print_line(&evaluation(*step, *loss, *best));
            }
            _ => {}
        }
    }

    /// Prints the plan and its notices.
    fn print_plan(&mut self, plan: &RunPlan) {
        for notice in &plan.notices {
            self.line.print_line(&format!("note: {notice}"));
        }
        self.line.print_line(&format!(
            "{} examples ({} for validation) of at most {} tokens; {} steps of {} x {}; {} trainable parameters in {}, \
             on {} threads; {} of memory; about {}.",
            plan.examples,
            plan.eval_examples,
            plan.sequence,
            plan.steps,
            plan.batch,
            plan.accumulation,
            plan.parameters,
            match plan.precision {
                Precision::Bf16 => "bf16",
                _ => "f32",
            },
            plan.threads,
            byte_size(plan.peak_memory),
            duration(plan.total_seconds),
        ));
    }
}

/// A description of an evaluation.
fn evaluation(step: u32, loss: Option<f64>, is_best: bool) -> String {
    let suffix = if is_best { ", the best so far" } else { "" };
    match loss {
        Some(loss) => format!("after step {step}: validation loss {loss:.4}{suffix}"),
        None => format!("after step {step}: the validation loss is NaN or infinite and is ignored"),
    }
}

/// The progress line of a step.
fn step_line(step: &StepReport) -> String {
    format!(
        "step {} of {}, loss {:.4}, {:.0} tokens/s, {} left",
        step.step,
        step.steps,
        step.loss,
        step.tokens_per_second,
        duration(step.seconds_left)
    )
}

/// A duration in seconds, minutes or hours.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Prints the reason of the end and the improvement of the losses.
fn print_outcome(outcome: &Outcome) {
    let reason = match outcome.reason {
        EndReason::Completed => "All steps are done",
        EndReason::EarlyStop => "The validation loss stopped improving",
        EndReason::Stopped => "The run was stopped",
    };
    say!("{reason}: {} steps in {}.", outcome.steps, duration(outcome.seconds));
    if let (Some(before), Some(after)) = (outcome.eval_loss_before, outcome.eval_loss) {
        say!(
            "Validation loss: {before:.4} before, {after:.4} after step {}, whose adapter is saved.",
            outcome.best_step
        );
    }
    if let (Some(before), Some(after)) = (outcome.general_before, outcome.general_after) {
        say!("Perplexity on a general text: {before:.2} before, {after:.2} after.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_evaluation_is_reported_in_words() {
        assert_eq!(
            evaluation(5, Some(1.25), true),
            "after step 5: validation loss 1.2500, the best so far"
        );
        assert!(evaluation(5, None, false).contains("NaN"));
    }

    #[test]
    fn durations_read_well() {
        let check = |seconds, text: &str| assert_eq!(duration(seconds), text);
        check(0.4, "0 s");
        check(89.0, "89 s");
        check(90.0, "2 min");
        check(9000.0, "2.5 h");
    }
}
