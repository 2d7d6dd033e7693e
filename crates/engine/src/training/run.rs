//! One run, from its request to its outcome.

use super::control::RunControl;
use super::data::{Reader, TrainingData, training_data};
use super::folder::{RunFile, RunFolder, open_adapter};
use super::{plan, probe};
use crate::notices::unknown_settings;
use crate::numbers::saturating_u32;
use crate::plan::{
    ModelBytes, ModelPlan, PlanOptions, compute_plan, largest_buffer, load_with_fallback, plan_training,
};
use crate::problem::{disk, from_adapter, from_load, from_train, interrupted, panic_text};
use crate::{hardware, memory, packed};
use hearth_formats::adapter::{AdapterManifest, BaseId, BaseShape, DataId, LinearName};
use hearth_formats::hex;
use hearth_llm::threads::{self, Threads};
use hearth_llm::{LoadOptions, LoraPart, Model, Place, device};
use hearth_protocol::{
    Checkpointing, EndReason, GpuLayers, Notice, Outcome, Precision, Problem, ProblemCode, RunCommand, RunPlan, Stage,
    StepReport, TrainRequest, TrainSettings, TrainingEvent, TrainingReason,
};
use hearth_train::{Control, Report, Run, Settings};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of prompts that are saved for the verification of exports, and their maximum
/// tokens.
pub(super) const MAX_PROMPTS: usize = 8;
pub(super) const MAX_PROMPT_TOKENS: usize = 96;
/// Maximum fraction of memory for a run. Above it, only one layer's activations are saved.
const MAX_MEMORY_FRACTION: f64 = 0.8;
/// Lower bound of durations, so that rates are finite.
const MIN_SECONDS: f64 = 1e-9;
/// Fraction of the preparation's progress for reading the data.
const READ_FRACTION: f32 = 0.5;

/// Trains an adapter. `emit` receives every event but the last, whose outcome is returned. `None`
/// means that the run was suspended. A paused run waits after the current batch, and a stopped or
/// suspended one ends after the current step.
///
/// # Errors
/// The model, the data or the settings are invalid, the disk is full, or the loss diverged. The run
/// can be resumed from its last checkpoint.
pub fn train(
    request: &TrainRequest,
    control: &RunControl,
    emit: &mut dyn FnMut(TrainingEvent),
) -> Result<Option<Outcome>, Problem> {
    match run_training(request, control, emit) {
        // A run that is suspended before its first step has no state to save.
        Err(problem) if control.get() == RunCommand::Suspend && problem == interrupted() => Ok(None),
        result => result,
    }
}

