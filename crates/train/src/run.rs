//! The loop: batches, steps, evaluations, checkpoints.

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

/// Tokens that held-out examples go through the model together with.
const TOKENS_AN_EVALUATION: usize = 2048;
/// A loss this many times its best, both smoothed, and [`EXPLODED_BY`] more, will not come back by
/// itself.
const EXPLODED: f64 = 2.0;
const EXPLODED_BY: f64 = 1.0;
/// What a new loss counts for in the smoothed one.
const SMOOTHING: f64 = 0.1;

/// What happens in a run.
#[derive(Debug)]
pub enum Report<'a> {
    /// A batch of a step went forwards and backwards, or one of an evaluation forwards: a moment to
    /// wait in, if need be.
    Batch,
    /// A step was made.
    Step(Step),
    /// The held-out examples were measured after this many steps.
    Evaluated {
        /// Steps made.
        step: usize,
        /// Mean loss a learnt token; NaN or infinite where it came to no number.
        loss: f64,
        /// Whether it is the best since the first step, which what is no number never is.
        best: bool,
    },
    /// These adapters are the best so far, or the latest where nothing is held out or no evaluation
    /// came to a number: now is the time to keep them.
    Improved(&'a Parameters),
    /// A checkpoint is on the disk.
    Checkpointed {
        /// Steps made.
        step: usize,
    },
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// Steps at most.
    pub steps: usize,
    /// Times through the data so far.
    pub epoch: f64,
    /// Mean loss a learnt token.
    pub loss: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Norm of the gradient before it was scaled down.
    pub gradient_norm: f64,
    /// Tokens of its examples.
    pub tokens: usize,
    /// Seconds it took.
    pub seconds: f64,
}

/// What the run is to do after a report; of several, the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Go on.
    Continue,
    /// Make a checkpoint, measure what was reached, and end.
    Stop,
    /// Make a checkpoint after the step and end; an evaluation is given up, and made when the run
    /// is resumed.
    Suspend,
    /// End at once, without a checkpoint: what was reported could not be kept, so the run has to go
    /// on from before it.
    Abort,
}

