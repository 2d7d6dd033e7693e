//! One run, from its request to its outcome.

use super::data::{Material, Reader, material};
use super::folder::{RunFile, RunFolder, open_adapter};
use super::wish::{Wish, Wishes};
use super::{plan, probe};
use crate::plan::{Asked, Bytes, carry_out, largest_buffer, planned, planned_with_tape};
use crate::problem::{disk, from_adapter, from_load, from_train, interrupted, panic_text, problem};
use crate::turns::count;
use crate::{hardware, memory, packed};
use hearth_formats::adapter::{BaseId, BaseShape, DataId, Passport};
use hearth_llm::{LoadOptions, LoraPart, Model, Place, device, threads};
use hearth_protocol::{
    Checkpointing, EndReason, GpuLayers, Outcome, Precision, Problem, ProblemCode, RunPlan, StepReport, TrainRequest,
    TrainingEvent,
};
use hearth_train::{Control, Report, Run, linear_named};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Held-out beginnings that are kept for checking exports, and their tokens at most.
const PROMPTS: usize = 8;
const PROMPT_TOKENS: usize = 96;
/// Of the memory there is, more than this is too much for a run: fewer layers are kept then.
const MOST_MEMORY: f64 = 0.8;
/// What took less counts as this long, so that a rate stays a number.
const LEAST_SECONDS: f64 = 1e-9;
/// What of preparing is reading the data.
const READ: f32 = 0.5;

/// Trains an adapter. `say` gets every event but the last, whose outcome is returned; `None` means that the run was suspended. A run that
/// is told to hold waits after the batch under way, one that is told to stop or to suspend ends after the step.
///
/// # Errors
/// The model, the data or the settings cannot be used, the disk is full, or the loss diverged. What was learnt up to the last
/// checkpoint is kept.
pub fn train(
    request: &TrainRequest,
    wishes: &Wishes,
    say: &mut dyn FnMut(TrainingEvent),
) -> Result<Option<Outcome>, Problem> {
    match trained(request, wishes, say) {
        // Before its first step there is nothing to keep.
        Err(problem) if wishes.get() == Wish::Suspend && problem == interrupted() => Ok(None),
        ended => ended,
    }
}

