//! One run, from its request to its outcome.

use super::auto_settings;
use super::best_adapter::{BestAdapter, Score};
use super::control::RunControl;
use super::data::{Reader, TrainingData, training_data};
use super::folder::{RunFile, RunFolder, open_adapter};
use super::probe;
use super::reporter::{RunReporter, TimeLeft, tokens_per_second};
use crate::notices::unknown_settings;
use crate::numbers::saturating_u32;
use crate::plan::{
    ModelBytes, ModelPlan, PlanOptions, compute_plan, largest_buffer, load_with_fallback, plan_training,
};
use crate::problem::{disk, from_adapter, from_load, from_train, interrupted, panic_text};
use crate::{hardware, memory, packed};
use hearth_formats::adapter::{AdapterManifest, BaseId, DataId};
use hearth_formats::hex;
use hearth_formats::shape::Module;
use hearth_llm::arch::{self, DecoderSpec};
use hearth_llm::threads::{self, Threads};
use hearth_llm::{Config, LoadOptions, LoraPart, Model, Place, device};
use hearth_protocol::{
    Checkpointing, EndReason, GpuLayers, Notice, Outcome, Precision, Problem, ProblemCode, RunCommand, RunPlan, Stage,
    TrainRequest, TrainSettings, TrainingEvent, TrainingReason,
};
use hearth_train::{End, Example, Run, Settings, TrainError};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of prompts that are saved for the verification of exports.
pub(super) const MAX_PROMPTS: usize = 8;
/// Maximum tokens of such a prompt.
pub(super) const MAX_PROMPT_TOKENS: usize = 96;
/// Maximum fraction of memory for a run. Above it, only one layer's activations are saved.
const MAX_MEMORY_FRACTION: f64 = 0.8;
/// Fraction of the preparation's progress for reading the data.
const DATA_FRACTION: f32 = 0.5;
/// Fraction of the preparation's progress for loading the weights. The rest is the dry run.
const WEIGHTS_FRACTION: f32 = 0.4;

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

/// As [`train`], except that a suspension before the first step is an error.
fn run_training(
    request: &TrainRequest,
    control: &RunControl,
    emit: &mut dyn FnMut(TrainingEvent),
) -> Result<Option<Outcome>, Problem> {
    let (prepared, mut notices) = PreparedRun::new(request, control, emit)?;
    let mut loaded = prepared.load(control, emit, &mut notices)?;
    let _lock = prepared.folder.lock()?;
    let (run_file, previous_best) = prepared.create_or_resume(&mut loaded.run, &loaded.settings, &mut notices)?;
    let run_plan = prepared.run_plan(&loaded, notices);
    let tokens_per_step = mean_tokens_per_step(&prepared.data, &loaded.settings);
    let time_left = TimeLeft {
        seconds_per_token: run_plan.step_seconds / tokens_per_step,
        tokens_per_step,
    };
    emit(TrainingEvent::Planned(run_plan));

    let mut reporter = RunReporter {
        folder: &prepared.folder,
        run_file: &run_file,
        manifest: prepared.manifest(&run_file, &loaded.settings)?,
        base: &prepared.base.shape,
        control,
        emit,
        completed_steps: saturating_u32(loaded.run.losses().len()),
        time_left,
        best: None,
        failure: None,
    };
    let result = catch_gpu_panic(loaded.gpu_layers > 0, || {
        loaded.run.run(&mut |report| reporter.handle_report(report))
    })?;
    let RunReporter {
        manifest,
        best,
        failure,
        ..
    } = reporter;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let end = result.map_err(from_train)?;
    let Some(reason) = end_reason(end.reason) else {
        return Ok(None);
    };
    // The best adapter of this process, or of the steps before the resume. If there is neither,
    // because there was no step or the earlier one is lost, the current parameters are used.
    let best = best.or(previous_best).unwrap_or_else(|| BestAdapter {
        parts: loaded.run.parameters().parts(),
        score: Score {
            best_step: end.losses.len(),
            eval_loss: None,
        },
    });
    prepared
        .finish(&loaded, &run_file, manifest, best, &end, reason)
        .map(Some)
}

