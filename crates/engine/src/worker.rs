//! The worker's loop: requests in, events out.
//!
//! Three threads. This one reads requests and computes nothing, so that cancellation always takes
//! effect at once. The second owns the engine and executes jobs in order. The third answers queries
//! that need no engine, in order: devices and plans.

use crate::problem::{internal, panic_text, problem};
use crate::training::{self, RunCommand, RunControl};
use crate::{Engine, hardware, memory};
use hearth_protocol::{
    ConversationId, Event, ExportRequest, FinishReason, GenerateRequest, GenerationId, InspectRequest, LoadRequest,
    Message, PROTOCOL_VERSION, PlanRequest, PlannedDevice, Problem, ProblemCode, Request, RunId, Summary, TrainRequest,
    TrainingEvent, TrainingRequest,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Time limit for the engine thread at shutdown; after it, the process exits anyway.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// Maximum delay of the next request by saving to the prompt cache.
const SAVE_LIMIT: Duration = Duration::from_millis(500);

/// Minimum step of load progress that is reported.
const PROGRESS_STEP: f32 = 0.01;

/// Serve requests, one JSON object per line, until `input` ends or [`Request::Shutdown`] arrives.
///
/// Returns promptly even during a generation; the caller must exit the process.
///
/// # Errors
/// Reading `input` failed.
pub fn serve(input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        output: Mutex::new(Box::new(output)),
    });
    let (jobs, pending_jobs) = mpsc::channel();
    let (working, ended) = mpsc::channel::<()>();
    shared.emit(&Event::Ready {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let engine = Arc::clone(&shared);
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        run_jobs(&pending_jobs, &engine);
        drop(working);
    })?;
    let (queries, pending) = mpsc::channel();
    let querying = Arc::clone(&shared);
    // Not joined: it may block on a disk that does not respond.
    std::thread::Builder::new()
        .name("queries".to_owned())
        .spawn(move || run_queries(&pending, &querying))?;
    let read = read_requests(input, &jobs, &queries, &shared);
    shared.close();
    drop(jobs);
    // Nothing is ever sent: this waits until the engine thread drops its end of the channel.
    let _ = ended.recv_timeout(SHUTDOWN_LIMIT);
    read
}

/// A job for the engine thread.
enum Job {
    Load {
        request: LoadRequest,
        turn: u64,
    },
    Unload,
    Generate {
        request: GenerateRequest,
        received: Instant,
    },
    Count {
        id: GenerationId,
        messages: Vec<Message>,
    },
    Inspect(InspectRequest),
    Train {
        request: Box<TrainRequest>,
        control: Arc<RunControl>,
    },
    Export(ExportRequest),
    Measure {
        id: GenerationId,
    },
    RemovePromptCache {
        conversation: ConversationId,
    },
    SetPromptCacheLimit {
        max_bytes: u64,
    },
}

/// A query that needs no engine.
enum Query {
    Devices,
    Plan { id: GenerationId, plan: PlanRequest },
}

/// State shared by all threads.
struct Shared {
    state: Mutex<State>,
    output: Mutex<Box<dyn Write + Send>>,
}

#[derive(Default)]
struct State {
    /// Queued and running generations and measurements, and whether they are cancelled.
    live: HashMap<GenerationId, bool>,
    /// Controls of queued and running runs.
    runs: HashMap<RunId, Arc<RunControl>>,
    /// Memory of the loaded model, which a plan for another model counts as free.
    loaded: Vec<PlannedDevice>,
    /// Incremented by every request that obsoletes a load in progress.
    turn: u64,
    closing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, event: &Event) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_vec(event).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            output.write_all(&line)?;
            output.flush()
        });
        drop(output);
        if let Err(error) = written {
            tracing::warn!("the client closed the pipe: {error}");
            self.close();
        }
    }

    /// Cancel all generations, measurements and loads, and return the new turn.
    fn interrupt(&self) -> u64 {
        let mut state = self.state();
        state.live.values_mut().for_each(|cancelled| *cancelled = true);
        state.turn += 1;
        state.turn
    }

    fn close(&self) {
        self.interrupt();
        let mut state = self.state();
        state.closing = true;
        state.runs.values().for_each(|control| control.set(RunCommand::Suspend));
    }

    /// Whether a request has been waiting for the engine since this turn.
    fn is_interrupted_since(&self, turn: u64) -> bool {
        let state = self.state();
        state.turn != turn || !state.live.is_empty()
    }

    fn cancelled(&self, id: GenerationId) -> bool {
        self.state().live.get(&id).copied().unwrap_or(true)
    }
}

