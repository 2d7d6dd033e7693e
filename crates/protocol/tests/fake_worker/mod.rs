//! A worker without a model: a real process that speaks the protocol and acts on the last message.
//!
//! The environment variable [`START`] controls its start, the model's file name a load, the first
//! word of the last message a generation, and the dataset a run. Used by the tests of `protocol`
//! and `app`, whose executables are also this worker: see [`run`].

mod training;

use hearth_protocol::{
    BUILD_SWITCHED, DeviceInfo, Event, FinishReason, GenerateRequest, GenerationId, GpuLayers, KvType, LeftOut,
    LoadRequest, Measured, ModelInfo, PROTOCOL_VERSION, Plan, PlanRequest, PlannedDevice, Problem, ProblemCode, Prompt,
    Request, Summary, Verdict, WorkerCommand,
};
use libtest_mimic::{Arguments, Trial};
use std::{
    io::{BufRead, Write},
    process::exit,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// Set for every worker; `silent`, `garbage`, `old` or `fall` make its start fail.
pub const START: &str = "FAKE_WORKER_START";

/// Pause between two pieces of a slow answer.
const PAUSE: Duration = Duration::from_millis(10);

/// The command that starts this executable as a worker.
pub fn command(start: &str) -> WorkerCommand {
    let mut command = WorkerCommand::new(std::env::current_exe().expect("a test has an executable"));
    command.environment.push((START.into(), start.into()));
    command
}

/// The main function of a test whose executable is also a worker: it runs the worker if [`START`]
/// is set.
pub fn run(trials: impl FnOnce() -> Vec<Trial>) -> ! {
    if std::env::var_os(START).is_some() {
        main();
    }
    libtest_mimic::run(&Arguments::from_args(), trials()).exit();
}

/// Trials of async functions, each in its own runtime.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($name), || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on($name());
            Ok(())
        })),*]
    };
}
pub(crate) use trials;

/// The worker's main function.
fn main() -> ! {
    match std::env::var(START).as_deref() {
        Ok("silent") => loop {
            thread::park();
        },
        Ok("garbage") => {
            println!("Welcome to something else!");
            thread::sleep(Duration::from_secs(60));
        }
        Ok("old") => say(&Event::Ready {
            protocol: PROTOCOL_VERSION + 1,
            version: "0.0.1".into(),
        }),
        Ok("fall") => {
            eprintln!("no such instruction");
            exit(3);
        }
        _ => say(&Event::Ready {
            protocol: PROTOCOL_VERSION,
            version: "0.0.0".into(),
        }),
    }
    let (send, requests) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let request: Request = serde_json::from_str(&line).expect("a request");
            if send.send(request).is_err() {
                break;
            }
        }
        // Standard input is closed: exit immediately.
        exit(0);
    });
    let mut endless = false;
    while let Ok(request) = requests.recv() {
        match request {
            Request::Load(load) => {
                endless = load.kv == KvType::Q8_0;
                self::load(&load, &requests);
            }
            Request::Unload => say(&Event::Unloaded),
            Request::Generate(generate) => self::generate(&generate, &requests),
            Request::Cancel { .. } | Request::RemovePromptCache { .. } | Request::SetPromptCacheLimit { .. } => {}
            Request::Count { id, .. } => say(&Event::Counted { id, tokens: 1 }),
            Request::Devices => say(&Event::Devices { devices: vec![cpu()] }),
            Request::Check { device } => say(&Event::Checked {
                device,
                devices: Ok(vec![cpu()]),
            }),
            Request::Plan { id, plan } => answer_plan(id, &plan),
            Request::Measure { id } => measure(id, endless, &requests),
            Request::Training(request) => training::handle(request, &requests),
            Request::Shutdown => exit(0),
        }
    }
    exit(0)
}

fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("an event");
    println!("{line}");
    std::io::stdout().flush().expect("a listener");
}

