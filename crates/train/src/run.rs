//! The training loop: batches, steps, evaluations, checkpoints.

use crate::adamw::{self, AdamW};
use crate::batch::{Batch, Example};
use crate::checkpoint::{self, Progress};
use crate::error::TrainError;
use crate::gradient::{self, GradientOptions};
use crate::order;
use crate::parameters::{DropoutPass, Parameters};
use crate::settings::Settings;
use burn::tensor::Tensor;
use hearth_llm::{LoraPart, Model};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Maximum tokens per batch of an evaluation.
const EVALUATION_BATCH_TOKENS: usize = 2048;
/// The run has diverged if the smoothed loss exceeds its minimum times [`DIVERGENCE_FACTOR`] plus
/// [`DIVERGENCE_MARGIN`].
const DIVERGENCE_FACTOR: f64 = 2.0;
const DIVERGENCE_MARGIN: f64 = 1.0;
/// The weight of a new loss in the exponential moving average.
const SMOOTHING: f64 = 0.1;

/// An event of a run.
#[derive(Debug)]
pub enum Report<'a> {
    /// A batch of a step or of an evaluation is done. The callback may block to pause the run.
    Batch,
    /// A step was taken.
    Step(Step),
    /// The validation examples were evaluated.
    Evaluated {
        /// Steps taken.
        step: usize,
        /// Mean loss per trained token; may be NaN or infinite.
        loss: f64,
        /// Whether the loss is the best since the first step; never if NaN or infinite.
        best: bool,
    },
    /// The receiver should save these adapters: they are the best so far, or the latest if there is
    /// no validation split or no evaluation was finite.
    Improved {
        /// The adapters.
        parameters: &'a Parameters,
        /// Steps taken.
        step: usize,
        /// Their validation loss, if finite.
        loss: Option<f64>,
    },
    /// A checkpoint was written.
    Checkpointed {
        /// Steps taken.
        step: usize,
    },
}

/// Metrics of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The number of the step, from 1.
    pub step: usize,
    /// The maximum number of steps.
    pub steps: usize,
    /// Epochs so far.
    pub epoch: f64,
    /// Mean loss per trained token.
    pub loss: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// Tokens of the step's examples.
    pub tokens: usize,
    /// The step's duration in seconds, without the time in callbacks.
    pub seconds: f64,
}

/// The caller's decision after a report. A later variant overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Continues.
    Continue,
    /// Writes a checkpoint, evaluates, and ends.
    Stop,
    /// Writes a checkpoint after the step and ends. A pending evaluation is left to the resumed
    /// run.
    Suspend,
    /// Ends at once, without a checkpoint: the caller could not save the report, so a resumed run
    /// has to report it again.
    Abort,
}

/// Reports an event. Returns the caller's decision, or [`TrainError::Aborted`].
fn send(report: &mut dyn FnMut(Report) -> Control, event: Report) -> Result<Control, TrainError> {
    match report(event) {
        Control::Abort => Err(TrainError::Aborted),
        control => Ok(control),
    }
}

/// The reason that a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// All steps were taken.
    Completed,
    /// The validation loss stopped improving.
    EarlyStop,
    /// The caller stopped it.
    Stopped,
    /// The caller suspended it, without a final evaluation.
    Suspended,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The reason that it ended.
    pub reason: EndReason,
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// Validation loss before the first step, if finite.
    pub eval_before: Option<f64>,
    /// Tokens processed in the steps.
    pub tokens: u64,
    /// Seconds spent in the steps.
    pub seconds: f64,
}

/// The reason to end after a decision; `None` continues.
fn end_reason(control: Control) -> Option<EndReason> {
    match control {
        Control::Continue => None,
        Control::Stop => Some(EndReason::Stopped),
        Control::Suspend | Control::Abort => Some(EndReason::Suspended),
    }
}

/// A fine-tuning run.
pub struct Run {
    model: Arc<Model>,
    settings: Settings,
    examples: Vec<Example>,
    held_out: Vec<Example>,
    parameters: Parameters,
    optimizer: AdamW,
    progress: Progress,
    folder: Option<PathBuf>,
}

