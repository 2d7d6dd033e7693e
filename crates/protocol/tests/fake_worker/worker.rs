//! A worker without a model: a process that speaks the protocol and acts on the last message. The
//! tests of `hearth-protocol` and `hearth-app` start it; it is not part of Hearth.
//!
//! Its argument controls its start, the model's file name a load, the first word of the last
//! message a generation, and the dataset a run.

mod generate;
mod plan;
mod training;

use hearth_protocol::{
    BUILD_SWITCHED, DeviceInfo, Event, GenerationId, KvType, LoadRequest, Measured, ModelInfo, PROTOCOL_VERSION,
    PlanRequest, Problem, ProblemCode, Request,
};
use plan::{LAYERS, answer_plan, placed, plan};
use std::{
    io::{BufRead, Write},
    process::exit,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// The interval between two pieces of a slow answer and between two steps of a run, in which
/// requests are received. It only limits the output: no test depends on its length.
const PAUSE: Duration = Duration::from_millis(10);

fn main() {
    let requests = listen();
    match std::env::args().nth(1).as_deref() {
        Some("worker") => say(&Event::Ready {
            protocol: PROTOCOL_VERSION,
            version: "0.0.0".into(),
        }),
        Some("old") => say(&Event::Ready {
            protocol: PROTOCOL_VERSION + 1,
            version: "0.0.1".into(),
        }),
        Some("silent") => wait_for_kill(),
        Some("garbage") => {
            println!("Welcome to something else!");
            wait_for_kill();
        }
        Some("fall") => {
            eprintln!("no such instruction");
            exit(3);
        }
        other => panic!("no start is called {other:?}"),
    }
    let mut endless = false;
    while let Ok(request) = requests.recv() {
        match request {
            Request::Load(load) => {
                endless = load.kv == KvType::Q8_0;
                self::load(&load);
            }
            Request::Unload => say(&Event::Unloaded),
            Request::Generate(request) => generate::generate(&request, &requests),
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
}

/// The requests of standard input. The process exits when it is closed.
fn listen() -> Receiver<Request> {
    let (send, requests) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let request: Request = serde_json::from_str(&line).expect("a request");
            if send.send(request).is_err() {
                break;
            }
        }
        exit(0);
    });
    requests
}

/// Does nothing until it is killed or standard input is closed.
fn wait_for_kill() -> ! {
    loop {
        thread::park();
    }
}

/// Prints an event.
fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("an event");
    println!("{line}");
    std::io::stdout().flush().expect("a listener");
}

fn load(load: &LoadRequest) {
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
        wait_for_kill();
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
const SWITCHED: &str = "The build was switched.";

fn build_switched() -> bool {
    std::env::var_os(BUILD_SWITCHED).is_some()
}

/// Switch to this same program.
fn switch_build() {
    let program = std::env::current_exe().expect("a program");
    say(&Event::SwitchBuild { program });
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
