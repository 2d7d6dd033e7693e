//! The worker's loop: requests in, events out.
//!
//! Three threads. This one reads requests and computes nothing, so that a cancel is heard whatever goes on. The second one owns the engine
//! and works through the jobs in order. The third one answers, in order, what needs no engine: which devices there are, and plans.

use crate::problem::{internal, panic_text, problem};
use crate::training::{self, Wish, Wishes};
use crate::{Engine, hardware, memory};
use hearth_protocol::{
    ConversationId, Event, ExportRequest, FinishReason, GenerateRequest, GenerationId, InspectRequest, LoadRequest,
    Message, PROTOCOL_VERSION, PlanRequest, PlannedDevice, Problem, ProblemCode, Request, RunId, Summary, TrainRequest,
    TrainingEvent, TrainingRequest,
};
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long the engine may take to notice that its worker ends; then the process ends without it.
const GRACE: Duration = Duration::from_secs(1);

/// How long whoever wants something may have to wait until an answer's state is kept.
const KEEPING: Duration = Duration::from_millis(500);

/// Progress that a person could not see is not said.
const PROGRESS_STEP: f32 = 0.01;

/// Serves requests, one JSON object a line, until `input` ends or [`Request::Shutdown`] comes.
///
/// Returns at once even while an answer is being made; the caller is expected to end the process.
///
/// # Errors
/// Reading `input` failed.
pub fn serve(input: impl BufRead, output: impl Write + Send + 'static) -> io::Result<()> {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        output: Mutex::new(Box::new(output)),
    });
    let (jobs, waiting) = mpsc::channel();
    let (working, ended) = mpsc::channel::<()>();
    shared.say(&Event::Ready {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let engine = Arc::clone(&shared);
    std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        work(&waiting, &engine);
        drop(working);
    })?;
    let (asides, aside) = mpsc::channel();
    let answering = Arc::clone(&shared);
    // Not waited for at the end: it may be reading a disk that does not answer.
    std::thread::Builder::new()
        .name("asides".to_owned())
        .spawn(move || answer(&aside, &answering))?;
    let read = listen(input, &jobs, &asides, &shared);
    shared.close();
    drop(jobs);
    // Nothing is ever sent: this waits for the engine's end of the channel to go.
    let _ = ended.recv_timeout(GRACE);
    read
}

/// What the engine does, in order.
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
        wishes: Arc<Wishes>,
    },
    Export(ExportRequest),
    Measure {
        id: GenerationId,
    },
    Forget {
        conversation: ConversationId,
    },
    Keep {
        most_bytes: u64,
    },
}

/// What is answered beside the engine.
enum Aside {
    Devices,
    Plan { id: GenerationId, plan: PlanRequest },
}

/// What all threads know.
struct Shared {
    state: Mutex<State>,
    output: Mutex<Box<dyn Write + Send>>,
}

#[derive(Default)]
struct State {
    /// The generations that wait or run, and whether they were cancelled.
    live: HashMap<GenerationId, bool>,
    /// What is wanted of the runs that wait or run.
    runs: HashMap<RunId, Arc<Wishes>>,
    /// What the loaded model takes, which a plan for another counts as free.
    loaded: Vec<PlannedDevice>,
    /// Goes up with everything that makes a load under way pointless.
    turn: u64,
    closing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, event: &Event) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_vec(event).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            output.write_all(&line)?;
            output.flush()
        });
        drop(output);
        if let Err(error) = written {
            tracing::warn!("nobody listens any more: {error}");
            self.close();
        }
    }

    /// Ends whatever is under way, and gives the turn of what comes in its place.
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
        state.runs.values().for_each(|wishes| wishes.set(Wish::Suspend));
    }

    /// Whether somebody waits for the engine since this turn.
    fn wanted(&self, turn: u64) -> bool {
        let state = self.state();
        state.turn != turn || !state.live.is_empty()
    }

    fn cancelled(&self, id: GenerationId) -> bool {
        self.state().live.get(&id).copied().unwrap_or(true)
    }
}