fn load(load: &LoadRequest, requests: &Receiver<Request>) {
    let name = load.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fail = |code, message: &str| {
        say(&Event::LoadFailed(Problem {
            code,
            message: message.to_owned(),
        }))
    };
    if load.build.is_some() && !build_switched() {
        return switch_build();
    }
    if !load.path.exists() {
        return fail(ProblemCode::FileUnreadable, "The model's file is gone.");
    }
    if name.contains("refuse") {
        return fail(ProblemCode::OutOfMemory, "The model does not fit.");
    }
    if name.contains("fatal") {
        exit(4);
    }
    if name.contains("slow") {
        say(&Event::LoadProgress {
            fraction: 0.1,
            stage: "reading".into(),
        });
        // Until it is killed.
        let _ = requests.recv_timeout(Duration::from_secs(60));
    }
    say(&Event::LoadProgress {
        fraction: 0.5,
        stage: "reading".into(),
    });
    say(&Event::Loaded(ModelInfo {
        path: load.path.clone(),
        name,
        architecture: "llama".into(),
        quantization: "Q4_1".into(),
        parameters: 1,
        file_size: 1,
        layers: 1,
        context: load.context.unwrap_or(LoadRequest::DEFAULT_CONTEXT),
        context_trained: 8192,
        device: "cpu".into(),
        threads: load.threads.unwrap_or(2),
        load_seconds: 0.0,
        notices: build_switched().then(|| SWITCHED.to_owned()).into_iter().collect(),
        gpu_layers: placed(load.gpu_layers),
        layers_total: LAYERS,
        kv: load.kv,
        placement: plan(&PlanRequest {
            path: load.path.clone(),
            context: load.context,
            gpu_layers: load.gpu_layers,
            kv: load.kv,
            ..PlanRequest::default()
        })
        .devices,
    }));
}

/// The notice of a model or run after a switch of builds.
pub const SWITCHED: &str = "The build was switched.";

fn build_switched() -> bool {
    std::env::var_os(BUILD_SWITCHED).is_some()
}

/// Switch to this same program.
fn switch_build() {
    let program = std::env::current_exe().expect("a program");
    say(&Event::SwitchBuild { program });
}

/// Layers of every model.
const LAYERS: u32 = 31;

/// Layers on the GPU, which fits ten.
fn placed(layers: GpuLayers) -> u32 {
    match layers {
        GpuLayers::Auto => 10,
        GpuLayers::All => LAYERS,
        GpuLayers::Count(count) => count.min(LAYERS),
    }
}

/// A plan in which each layer takes 1000 bytes and each token of the context one.
fn plan(request: &PlanRequest) -> Plan {
    let gpu_layers = placed(request.gpu_layers);
    let fits = gpu_layers <= 10;
    let context = request.context.unwrap_or(LoadRequest::DEFAULT_CONTEXT);
    let device = |id: &str, layers: u32, fits| PlannedDevice {
        id: id.to_owned(),
        identity: id.to_owned(),
        name: format!("The {id}"),
        weights: u64::from(layers) * 1000,
        kv: u64::from(context),
        compute: 10,
        margin: 100,
        total: Some(1 << 30),
        free: Some(1 << 29),
        layers: (0..layers).map(|layer| format!("blk.{layer}")).collect(),
        fits,
    };
    Plan {
        fits,
        verdict: if fits { Verdict::Fits } else { Verdict::WontFit },
        why: format!("{gpu_layers} of {LAYERS} layers on the GPU."),
        context,
        context_fits: 16384,
        gpu_layers,
        layers_total: LAYERS,
        layers_fit: 10,
        kv: request.kv,
        devices: vec![
            device("cpu", LAYERS - gpu_layers, true),
            device("gpu0", gpu_layers, fits),
        ],
    }
}

/// Answer with a plan, or a failure if the model's name contains `refuse`.
fn answer_plan(id: GenerationId, request: &PlanRequest) {
    if request.path.to_string_lossy().contains("refuse") {
        let problem = Problem {
            code: ProblemCode::FileInvalid,
            message: "The file is not a model.".to_owned(),
        };
        return say(&Event::PlanFailed { id, problem });
    }
    say(&Event::Planned {
        id,
        plan: plan(request),
    });
}

