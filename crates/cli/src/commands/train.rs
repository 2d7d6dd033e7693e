//! `hearth train`: an adapter out of examples.

use super::{bytes, print_json};
use crate::args::Train;
use crate::failure::Failure;
use crate::hand_over::to_the_best_build;
use crate::model::Chosen;
use crate::progress::Progress;
use hearth_engine::training::{self, Wish, Wishes};
use hearth_protocol::{
    DataSource, EndReason, Outcome, RunPlan, StepReport, TrainRequest, TrainSettings, TrainingEvent,
};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a process ends with that Ctrl-C ended: 128 and the signal's number, as shells have it.
const INTERRUPTED: i32 = 130;

/// What scripts read.
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

/// Trains, shows how it goes, and says what came of it.
pub fn run(args: &Train) -> Result<(), Failure> {
    let chosen = Chosen::find(&args.load.model)?;
    to_the_best_build(&args.load.how)?;
    let request = TrainRequest {
        id: 1,
        model: chosen.path,
        data: DataSource {
            path: args.data.clone(),
            mapping: None,
            skip_broken: args.skip_broken,
        },
        out: args.out.clone(),
        settings: settings(args),
        resume: args.resume,
        threads: args.load.how.threads,
        device: args.load.how.device.clone(),
        build: None,
        gpu_layers: args.load.how.gpu_layers,
        low_priority: false,
    };
    let wishes = Arc::<Wishes>::default();
    stop_on_ctrl_c(&wishes)?;
    let mut show = Show::new();
    let outcome = training::train(&request, &wishes, &mut |event| show.hear(&event))?;
    drop(show.progress);
    let Some(outcome) = outcome else {
        return Err(Failure::new(
            "The run was suspended. Run it again with --resume.".to_owned(),
        ));
    };
    let losses = hearth_engine::training::RunFolder(args.out.clone()).losses();
    tell(&outcome);
    if !args.output.json {
        writeln!(std::io::stdout(), "{}", outcome.adapter.display())?;
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

/// What was typed, and the defaults for the rest.
fn settings(args: &Train) -> TrainSettings {
    let default = TrainSettings::default();
    let rank = args.rank.unwrap_or(default.rank);
    // Steps that are counted out are all made: neither epochs nor an early stop come before them, unless asked for.
    let (epochs, patience) = match args.max_steps {
        None => (default.epochs, default.patience),
        Some(_) => (Some(f32::MAX), 0),
    };
    TrainSettings {
        rank,
        alpha: args.alpha.unwrap_or(2.0 * rank as f32),
        dropout: args.dropout.unwrap_or(default.dropout),
        rslora: args.rslora,
        targets: args.targets.clone(),
        learning_rate: args.lr.unwrap_or(default.learning_rate),
        schedule: args.schedule.unwrap_or(default.schedule),
        warmup: args.warmup.unwrap_or(default.warmup),
        weight_decay: args.weight_decay.unwrap_or(default.weight_decay),
        epochs: args.epochs.or(epochs),
        max_steps: args.max_steps,
        batch: args.batch,
        accumulation: args.accum,
        sequence: args.seq,
        seed: args.seed.unwrap_or(default.seed),
        eval_split: args.eval_split.unwrap_or(default.eval_split),
        patience: args.patience.unwrap_or(patience),
        shuffle: !args.no_shuffle,
        init: args.init.clone(),
        precision: args.precision.unwrap_or(default.precision),
        checkpointing: args.checkpointing.unwrap_or(default.checkpointing),
        train_on_prompts: args.train_on_prompts,
        ..default
    }
}

/// The first Ctrl-C ends the run after the step under way, the second ends the process.
fn stop_on_ctrl_c(wishes: &Arc<Wishes>) -> Result<(), Failure> {
    let (wishes, asked) = (Arc::clone(wishes), AtomicBool::new(false));
    let heard = move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        eprintln!("\nThe run ends after this step; what was learnt is kept. Ctrl-C again ends it at once.");
        wishes.set(Wish::Stop);
    };
    ctrlc::set_handler(heard).map_err(|error| Failure::new(format!("Ctrl-C cannot be heard: {error}.")))
}

/// Shows a run on standard error.
struct Show {
    progress: Progress,
}

impl Show {
    fn new() -> Self {
        Self {
            progress: Progress::new(),
        }
    }

    fn hear(&mut self, event: &TrainingEvent) {
        match event {
            TrainingEvent::Preparing { fraction, stage } => self.progress.show(*fraction, stage),
            TrainingEvent::Planned(plan) => self.planned(plan),
            TrainingEvent::Step(step) => self
                .progress
                .show(step.step as f32 / step.steps.max(1) as f32, &line(step)),
            TrainingEvent::Evaluated { step, loss, best } => {
                self.progress.say(&evaluation(*step, *loss, *best));
            }
            _ => {}
        }
    }

    fn planned(&mut self, plan: &RunPlan) {
        for notice in &plan.notices {
            self.progress.say(&format!("note: {notice}"));
        }
        self.progress.say(&format!(
            "{} examples ({} held out) of at most {} tokens; {} steps of {} x {}; {} numbers are trained in {}, on {} threads; \
             {} of memory; about {}.",
            plan.examples,
            plan.eval_examples,
            plan.sequence,
            plan.steps,
            plan.batch,
            plan.accumulation,
            plan.parameters,
            match plan.precision {
                hearth_protocol::Precision::Bf16 => "bf16",
                _ => "f32",
            },
            plan.threads,
            bytes(plan.peak_memory),
            duration(plan.total_seconds),
        ));
    }
}

fn evaluation(step: u32, loss: Option<f64>, best: bool) -> String {
    let best = if best { ", the best so far" } else { "" };
    match loss {
        Some(loss) => format!("after step {step}: held-out loss {loss:.4}{best}"),
        None => format!("after step {step}: the held-out loss is no number (NaN or infinite), so it does not count"),
    }
}

fn line(step: &StepReport) -> String {
    format!(
        "step {} of {}, loss {:.4}, {:.0} tokens/s, {} left",
        step.step,
        step.steps,
        step.loss,
        step.tokens_per_second,
        duration(step.seconds_left)
    )
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn tell(outcome: &Outcome) {
    let why = match outcome.reason {
        EndReason::Completed => "All steps were made",
        EndReason::EarlyStop => "The held-out loss did not improve any more",
        EndReason::Stopped => "The run was stopped",
    };
    eprintln!("{why}: {} steps in {}.", outcome.steps, duration(outcome.seconds));
    if let (Some(before), Some(after)) = (outcome.eval_loss_before, outcome.eval_loss) {
        eprintln!(
            "Held-out loss: {before:.4} before, {after:.4} after step {}, which is kept.",
            outcome.best_step
        );
    }
    if let (Some(before), Some(after)) = (outcome.general_before, outcome.general_after) {
        eprintln!("Perplexity of a general text: {before:.2} before, {after:.2} after.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_that_is_no_number_is_told_in_words() {
        assert_eq!(
            evaluation(5, Some(1.25), true),
            "after step 5: held-out loss 1.2500, the best so far"
        );
        assert!(evaluation(5, None, false).contains("no number"));
    }

    #[test]
    fn times_read_well() {
        let check = |seconds, text: &str| assert_eq!(duration(seconds), text);
        check(0.4, "0 s");
        check(89.0, "89 s");
        check(90.0, "2 min");
        check(9000.0, "2.5 h");
    }
}