fn trained(
    request: &TrainRequest,
    wishes: &Wishes,
    say: &mut dyn FnMut(TrainingEvent),
) -> Result<Option<Outcome>, Problem> {
    let preparing = |say: &mut dyn FnMut(TrainingEvent), fraction: f32, stage: &str| {
        say(TrainingEvent::Preparing {
            fraction,
            stage: stage.to_owned(),
        });
        match wishes.get() {
            Wish::Stop | Wish::Suspend => Err(interrupted()),
            Wish::Go | Wish::Hold => Ok(()),
        }
    };
    preparing(say, 0.0, "opening the model")?;
    let reader = Reader::open(&request.model)?;
    let folder = RunFolder(request.out.clone());
    let base = BaseId::of(&reader.gguf).map_err(from_adapter)?;
    folder.check_adapter()?;
    let before = match request.resume {
        true => folder.resumed(&base)?,
        false => {
            folder.check_unused()?;
            None
        }
    };
    let checkpoint = request
        .resume
        .then(|| hearth_train::latest_checkpoint(&folder.0))
        .flatten();
    let mut asked = request.settings.clone();
    if let Some(before) = &before {
        // Read and cut as it was, whatever is asked for now.
        asked.sequence = Some(before.sequence);
        asked.eval_split = before.eval_split;
        asked.train_on_prompts = before.train_on_prompts;
        asked.seed = before.settings.seed;
    }
    let mut material = material(&reader, &request.data, &asked, &mut |fraction| {
        preparing(say, fraction * READ, "reading the data").is_ok()
    })?;
    let threads = hearth_threads(request);
    threads::set(threads as usize);
    let lengths: Vec<usize> = material.examples.iter().map(|example| example.ids.len()).collect();
    let device = request.device.as_deref();
    let settings = match &before {
        Some(before) => before.settings.clone(),
        None => {
            let wanted = Asked {
                device: device.map(str::to_owned),
                ..Asked::default()
            };
            let largest = match request.gpu_layers {
                GpuLayers::Count(0) => None,
                _ => largest_buffer(&wanted, &hardware::devices_for(device))?,
            };
            let most_tokens = largest.map(|bytes| plan::tokens_seen(&reader.config, bytes));
            let targets = targets(&asked.targets)?;
            plan::settings(&asked, &reader.config, &lengths, targets, most_tokens)
        }
    };
    // A run that was killed before its first checkpoint begins again with what it began with.
    let begins_with = match (&before, &checkpoint) {
        (_, Some(_)) => None,
        (Some(before), None) => before.init.as_ref().or(asked.init.as_ref()),
        (None, None) => asked.init.as_ref(),
    };
    let (init, mut notices) = match begins_with {
        Some(path) => {
            let (adapter, notice) = open_adapter(path, &reader.gguf)?;
            (LoraPart::of(&adapter, 1.0), notice.into_iter().collect())
        }
        _ => (Vec::new(), Vec::new()),
    };
    notices.append(&mut material.notices);
    let weights = Bytes::of(&reader.gguf, &reader.config);
    let place = |layers: GpuLayers| {
        let wanted = Asked {
            context: Some(material.sequence),
            device: device.map(str::to_owned),
            gpu_layers: layers,
            training: Some(plan::needs(
                &settings,
                &reader.config,
                plan::longest_batch(&lengths, settings.batch),
            )),
            ..Asked::default()
        };
        let devices = hardware::devices_for(device);
        match (&before, asked.checkpointing) {
            (None, Checkpointing::Auto) => planned_with_tape(&weights, &reader.config, &wanted, &devices),
            _ => planned(&weights, &reader.config, &wanted, &devices),
        }
    };
    let with_layers = |layers: usize| place(GpuLayers::Count(count(layers)));
    let first = place(request.gpu_layers)?;
    first.check()?;
    notices.extend(first.notice.clone());
    let ready = carry_out(first, &mut notices, with_layers, |planned| {
        let options = LoadOptions {
            placement: Some(planned.placement.clone()),
            packed_in: packed::folder(),
        };
        let model = Model::load(&reader.gguf, &options, &mut |fraction, stage| match preparing(
            say,
            READ + fraction * (1.0 - READ) * 0.8,
            stage,
        ) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        });
        let model = Arc::new(model.map_err(from_load)?);
        memory::give_back();
        preparing(say, 0.9, "trying a step on the longest examples")?;
        let mut settings = settings.clone();
        if before.is_none() {
            plan::settle(&mut settings, &asked, planned, is_fast_at_bf16);
        }
        let start = |settings: &hearth_train::Settings| -> Result<Run, Problem> {
            let (examples, held_out) = (material.examples.clone(), material.held_out.clone());
            let kept_in = Some(folder.0.clone());
            let run = Run::new(model.clone(), settings.clone(), examples, held_out, kept_in);
            let mut run = run.map_err(from_train)?;
            if !init.is_empty() {
                run.start_from(&init).map_err(from_train)?;
            }
            Ok(run)
        };
        let mut run = start(&settings)?;
        let mut rehearsed = run.rehearse();
        if before.is_none() && settings.layers_on_tape > 1 && is_too_much(memory::peak()) {
            settings.layers_on_tape = 1;
            run = start(&settings)?;
            memory::give_back();
            rehearsed = run.rehearse();
        }
        Ok((model, run, rehearsed, settings))
    });
    let ((model, mut run, rehearsed, settings), placed) = ready?;
    if placed.plan.gpu_layers > 0 {
        let (on_gpus, layers) = (placed.plan.gpu_layers, placed.plan.layers_total);
        let names = placed
            .plan
            .devices
            .iter()
            .skip(1)
            .filter(|device| !device.layers.is_empty());
        let names: Vec<&str> = names.map(|device| device.name.as_str()).collect();
        notices.push(format!(
            "{on_gpus} of {layers} layers are trained on {}.",
            names.join(" and ")
        ));
    }
    let is_begun = before.is_some();
    let _lock = folder.lock()?;
    if !is_begun && !request.resume {
        // Another process may have been at work here until a moment ago.
        folder.check_unused()?;
    }
    let mut run_file = match before {
        Some(before) => before,
        None => {
            let run_file = RunFile {
                model: std::path::absolute(&request.model).unwrap_or_else(|_| request.model.clone()),
                base: Some(base.clone()),
                data: request.data.clone(),
                init: asked
                    .init
                    .clone()
                    .map(|path| std::path::absolute(&path).unwrap_or(path)),
                settings: settings.clone(),
                sequence: material.sequence,
                eval_split: asked.eval_split,
                train_on_prompts: asked.train_on_prompts,
                prompts: prompts(&material),
            };
            folder.begin(&run_file)?;
            run_file
        }
    };
    let mut best_before = None;
    if let Some(checkpoint) = checkpoint {
        run.resume(&checkpoint).map_err(from_train)?;
    }
    // From here on nothing refuses to go on with the run, so its folder may change.
    if is_begun {
        folder.recover()?;
        best_before = best_of(&folder, &run, &material, &reader, &mut notices);
    }
    if run_file.base.is_none() {
        // Begun before the base was recorded: from here on it is compared.
        run_file.base = Some(base.clone());
        folder.write(&run_file)?;
    }
    let plan = plan_of(&run, &run_file, &material, rehearsed, threads, notices);
    let seconds_a_token = plan.step_seconds / tokens_a_step(&material, &settings);
    say(TrainingEvent::Planned(plan));

    let passport = Passport {
        hearth: env!("CARGO_PKG_VERSION").to_owned(),
        base: base.clone(),
        template_sha256: Some(hex(&Sha256::digest(reader.template.source().as_bytes()))),
        data: data_id(&request.data.path)?,
        settings: serde_json::to_value(&settings).unwrap_or_default(),
        seed: settings.seed,
        scores: serde_json::Value::Null,
        created: Passport::now(),
    };
    let mut listener = Listener {
        folder: &folder,
        run_file: &run_file,
        passport,
        base: &base.shape,
        wishes,
        say,
        step: count(run.history().0.len()),
        seconds_left: SecondsLeft {
            a_token: seconds_a_token,
            tokens_a_step: tokens_a_step(&material, &settings),
        },
        best: Vec::new(),
        failure: None,
    };
    let ended = on_gpus(placed.plan.gpu_layers > 0, || {
        run.go(&mut |report| listener.hear(report))
    })?;
    if let Some(failure) = listener.failure.take() {
        return Err(failure);
    }
    let end = ended.map_err(from_train)?;
    let reason = match end.reason {
        hearth_train::EndReason::Completed => EndReason::Completed,
        hearth_train::EndReason::EarlyStop => EndReason::EarlyStop,
        hearth_train::EndReason::Stopped => EndReason::Stopped,
        hearth_train::EndReason::Suspended => return Ok(None),
    };

    // What was learnt is on the disk; what it is worth takes a moment more.
    let product = settings.product();
    let before = probe::perplexity(&model, &reader.tokenizer, product);
    let improved = std::mem::take(&mut listener.best);
    let (best, scored) = match (improved.is_empty(), best_before) {
        (false, _) => (improved, end.eval.map(|loss| (end.best_step, loss))),
        // Nothing was better than what an earlier part of the run left behind.
        (true, Some(best)) => (best, end.eval.map(|loss| (end.best_step, loss))),
        // That is lost, or no step was made.
        (true, None) => (run.parameters().parts(), None),
    };
    let (best_step, eval_loss) = match scored {
        Some((step, loss)) => (step, Some(loss)),
        None => (end.losses.len(), None),
    };
    let tuned = model
        .adapted(&best)
        .map_err(|error| problem(ProblemCode::Internal, error.to_string()))?;
    let after = probe::perplexity(&tuned, &reader.tokenizer, product);
    listener.passport.scores = serde_json::json!({
        "eval_loss_before": end.eval_before, "eval_loss": eval_loss, "best_step": best_step,
        "general_before": before, "general_after": after,
    });
    if !end.losses.is_empty() {
        folder.keep(&best, &run_file, listener.passport.clone(), &base.shape)?;
    }
    let last = end.losses.len().div_ceil(10).max(1);
    let tail = &end.losses[end.losses.len().saturating_sub(last)..];
    Ok(Some(Outcome {
        reason,
        steps: count(end.losses.len()),
        best_step: count(best_step),
        train_loss: tail.iter().sum::<f64>() / tail.len().max(1) as f64,
        eval_loss_before: end.eval_before,
        eval_loss,
        general_before: Some(before).filter(|perplexity| perplexity.is_finite()),
        general_after: Some(after).filter(|perplexity| perplexity.is_finite()),
        tokens_per_second: end.tokens as f64 / end.seconds.max(LEAST_SECONDS),
        seconds: end.seconds,
        peak_memory: memory::peak().unwrap_or(0),
        adapter: folder.adapter(),
    }))
}