fn run_training(
    request: &TrainRequest,
    control: &RunControl,
    emit: &mut dyn FnMut(TrainingEvent),
) -> Result<Option<Outcome>, Problem> {
    let (prepared, mut notices) = PreparedRun::new(request, control, emit)?;
    let loaded = prepared.load(control, emit, &mut notices)?;
    let (mut run, settings) = (loaded.run, loaded.settings);
    let _lock = prepared.folder.lock()?;
    let (run_file, previous_best) = prepared.create_or_resume(&mut run, &settings, &mut notices)?;
    let (folder, base, data) = (&prepared.folder, &prepared.base, &prepared.data);
    let plan = run_plan(&run, &run_file, data, loaded.dry_run_seconds, prepared.threads, notices);
    let seconds_per_token = plan.step_seconds / tokens_per_step(data, &settings);
    emit(TrainingEvent::Planned(plan));

    let template = prepared.reader.template.source();
    let manifest = AdapterManifest {
        hearth: env!("CARGO_PKG_VERSION").to_owned(),
        base: base.clone(),
        template_sha256: Some(hex(Sha256::digest(template.as_bytes()))),
        system_prompt: run_file.system_prompt.clone(),
        data: data_id(&request.data.path)?,
        settings: serde_json::to_value(&settings).unwrap_or_default(),
        seed: settings.seed,
        metrics: serde_json::Value::Null,
        created: AdapterManifest::now(),
    };
    let mut reporter = RunReporter {
        folder,
        run_file: &run_file,
        manifest,
        base: &base.shape,
        control,
        emit,
        step: saturating_u32(run.losses().len()),
        time_left: TimeLeft {
            seconds_per_token,
            tokens_per_step: tokens_per_step(data, &settings),
        },
        best: None,
        failure: None,
    };
    let result = catch_gpu_panic(loaded.gpu_layers > 0, || {
        run.run(&mut |report| reporter.handle_report(report))
    })?;
    if let Some(failure) = reporter.failure.take() {
        return Err(failure);
    }
    let end = result.map_err(from_train)?;
    let reason = match end.reason {
        hearth_train::EndReason::Completed => EndReason::Completed,
        hearth_train::EndReason::EarlyStop => EndReason::EarlyStop,
        hearth_train::EndReason::Stopped => EndReason::Stopped,
        hearth_train::EndReason::Suspended => return Ok(None),
    };

    // The best adapter is saved. Its final scores follow.
    let (model, tokenizer) = (&loaded.model, &prepared.reader.tokenizer);
    let general_before = probe::perplexity(model, tokenizer, settings.precision());
    // The best adapter of this process, or of the steps before the resume. If there is neither,
    // because there was no step or the earlier one is lost, the current parameters are used.
    let Best { parts, score } = reporter.best.take().or(previous_best).unwrap_or_else(|| Best {
        parts: run.parameters().parts(),
        score: Score {
            best_step: end.losses.len(),
            eval_loss: None,
        },
    });
    let Score { best_step, eval_loss } = score;
    let tuned = model
        .adapted(&parts)
        .map_err(|error| Problem::detail(ProblemCode::Internal, error))?;
    let general_after = probe::perplexity(&tuned, tokenizer, settings.precision());
    reporter.manifest.metrics = serde_json::json!({
        "eval_loss_before": end.eval_before, "eval_loss": eval_loss, "best_step": best_step,
        "general_before": general_before, "general_after": general_after,
    });
    if !end.losses.is_empty() {
        folder.save_adapter(&parts, &run_file, reporter.manifest.clone(), &base.shape)?;
    }
    let tail_length = end.losses.len().div_ceil(10).max(1);
    let tail = &end.losses[end.losses.len().saturating_sub(tail_length)..];
    Ok(Some(Outcome {
        reason,
        steps: saturating_u32(end.losses.len()),
        best_step: saturating_u32(best_step),
        train_loss: tail.iter().sum::<f64>() / tail.len().max(1) as f64,
        eval_loss_before: end.eval_before,
        eval_loss,
        general_before: Some(general_before).filter(|perplexity| perplexity.is_finite()),
        general_after: Some(general_after).filter(|perplexity| perplexity.is_finite()),
        tokens_per_second: end.tokens as f64 / end.seconds.max(MIN_SECONDS),
        seconds: end.seconds,
        peak_memory: memory::peak().unwrap_or(0),
        adapter: folder.adapter(),
    }))
}

/// Reports progress before the first step.
///
/// # Errors
/// [`interrupted`] if the run was stopped or suspended.
fn report_preparation(
    control: &RunControl,
    emit: &mut dyn FnMut(TrainingEvent),
    fraction: f32,
    stage: Stage,
) -> Result<(), Problem> {
    emit(TrainingEvent::Preparing { fraction, stage });
    match control.get() {
        RunCommand::Stop | RunCommand::Suspend => Err(interrupted()),
        RunCommand::Resume | RunCommand::Pause => Ok(()),
    }
}

/// A run before its model is loaded.
struct PreparedRun<'a> {
    request: &'a TrainRequest,
    reader: Reader,
    folder: RunFolder,
    base: BaseId,
    /// The run to resume, if any.
    resumed: Option<RunFile>,
    checkpoint: Option<PathBuf>,
    /// The requested settings. Of a resumed run, the data settings are from its `run.json`.
    requested: TrainSettings,
    data: TrainingData,
    threads: u32,
    /// Tokens of each example.
    lengths: Vec<usize>,
    settings: Settings,
    /// The adapter to start from. Empty means none.
    init: Vec<LoraPart>,
}

/// A loaded model, and a run after its dry run.
struct LoadedRun {
    model: Arc<Model>,
    run: Run,
    dry_run_seconds: f64,
    settings: Settings,
    gpu_layers: u32,
}

