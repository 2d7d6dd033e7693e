//! A worker without a model: a process that speaks the protocol and acts on the last message. The
//! tests of `hearth-protocol` and `hearth-app` start it; it is not part of Hearth.
//!
//! Its argument controls its start, the model's file name a load, the first word of the last
//! message a generation, and the dataset a run.

mod generate;
mod plan;
mod training;
mod unsent;

use generate::generate;
use hearth_protocol::{
    BackendOption, DeviceCheck, DeviceInfo, DeviceStatus, DraftChoice, DraftKind, Envelope, Event, KvType, LoadRequest,
    Measured, ModelInfo, Notice, PROTOCOL_VERSION, PlanRequest, Problem, ProblemCode, Request, RequestId, RunCommand,
    Stage, ThinkingSupport,
};
use plan::{LAYERS, answer_plan, count_gpu_layers, is_copy, plan};
use std::{
    collections::HashMap,
    io::{BufRead, Write},
    process::exit,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use unsent::Unsent;

/// The interval between two pieces of a slow answer and between two steps of a run, in which
/// requests are received. It only limits the output: no test depends on its length.
const PAUSE: Duration = Duration::from_millis(10);

/// The start of a worker on a machine that is busy during its first device check.
const BUSY: &str = "busy";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("worker" | BUSY) => ready(PROTOCOL_VERSION, "0.0.0"),
        Some("old") => ready(PROTOCOL_VERSION + 1, "0.0.1"),
        Some("silent") => {
            listen();
            wait_for_kill();
        }
        Some("garbage") => {
            listen();
            println!("Welcome to something else!");
            wait_for_kill();
        }
        Some("fall") => {
            eprintln!("no such instruction");
            exit(3);
        }
        other => panic!("there is no start {other:?}"),
    }
    let requests = listen();
    let mut worker = Worker {
        is_measurable: std::env::args().nth(1).as_deref() == Some(BUSY),
        ..Worker::default()
    };
    while let Ok(Envelope { id, message }) = requests.recv() {
        worker.handle(id, message);
    }
}

fn ready(protocol: u32, version: &str) {
    let version = version.to_owned();
    send(0, Event::Ready { protocol, version });
}

/// A message to a request in progress.
enum Control {
    Cancel,
    Run(RunCommand),
}

#[derive(Default)]
struct Worker {
    /// Whether measurements run until they are cancelled.
    is_endless: bool,
    /// Whether device checks have results. Others change nothing.
    is_measurable: bool,
    /// Number of device checks.
    checks: u32,
    unsent: Unsent,
    /// Requests in progress, each in a separate thread.
    controls: HashMap<RequestId, Sender<Control>>,
}

impl Worker {
    fn handle(&mut self, id: RequestId, request: Request) {
        match request {
            Request::Load(request) => {
                self.is_endless = request.kv == KvType::Q8_0;
                self.spawn(id, move |_| load(id, &request));
            }
            Request::Unload | Request::RemovePromptCache { .. } | Request::SetPromptCacheLimit { .. } => {
                send(id, Event::Done);
            }
            Request::Generate(request) => self.spawn(id, move |controls| generate(id, &request, &controls)),
            Request::Cancel { request } => self.control(request, Control::Cancel),
            Request::Count { .. } => send(id, Event::Counted { tokens: 1 }),
            Request::CountUnsent(request) => {
                let tokens = self.unsent.count(*request);
                send(id, Event::UnsentCounted { tokens });
            }
            Request::Devices => self.send_devices(id),
            Request::Check { .. } => {
                self.checks += 1;
                self.send_devices(id);
            }
            Request::Plan(request) => answer_plan(id, &request),
            Request::Measure => {
                let is_endless = self.is_endless;
                self.spawn(id, move |controls| measure(id, is_endless, &controls));
            }
            Request::Inspect(request) => self.spawn(id, move |_| training::inspect(id, &request)),
            Request::Train(request) => self.spawn(id, move |controls| training::train(id, *request, &controls)),
            Request::ControlRun { run, command } => self.control(run, Control::Run(command)),
            Request::Export(request) => self.spawn(id, move |controls| training::export(id, &request, &controls)),
            Request::Shutdown => exit(0),
        }
    }

    fn send_devices(&self, id: RequestId) {
        let check = (self.is_measurable && self.checks > 0).then(|| DeviceCheck {
            bytes_per_second: 1e9 * f64::from(self.checks),
            load: Some(if self.checks == 1 { 0.9 } else { 0.0 }),
            ..DeviceCheck::default()
        });
        let cpu = DeviceInfo {
            load: Some(0.0),
            backends: vec![BackendOption {
                check,
                ..BackendOption::default()
            }],
            ..cpu()
        };
        send(id, Event::Devices { devices: vec![cpu] });
    }