/// The best adapter of the steps that a run goes on from, if it had one. One that is lost is announced: the checkpoint's takes its place.
fn best_of(
    folder: &RunFolder,
    run: &Run,
    material: &Material,
    reader: &Reader,
    notices: &mut Vec<String>,
) -> Option<Vec<LoraPart>> {
    let (losses, evaluations) = run.history();
    let has_one = match material.held_out.is_empty() {
        true => !losses.is_empty(),
        false => evaluations.iter().any(|(step, loss)| *step > 0 && loss.is_finite()),
    };
    if !has_one {
        return None;
    }
    match open_adapter(&folder.adapter(), &reader.gguf) {
        Ok((adapter, _)) => Some(LoraPart::of(&adapter, 1.0)),
        Err(problem) => {
            notices.push(format!(
                "The best adapter so far cannot be read, so the run goes on with that of its last checkpoint. {}",
                problem.message
            ));
            None
        }
    }
}

/// Whether products in bf16 are faster in a place than those in f32: where the processor has instructions, or an open GPU matrix units, for
/// them.
fn is_fast_at_bf16(place: Place) -> bool {
    match place {
        Place::Cpu => hearth_kernels::bf16_is_fast(),
        Place::Gpu(_) => device::has_matrix_units(place).unwrap_or(false),
    }
}