impl Run {
    /// A new run. Examples without trained tokens are dropped. Checkpoints are written to `folder`,
    /// if given.
    ///
    /// # Errors
    /// If the settings are invalid or do not fit the model, or no example has a trained token.
    pub fn new(
        model: Arc<Model>,
        settings: Settings,
        mut examples: Vec<Example>,
        mut held_out: Vec<Example>,
        folder: Option<PathBuf>,
    ) -> Result<Self, TrainError> {
        settings.check()?;
        for examples in [&mut examples, &mut held_out] {
            examples.retain(|example| example.trained_tokens() > 0);
        }
        if examples.is_empty() {
            return Err(TrainError::NothingToTrain);
        }
        let vocab = model.config().vocab;
        let ids = examples.iter().chain(&held_out).flat_map(|example| &example.ids);
        if let Some(id) = ids.copied().find(|id| *id as usize >= vocab) {
            return Err(TrainError::NoSuchToken { id, vocab });
        }
        let (targets, rank, scale) = (&settings.targets, settings.rank, settings.scale());
        let parameters = Parameters::new(&model, targets, rank, scale, settings.seed)?;
        Ok(Self {
            optimizer: AdamW::new(&parameters),
            progress: Progress::default(),
            parameters,
            model,
            settings,
            examples,
            held_out,
            folder,
        })
    }

    /// Starts from an existing adapter.
    ///
    /// # Errors
    /// If its target modules, rank or scale differ.
    pub fn start_from(&mut self, parts: &[LoraPart]) -> Result<(), TrainError> {
        self.parameters.start_from(parts)
    }

    /// Resumes from a checkpoint of the same settings and data.
    ///
    /// # Errors
    /// If it cannot be read or belongs to another run.
    pub fn resume(&mut self, checkpoint: &Path) -> Result<(), TrainError> {
        let data = self.fingerprint();
        let (parameters, optimizer) = (&mut self.parameters, &mut self.optimizer);
        self.progress = checkpoint::restore(checkpoint, &self.settings, data, parameters, optimizer)?;
        Ok(())
    }

    /// The trained adapters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The maximum number of steps.
    pub fn steps(&self) -> usize {
        self.settings.steps(self.examples.len())
    }

    /// The loss of each step taken.
    pub fn losses(&self) -> &[f64] {
        &self.progress.losses
    }

    /// The best evaluation since the first step: the number of steps taken before it, and its loss,
    /// never NaN or infinite. An evaluation made only because the run was stopped does not count.
    pub fn best(&self) -> Option<(usize, f64)> {
        self.progress.best()
    }

    /// Computes and discards the gradient of a batch of the longest examples, whose peak memory is
    /// the run's. Returns the duration in seconds.
    pub fn dry_run(&self) -> f64 {
        let mut longest: Vec<&Example> = self.examples.iter().collect();
        longest.sort_by_key(|example| std::cmp::Reverse(example.ids.len()));
        let batch = Batch::new(longest.into_iter().take(self.settings.batch));
        let start = Instant::now();
        self.gradient(&batch, 1.0, 0);
        start.elapsed().as_secs_f64()
    }

    /// Takes all remaining steps.
    ///
    /// # Errors
    /// If the loss diverged, or a checkpoint could not be written.
    pub fn run(&mut self, report: &mut dyn FnMut(Report) -> Control) -> Result<End, TrainError> {
        let steps = self.steps();
        let mut monitor = DivergenceMonitor::default();
        for loss in &self.progress.losses {
            monitor.has_diverged(*loss);
        }
        if self.progress.evaluations.is_empty() && self.progress.losses.is_empty() {
            let (loss, mut control) = self.evaluate(report)?;
            if let Some(loss) = loss {
                self.progress.evaluations.push((0, loss));
                let best = false;
                control = control.max(send(report, Report::Evaluated { step: 0, loss, best })?);
            }
            if let Some(reason) = end_reason(control) {
                return Ok(self.end(reason));
            }
        }
        // The run may have been suspended before this evaluation.
        if self.evaluation_is_due()
            && let Some(end) = self.after_step(Control::Continue, report)?
        {
            return Ok(end);
        }
        if self.is_out_of_patience() {
            // The run was interrupted after the checkpoint of its early stop.
            return Ok(self.end(EndReason::EarlyStop));
        }
        while self.progress.losses.len() < steps {
            let (step, mut control) = self.step(steps, report)?;
            control = control.max(send(report, Report::Step(step))?);
            if monitor.has_diverged(step.loss) {
                return Err(TrainError::diverged("The loss", step.step, step.loss));
            }
            if let Some(end) = self.after_step(control, report)? {
                return Ok(end);
            }
        }
        Ok(self.end(EndReason::Completed))
    }