/// Read requests until the input ends, [`Request::Shutdown`] arrives, or the worker closes.
fn read_requests(
    mut input: impl BufRead,
    jobs: &mpsc::Sender<Job>,
    queries: &mpsc::Sender<Query>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    // The receiver may have been dropped.
    let query = |query| {
        let _ = queries.send(query);
        None
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 || shared.state().closing {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let request = match serde_json::from_slice(&line) {
            Ok(request) => request,
            Err(error) => {
                refuse(&line, &error, shared);
                continue;
            }
        };
        let job = match request {
            Request::Load(request) => Some(Job::Load {
                request,
                turn: shared.interrupt(),
            }),
            Request::Unload => {
                shared.interrupt();
                Some(Job::Unload)
            }
            Request::Generate(request) => admit(request, shared),
            Request::Cancel { id } => {
                if let Some(cancelled) = shared.state().live.get_mut(&id) {
                    *cancelled = true;
                }
                None
            }
            Request::Count { id, messages } => Some(Job::Count { id, messages }),
            Request::Devices => query(Query::Devices),
            Request::Check { device } => {
                check(device, shared);
                None
            }
            Request::Plan { id, plan } => query(Query::Plan { id, plan }),
            Request::Measure { id } => admit_measurement(id, shared),
            Request::RemovePromptCache { conversation } => Some(Job::RemovePromptCache { conversation }),
            Request::SetPromptCacheLimit { max_bytes } => Some(Job::SetPromptCacheLimit { max_bytes }),
            Request::Training(request) => training_job(request, shared),
            Request::Shutdown => return Ok(()),
        };
        if let Some(job) = job
            && jobs.send(job).is_err()
        {
            return Ok(());
        }
    }
}

/// The query thread: answers devices and plans.
fn run_queries(queries: &mpsc::Receiver<Query>, shared: &Shared) {
    for query in queries {
        let event = match query {
            Query::Devices => Event::Devices {
                devices: guarded(|| Ok(hardware::devices())).unwrap_or_else(|problem| {
                    tracing::error!("the devices could not be listed: {problem}");
                    hardware::devices_for(Some(hardware::CPU))
                }),
            },
            Query::Plan { id, plan } => {
                let loaded = shared.state().loaded.clone();
                match guarded(|| crate::plan::plan(&plan, &loaded)) {
                    Ok(plan) => Event::Planned { id, plan },
                    Err(problem) => Event::PlanFailed { id, problem },
                }
            }
        };
        shared.emit(&event);
    }
}

/// Run a device check, which may take minutes, in its own thread.
fn check(device: String, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let checked = std::thread::Builder::new().name("check".to_owned()).spawn(move || {
        let devices = guarded(|| hardware::check(&device)).map(|()| hardware::devices());
        shared.emit(&Event::Checked { device, devices });
    });
    if let Err(error) = checked {
        tracing::error!("the device check could not be started: {error}");
    }
}

/// Accept a generation unless another one is in progress that is not cancelled.
fn admit(request: GenerateRequest, shared: &Shared) -> Option<Job> {
    let mut state = shared.state();
    if state.live.values().any(|cancelled| !cancelled) || state.live.contains_key(&request.id) {
        drop(state);
        let problem = problem(
            ProblemCode::Busy,
            "Another answer is being generated. Stop it, or wait until it is finished.",
        );
        shared.emit(&Event::GenerationFailed {
            id: request.id,
            problem,
        });
        return None;
    }
    state.live.insert(request.id, false);
    Some(Job::Generate {
        request,
        received: Instant::now(),
    })
}

/// Accept a measurement unless its id is in use.
fn admit_measurement(id: GenerationId, shared: &Shared) -> Option<Job> {
    if shared.state().live.contains_key(&id) {
        let problem = problem(
            ProblemCode::Busy,
            "Another answer or measurement with this id is in progress.",
        );
        shared.emit(&Event::MeasureFailed { id, problem });
        return None;
    }
    shared.state().live.insert(id, false);
    Some(Job::Measure { id })
}

/// The job of a fine-tuning request; commands to a run take effect at once and are no job.
fn training_job(request: TrainingRequest, shared: &Shared) -> Option<Job> {
    let wish = |id, wish| {
        if let Some(control) = shared.state().runs.get(&id) {
            control.set(wish);
        }
        None
    };
    match request {
        TrainingRequest::Inspect(request) => Some(Job::Inspect(request)),
        TrainingRequest::Start(request) => {
            let control = Arc::<RunControl>::default();
            match shared.state().runs.entry(request.id) {
                Entry::Vacant(free) => free.insert(Arc::clone(&control)),
                Entry::Occupied(_) => {
                    // An event with its id would be taken for one of the run in progress.
                    tracing::warn!(
                        id = request.id,
                        "a run with this id is in progress; another one is not started"
                    );
                    return None;
                }
            };
            Some(Job::Train { request, control })
        }
        TrainingRequest::Pause { id } => wish(id, RunCommand::Pause),
        TrainingRequest::Resume { id } => wish(id, RunCommand::Continue),
        TrainingRequest::Stop { id } => wish(id, RunCommand::Stop),
        TrainingRequest::Suspend { id } => wish(id, RunCommand::Suspend),
        TrainingRequest::Export(request) => Some(Job::Export(request)),
    }
}

/// Answer a malformed request with the failure event of its kind, as far as it is recognisable.
fn refuse(line: &[u8], error: &serde_json::Error, shared: &Shared) {
    tracing::warn!("a request is invalid: {error}");
    let problem = problem(
        ProblemCode::BadRequest,
        format!("The worker received an invalid request: {error}."),
    );
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    match (value["type"].as_str(), value["id"].as_u64()) {
        (Some("load"), _) => shared.emit(&Event::LoadFailed(problem)),
        (Some("training"), Some(id)) => shared.emit(&Event::Training {
            id,
            event: TrainingEvent::Failed(problem),
        }),
        (Some("plan"), Some(id)) => shared.emit(&Event::PlanFailed { id, problem }),
        (Some("measure"), Some(id)) => shared.emit(&Event::MeasureFailed { id, problem }),
        (_, Some(id)) => shared.emit(&Event::GenerationFailed { id, problem }),
        _ => {}
    }
}

/// The engine thread: executes jobs in order until the worker closes.
fn run_jobs(jobs: &mpsc::Receiver<Job>, shared: &Shared) {
    let mut thread = EngineThread {
        engine: None,
        load_request: LoadRequest::default(),
        shared,
    };
    while let Ok(job) = jobs.recv() {
        if shared.state().closing {
            return;
        }
        thread.execute(job);
    }
}

struct EngineThread<'a> {
    engine: Option<Engine>,
    /// The last load request; after a GPU failed, with the CPU as its device.
    load_request: LoadRequest,
    shared: &'a Shared,
}