impl<'a> PreparedRun<'a> {
    /// Reads the data and chooses the settings. Also returns notices for the user.
    fn new(
        request: &'a TrainRequest,
        control: &RunControl,
        emit: &mut dyn FnMut(TrainingEvent),
    ) -> Result<(Self, Vec<Notice>), Problem> {
        report_preparation(control, emit, 0.0, Stage::OpeningModel)?;
        let reader = Reader::open(&request.model)?;
        let folder = RunFolder(request.out.clone());
        let base = BaseId::from_gguf(&reader.gguf).map_err(from_adapter)?;
        folder.check_adapter()?;
        let resumed = if request.resume {
            folder.run_to_resume(&base)?
        } else {
            folder.check_unused()?;
            None
        };
        let checkpoint = request
            .resume
            .then(|| hearth_train::latest_checkpoint(&folder.0))
            .flatten();
        let mut requested = request.settings.clone();
        if let Some(resumed) = &resumed {
            // The data is read and truncated as before; these settings of the request are ignored.
            requested.sequence = Some(resumed.sequence);
            requested.eval_split = resumed.eval_split;
            requested.train_on_prompts = resumed.train_on_prompts;
            requested.system_prompt.clone_from(&resumed.system_prompt);
            requested.seed = resumed.settings.seed;
        }
        let mut data = training_data(&reader, &request.data, &requested, &mut |fraction| {
            report_preparation(control, emit, fraction * READ_FRACTION, Stage::ReadingData).is_ok()
        })?;
        let threads = thread_count(request);
        threads::set(Threads::Fixed(threads as usize));
        let lengths: Vec<usize> = data.examples.iter().map(|example| example.ids.len()).collect();
        let settings = match &resumed {
            Some(resumed) => resumed.settings.clone(),
            None => choose_settings(request, &requested, &reader, &lengths)?,
        };
        // A run that was killed before its first checkpoint starts again from its initial adapter.
        let init_path = match (&resumed, &checkpoint) {
            (_, Some(_)) => None,
            (Some(resumed), None) => resumed.init.as_ref().or(requested.init.as_ref()),
            (None, None) => requested.init.as_ref(),
        };
        let (init, mut notices) = match init_path {
            Some(path) => {
                let (adapter, notices) = open_adapter(path, &reader.gguf)?;
                (LoraPart::from_file(&adapter, 1.0), notices)
            }
            _ => (Vec::new(), Vec::new()),
        };
        notices.append(&mut data.notices);
        notices.extend(unknown_settings(&reader.gguf, reader.config.architecture));
        let prepared = Self {
            request,
            reader,
            folder,
            base,
            resumed,
            checkpoint,
            requested,
            data,
            threads,
            lengths,
            settings,
            init,
        };
        Ok((prepared, notices))
    }