/// The reason for the client. `None` means that the run was suspended.
fn end_reason(reason: hearth_train::EndReason) -> Option<EndReason> {
    match reason {
        hearth_train::EndReason::Completed => Some(EndReason::Completed),
        hearth_train::EndReason::EarlyStop => Some(EndReason::EarlyStop),
        hearth_train::EndReason::Stopped => Some(EndReason::Stopped),
        hearth_train::EndReason::Suspended => None,
    }
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
    spec: DecoderSpec,
    folder: RunFolder,
    base: BaseId,
    /// The run to resume, if any.
    resumed: Option<RunFile>,
    /// The checkpoint to resume from, if any.
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
        let spec = arch::describe(&reader.gguf, &reader.config).map_err(from_load)?;
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
        let requested = requested_settings(request, resumed.as_ref());
        let mut data = training_data(&reader, &request.data, &requested, &mut |read_fraction| {
            report_preparation(control, emit, read_fraction * DATA_FRACTION, Stage::ReadingData).is_ok()
        })?;
        let threads = thread_count(request);
        threads::set(Threads::Fixed(threads as usize));
        let lengths: Vec<usize> = data.examples.iter().map(|example| example.ids.len()).collect();
        let settings = match &resumed {
            Some(resumed) => resumed.settings.clone(),
            None => choose_settings(request, &requested, &reader.config, &spec, &lengths)?,
        };
        let init_path = match (&resumed, &checkpoint) {
            (_, Some(_)) => None,
            // A run that was killed before its first checkpoint starts again from its initial
            // adapter.
            (Some(resumed), None) => resumed.init.as_ref().or(requested.init.as_ref()),
            (None, None) => requested.init.as_ref(),
        };
        let (init, mut notices) = match init_path {
            Some(path) => {
                let (adapter, notices) = open_adapter(path, &reader.gguf)?;
                (LoraPart::from_file(&adapter, 1.0), notices)
            }
            None => (Vec::new(), Vec::new()),
        };
        notices.append(&mut data.notices);
        notices.extend(unknown_settings(&reader.gguf, reader.config.architecture));
        let prepared = Self {
            request,
            reader,
            spec,
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
        let model_bytes = ModelBytes::from_header(&self.reader.gguf, &self.reader.config).map_err(from_load)?;
        let first_model_plan = self.plan_model(&model_bytes, self.request.gpu_layers)?;
        first_model_plan.check()?;
        notices.extend(first_model_plan.limits.iter().cloned());
        let replan = |layers: usize| self.plan_model(&model_bytes, GpuLayers::Count(saturating_u32(layers)));
        let (loaded, model_plan) = load_with_fallback(first_model_plan, notices, replan, |model_plan| {
            self.load_and_dry_run(model_plan, control, emit)
        })?;
        notices.extend(gpu_notice(&model_plan));
        Ok(loaded)
    }

    /// Plans the model with these layers on GPUs.
    fn plan_model(&self, model_bytes: &ModelBytes, layers: GpuLayers) -> Result<ModelPlan, Problem> {
        let (config, device) = (&self.reader.config, self.request.device.as_deref());
        let longest_batch = auto_settings::longest_batch(&self.lengths, self.settings.batch);
        let options = PlanOptions {
            context: Some(self.data.sequence),
            device: device.map(str::to_owned),
            gpu_layers: layers,
            training: Some(auto_settings::memory_need(
                &self.settings,
                config,
                &self.spec,
                longest_batch,
            )),
            ..PlanOptions::default()
        };
        let devices = hardware::devices_for(device);
        match (&self.resumed, self.requested.checkpointing) {
            (None, Checkpointing::Auto) => plan_training(model_bytes, config, &options, &devices),
            _ => compute_plan(model_bytes, config, &options, &devices),
        }
    }

    /// Loads the model by this plan and does a dry run.
    fn load_and_dry_run(
        &self,
        model_plan: &ModelPlan,
        control: &RunControl,
        emit: &mut dyn FnMut(TrainingEvent),
    ) -> Result<LoadedRun, Problem> {
        let options = LoadOptions {
            placement: Some(model_plan.placement.clone()),
            packed_in: packed::folder(),
            context: Some(self.data.sequence as usize),
            ..LoadOptions::default()
        };
        let model = Model::load(&self.reader.gguf, &options, &mut |loaded_fraction| {
            let fraction = DATA_FRACTION + loaded_fraction * WEIGHTS_FRACTION;
            match report_preparation(control, emit, fraction, Stage::ReadingWeights) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let model = Arc::new(model.map_err(from_load)?);
        memory::release();
        report_preparation(control, emit, DATA_FRACTION + WEIGHTS_FRACTION, Stage::DryRun)?;
        let mut settings = self.settings.clone();
        if self.resumed.is_none() {
            auto_settings::apply_placement(&mut settings, &self.requested, model_plan, is_fast_at_bf16);
        }
        let mut run = self.start(&model, &settings)?;
        let mut dry_run_seconds = run.dry_run();
        if self.resumed.is_none() && settings.layers_on_tape > 1 && exceeds_memory_fraction(memory::peak()) {
            settings.layers_on_tape = 1;
            run = self.start(&model, &settings)?;
            memory::release();
            dry_run_seconds = run.dry_run();
        }
        Ok(LoadedRun {
            model,
            run,
            dry_run_seconds,
            settings,
            gpu_layers: model_plan.plan.gpu_layers,
        })
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
    ) -> Result<(RunFile, Option<BestAdapter>), Problem> {
        if self.resumed.is_none() && !self.request.resume {
            // Another process may have created a run since the first check.
            self.folder.check_unused()?;
        }
        let mut run_file = match &self.resumed {
            Some(resumed) => resumed.clone(),
            None => {
                let run_file = self.run_file(settings);
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
            previous_best = BestAdapter::read(&self.folder, run, &self.data, &self.reader, notices);
        }
        if run_file.base.is_none() {
            // Runs of early versions do not record their base model. Later resumes are checked
            // against this one.
            run_file.base = Some(self.base.clone());
            self.folder.write(&run_file)?;
        }
        Ok((run_file, previous_best))
    }

    /// The inputs and settings of a new run.
    fn run_file(&self, settings: &Settings) -> RunFile {
        let (request, requested) = (self.request, &self.requested);
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        RunFile {
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
        }
    }

    /// The plan of the run, for the client. Its time is estimated from the dry run.
    fn run_plan(&self, loaded: &LoadedRun, notices: Vec<Notice>) -> RunPlan {
        let (run, settings, data) = (&loaded.run, &loaded.settings, &self.data);
        let longest_batch = auto_settings::longest_batch(&self.lengths, settings.batch);
        let step_seconds = loaded.dry_run_seconds / longest_batch.max(1) as f64 * mean_tokens_per_step(data, settings);
        let steps_left = run.steps().saturating_sub(run.losses().len());
        RunPlan {
            examples: saturating_u32(data.examples.len()),
            eval_examples: saturating_u32(data.held_out.len()),
            truncated: data.truncated,
            steps: saturating_u32(run.steps()),
            batch: saturating_u32(settings.batch),
            accumulation: saturating_u32(settings.accumulation),
            sequence: data.sequence,
            parameters: run.parameters().count(),
            precision: if settings.bf16 { Precision::Bf16 } else { Precision::F32 },
            checkpointing: match settings.layers_on_tape {
                1 => Checkpointing::Layers,
                _ => Checkpointing::Operations,
            },
            threads: self.threads,
            peak_memory: memory::peak().unwrap_or(0),
            step_seconds,
            total_seconds: step_seconds * steps_left as f64,
            notices,
        }
    }

    /// The manifest of the run's adapters, without metrics.
    fn manifest(&self, run_file: &RunFile, settings: &Settings) -> Result<AdapterManifest, Problem> {
        let template = self.reader.template.source();
        Ok(AdapterManifest {
            hearth: env!("CARGO_PKG_VERSION").to_owned(),
            base: self.base.clone(),
            template_sha256: Some(hex(Sha256::digest(template.as_bytes()))),
            system_prompt: run_file.system_prompt.clone(),
            data: data_id(&self.request.data.path)?,
            settings: serde_json::to_value(settings).unwrap_or_default(),
            seed: settings.seed,
            metrics: serde_json::Value::Null,
            created: AdapterManifest::now(),
        })
    }

    /// Saves the best adapter with its final scores. Returns the outcome of the run.
    fn finish(
        &self,
        loaded: &LoadedRun,
        run_file: &RunFile,
        manifest: AdapterManifest,
        best: BestAdapter,
        end: &End,
        reason: EndReason,
    ) -> Result<Outcome, Problem> {
        let BestAdapter { parts, score } = best;
        let Score { best_step, eval_loss } = score;
        let (tokenizer, precision) = (&self.reader.tokenizer, loaded.settings.precision());
        let general_before = probe::perplexity(&loaded.model, tokenizer, precision);
        let tuned = loaded
            .model
            .adapted(&parts)
            .map_err(|error| Problem::detail(ProblemCode::Internal, error))?;
        let general_after = probe::perplexity(&tuned, tokenizer, precision);
        if !end.losses.is_empty() {
            let metrics = serde_json::json!({
                "eval_loss_before": end.eval_before, "eval_loss": eval_loss, "best_step": best_step,
                "general_before": general_before, "general_after": general_after,
            });
            let manifest = AdapterManifest { metrics, ..manifest };
            self.folder.save_adapter(&parts, run_file, manifest, &self.base.shape)?;
        }
        // The last tenth of the steps.
        let tail_length = end.losses.len().div_ceil(10).max(1);
        let tail = &end.losses[end.losses.len().saturating_sub(tail_length)..];
        Ok(Outcome {
            reason,
            steps: saturating_u32(end.losses.len()),
            best_step: saturating_u32(best_step),
            train_loss: tail.iter().sum::<f64>() / tail.len().max(1) as f64,
            eval_loss_before: end.eval_before,
            eval_loss,
            general_before: Some(general_before).filter(|perplexity| perplexity.is_finite()),
            general_after: Some(general_after).filter(|perplexity| perplexity.is_finite()),
            tokens_per_second: tokens_per_second(end.tokens as f64, end.seconds),
            seconds: end.seconds,
            peak_memory: memory::peak().unwrap_or(0),
            adapter: self.folder.adapter(),
        })
    }
}

/// The requested settings. A resumed run reads and truncates its data as before, so the request's
/// settings of the data are ignored.
fn requested_settings(request: &TrainRequest, resumed: Option<&RunFile>) -> TrainSettings {
    let mut requested = request.settings.clone();
    if let Some(resumed) = resumed {
        requested.sequence = Some(resumed.sequence);
        requested.eval_split = resumed.eval_split;
        requested.train_on_prompts = resumed.train_on_prompts;
        requested.system_prompt.clone_from(&resumed.system_prompt);
        requested.seed = resumed.settings.seed;
    }
    requested
}

/// Chooses the settings of a new run.
fn choose_settings(
    request: &TrainRequest,
    requested: &TrainSettings,
    config: &Config,
    spec: &DecoderSpec,
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
    let max_tokens_per_batch = buffer_limit.map(|bytes| auto_settings::max_batch_tokens(spec, bytes));
    let targets = targets(&requested.targets)?;
    Ok(auto_settings::choose(
        requested,
        config,
        lengths,
        targets,
        max_tokens_per_batch,
    ))
}

/// The notice that GPUs trained layers. `None` if all layers are on the CPU.
fn gpu_notice(model_plan: &ModelPlan) -> Option<Notice> {
    let layers = model_plan.plan.gpu_layers;
    let gpus = model_plan.plan.devices.iter().skip(1);
    let used = gpus.filter(|device| !device.layers.is_empty());
    (layers > 0).then(|| Notice::TrainedOnGpus {
        layers,
        total: model_plan.plan.layers_total,
        devices: used.map(|device| device.name.clone()).collect(),
    })
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

/// Mean tokens per step.
fn mean_tokens_per_step(training_data: &TrainingData, settings: &Settings) -> f64 {
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

/// The requested number of threads, or one per physical core.
fn thread_count(request: &TrainRequest) -> u32 {
    request
        .threads
        .unwrap_or_else(|| saturating_u32(hardware::physical_cores()))
        .max(1)
}

/// The names of the requested target modules: GGUF names, or [`Module::name`] of fused ones.
fn targets(requested: &[String]) -> Result<Vec<String>, Problem> {
    requested
        .iter()
        .map(|name| match Module::named(name) {
            Some(module) => Ok(module.name().to_owned()),
            None => Err(from_train(TrainError::UnknownTarget(name.clone()))),
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
    let prompt = |example: &Example| {
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