/// Runs something that GPUs take part in; one that fails there ends the run, which goes on from its checkpoint.
fn on_gpus<T>(any: bool, run: impl FnOnce() -> T) -> Result<T, Problem> {
    if !any {
        return Ok(run());
    }
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let message = format!(
            "The GPU failed in the run ({}). What was learnt up to the last checkpoint is kept: resume the run, on the processor if it \
             fails again.",
            panic_text(&*payload)
        );
        problem(ProblemCode::NoDevice, message)
    })
}

/// Hears a run's reports: keeps, logs and passes on.
struct Listener<'a> {
    folder: &'a RunFolder,
    run_file: &'a RunFile,
    passport: Passport,
    base: &'a BaseShape,
    wishes: &'a Wishes,
    say: &'a mut dyn FnMut(TrainingEvent),
    /// Steps made.
    step: u32,
    seconds_left: SecondsLeft,
    /// The best adapter so far.
    best: Vec<LoraPart>,
    /// Why the run is to end, if something of ours failed.
    failure: Option<Problem>,
}

impl Listener<'_> {
    fn hear(&mut self, report: Report) -> Control {
        let done = match report {
            Report::Batch => Ok(()),
            Report::Step(step) => self.stepped(&step),
            Report::Evaluated { step, loss, best } => {
                let step = count(step);
                let loss = Some(loss).filter(|loss| loss.is_finite());
                (self.say)(TrainingEvent::Evaluated { step, loss, best });
                Ok(())
            }
            Report::Improved(parameters) => {
                self.best = parameters.parts();
                self.folder
                    .keep(&self.best, self.run_file, self.passport.clone(), self.base)
            }
            Report::Checkpointed { step } => {
                (self.say)(TrainingEvent::Checkpointed { step: count(step) });
                Ok(())
            }
        };
        if let Err(problem) = done {
            self.failure = Some(problem);
            return Control::Abort;
        }
        let wish = match self.wishes.get() {
            Wish::Hold => {
                (self.say)(TrainingEvent::Paused { step: self.step });
                let wish = self.wishes.wait();
                if wish == Wish::Go {
                    (self.say)(TrainingEvent::Resumed);
                }
                wish
            }
            wish => wish,
        };
        match wish {
            Wish::Stop => Control::Stop,
            Wish::Suspend => Control::Suspend,
            Wish::Go | Wish::Hold => Control::Continue,
        }
    }

    fn stepped(&mut self, step: &hearth_train::Step) -> Result<(), Problem> {
        self.step = count(step.step);
        let report = StepReport {
            step: self.step,
            steps: count(step.steps),
            epoch: step.epoch as f32,
            loss: step.loss,
            learning_rate: step.learning_rate,
            gradient_norm: step.gradient_norm,
            tokens: count(step.tokens),
            tokens_per_second: step.tokens as f64 / step.seconds.max(LEAST_SECONDS),
            memory: memory::resident().unwrap_or(0),
            seconds_left: self.seconds_left.after(step),
        };
        self.folder.log(&report)?;
        (self.say)(TrainingEvent::Step(report));
        Ok(())
    }
}