    /// Loads the model by its plan and does a dry run. If either fails on a GPU, retries with fewer
    /// layers on GPUs.
    fn load(
        &self,
        control: &RunControl,
        emit: &mut dyn FnMut(TrainingEvent),
        notices: &mut Vec<Notice>,
    ) -> Result<LoadedRun, Problem> {
        let bytes = ModelBytes::from_header(&self.reader.gguf, &self.reader.config).map_err(from_load)?;
        let plan = |layers: GpuLayers| self.plan(&bytes, layers);
        let first_plan = plan(self.request.gpu_layers)?;
        first_plan.check()?;
        notices.extend(first_plan.limits.iter().cloned());
        let replan = |layers: usize| plan(GpuLayers::Count(saturating_u32(layers)));
        let result = load_with_fallback(first_plan, notices, replan, |model_plan| {
            let options = LoadOptions {
                placement: Some(model_plan.placement.clone()),
                packed_in: packed::folder(),
                ..LoadOptions::default()
            };
            let model = Model::load(&self.reader.gguf, &options, &mut |fraction| {
                let fraction = READ_FRACTION + fraction * (1.0 - READ_FRACTION) * 0.8;
                match report_preparation(control, emit, fraction, Stage::ReadingWeights) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            let model = Arc::new(model.map_err(from_load)?);
            memory::release();
            report_preparation(control, emit, 0.9, Stage::DryRun)?;
            let mut settings = self.settings.clone();
            if self.resumed.is_none() {
                plan::apply_placement(&mut settings, &self.requested, model_plan, is_fast_at_bf16);
            }
            let mut run = self.start(&model, &settings)?;
            let mut dry_run_seconds = run.dry_run();
            if self.resumed.is_none() && settings.layers_on_tape > 1 && exceeds_memory_fraction(memory::peak()) {
                settings.layers_on_tape = 1;
                run = self.start(&model, &settings)?;
                memory::release();
                dry_run_seconds = run.dry_run();
            }
            Ok((model, run, dry_run_seconds, settings))
        });
        let ((model, run, dry_run_seconds, settings), model_plan) = result?;
        let gpu_layers = model_plan.plan.gpu_layers;
        if gpu_layers > 0 {
            let gpus = model_plan.plan.devices.iter().skip(1);
            let used = gpus.filter(|device| !device.layers.is_empty());
            notices.push(Notice::TrainedOnGpus {
                layers: gpu_layers,
                total: model_plan.plan.layers_total,
                devices: used.map(|device| device.name.clone()).collect(),
            });
        }
        Ok(LoadedRun {
            model,
            run,
            dry_run_seconds,
            settings,
            gpu_layers,
        })
    }

    /// Plans the placement with these layers on GPUs.
    fn plan(&self, bytes: &ModelBytes, layers: GpuLayers) -> Result<ModelPlan, Problem> {
        let (config, device) = (&self.reader.config, self.request.device.as_deref());
        let longest_batch = plan::longest_batch(&self.lengths, self.settings.batch);
        let options = PlanOptions {
            context: Some(self.data.sequence),
            device: device.map(str::to_owned),
            gpu_layers: layers,
            training: Some(plan::memory_need(&self.settings, config, longest_batch)),
            ..PlanOptions::default()
        };
        let devices = hardware::devices_for(device);
        match (&self.resumed, self.requested.checkpointing) {
            (None, Checkpointing::Auto) => plan_training(bytes, config, &options, &devices),
            _ => compute_plan(bytes, config, &options, &devices),
        }
    }

    /// Starts the run on a loaded model, without a checkpoint.
    fn start(&self, model: &Arc<Model>, settings: &Settings) -> Result<Run, Problem> {
        let (examples, held_out) = (self.data.examples.clone(), self.data.held_out.clone());
        let folder = Some(self.folder.0.clone());
        let run = Run::new(model.clone(), settings.clone(), examples, held_out, folder);
        let mut run = run.map_err(from_train)?;
        if !self.init.is_empty() {
            run.start_from(&self.init).map_err(from_train)?;
        }
        Ok(run)
    }

    /// Creates the run's folder, or restores the run and its folder to the state of the checkpoint.
    /// Also returns the best adapter of the steps before a resume. The caller has locked the
    /// folder.
    fn create_or_resume(
        &self,
        run: &mut Run,
        settings: &Settings,
        notices: &mut Vec<Notice>,
    ) -> Result<(RunFile, Option<Best>), Problem> {
        let (request, requested) = (self.request, &self.requested);
        if self.resumed.is_none() && !request.resume {
            // Another process may have created a run since the first check.
            self.folder.check_unused()?;
        }
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let mut run_file = match &self.resumed {
            Some(resumed) => resumed.clone(),
            None => {
                let run_file = RunFile {
                    model: absolute(&request.model),
                    base: Some(self.base.clone()),
                    data: request.data.clone(),
                    init: requested.init.as_ref().map(absolute),
                    settings: settings.clone(),
                    sequence: self.data.sequence,
                    eval_split: requested.eval_split,
                    train_on_prompts: requested.train_on_prompts,
                    system_prompt: requested.system_prompt.clone(),
                    prompts: prompts(&self.data),
                };
                self.folder.create(&run_file)?;
                run_file
            }
        };
        if let Some(checkpoint) = &self.checkpoint {
            run.resume(checkpoint).map_err(from_train)?;
        }
        // All checks have passed, so the run's folder may change from here on.
        let mut previous_best = None;
        if self.resumed.is_some() {
            self.folder.recover()?;
            previous_best = best_adapter(&self.folder, run, &self.data, &self.reader, notices);
        }
        if run_file.base.is_none() {
            // Runs of early versions do not record their base model. Later resumes are checked
            // against this one.
            run_file.base = Some(self.base.clone());
            self.folder.write(&run_file)?;
        }
        Ok((run_file, previous_best))
    }
}

/// Chooses the settings of a new run.
fn choose_settings(
    request: &TrainRequest,
    requested: &TrainSettings,
    reader: &Reader,
    lengths: &[usize],
) -> Result<Settings, Problem> {
    let device = request.device.as_deref();
    let options = PlanOptions {
        device: device.map(str::to_owned),
        ..PlanOptions::default()
    };
    let buffer_limit = match request.gpu_layers {
        GpuLayers::Count(0) => None,
        _ => largest_buffer(&options, &hardware::devices_for(device))?,
    };
    let max_tokens_per_batch = buffer_limit.map(|bytes| plan::max_batch_tokens(&reader.config, bytes));
    let targets = targets(&requested.targets)?;
    Ok(plan::settings(
        requested,
        &reader.config,
        lengths,
        targets,
        max_tokens_per_batch,
    ))
}

/// The step of an adapter, and its validation loss if it is measured. They are part of the metrics
/// in the adapter's manifest, since the last checkpoint may be from another step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Score {
    best_step: usize,
    eval_loss: Option<f64>,
}

/// The best adapter of a run so far.
struct Best {
    parts: Vec<LoraPart>,
    score: Score,
}

/// Reads the best adapter of the steps before a resume. `None` if there is none, or if it is lost;
/// then a notice is added.
fn best_adapter(
    folder: &RunFolder,
    run: &Run,
    training_data: &TrainingData,
    reader: &Reader,
    notices: &mut Vec<Notice>,
) -> Option<Best> {
    let has_best = if training_data.held_out.is_empty() {
        !run.losses().is_empty()
    } else {
        run.best().is_some()
    };
    if !has_best {
        return None;
    }
    match open_adapter(&folder.adapter(), &reader.gguf) {
        Ok((adapter, _)) => {
            let manifest = adapter.manifest.as_ref();
            let recorded_score = manifest.and_then(|manifest| Score::deserialize(&manifest.metrics).ok());
            // Early versions recorded the score only at the end of a run.
            let score = recorded_score.unwrap_or_else(|| Score {
                best_step: run.best().map_or(run.losses().len(), |(step, _)| step),
                eval_loss: run.best().map(|(_, loss)| loss),
            });
            let parts = LoraPart::from_file(&adapter, 1.0);
            Some(Best { parts, score })
        }
        Err(problem) => {
            let cause = Box::new(problem);
            notices.push(Notice::BestAdapterLost { cause });
            None
        }
    }
}

/// Whether GEMMs in bf16 are faster than in f32 on this device: on a CPU with instructions for
/// bf16, or an opened GPU with matrix units.
fn is_fast_at_bf16(place: Place) -> bool {
    match place {
        Place::Cpu => hearth_kernels::bf16_is_fast(),
        Place::Gpu(_) => device::has_matrix_units(place).unwrap_or(false),
    }
}

/// Calls `run`. If it uses a GPU, a panic becomes an error, and the run can be resumed from its
/// checkpoint.
fn catch_gpu_panic<T>(uses_gpu: bool, run: impl FnOnce() -> T) -> Result<T, Problem> {
    if !uses_gpu {
        return Ok(run());
    }
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let detail = panic_text(&*payload).to_owned();
        Problem::new(ProblemCode::NoDevice, TrainingReason::GpuFailed { detail })
    })
}