/// Answer with a measurement; a model with a q8_0 cache measures until it is cancelled.
fn measure(id: GenerationId, endless: bool, requests: &Receiver<Request>) {
    say(&Event::MeasureProgress { id, fraction: 0.5 });
    if endless {
        while !cancelled(id, requests) {}
        let problem = Problem {
            code: ProblemCode::BadRequest,
            message: "It was cancelled.".to_owned(),
        };
        return say(&Event::MeasureFailed { id, problem });
    }
    let measured = Measured {
        prompt_tokens_per_second: 100.0,
        tokens_per_second: 50.0,
        prompt_tokens: 512,
        tokens: 128,
    };
    say(&Event::Measured { id, measured });
}

fn generate(request: &GenerateRequest, requests: &Receiver<Request>) {
    let id = request.id;
    let Prompt::Chat(messages) = &request.prompt else {
        panic!("only chats here")
    };
    let last = messages.last().map_or("", |message| message.content.as_str());
    let (order, rest) = last.split_once(' ').unwrap_or((last, ""));
    let left_out = (order == "long").then_some(LeftOut {
        messages: 2,
        tokens: 300,
    });
    say(&Event::Started {
        id,
        prompt_tokens: 10,
        cached_tokens: 4,
        left_out,
    });
    say(&Event::Prefill {
        id,
        done: 10,
        total: 10,
    });
    let mut tokens = 0;
    let mut piece = |text: &str| {
        tokens += 1;
        say(&Event::Text {
            id,
            text: text.to_owned(),
            tokens,
        });
    };
    match order {
        // Half an answer, then exit.
        "die" => {
            piece("Half an ");
            piece("answer");
            exit(5);
        }
        // As the standard library does after a failed allocation.
        "starve" => {
            piece("Half an ");
            eprintln!("memory allocation of 123456789 bytes failed");
            std::process::abort();
        }
        "babble" => {
            piece("Half an ");
            println!("\u{7}not a message");
            thread::sleep(Duration::from_secs(60));
        }
        "fail" => {
            piece("Half an ");
            let message = "The model's chat template failed.".to_owned();
            return say(&Event::GenerationFailed {
                id,
                problem: Problem {
                    code: ProblemCode::Template,
                    message,
                },
            });
        }
        // Until it is cancelled.
        "slow" => loop {
            piece("word ");
            if cancelled(id, requests) {
                return finish(id, FinishReason::Cancelled, tokens);
            }
        },
        // The same with long pieces.
        "flood" => loop {
            piece(&"word ".repeat(400));
            if cancelled(id, requests) {
                return finish(id, FinishReason::Cancelled, tokens);
            }
        },
        // Until it is killed.
        "deaf" => loop {
            piece("word ");
            thread::sleep(PAUSE);
        },
        "cut" => {
            piece("Half an answer");
            return finish(id, FinishReason::Length, 1);
        }
        // The request itself, for the test to inspect.
        "show" => piece(&serde_json::to_string(request).expect("a request")),
        _ => {
            for word in rest.split_inclusive(' ') {
                piece(word);
            }
        }
    }
    finish(id, FinishReason::Stop, tokens);
}

/// Whether it was cancelled; other requests that are allowed at any time are answered.
fn cancelled(id: GenerationId, requests: &Receiver<Request>) -> bool {
    match requests.recv_timeout(PAUSE) {
        Ok(Request::Cancel { id: which }) => which == id,
        Ok(Request::Devices) => {
            say(&Event::Devices { devices: vec![cpu()] });
            false
        }
        Ok(Request::Plan { id, plan }) => {
            answer_plan(id, &plan);
            false
        }
        Ok(_) | Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => exit(0),
    }
}

fn finish(id: GenerationId, reason: FinishReason, tokens: u32) {
    say(&Event::Finished {
        id,
        summary: Summary {
            reason,
            prompt_tokens: 10,
            tokens,
            ids: vec![1; tokens as usize],
            prompt_tokens_per_second: 100.0,
            tokens_per_second: 50.0,
            first_token_seconds: 0.1,
            context_used: 10 + tokens,
            context: 8192,
        },
    });
}

fn cpu() -> DeviceInfo {
    DeviceInfo {
        id: "cpu".into(),
        kind: "cpu".into(),
        name: "A CPU".into(),
        backend: "cpu".into(),
        memory_total: Some(1 << 30),
        memory_free: None,
        usable: true,
        why: "Always available.".into(),
        ..DeviceInfo::default()
    }
}