/// How long the rest will take.
struct SecondsLeft {
    a_token: f64,
    tokens_a_step: f64,
}

impl SecondsLeft {
    /// What a new step counts for.
    const SMOOTHING: f64 = 0.2;

    fn after(&mut self, step: &hearth_train::Step) -> f64 {
        let measured = step.seconds / step.tokens.max(1) as f64;
        self.a_token += Self::SMOOTHING * (measured - self.a_token);
        (step.steps - step.step) as f64 * self.tokens_a_step * self.a_token
    }
}

fn plan_of(
    run: &Run,
    run_file: &RunFile,
    material: &Material,
    rehearsed: f64,
    threads: u32,
    notices: Vec<String>,
) -> RunPlan {
    let settings = &run_file.settings;
    let mut lengths: Vec<usize> = material.examples.iter().map(|example| example.ids.len()).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let longest: usize = lengths.iter().take(settings.batch).sum();
    let step_seconds = rehearsed / longest.max(1) as f64 * tokens_a_step(material, settings);
    let left = run.steps().saturating_sub(run.history().0.len());
    RunPlan {
        examples: count(material.examples.len()),
        eval_examples: count(material.held_out.len()),
        truncated: material.truncated,
        steps: count(run.steps()),
        batch: count(settings.batch),
        accumulation: count(settings.accumulation),
        sequence: material.sequence,
        parameters: run.parameters().count(),
        precision: if settings.bf16 { Precision::Bf16 } else { Precision::F32 },
        checkpointing: match settings.layers_on_tape {
            1 => Checkpointing::Layers,
            _ => Checkpointing::Operations,
        },
        threads,
        peak_memory: memory::peak().unwrap_or(0),
        step_seconds,
        total_seconds: step_seconds * left as f64,
        notices,
    }
}

/// Mean tokens a step.
fn tokens_a_step(material: &Material, settings: &hearth_train::Settings) -> f64 {
    let tokens: usize = material.examples.iter().map(|example| example.ids.len()).sum();
    tokens as f64 / settings.steps_an_epoch(material.examples.len()) as f64
}

fn is_too_much(peak: Option<u64>) -> bool {
    let (Some(peak), Some(memory)) = (peak, hardware::memory()) else {
        return false;
    };
    peak as f64 > MOST_MEMORY * memory.total as f64
}

fn hearth_threads(request: &TrainRequest) -> u32 {
    request
        .threads
        .unwrap_or_else(|| count(hardware::physical_cores()))
        .max(1)
}

/// The linears that were asked for, as a GGUF names them.
fn targets(asked: &[String]) -> Result<Vec<String>, Problem> {
    asked
        .iter()
        .map(|name| match linear_named(name) {
            Some(linear) => Ok(linear.gguf().to_owned()),
            None => Err(from_train(hearth_train::TrainError::UnknownTarget(name.clone()))),
        })
        .collect()
}

/// Beginnings of examples up to where something is learnt.
fn prompts(material: &Material) -> Vec<Vec<u32>> {
    let examples = match material.held_out.is_empty() {
        true => &material.examples,
        false => &material.held_out,
    };
    let beginning = |example: &hearth_train::Example| {
        let first = example.trained.iter().position(|trained| *trained).unwrap_or(1).max(1);
        // Of a text without a prompt, a few words.
        let length = if first == 1 { 16 } else { first };
        let length = length.min(example.ids.len());
        example.ids[length.saturating_sub(PROMPT_TOKENS)..length].to_vec()
    };
    examples.iter().take(PROMPTS).map(beginning).collect()
}

fn data_id(path: &Path) -> Result<DataId, Problem> {
    let failed = |error| disk(path, &error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hash, mut part) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut part).map_err(failed)?;
        if read == 0 {
            break;
        }
        hash.update(&part[..read]);
    }
    Ok(DataId {
        name: path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        sha256: hex(&hash.finalize()),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