/// Handles a run's reports: saves, logs and forwards them.
struct RunReporter<'a> {
    folder: &'a RunFolder,
    run_file: &'a RunFile,
    manifest: AdapterManifest,
    base: &'a BaseShape,
    control: &'a RunControl,
    emit: &'a mut dyn FnMut(TrainingEvent),
    /// Completed steps.
    step: u32,
    time_left: TimeLeft,
    /// The best adapter so far, unless it is from before a resume.
    best: Option<Best>,
    /// The error that aborted the run, if any.
    failure: Option<Problem>,
}

impl RunReporter<'_> {
    fn handle_report(&mut self, report: Report) -> Control {
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
                (self.emit)(TrainingEvent::Checkpointed {
                    step: saturating_u32(step),
                });
                Ok(())
            }
        };
        if let Err(problem) = result {
            self.failure = Some(problem);
            return Control::Abort;
        }
        let command = match self.control.get() {
            RunCommand::Pause => {
                (self.emit)(TrainingEvent::Paused { step: self.step });
                let command = self.control.wait();
                if command == RunCommand::Resume {
                    (self.emit)(TrainingEvent::Resumed);
                }
                command
            }
            command => command,
        };
        match command {
            RunCommand::Stop => Control::Stop,
            RunCommand::Suspend => Control::Suspend,
            RunCommand::Resume | RunCommand::Pause => Control::Continue,
        }
    }

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
        self.best = Some(Best { parts, score });
        Ok(())
    }

    fn report_step(&mut self, step: &hearth_train::Step) -> Result<(), Problem> {
        self.step = saturating_u32(step.step);
        let report = StepReport {
            step: self.step,
            steps: saturating_u32(step.steps),
            epoch: step.epoch as f32,
            loss: step.loss,
            learning_rate: step.learning_rate,
            gradient_norm: step.gradient_norm,
            tokens: saturating_u32(step.tokens),
            tokens_per_second: step.tokens as f64 / step.seconds.max(MIN_SECONDS),
            memory: memory::resident().unwrap_or(0),
            seconds_left: self.time_left.update(step),
        };
        self.folder.log(&report)?;
        (self.emit)(TrainingEvent::Step(report));
        Ok(())
    }
}