impl EngineThread<'_> {
    fn execute(&mut self, job: Job) {
        match job {
            Job::Load { request, turn } => self.load(request, turn),
            Job::Unload => {
                self.engine = None;
                self.shared.state().loaded.clear();
                memory::release();
                self.shared.emit(&Event::Unloaded);
            }
            Job::Generate { request, received } => self.generate(&request, received),
            Job::RemovePromptCache { conversation } => {
                if let Some(engine) = &mut self.engine {
                    engine.remove_prompt_cache(conversation);
                }
            }
            Job::SetPromptCacheLimit { max_bytes } => {
                if let Some(engine) = &mut self.engine {
                    engine.set_prompt_cache_limit(max_bytes);
                }
            }
            Job::Count { id, messages } => {
                let counted = guarded(|| self.engine.as_ref().ok_or_else(no_model)?.count(&messages));
                self.shared.emit(&match counted {
                    Ok(tokens) => Event::Counted { id, tokens },
                    Err(problem) => Event::GenerationFailed { id, problem },
                });
            }
            Job::Measure { id } => self.measure(id),
            Job::Inspect(request) => {
                let inspected = guarded(|| training::inspect(&request, &|| !self.shared.state().closing));
                memory::release();
                let event = inspected.map(|inspection| TrainingEvent::Inspected(Box::new(inspection)));
                emit_last(self.shared, request.id, event);
            }
            Job::Train { request, control } => train(&request, &control, self.shared),
            Job::Export(request) => export(&request, self.shared),
        }
    }

    fn load(&mut self, request: LoadRequest, turn: u64) {
        let shared = self.shared;
        self.engine = None;
        memory::release();
        shared.state().loaded.clear();
        let loaded = guarded(|| match preferred_build(&request, shared)? {
            Some(program) => Ok(Err(program)),
            None => load_or_use_cpu(&request, turn, shared).map(Ok),
        });
        self.load_request = request;
        // Before the event: the client may ask for the free memory as soon as it arrives.
        memory::release();
        match loaded {
            Ok(Err(program)) => shared.emit(&Event::SwitchBuild { program }),
            Ok(Ok(loaded)) => {
                shared.state().loaded = loaded.info().placement.clone();
                shared.emit(&Event::Loaded(loaded.info().clone()));
                self.engine = Some(loaded);
            }
            Err(problem) => shared.emit(&Event::LoadFailed(problem)),
        }
    }

    fn generate(&mut self, request: &GenerateRequest, received: Instant) {
        let (id, shared) = (request.id, self.shared);
        let turn = shared.state().turn;
        let answered = guarded(|| generate(self.engine.as_mut(), request, received, shared));
        let gpu_failure = answered
            .as_ref()
            .err()
            .and_then(|problem| gpu_problem(self.engine.as_ref(), problem));
        if let Some(problem) = gpu_failure {
            if let Some(engine) = self.engine.take() {
                engine.model().placement().gpus().for_each(hearth_llm::device::close);
            }
            shared.state().loaded.clear();
            shared.state().live.remove(&id);
            shared.emit(&Event::GenerationFailed { id, problem });
            self.engine = reload_on_cpu(&mut self.load_request, shared);
            return;
        }
        let event = match answered {
            Ok(summary) => Event::Finished { id, summary },
            Err(problem) => Event::GenerationFailed { id, problem },
        };
        // A bug may have left the KV cache in an inconsistent state.
        if let Event::GenerationFailed {
            problem: Problem {
                code: ProblemCode::Internal,
                ..
            },
            ..
        } = &event
            && let Some(loaded) = &mut self.engine
            && let Err(problem) = loaded.reset_cache()
        {
            tracing::error!("the model is unloaded: {problem}");
            self.engine = None;
        }
        // Before the event: the client may send the next request as soon as it arrives.
        shared.state().live.remove(&id);
        shared.emit(&event);
        if let (Event::Finished { .. }, Some(engine)) = (&event, &mut self.engine)
            && let Some(conversation) = request.conversation
        {
            save_prompt_cache(engine, conversation, turn, shared);
        }
    }

    fn measure(&self, id: GenerationId) {
        let shared = self.shared;
        let measured = guarded(|| {
            let engine = self.engine.as_ref().ok_or_else(no_model)?;
            engine.measure(&mut |fraction| {
                shared.emit(&Event::MeasureProgress { id, fraction });
                match shared.cancelled(id) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })
        });
        shared.state().live.remove(&id);
        shared.emit(&match measured {
            Ok(measured) => Event::Measured { id, measured },
            Err(problem) => Event::MeasureFailed { id, problem },
        });
    }
}