/// Reports something; what the run is to do now.
fn tell(report: &mut dyn FnMut(Report) -> Control, what: Report) -> Result<Control, TrainError> {
    match report(what) {
        Control::Abort => Err(TrainError::Aborted),
        wanted => Ok(wanted),
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// All steps were made.
    Completed,
    /// The held-out loss did not improve any more.
    EarlyStop,
    /// It was told to.
    Stopped,
    /// It was told to, and is to be resumed: what it reached was not measured.
    Suspended,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// Held-out loss before the first step, where it is a number.
    pub eval_before: Option<f64>,
    /// Held-out loss of the adapters that were last [`Report::Improved`], where it is a number.
    pub eval: Option<f64>,
    /// Steps after which those were.
    pub best_step: usize,
    /// Tokens that went through the model in the steps.
    pub tokens: u64,
    /// Seconds that the steps took.
    pub seconds: f64,
}

/// Why a run ends from which something is wanted; none where it goes on.
fn reason(wanted: Control) -> Option<EndReason> {
    match wanted {
        Control::Continue => None,
        Control::Stop => Some(EndReason::Stopped),
        Control::Suspend | Control::Abort => Some(EndReason::Suspended),
    }
}

/// Adapters that learn.
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
    /// A run that has not begun. Examples with nothing to learn are left out. Checkpoints go to
    /// `folder`, if there is one.
    ///
    /// # Errors
    /// Settings that make no sense or do not fit the model, or nothing to learn.
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
            return Err(TrainError::NothingToLearn);
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

    /// Begins with an adapter instead of a new one.
    ///
    /// # Errors
    /// It has other linears, or another rank or scale.
    pub fn start_from(&mut self, parts: &[LoraPart]) -> Result<(), TrainError> {
        self.parameters.start_from(parts)
    }

    /// Goes on from a checkpoint of the same settings and the same data.
    ///
    /// # Errors
    /// It cannot be read, or was of another run.
    pub fn resume(&mut self, checkpoint: &Path) -> Result<(), TrainError> {
        let data = self.fingerprint();
        let (parameters, optimizer) = (&mut self.parameters, &mut self.optimizer);
        self.progress = checkpoint::restore(checkpoint, &self.settings, data, parameters, optimizer)?;
        Ok(())
    }

    /// What is trained.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Steps at most.
    pub fn steps(&self) -> usize {
        self.settings.steps(self.examples.len())
    }

    /// Steps made, and held-out losses measured.
    pub fn history(&self) -> (&[f64], &[(usize, f64)]) {
        (&self.progress.losses, &self.progress.evaluations)
    }

    /// Makes the gradient of one batch of the longest examples and throws it away: what a batch
    /// takes, in seconds. The memory that the process takes meanwhile is what the run will take.
    pub fn dry_run(&self) -> f64 {
        let mut longest: Vec<&Example> = self.examples.iter().collect();
        longest.sort_by_key(|example| std::cmp::Reverse(example.ids.len()));
        let batch = Batch::of(longest.into_iter().take(self.settings.batch));
        let began = Instant::now();
        self.gradient(&batch, 1.0, 0);
        began.elapsed().as_secs_f64()
    }

    /// Makes all steps, or those that are left.
    ///
    /// # Errors
    /// The loss diverged, or a checkpoint could not be written.
    pub fn run(&mut self, report: &mut dyn FnMut(Report) -> Control) -> Result<End, TrainError> {
        let steps = self.steps();
        let mut watch = DivergenceMonitor::default();
        for loss in &self.progress.losses {
            watch.has_exploded(*loss);
        }
        if self.progress.evaluations.is_empty() && self.progress.losses.is_empty() {
            let (loss, mut wanted) = self.evaluate(report)?;
            if let Some(loss) = loss {
                self.progress.evaluations.push((0, loss));
                let best = false;
                wanted = wanted.max(tell(report, Report::Evaluated { step: 0, loss, best })?);
            }
            if let Some(reason) = reason(wanted) {
                return Ok(self.end(reason, None));
            }
        }
        if self.owes_evaluation()
            && let Some(end) = self.after_step(Control::Continue, report)?
        {
            return Ok(end);
        }
        while self.progress.losses.len() < steps {
            let (step, mut wanted) = self.step(steps, report)?;
            wanted = wanted.max(tell(report, Report::Step(step))?);
            if watch.has_exploded(step.loss) {
                return Err(TrainError::diverged("The loss", step.step, step.loss));
            }
            if let Some(end) = self.after_step(wanted, report)? {
                return Ok(end);
            }
        }
        Ok(self.end(EndReason::Completed, None))
    }

    /// Whether the held-out examples are to be measured after the last step that was made.
    fn owes_evaluation(&self) -> bool {
        let (step, steps) = (self.progress.losses.len(), self.steps());
        let due = step > 0 && (step == steps || step % self.settings.eval_every == 0);
        let measured = self.progress.evaluations.last().is_some_and(|(at, _)| *at == step);
        due && !measured && !self.held_out.is_empty()
    }

    /// What follows a step: an evaluation and a checkpoint where they are due, and the end if it is
    /// wanted.
    fn after_step(
        &mut self,
        mut wanted: Control,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<Option<End>, TrainError> {
        let (step, steps) = (self.progress.losses.len(), self.steps());
        let last = step == steps;
        if wanted < Control::Suspend && self.owes_evaluation() {
            wanted = wanted.max(self.evaluated(step, report)?);
        }
        let patience = self.settings.patience;
        if !last && patience > 0 && self.progress.since_best() >= patience {
            self.checkpoint(report)?;
            return Ok(Some(self.end(EndReason::EarlyStop, None)));
        }
        let is_due = step % self.settings.checkpoint_every == 0;
        if last || wanted > Control::Continue || is_due {
            self.check_adapters(step)?;
            if self.held_out.is_empty() {
                wanted = wanted.max(tell(report, Report::Improved(&self.parameters))?);
            }
            wanted = wanted.max(self.checkpoint(report)?);
        }
        let done = last && !self.owes_evaluation();
        if wanted == Control::Continue || done {
            return Ok(None);
        }
        let mut now = None;
        if wanted == Control::Stop {
            let measured = self.measure_at_stop(step, report)?;
            now = measured.0;
            wanted = wanted.max(measured.1);
        }
        Ok(reason(wanted).map(|reason| self.end(reason, now)))
    }

    /// One step: gradients of its batches, clipped, and the optimiser; and what was wanted
    /// meanwhile.
    fn step(&mut self, steps: usize, report: &mut dyn FnMut(Report) -> Control) -> Result<(Step, Control), TrainError> {
        let number = self.progress.losses.len();
        let settings = &self.settings;
        let an_epoch = settings.steps_an_epoch(self.examples.len());
        let (epoch, within) = (number / an_epoch, number % an_epoch);
        let order = order::of_epoch(self.examples.len(), epoch, settings.seed, settings.shuffle);
        let size = settings.examples_a_step();
        let chosen = &order[within * size..((within + 1) * size).min(order.len())];
        let batches: Vec<Batch> = chosen
            .chunks(settings.batch)
            .map(|chunk| Batch::of(chunk.iter().map(|at| &self.examples[*at])))
            .collect();
        let trained: usize = batches.iter().map(|batch| batch.trained).sum();
        let (mut loss, mut sum) = (0.0, None::<Vec<[Tensor<2>; 2]>>);
        let (mut seconds, mut wanted) = (0.0, Control::Continue);
        for (at, batch) in batches.iter().enumerate() {
            let began = Instant::now();
            let pass = (number * settings.accumulation + at) as u64;
            let (part, gradients) = self.gradient(batch, 1.0 / trained.max(1) as f32, pass);
            loss += part;
            sum = Some(match sum {
                None => gradients,
                Some(sum) => sum
                    .into_iter()
                    .zip(gradients)
                    .map(|([a, b], [da, db])| [a + da, b + db])
                    .collect(),
            });
            // Whoever listens may take their time.
            seconds += began.elapsed().as_secs_f64();
            wanted = wanted.max(tell(report, Report::Batch)?);
        }
        let began = Instant::now();
        let gradients = sum.unwrap_or_default();
        let norm = adamw::norm(&gradients);
        let became = |what, value: f64| match value.is_finite() {
            true => Ok(()),
            false => Err(TrainError::diverged(what, number + 1, value)),
        };
        became("The loss", loss)?;
        became("The norm of the gradient", norm)?;
        let factor = settings.clip_factor(norm);
        let learning_rate = settings.learning_rate_of(number, steps);
        self.optimizer.step(
            &mut self.parameters,
            gradients,
            factor,
            learning_rate,
            settings.weight_decay,
        );
        let tokens = batches.iter().map(|batch| batch.tokens).sum();
        seconds += began.elapsed().as_secs_f64();
        self.progress.losses.push(loss);
        self.progress.tokens += tokens as u64;
        self.progress.seconds += seconds;
        let step = Step {
            step: number + 1,
            steps,
            epoch: epoch as f64 + (within * size + chosen.len()) as f64 / self.examples.len() as f64,
            loss,
            learning_rate,
            gradient_norm: norm,
            tokens,
            seconds,
        };
        Ok((step, wanted))
    }

    fn gradient(&self, batch: &Batch, scale: f32, pass: u64) -> (f64, Vec<[Tensor<2>; 2]>) {
        let settings = &self.settings;
        let drop = DropoutPass {
            rate: settings.dropout,
            seed: settings.seed,
            pass,
        };
        let how = GradientOptions {
            precision: settings.precision(),
            layers_on_tape: settings.layers_on_tape,
            scale,
            drop: Some(drop).filter(|drop| drop.rate > 0.0),
        };
        gradient::of_batch(self.model.decoder(), &self.parameters, batch, &how)
    }

    /// Mean loss a learnt token of the held-out examples, if there are any and all of them were
    /// measured; and what was wanted meanwhile.
    fn evaluate(&self, report: &mut dyn FnMut(Report) -> Control) -> Result<(Option<f64>, Control), TrainError> {
        let batches = Batch::of_tokens(&self.held_out, TOKENS_AN_EVALUATION);
        let trained: usize = batches.iter().map(|batch| batch.trained).sum();
        let decoder = self.parameters.attach(self.model.decoder(), None);
        let (mut loss, mut wanted) = (0.0, Control::Continue);
        for batch in &batches {
            loss += gradient::loss(&decoder, batch, self.settings.precision());
            wanted = wanted.max(tell(report, Report::Batch)?);
            if wanted == Control::Suspend {
                return Ok((None, wanted));
            }
        }
        Ok(((trained > 0).then(|| loss / trained as f64), wanted))
    }

    fn evaluated(&mut self, step: usize, report: &mut dyn FnMut(Report) -> Control) -> Result<Control, TrainError> {
        let (loss, meanwhile) = self.evaluate(report)?;
        let Some(loss) = loss else {
            return Ok(meanwhile);
        };
        let (_, wanted) = self.tell_evaluation(step, loss, report)?;
        self.progress.evaluations.push((step, loss));
        Ok(meanwhile.max(wanted))
    }

    /// What a run that is stopped between evaluations has reached: kept if it is the best, but no
    /// part of its history, so that it goes on as if it had not been stopped. And what was wanted
    /// meanwhile.
    fn measure_at_stop(
        &self,
        step: usize,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<(Option<(usize, f64)>, Control), TrainError> {
        let measured = self.progress.evaluations.last().is_some_and(|(at, _)| *at == step);
        if measured {
            return Ok((None, Control::Continue));
        }
        let (loss, meanwhile) = self.evaluate(report)?;
        let Some(loss) = loss else {
            return Ok((None, meanwhile));
        };
        let (best, wanted) = self.tell_evaluation(step, loss, report)?;
        Ok((best.then_some((step, loss)), meanwhile.max(wanted)))
    }

    /// Tells an evaluation, and that the adapters are to be kept if it is the best: as it is also
    /// where no evaluation so far came to a number, since then the latest adapters are the best
    /// that are known. Whether it is the best, and what is wanted now.
    ///
    /// # Errors
    /// The adapters themselves hold what is no number.
    fn tell_evaluation(
        &self,
        step: usize,
        loss: f64,
        report: &mut dyn FnMut(Report) -> Control,
    ) -> Result<(bool, Control), TrainError> {
        let best = self.progress.is_better(loss);
        let keep = best || self.progress.best().is_none();
        if keep {
            self.check_adapters(step)?;
        }
        let mut wanted = tell(report, Report::Evaluated { step, loss, best })?;
        if keep {
            wanted = wanted.max(tell(report, Report::Improved(&self.parameters))?);
        }
        Ok((best, wanted))
    }

    /// That what was learnt is numbers: what is none is neither kept nor gone on from.
    fn check_adapters(&self, step: usize) -> Result<(), TrainError> {
        match self.parameters.are_finite() {
            true => Ok(()),
            false => Err(TrainError::diverged("The adapter", step, f64::NAN)),
        }
    }

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
        tell(report, Report::Checkpointed { step })
    }

    fn end(&self, reason: EndReason, at_stop: Option<(usize, f64)>) -> End {
        let best = at_stop.or_else(|| self.progress.best());
        let before = self.progress.evaluations.first();
        let before = before.filter(|(step, loss)| *step == 0 && loss.is_finite());
        End {
            reason,
            losses: self.progress.losses.clone(),
            eval_before: before.map(|(_, loss)| *loss),
            eval: best.map(|(_, loss)| loss),
            best_step: best.map_or(self.progress.losses.len(), |(step, _)| step),
            tokens: self.progress.tokens,
            seconds: self.progress.seconds,
        }
    }

    /// Tells other data from these: FNV-1a over all tokens.
    /// <http://www.isthe.com/chongo/tech/comp/fnv/>
    fn fingerprint(&self) -> u64 {
        let examples = self.examples.iter().chain(&self.held_out);
        let numbers = examples.flat_map(|example| {
            let trained = example.trained.iter().map(|trained| u64::from(*trained));
            let ids = example.ids.iter().map(|id| u64::from(*id));
            ids.zip(trained).map(|(id, trained)| id * 2 + trained).chain([u64::MAX])
        });
        numbers.fold(0xcbf2_9ce4_8422_2325, |hash, number| {
            (hash ^ number).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Sees a loss that will not come back.
#[derive(Debug, Default)]
struct DivergenceMonitor {
    smoothed: Option<f64>,
    best: Option<f64>,
}

impl DivergenceMonitor {
    fn has_exploded(&mut self, loss: f64) -> bool {
        let smoothed = self
            .smoothed
            .map_or(loss, |before| before + SMOOTHING * (loss - before));
        let best = self.best.map_or(smoothed, |best| best.min(smoothed));
        (self.smoothed, self.best) = (Some(smoothed), Some(best));
        smoothed > EXPLODED * best + EXPLODED_BY
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
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
        let gguf = Gguf::open(model).expect("the model opens");
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
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
    fn an_evaluation_that_is_no_number_is_told_and_never_counts_as_the_best() {
        let mut run = run();
        let nan = f64::NAN;
        // What it comes to, whether that is the best, and whether the adapters are kept: while
        // nothing was a number they are.
        for (step, (loss, expected)) in [
            (nan, (false, true)),
            (-nan, (false, true)),
            (f64::INFINITY, (false, true)),
            (2.0, (true, true)),
            (-nan, (false, false)),
            (f64::NEG_INFINITY, (false, false)),
            (2.5, (false, false)),
            (1.5, (true, true)),
        ]
        .into_iter()
        .enumerate()
        {
            let (mut told, mut kept) = (None, false);
            let result = run.tell_evaluation(step + 1, loss, &mut |report| {
                match report {
                    Report::Evaluated { best, .. } => told = Some(best),
                    Report::Improved(_) => kept = true,
                    _ => {}
                }
                Control::Continue
            });
            let (best, _) = result.expect("the adapters are numbers");
            assert_eq!(
                (told, (best, kept)),
                (Some(expected.0), expected),
                "{loss} after step {}",
                step + 1
            );
            run.progress.evaluations.push((step + 1, loss));
        }
        assert_eq!(run.end(EndReason::Completed, None).eval, Some(1.5));
        run.progress.evaluations = vec![(0, nan), (1, -nan)];
        let end = run.end(EndReason::Completed, None);
        assert_eq!((end.eval_before, end.eval), (None, None));
    }

    #[test]
    fn adapters_that_are_no_numbers_end_the_run_and_are_not_kept() {
        let mut run = run();
        let b = &mut run.parameters.pairs[0].b;
        *b = b.clone() + f32::NAN;
        let error = run.tell_evaluation(3, f64::NAN, &mut |report| panic!("{report:?}"));
        let error = error.expect_err("it diverged").to_string();
        assert!(error.contains("no number") && error.contains("step 3"), "{error}");
    }

    #[test]
    fn a_loss_that_explodes_is_seen_and_one_that_wavers_is_not() {
        let mut watch = DivergenceMonitor::default();
        assert!((0..200).all(|step| !watch.has_exploded(2.0 + f64::from(step % 7) * 0.5)));
        assert!((0..200).any(|_| watch.has_exploded(9.0)));
    }
}