    fn spawn(&mut self, id: RequestId, work: impl FnOnce(Receiver<Control>) + Send + 'static) {
        let (sender, controls) = channel();
        self.controls.insert(id, sender);
        thread::spawn(move || work(controls));
    }

    fn control(&self, id: RequestId, control: Control) {
        if let Some(controls) = self.controls.get(&id) {
            // The request may have ended.
            let _ = controls.send(control);
        }
    }
}

/// The requests of standard input. The process exits when it is closed.
fn listen() -> Receiver<Envelope<Request>> {
    let (sender, requests) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let request = serde_json::from_str(&line).expect("a request");
            if sender.send(request).is_err() {
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
fn send(id: RequestId, message: Event) {
    let line = serde_json::to_string(&Envelope { id, message }).expect("an event");
    println!("{line}");
    std::io::stdout().flush().expect("a listener");
}

/// Ends a request with a failure.
fn fail(id: RequestId, code: ProblemCode, message: &str) {
    send(id, Event::Failed(Problem::detail(code, message)));
}

fn load(id: RequestId, request: &LoadRequest) {
    let name = request
        .path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let progress = |fraction| {
        let stage = Stage::ReadingWeights;
        send(id, Event::Progress { fraction, stage });
    };
    if !request.path.exists() {
        return fail(id, ProblemCode::FileUnreadable, "The model's file is gone.");
    }
    if request.draft.path().is_some_and(|draft| !draft.exists()) {
        return fail(id, ProblemCode::FileUnreadable, "The draft's file is gone.");
    }
    if name.contains("refuse") {
        return fail(id, ProblemCode::OutOfMemory, "The model does not fit.");
    }
    if name.contains("fatal") {
        exit(4);
    }
    if name.contains("slow") {
        progress(0.1);
        wait_for_kill();
    }
    progress(0.5);
    let plan_request = PlanRequest {
        path: request.path.clone(),
        context: request.context,
        gpu_layers: request.gpu_layers,
        kv: request.kv,
        draft: request.draft.clone(),
        ..PlanRequest::default()
    };
    let is_on_cpu = request.device.as_deref() == Some("cpu");
    let info = ModelInfo {
        path: request.path.clone(),
        name,
        architecture: "llama".into(),
        quantization: "Q4_1".into(),
        parameters: 1,
        file_size: 1,
        layers: 1,
        context: request.context.unwrap_or(LoadRequest::DEFAULT_CONTEXT),
        context_trained: 8192,
        device: "cpu".into(),
        threads: request.threads.unwrap_or(2),
        load_seconds: 0.0,
        notices: notices(),
        gpu_layers: if is_on_cpu {
            0
        } else {
            count_gpu_layers(request.gpu_layers)
        },
        layers_total: LAYERS,
        kv: request.kv,
        placement: plan(&plan_request).devices,
        draft: match request.draft {
            DraftChoice::None => None,
            DraftChoice::Auto | DraftChoice::Ngram => Some(DraftKind::Ngram),
            DraftChoice::FirstLayers { .. } => Some(DraftKind::FirstLayers),
            DraftChoice::Model { .. } => Some(DraftKind::Model),
        },
        thinking: ThinkingSupport {
            switch: Some(true),
            effort: true,
        },
    };
    send(id, Event::Loaded(info));
}

/// The notices of a model or run: one in another build.
fn notices() -> Vec<Notice> {
    let detail = "Another build of Hearth.".to_owned();
    is_copy().then_some(Notice::Detail { detail }).into_iter().collect()
}

/// Answers with a measurement. A model with a q8_0 cache measures until it is cancelled.
fn measure(id: RequestId, is_endless: bool, controls: &Receiver<Control>) {
    let stage = Stage::Measuring;
    send(id, Event::Progress { fraction: 0.5, stage });
    if is_endless {
        while !is_cancelled(controls) {}
        return fail(id, ProblemCode::Cancelled, "It was cancelled.");
    }
    let measured = Measured {
        prompt_tokens_per_second: 100.0,
        tokens_per_second: 50.0,
        prompt_tokens: 512,
        tokens: 128,
    };
    send(id, Event::Measured(measured));
}

/// Whether the request is cancelled within a pause.
fn is_cancelled(controls: &Receiver<Control>) -> bool {
    matches!(controls.recv_timeout(PAUSE), Ok(Control::Cancel))
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
        status: DeviceStatus::Cpu {
            cores: 2,
            instructions: "AVX2".into(),
        },
        ..DeviceInfo::default()
    }
}