    /// Whether an evaluation is due after the latest step.
    fn evaluation_is_due(&self) -> bool {
        let (step, steps) = (self.progress.losses.len(), self.steps());
        let is_scheduled = step > 0 && (step == steps || step % self.settings.eval_every == 0);
        is_scheduled && !self.is_evaluated_after(step) && !self.held_out.is_empty()
    }

    /// Whether the history has an evaluation after this number of steps.
    fn is_evaluated_after(&self, step: usize) -> bool {
        let last = self.progress.evaluations.last();
        last.is_some_and(|(last_step, _)| *last_step == step)
    }

    /// Whether the run ends before its last step, since evaluations have not improved.
    fn is_out_of_patience(&self) -> bool {
        let patience = self.settings.patience;
        let is_last = self.progress.losses.len() >= self.steps();
        !is_last && patience > 0 && self.progress.since_best() >= patience
    }

    /// Evaluates and writes a checkpoint if due. Returns the end of the run if it stops early or
    /// the caller decided to end it.
    fn after_step(
        &mut self,
        mut control: Control,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<Option<End>, TrainError> {
        let (step, steps) = (self.progress.losses.len(), self.steps());
        let is_last = step == steps;
        if control < Control::Suspend && self.evaluation_is_due() {
            control = control.max(self.evaluate_and_record(step, report)?);
        }
        if self.is_out_of_patience() {
            self.check_adapters(step)?;
            self.checkpoint(report)?;
            return Ok(Some(self.end(EndReason::EarlyStop)));
        }
        let is_due = step % self.settings.checkpoint_every == 0;
        if is_last || control > Control::Continue || is_due {
            self.check_adapters(step)?;
            if self.held_out.is_empty() {
                control = control.max(self.send_improved(step, None, report)?);
            }
            control = control.max(self.checkpoint(report)?);
        }
        let is_complete = is_last && !self.evaluation_is_due();
        if control == Control::Continue || is_complete {
            return Ok(None);
        }
        if control == Control::Stop {
            control = control.max(self.evaluate_at_stop(step, report)?);
        }
        Ok(end_reason(control).map(|reason| self.end(reason)))
    }

    /// Takes one step: accumulates gradients, clips them and updates the adapters. Returns its
    /// metrics and the strongest decision of the reports.
    fn step(&mut self, steps: usize, report: &mut dyn FnMut(Report) -> Control) -> Result<(Step, Control), TrainError> {
        let step = self.progress.losses.len();
        let settings = &self.settings;
        let steps_per_epoch = settings.steps_per_epoch(self.examples.len());
        let (epoch, step_in_epoch) = (step / steps_per_epoch, step % steps_per_epoch);
        let order = order::epoch_order(self.examples.len(), epoch, settings.seed, settings.shuffle);
        let size = settings.examples_per_step();
        let first = step_in_epoch * size;
        let end = (first + size).min(order.len());
        let batches: Vec<Batch> = order[first..end]
            .chunks(settings.batch)
            .map(|chunk| Batch::new(chunk.iter().map(|index| &self.examples[*index])))
            .collect();
        let trained: usize = batches.iter().map(|batch| batch.trained).sum();
        let (mut loss, mut sum) = (0.0, None::<Vec<[Tensor<2>; 2]>>);
        let (mut seconds, mut control) = (0.0, Control::Continue);
        for (index, batch) in batches.iter().enumerate() {
            let start = Instant::now();
            let pass = (step * settings.accumulation + index) as u64;
            let (batch_loss, gradients) = self.gradient(batch, 1.0 / trained.max(1) as f32, pass);
            loss += batch_loss;
            sum = Some(match sum {
                None => gradients,
                Some(sum) => sum
                    .into_iter()
                    .zip(gradients)
                    .map(|([a, b], [da, db])| [a + da, b + db])
                    .collect(),
            });
            // Excludes the callback, which may block.
            seconds += start.elapsed().as_secs_f64();
            control = control.max(send(report, Report::Batch)?);
        }
        let start = Instant::now();
        let gradients = sum.unwrap_or_default();
        let gradient_norm = adamw::norm(&gradients);
        let check_finite = |what, value: f64| {
            if value.is_finite() {
                Ok(())
            } else {
                Err(TrainError::diverged(what, step + 1, value))
            }
        };
        check_finite("The loss", loss)?;
        check_finite("The norm of the gradient", gradient_norm)?;
        let clip_factor = settings.clip_factor(gradient_norm);
        let learning_rate = settings.learning_rate_at(step, steps);
        self.optimizer.step(
            &mut self.parameters,
            gradients,
            clip_factor,
            learning_rate,
            settings.weight_decay,
        );
        let tokens = batches.iter().map(|batch| batch.tokens).sum();
        seconds += start.elapsed().as_secs_f64();
        self.progress.losses.push(loss);
        self.progress.tokens += tokens as u64;
        self.progress.seconds += seconds;
        let metrics = Step {
            step: step + 1,
            steps,
            epoch: epoch as f64 + end as f64 / self.examples.len() as f64,
            loss,
            learning_rate,
            gradient_norm,
            tokens,
            seconds,
        };
        Ok((metrics, control))
    }

    /// The sum of the losses of a batch times `scale`, and its gradient.
    fn gradient(&self, batch: &Batch, scale: f32, pass: u64) -> (f64, Vec<[Tensor<2>; 2]>) {
        let settings = &self.settings;
        let dropout = DropoutPass {
            rate: settings.dropout,
            seed: settings.seed,
            pass,
        };
        let options = GradientOptions {
            precision: settings.precision(),
            layers_on_tape: settings.layers_on_tape,
            scale,
            dropout: Some(dropout).filter(|dropout| dropout.rate > 0.0),
        };
        gradient::batch_gradient(self.model.decoder(), &self.parameters, batch, &options)
    }

    /// Evaluates the validation examples. Returns the mean loss per trained token, or `None` if
    /// there are none or the run was suspended, and the strongest decision of the reports.
    fn evaluate(&self, report: &mut dyn FnMut(Report) -> Control) -> Result<(Option<f64>, Control), TrainError> {
        let batches = Batch::of_tokens(&self.held_out, EVALUATION_BATCH_TOKENS);
        let trained: usize = batches.iter().map(|batch| batch.trained).sum();
        let decoder = self.parameters.attach(self.model.decoder(), None);
        let (mut loss, mut control) = (0.0, Control::Continue);
        for batch in &batches {
            loss += gradient::loss(&decoder, batch, self.settings.precision());
            control = control.max(send(report, Report::Batch)?);
            if control == Control::Suspend {
                return Ok((None, control));
            }
        }
        Ok(((trained > 0).then(|| loss / trained as f64), control))
    }

    /// Evaluates, reports the evaluation and adds it to the history. Returns the strongest decision
    /// of the reports.
    fn evaluate_and_record(
        &mut self,
        step: usize,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<Control, TrainError> {
        let (loss, control) = self.evaluate(report)?;
        let Some(loss) = loss else {
            return Ok(control);
        };
        let control = control.max(self.report_evaluation(step, loss, report)?);
        self.progress.evaluations.push((step, loss));
        Ok(control)
    }

    /// The evaluation of a run that is stopped between evaluations: reported, but not added to the
    /// history, so that a resumed run equals an uninterrupted one. Returns the strongest decision
    /// of the reports.
    fn evaluate_at_stop(&self, step: usize, report: &mut dyn FnMut(Report) -> Control) -> Result<Control, TrainError> {
        if self.is_evaluated_after(step) {
            return Ok(Control::Continue);
        }
        let (loss, control) = self.evaluate(report)?;
        let Some(loss) = loss else {
            return Ok(control);
        };
        Ok(control.max(self.report_evaluation(step, loss, report)?))
    }

    /// Reports an evaluation, and [`Report::Improved`] if it is the best. While no evaluation was
    /// finite, the latest adapters count as the best. Returns the strongest decision.
    ///
    /// # Errors
    /// If adapters to be saved have a value that is NaN or infinite.
    fn report_evaluation(
        &self,
        step: usize,
        loss: f64,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<Control, TrainError> {
        let best = self.progress.is_better(loss);
        let is_saved = best || self.progress.best().is_none();
        if is_saved {
            self.check_adapters(step)?;
        }
        let mut control = send(report, Report::Evaluated { step, loss, best })?;
        if is_saved {
            let loss = Some(loss).filter(|loss| loss.is_finite());
            control = control.max(self.send_improved(step, loss, report)?);
        }
        Ok(control)
    }

    fn send_improved(
        &self,
        step: usize,
        loss: Option<f64>,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<Control, TrainError> {
        let parameters = &self.parameters;
        send(report, Report::Improved { parameters, step, loss })
    }

    /// Checks that all adapter values are finite, so that NaN is neither in a saved adapter nor in
    /// a checkpoint.
    fn check_adapters(&self, step: usize) -> Result<(), TrainError> {
        if self.parameters.are_finite() {
            Ok(())
        } else {
            Err(TrainError::diverged("The adapter", step, f64::NAN))
        }
    }

    /// Writes and reports a checkpoint, if the run has a folder.
    fn checkpoint(&self, report: &mut dyn FnMut(Report) -> Control) -> Result<Control, TrainError> {
        let Some(folder) = &self.folder else {
            return Ok(Control::Continue);
        };
        let data = self.fingerprint();
        checkpoint::save(
            folder,
            &self.settings,
            data,
            &self.parameters,
            &self.optimizer,
            &self.progress,
        )?;
        let step = self.progress.losses.len();
        send(report, Report::Checkpointed { step })
    }

    fn end(&self, reason: EndReason) -> End {
        let first = self.progress.evaluations.first();
        let eval_before = first.filter(|(step, loss)| *step == 0 && loss.is_finite());
        End {
            reason,
            losses: self.progress.losses.clone(),
            eval_before: eval_before.map(|(_, loss)| *loss),
            tokens: self.progress.tokens,
            seconds: self.progress.seconds,
        }
    }

    /// Fingerprint of the data: FNV-1a over the tokens and loss masks of all examples.
    /// <http://www.isthe.com/chongo/tech/comp/fnv/>
    fn fingerprint(&self) -> u64 {
        let examples = self.examples.iter().chain(&self.held_out);
        let words = examples.flat_map(|example| {
            let trained = example.trained.iter().map(|trained| u64::from(*trained));
            let ids = example.ids.iter().map(|id| u64::from(*id));
            ids.zip(trained).map(|(id, trained)| id * 2 + trained).chain([u64::MAX])
        });
        words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
            (hash ^ word).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Detects a diverging loss.
#[derive(Debug, Default)]
struct DivergenceMonitor {
    /// Exponential moving average of the losses.
    smoothed: Option<f64>,
    /// Minimum of `smoothed` so far.
    minimum: Option<f64>,
}

impl DivergenceMonitor {
    /// Adds a step's loss. Returns whether the run has diverged.
    fn has_diverged(&mut self, loss: f64) -> bool {
        let smoothed = self
            .smoothed
            .map_or(loss, |smoothed| smoothed + SMOOTHING * (loss - smoothed));
        let minimum = self.minimum.map_or(smoothed, |minimum| minimum.min(smoothed));
        (self.smoothed, self.minimum) = (Some(smoothed), Some(minimum));
        smoothed > DIVERGENCE_FACTOR * minimum + DIVERGENCE_MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schedule;
    use hearth_formats::gguf::Gguf;
    use hearth_llm::LoadOptions;
    use std::ops::ControlFlow;

    /// A run of a few steps on a tiny model.
    fn run() -> Run {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
        let gguf = Gguf::open(path).expect("the model opens");
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
        let example = Example {
            ids: vec![10, 20, 30, 40],
            trained: vec![true; 4],
        };
        let settings = Settings {
            version: Settings::VERSION,
            rank: 2,
            alpha: 4.0,
            dropout: 0.0,
            rslora: false,
            targets: Vec::new(),
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            warmup: 0.0,
            weight_decay: 0.0,
            max_gradient_norm: 1.0,
            epochs: 4.0,
            max_steps: Some(4),
            batch: 1,
            accumulation: 1,
            seed: 1,
            shuffle: false,
            eval_every: 1,
            patience: 0,
            checkpoint_every: 9,
            bf16: false,
            layers_on_tape: 9,
        };
        let (examples, held_out) = (vec![example.clone()], vec![example]);
        Run::new(Arc::new(model.expect("it loads")), settings, examples, held_out, None).expect("it can run")
    }

    #[test]
    fn a_non_finite_evaluation_is_reported_and_never_the_best() {
        enum Expected {
            Best,
            /// Adapters are saved while no loss was finite.
            SavedButNotBest,
            NotSaved,
        }
        let mut run = run();
        let nan = f64::NAN;
        for (step, (loss, expected)) in (1..).zip([
            (nan, Expected::SavedButNotBest),
            (-nan, Expected::SavedButNotBest),
            (f64::INFINITY, Expected::SavedButNotBest),
            (2.0, Expected::Best),
            (-nan, Expected::NotSaved),
            (f64::NEG_INFINITY, Expected::NotSaved),
            (2.5, Expected::NotSaved),
            (1.5, Expected::Best),
        ]) {
            let (mut reported_best, mut improved) = (None, None);
            let result = run.report_evaluation(step, loss, &mut |report| {
                match report {
                    Report::Evaluated { best, .. } => reported_best = Some(best),
                    Report::Improved { step, loss, .. } => improved = Some((step, loss)),
                    _ => {}
                }
                Control::Continue
            });
            result.expect("the adapters are finite");
            let (expected_best, expected_improved) = match expected {
                Expected::Best => (true, Some((step, Some(loss)))),
                Expected::SavedButNotBest => (false, Some((step, None))),
                Expected::NotSaved => (false, None),
            };
            assert_eq!(reported_best, Some(expected_best), "{loss} after step {step}");
            assert_eq!(improved, expected_improved, "{loss} after step {step}");
            run.progress.evaluations.push((step, loss));
        }
        assert_eq!(run.best(), Some((8, 1.5)));
        run.progress.evaluations = vec![(0, nan), (1, -nan)];
        let end = run.end(EndReason::Completed);
        assert_eq!((end.eval_before, run.best()), (None, None));
    }

    #[test]
    fn non_finite_adapters_end_the_run_and_are_not_saved() {
        let mut run = run();
        let b = &mut run.parameters.pairs[0].b;
        *b = b.clone() + f32::NAN;
        let error = run.report_evaluation(3, f64::NAN, &mut |report| panic!("{report:?}"));
        let error = error.expect_err("it diverged").to_string();
        assert!(error.contains("NaN") && error.contains("step 3"), "{error}");
    }

    #[test]
    fn an_exploding_loss_is_detected_and_a_noisy_one_is_not() {
        let mut monitor = DivergenceMonitor::default();
        assert!((0..200).all(|step| !monitor.has_diverged(2.0 + f64::from(step % 7) * 0.5)));
        assert!((0..200).any(|_| monitor.has_diverged(9.0)));
    }
}