/// Estimate of the remaining time.
struct TimeLeft {
    /// Moving average.
    seconds_per_token: f64,
    tokens_per_step: f64,
}

impl TimeLeft {
    /// Weight of a new step in the moving average.
    const SMOOTHING: f64 = 0.2;

    /// Updates the average with a step, and returns the remaining seconds.
    fn update(&mut self, step: &hearth_train::Step) -> f64 {
        let measured = step.seconds / step.tokens.max(1) as f64;
        self.seconds_per_token += Self::SMOOTHING * (measured - self.seconds_per_token);
        (step.steps - step.step) as f64 * self.tokens_per_step * self.seconds_per_token
    }
}

/// The plan of a run, for the client. Its time is estimated from the dry run.
fn run_plan(
    run: &Run,
    run_file: &RunFile,
    training_data: &TrainingData,
    dry_run_seconds: f64,
    threads: u32,
    notices: Vec<Notice>,
) -> RunPlan {
    let settings = &run_file.settings;
    let lengths: Vec<usize> = training_data.examples.iter().map(|example| example.ids.len()).collect();
    let longest_batch = plan::longest_batch(&lengths, settings.batch);
    let step_seconds = dry_run_seconds / longest_batch.max(1) as f64 * tokens_per_step(training_data, settings);
    let steps_left = run.steps().saturating_sub(run.losses().len());
    RunPlan {
        examples: saturating_u32(training_data.examples.len()),
        eval_examples: saturating_u32(training_data.held_out.len()),
        truncated: training_data.truncated,
        steps: saturating_u32(run.steps()),
        batch: saturating_u32(settings.batch),
        accumulation: saturating_u32(settings.accumulation),
        sequence: training_data.sequence,
        parameters: run.parameters().count(),
        precision: if settings.bf16 { Precision::Bf16 } else { Precision::F32 },
        checkpointing: match settings.layers_on_tape {
            1 => Checkpointing::Layers,
            _ => Checkpointing::Operations,
        },
        threads,
        peak_memory: memory::peak().unwrap_or(0),
        step_seconds,
        total_seconds: step_seconds * steps_left as f64,
        notices,
    }
}

/// Mean tokens per step.
fn tokens_per_step(training_data: &TrainingData, settings: &Settings) -> f64 {
    let tokens: usize = training_data.examples.iter().map(|example| example.ids.len()).sum();
    tokens as f64 / settings.steps_per_epoch(training_data.examples.len()) as f64
}

/// Whether a run used more than [`MAX_MEMORY_FRACTION`] of main memory.
fn exceeds_memory_fraction(peak: Option<u64>) -> bool {
    let (Some(peak), Some(memory)) = (peak, hardware::memory()) else {
        return false;
    };
    peak as f64 > MAX_MEMORY_FRACTION * memory.total as f64
}

fn thread_count(request: &TrainRequest) -> u32 {
    request
        .threads
        .unwrap_or_else(|| saturating_u32(hardware::physical_cores()))
        .max(1)
}

/// The requested target modules by their GGUF names.
fn targets(requested: &[String]) -> Result<Vec<String>, Problem> {
    requested
        .iter()
        .map(|name| match LinearName::named(name) {
            Some(linear) => Ok(linear.gguf().to_owned()),
            None => Err(from_train(hearth_train::TrainError::UnknownTarget(name.clone()))),
        })
        .collect()
}

/// The prompts of the validation examples, or of training examples if there is no validation split:
/// their tokens before the first trained one.
fn prompts(training_data: &TrainingData) -> Vec<Vec<u32>> {
    let examples = if training_data.held_out.is_empty() {
        &training_data.examples
    } else {
        &training_data.held_out
    };
    let prompt = |example: &hearth_train::Example| {
        let first_trained = example.trained.iter().position(|trained| *trained).unwrap_or(1).max(1);
        // All tokens of plain text are trained, so its prompt is its first words.
        let length = if first_trained == 1 { 16 } else { first_trained };
        let length = length.min(example.ids.len());
        example.ids[length.saturating_sub(MAX_PROMPT_TOKENS)..length].to_vec()
    };
    examples.iter().take(MAX_PROMPTS).map(prompt).collect()
}

/// The name and hash of a dataset file.
fn data_id(path: &Path) -> Result<DataId, Problem> {
    let failed = |error| disk(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).map_err(failed)?;
    Ok(DataId {
        name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        sha256: hex(hash.finalize()),
    })
}