fn train(request: &TrainRequest, control: &RunControl, shared: &Shared) {
    if request.low_priority {
        training::lower();
    }
    let id = request.id;
    let mut emit = |event| shared.emit(&Event::Training { id, event });
    let trained = guarded(|| {
        let stage = &mut |stage: &str| {
            let (fraction, stage) = (0.0, stage.to_owned());
            emit(TrainingEvent::Preparing { fraction, stage });
        };
        let (device, build) = (request.device.as_deref(), request.build.as_deref());
        match hardware::preferred_build(device, build, request.gpu_layers, stage)? {
            Some(program) => Ok(Err(program)),
            None => training::train(request, control, &mut emit).map(Ok),
        }
    });
    memory::release();
    // Before the event: the client may start the next run as soon as it arrives.
    shared.state().runs.remove(&id);
    match trained {
        Ok(Err(program)) => shared.emit(&Event::SwitchBuild { program }),
        Ok(Ok(Some(outcome))) => emit_last(shared, id, Ok(TrainingEvent::Finished(Box::new(outcome)))),
        Ok(Ok(None)) => emit_last(shared, id, Ok(TrainingEvent::Suspended)),
        Err(problem) => emit_last(shared, id, Err(problem)),
    }
}

fn export(request: &ExportRequest, shared: &Shared) {
    let id = request.id;
    let exported = guarded(|| {
        training::export(request, &mut |fraction, stage| {
            let stage = stage.to_owned();
            let event = TrainingEvent::Preparing { fraction, stage };
            shared.emit(&Event::Training { id, event });
            if shared.state().closing {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    memory::release();
    let event = exported.map(|exported| TrainingEvent::Exported {
        path: exported.path,
        bytes: exported.bytes,
        verification: exported.verification,
    });
    emit_last(shared, id, event);
}

/// Emit the last event of a run, an inspection or an export.
fn emit_last(shared: &Shared, id: RunId, ended: Result<TrainingEvent, Problem>) {
    let event = ended.unwrap_or_else(TrainingEvent::Failed);
    shared.emit(&Event::Training { id, event });
}

/// Run a job; a panic becomes a [`Problem`], and the worker continues.
fn guarded<T>(job: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|payload| Err(internal(panic_text(&*payload))))
}

fn load(request: &LoadRequest, turn: u64, shared: &Shared) -> Result<Engine, Problem> {
    let mut said = f32::NEG_INFINITY;
    Engine::load(request, &mut |fraction, stage| {
        if shared.state().turn != turn {
            return ControlFlow::Break(());
        }
        if fraction - said >= PROGRESS_STEP {
            said = fraction;
            shared.emit(&Event::LoadProgress {
                fraction,
                stage: stage.to_owned(),
            });
        }
        ControlFlow::Continue(())
    })
}

/// The executable of another build that should load the model instead of this one.
fn preferred_build(request: &LoadRequest, shared: &Shared) -> Result<Option<PathBuf>, Problem> {
    let (device, build) = (request.device.as_deref(), request.build.as_deref());
    hardware::preferred_build(device, build, request.gpu_layers, &mut |stage| {
        let (fraction, stage) = (0.0, stage.to_owned());
        shared.emit(&Event::LoadProgress { fraction, stage });
    })
}

/// Load a model as requested; if the requested GPU is gone, load it on the CPU with a notice.
fn load_or_use_cpu(request: &LoadRequest, turn: u64, shared: &Shared) -> Result<Engine, Problem> {
    load(request, turn, shared).or_else(|problem| {
        let on_gpu = request.device.as_deref().is_some_and(|device| device != hardware::CPU);
        if problem.code != ProblemCode::NoDevice || !on_gpu {
            return Err(problem);
        }
        let on_cpu = LoadRequest {
            device: Some(hardware::CPU.to_owned()),
            ..request.clone()
        };
        let mut loaded = load(&on_cpu, turn, shared)?;
        loaded.note(&format!("The model runs on the CPU. {problem}"));
        Ok(loaded)
    })
}

/// The error of a GPU that failed during a generation. `None` if the problem has another cause.
fn gpu_problem(engine: Option<&Engine>, problem: &Problem) -> Option<Problem> {
    let on_gpu = engine.is_some_and(|engine| engine.info().gpu_layers > 0);
    let of_gpu = matches!(problem.code, ProblemCode::NoDevice | ProblemCode::Internal);
    (on_gpu && of_gpu).then(|| Problem {
        code: ProblemCode::NoDevice,
        message: format!(
            "The GPU failed during the answer. The model is being reloaded on the CPU; send the message again. \
             ({problem})"
        ),
    })
}

/// Reload the model on the CPU after its GPU failed, unless another request has arrived, which then
/// takes precedence.
fn reload_on_cpu(asked: &mut LoadRequest, shared: &Shared) -> Option<Engine> {
    memory::release();
    asked.device = Some(hardware::CPU.to_owned());
    let turn = shared.state().turn;
    let loaded = guarded(|| load(asked, turn, shared));
    let mut state = shared.state();
    if state.turn != turn {
        return None;
    }
    match loaded {
        Ok(mut loaded) => {
            loaded.note("The GPU failed during an answer, so the model runs on the CPU until it is reloaded.");
            state.loaded = loaded.info().placement.clone();
            drop(state);
            shared.emit(&Event::Loaded(loaded.info().clone()));
            Some(loaded)
        }
        Err(problem) => {
            drop(state);
            shared.emit(&Event::LoadFailed(problem));
            None
        }
    }
}

fn generate(
    engine: Option<&mut Engine>,
    request: &GenerateRequest,
    received: Instant,
    shared: &Shared,
) -> Result<Summary, Problem> {
    let cancelled = || shared.cancelled(request.id);
    match engine {
        Some(engine) => engine.generate(request, received, &cancelled, &mut |event| shared.emit(&event)),
        None if cancelled() => Ok(Summary {
            reason: FinishReason::Cancelled,
            prompt_tokens: 0,
            tokens: 0,
            ids: Vec::new(),
            prompt_tokens_per_second: 0.0,
            tokens_per_second: 0.0,
            first_token_seconds: 0.0,
            context_used: 0,
            context: 0,
        }),
        None => Err(no_model()),
    }
}

/// Save a conversation's KV cells to the prompt cache after its answer, which began in this turn.
fn save_prompt_cache(engine: &mut Engine, conversation: ConversationId, turn: u64, shared: &Shared) {
    let began = Instant::now();
    let give_up = || began.elapsed() > SAVE_LIMIT && shared.is_interrupted_since(turn);
    let kept = guarded(|| {
        engine.save_prompt_cache(conversation, &give_up);
        Ok(())
    });
    if let Err(problem) = kept {
        tracing::error!("a conversation could not be saved to the prompt cache: {problem}");
    }
}

fn no_model() -> Problem {
    problem(
        ProblemCode::NoModel,
        "No model is loaded. Choose a model, then send the message again.",
    )
}