/// Reads requests until there are no more.
fn listen(
    mut input: impl BufRead,
    jobs: &mpsc::Sender<Job>,
    asides: &mpsc::Sender<Aside>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    // Its thread ends with this one.
    let aside = |aside| {
        let _ = asides.send(aside);
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
            Request::Devices => aside(Aside::Devices),
            Request::Check { device } => {
                check(device, shared);
                None
            }
            Request::Plan { id, plan } => aside(Aside::Plan { id, plan }),
            Request::Measure { id } => {
                shared.state().live.insert(id, false);
                Some(Job::Measure { id })
            }
            Request::Forget { conversation } => Some(Job::Forget { conversation }),
            Request::Keep { most_bytes } => Some(Job::Keep { most_bytes }),
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

/// Answers what needs no engine.
fn answer(asides: &mpsc::Receiver<Aside>, shared: &Shared) {
    for aside in asides {
        let event = match aside {
            Aside::Devices => Event::Devices {
                devices: guarded(|| Ok(hardware::devices())).unwrap_or_else(|problem| {
                    tracing::error!("devices are not told: {problem}");
                    hardware::devices_for(Some(hardware::CPU))
                }),
            },
            Aside::Plan { id, plan } => {
                let loaded = shared.state().loaded.clone();
                match guarded(|| crate::plan::plan(&plan, &loaded)) {
                    Ok(plan) => Event::Planned { id, plan },
                    Err(problem) => Event::PlanFailed { id, problem },
                }
            }
        };
        shared.say(&event);
    }
}

/// Checks a device, which may take minutes, beside whatever else goes on.
fn check(device: String, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let checked = std::thread::Builder::new().name("check".to_owned()).spawn(move || {
        let devices = guarded(|| hardware::check(&device)).map(|()| hardware::devices());
        shared.say(&Event::Checked { device, devices });
    });
    if let Err(error) = checked {
        tracing::error!("a device is not checked: {error}");
    }
}

/// Takes a generation on, unless another one is under way that nobody has cancelled.
fn admit(request: GenerateRequest, shared: &Shared) -> Option<Job> {
    let mut state = shared.state();
    if state.live.values().any(|cancelled| !cancelled) || state.live.contains_key(&request.id) {
        drop(state);
        let problem = problem(
            ProblemCode::Busy,
            "Another answer is being written. Stop it, or wait until it is done.",
        );
        shared.say(&Event::GenerationFailed {
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

/// What is to be done about fine-tuning, unless it is only a wish about a run, which is heard at once.
fn training_job(request: TrainingRequest, shared: &Shared) -> Option<Job> {
    let wish = |id, wish| {
        if let Some(wishes) = shared.state().runs.get(&id) {
            wishes.set(wish);
        }
        None
    };
    match request {
        TrainingRequest::Inspect(request) => Some(Job::Inspect(request)),
        TrainingRequest::Start(request) => {
            let wishes = Arc::<Wishes>::default();
            shared.state().runs.insert(request.id, Arc::clone(&wishes));
            Some(Job::Train { request, wishes })
        }
        TrainingRequest::Pause { id } => wish(id, Wish::Hold),
        TrainingRequest::Resume { id } => wish(id, Wish::Go),
        TrainingRequest::Stop { id } => wish(id, Wish::Stop),
        TrainingRequest::Suspend { id } => wish(id, Wish::Suspend),
        TrainingRequest::Export(request) => Some(Job::Export(request)),
    }
}

/// Answers a line that is no request as well as can be: by the kind of request it seems to be.
fn refuse(line: &[u8], error: &serde_json::Error, shared: &Shared) {
    tracing::warn!("a request made no sense: {error}");
    let problem = problem(
        ProblemCode::BadRequest,
        format!("The request made no sense to the worker: {error}."),
    );
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    match (value["type"].as_str(), value["id"].as_u64()) {
        (Some("load"), _) => shared.say(&Event::LoadFailed(problem)),
        (Some("training"), Some(id)) => shared.say(&Event::Training {
            id,
            event: TrainingEvent::Failed(problem),
        }),
        (Some("plan"), Some(id)) => shared.say(&Event::PlanFailed { id, problem }),
        (Some("measure"), Some(id)) => shared.say(&Event::MeasureFailed { id, problem }),
        (_, Some(id)) => shared.say(&Event::GenerationFailed { id, problem }),
        _ => {}
    }
}

/// Works through the jobs until the worker closes.
fn work(jobs: &mpsc::Receiver<Job>, shared: &Shared) {
    let mut engine: Option<Engine> = None;
    let mut asked = LoadRequest::default();
    while let Ok(job) = jobs.recv() {
        if shared.state().closing {
            return;
        }
        match job {
            Job::Load { request, turn } => {
                engine = None;
                memory::give_back();
                shared.state().loaded.clear();
                let loaded = guarded(|| match program_for(&request, shared)? {
                    Some(program) => Ok(Err(program)),
                    None => load_somewhere(&request, turn, shared).map(Ok),
                });
                asked = request;
                // Before it is said: who hears of it may ask what memory is left.
                memory::give_back();
                match loaded {
                    Ok(Err(program)) => shared.say(&Event::HandOver { program }),
                    Ok(Ok(loaded)) => {
                        shared.state().loaded = loaded.info().placement.clone();
                        shared.say(&Event::Loaded(loaded.info().clone()));
                        engine = Some(loaded);
                    }
                    Err(problem) => shared.say(&Event::LoadFailed(problem)),
                }
            }
            Job::Unload => {
                engine = None;
                shared.state().loaded.clear();
                memory::give_back();
                shared.say(&Event::Unloaded);
            }
            Job::Generate { request, received } => {
                let id = request.id;
                let turn = shared.state().turn;
                let answered = guarded(|| generate(engine.as_mut(), &request, received, shared));
                let broken = answered
                    .as_ref()
                    .err()
                    .and_then(|problem| gpu_problem(engine.as_ref(), problem));
                if let Some(problem) = broken {
                    if let Some(engine) = engine.take() {
                        engine.model().placement().gpus().for_each(hearth_llm::device::forget);
                    }
                    shared.state().loaded.clear();
                    shared.state().live.remove(&id);
                    shared.say(&Event::GenerationFailed { id, problem });
                    engine = on_the_processor(&mut asked, shared);
                    continue;
                }
                let event = match answered {
                    Ok(summary) => Event::Finished { id, summary },
                    Err(problem) => Event::GenerationFailed { id, problem },
                };
                // A defect may have left the cache half written.
                if let Event::GenerationFailed {
                    problem:
                        Problem {
                            code: ProblemCode::Internal,
                            ..
                        },
                    ..
                } = &event
                    && let Some(loaded) = &mut engine
                    && let Err(problem) = loaded.forget()
                {
                    tracing::error!("the model is let go: {problem}");
                    engine = None;
                }
                // First, so that whoever hears of the end can ask for the next one.
                shared.state().live.remove(&id);
                shared.say(&event);
                if let (Event::Finished { .. }, Some(engine)) = (&event, &mut engine)
                    && let Some(conversation) = request.conversation
                {
                    keep(engine, conversation, turn, shared);
                }
            }
            Job::Forget { conversation } => {
                if let Some(engine) = &mut engine {
                    engine.forget_conversation(conversation);
                }
            }
            Job::Keep { most_bytes } => {
                if let Some(engine) = &mut engine {
                    engine.keep_at_most(most_bytes);
                }
            }
            Job::Count { id, messages } => {
                let counted = guarded(|| engine.as_ref().ok_or_else(no_model)?.count(&messages));
                shared.say(&match counted {
                    Ok(tokens) => Event::Counted { id, tokens },
                    Err(problem) => Event::GenerationFailed { id, problem },
                });
            }
            Job::Measure { id } => {
                let measured = guarded(|| {
                    let engine = engine.as_ref().ok_or_else(no_model)?;
                    engine.measure(&mut |fraction| {
                        shared.say(&Event::MeasureProgress { id, fraction });
                        match shared.cancelled(id) {
                            true => ControlFlow::Break(()),
                            false => ControlFlow::Continue(()),
                        }
                    })
                });
                shared.state().live.remove(&id);
                shared.say(&match measured {
                    Ok(measured) => Event::Measured { id, measured },
                    Err(problem) => Event::MeasureFailed { id, problem },
                });
            }
            Job::Inspect(request) => {
                let inspected = guarded(|| training::inspect(&request, &|| !shared.state().closing));
                memory::give_back();
                say_end(
                    shared,
                    request.id,
                    inspected.map(|it| TrainingEvent::Inspected(Box::new(it))),
                );
            }
            Job::Train { request, wishes } => {
                if request.low_priority {
                    training::lower();
                }
                let id = request.id;
                let mut say = |event| shared.say(&Event::Training { id, event });
                let trained = guarded(|| {
                    let stage = &mut |stage: &str| {
                        let (fraction, stage) = (0.0, stage.to_owned());
                        say(TrainingEvent::Preparing { fraction, stage });
                    };
                    let (device, build) = (request.device.as_deref(), request.build.as_deref());
                    match hardware::elsewhere(device, build, request.gpu_layers, stage)? {
                        Some(program) => Ok(Err(program)),
                        None => training::train(&request, &wishes, &mut say).map(Ok),
                    }
                });
                memory::give_back();
                // First, so that whoever hears of the end can begin the next one.
                shared.state().runs.remove(&id);
                match trained {
                    Ok(Err(program)) => shared.say(&Event::HandOver { program }),
                    Ok(Ok(Some(outcome))) => say_end(shared, id, Ok(TrainingEvent::Finished(Box::new(outcome)))),
                    Ok(Ok(None)) => say_end(shared, id, Ok(TrainingEvent::Suspended)),
                    Err(problem) => say_end(shared, id, Err(problem)),
                }
            }
            Job::Export(request) => {
                let id = request.id;
                let exported = guarded(|| {
                    training::export(&request, &mut |fraction, stage| {
                        let stage = stage.to_owned();
                        let event = TrainingEvent::Preparing { fraction, stage };
                        shared.say(&Event::Training { id, event });
                        if shared.state().closing {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    })
                });
                memory::give_back();
                let event = exported.map(|exported| TrainingEvent::Exported {
                    path: exported.path,
                    bytes: exported.bytes,
                    verification: exported.verification,
                });
                say_end(shared, id, event);
            }
        }
    }
}

/// Says the last event about a run, an inspection or an export.
fn say_end(shared: &Shared, id: RunId, ended: Result<TrainingEvent, Problem>) {
    let event = ended.unwrap_or_else(TrainingEvent::Failed);
    shared.say(&Event::Training { id, event });
}

/// Runs a job; a panic in it becomes a problem, and the worker goes on.
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
            shared.say(&Event::LoadProgress {
                fraction,
                stage: stage.to_owned(),
            });
        }
        ControlFlow::Continue(())
    })
}

/// The program of another build that is to load it instead of this one.
fn program_for(request: &LoadRequest, shared: &Shared) -> Result<Option<PathBuf>, Problem> {
    let (device, build) = (request.device.as_deref(), request.build.as_deref());
    hardware::elsewhere(device, build, request.gpu_layers, &mut |stage| {
        let (fraction, stage) = (0.0, stage.to_owned());
        shared.say(&Event::LoadProgress { fraction, stage });
    })
}

/// Loads a model as it was asked for; where the GPU that was chosen for it is gone, on the processor, which is said.
fn load_somewhere(request: &LoadRequest, turn: u64, shared: &Shared) -> Result<Engine, Problem> {
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
        loaded.note(&format!("The model runs on the processor. {problem}"));
        Ok(loaded)
    })
}

/// What is said of a GPU that failed in an answer; none where the problem is another.
fn gpu_problem(engine: Option<&Engine>, problem: &Problem) -> Option<Problem> {
    let on_gpu = engine.is_some_and(|engine| engine.info().gpu_layers > 0);
    let of_gpu = matches!(problem.code, ProblemCode::NoDevice | ProblemCode::Internal);
    (on_gpu && of_gpu).then(|| Problem {
        code: ProblemCode::NoDevice,
        message: format!(
            "The GPU failed while it answered. The model is loaded again on the processor; send the message again. ({problem})"
        ),
    })
}

/// Loads the model again without the GPU that has failed, unless something else was asked for meanwhile, which then has the word.
fn on_the_processor(asked: &mut LoadRequest, shared: &Shared) -> Option<Engine> {
    memory::give_back();
    asked.device = Some(hardware::CPU.to_owned());
    let turn = shared.state().turn;
    let loaded = guarded(|| load(asked, turn, shared));
    let mut state = shared.state();
    if state.turn != turn {
        return None;
    }
    match loaded {
        Ok(mut loaded) => {
            loaded
                .note("The GPU failed while it answered, so the model runs on the processor until it is loaded again.");
            state.loaded = loaded.info().placement.clone();
            drop(state);
            shared.say(&Event::Loaded(loaded.info().clone()));
            Some(loaded)
        }
        Err(problem) => {
            drop(state);
            shared.say(&Event::LoadFailed(problem));
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
        Some(engine) => engine.generate(request, received, &cancelled, &mut |event| shared.say(&event)),
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

/// Keeps what was read of a conversation, now that nobody waits for its answer any more. The answer began in this turn.
fn keep(engine: &mut Engine, conversation: ConversationId, turn: u64, shared: &Shared) {
    let began = Instant::now();
    let give_up = || began.elapsed() > KEEPING && shared.wanted(turn);
    let kept = guarded(|| {
        engine.keep(conversation, &give_up);
        Ok(())
    });
    if let Err(problem) = kept {
        tracing::error!("a conversation's state is not kept: {problem}");
    }
}

fn no_model() -> Problem {
    problem(
        ProblemCode::NoModel,
        "No model is loaded. Choose one, and send the message again.",
    )
}
