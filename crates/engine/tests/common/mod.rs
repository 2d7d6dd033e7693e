//! A worker in this process, with its real protocol and a tiny random model:
//! `tests/fixtures/models/llama.gguf`.

// Each test executable uses a part of this module.
#![allow(dead_code)]

use hearth_engine::worker::serve;
use hearth_formats::gguf::{Gguf, GgufWriter, Strings, TensorHeader, Value};
use hearth_protocol::{
    Envelope, Event, GenerateRequest, LoadRequest, Message, Part, ProblemCode, Prompt, Request, RequestId, Role,
    SamplingParams, Summary, append_text, fold_text,
};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time to wait for an event before a test fails. All tests take less than a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A worker and its client.
pub struct Worker {
    input: Option<PipeWriter>,
    events: mpsc::Receiver<Envelope<Event>>,
    /// Events that arrived while the client waited for events of other requests.
    unread: HashMap<RequestId, VecDeque<Event>>,
    thread: Option<JoinHandle<()>>,
    last_id: RequestId,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub fn start() -> Self {
        let (requests, input) = pipe().unwrap();
        let (output, events) = pipe().unwrap();
        let thread = std::thread::spawn(move || serve(BufReader::new(requests), events).unwrap());
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(serde_json::from_str(&line.unwrap()).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self {
            input: Some(input),
            events,
            unread: HashMap::new(),
            thread: Some(thread),
            last_id: 0,
        };
        assert!(matches!(worker.event(0), Event::Ready { .. }));
        worker
    }

    /// Starts a worker that has loaded the fixture `llama`.
    pub fn load_llama(context: u32) -> Self {
        Self::load(model(), context)
    }

    /// Starts a worker that has loaded a model.
    pub fn load(model: PathBuf, context: u32) -> Self {
        let mut worker = Self::start();
        let loaded = worker.call(Request::Load(load(model, context)));
        assert!(matches!(loaded, Event::Loaded(_)), "{loaded:?}");
        worker
    }

    /// Sends a request. Returns its id.
    pub fn send(&mut self, message: Request) -> RequestId {
        self.last_id += 1;
        let id = self.last_id;
        self.send_line(&serde_json::to_string(&Envelope { id, message }).unwrap());
        id
    }

    /// Sends a line, which may be invalid.
    pub fn send_line(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for the next event of any request.
    pub fn next_event(&mut self) -> (RequestId, Event) {
        if let Some((&id, events)) = self.unread.iter_mut().find(|(_, events)| !events.is_empty()) {
            return (id, events.pop_front().unwrap());
        }
        let Envelope { id, message } = self.events.recv_timeout(TIMEOUT).expect("an event");
        (id, message)
    }

    /// Waits for the next event of a request.
    pub fn event(&mut self, id: RequestId) -> Event {
        if let Some(event) = self.unread.get_mut(&id).and_then(VecDeque::pop_front) {
            return event;
        }
        loop {
            let event = self.events.recv_timeout(TIMEOUT).expect("an event");
            if event.id == id {
                return event.message;
            }
            self.unread.entry(event.id).or_default().push_back(event.message);
        }
    }

    /// Waits for the last event of a request.
    pub fn last_event(&mut self, id: RequestId) -> Event {
        self.events(id).pop().unwrap()
    }

    /// Sends a request, and waits for its last event.
    pub fn call(&mut self, request: Request) -> Event {
        let id = self.send(request);
        self.last_event(id)
    }

    /// Sends a generation request, and waits for all of its events.
    pub fn answer(&mut self, request: GenerateRequest) -> Vec<Event> {
        let id = self.send(Request::Generate(request));
        self.events(id)
    }

    /// Waits for the remaining events of a request, up to the last.
    pub fn events(&mut self, id: RequestId) -> Vec<Event> {
        let mut events = vec![self.event(id)];
        while !events.last().is_some_and(Event::is_last) {
            events.push(self.event(id));
        }
        events
    }

    /// Waits for the first progress of a prefill.
    pub fn wait_for_prefill(&mut self, id: RequestId) {
        while !matches!(self.event(id), Event::Prefill { .. }) {}
    }

    /// Closes the worker's input, and waits until the worker has ended.
    pub fn close(mut self) {
        drop(self.input.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The fixture `llama`.
pub fn model() -> PathBuf {
    fixture("models/llama.gguf")
}

pub fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(path)
}

/// Writes the fixture `llama` with a chat template.
pub fn write_model(path: &Path, template: &str) {
    write_with_keys(path, &model(), &[("tokenizer.chat_template", template.into())]);
}

/// Writes the fixture `llama` with a chat template and user-defined tokens with these texts. They
/// replace tokens of bytes that do not occur in UTF-8.
pub fn write_model_with(path: &Path, template: &str, tokens: &[&str]) {
    /// Type of a user-defined token in GGUF.
    const USER_DEFINED: i32 = 4;
    let gguf = Gguf::open(model()).expect("the fixture opens");
    let metadata = gguf.metadata();
    let texts = metadata
        .strings("tokenizer.ggml.tokens")
        .expect("strings")
        .expect("tokens");
    let mut texts: Vec<String> = texts.iter().map(str::to_owned).collect();
    let types = metadata.i32s("tokenizer.ggml.token_type").expect("integers");
    let mut types = types.expect("types").into_owned();
    for (token, byte) in tokens.iter().zip(["þ", "ÿ"]) {
        let id = texts.iter().position(|text| text == byte).expect("the byte's token");
        (*token).clone_into(&mut texts[id]);
        types[id] = USER_DEFINED;
    }
    let keys = [
        ("tokenizer.chat_template", template.into()),
        ("tokenizer.ggml.tokens", texts.iter().collect::<Strings>().into()),
        ("tokenizer.ggml.token_type", types.into()),
    ];
    write_with_keys(path, &model(), &keys);
}

/// Writes a copy of a model with these metadata keys.
pub fn write_with_keys(path: &Path, model: &Path, keys: &[(&str, Value)]) {
    let gguf = Gguf::open(model).expect("the fixture opens");
    let header = |info: &hearth_formats::gguf::TensorInfo| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    };
    let headers: Vec<_> = gguf.tensors().map(header).collect();
    let mut metadata = gguf.metadata().clone();
    for (key, value) in keys {
        metadata.insert(*key, value.clone());
    }
    let file = File::create(path).expect("a file");
    let mut writer = GgufWriter::begin(file, &metadata, &headers).expect("a header");
    for header in &headers {
        let bytes = gguf.tensor(&header.name).expect("it exists").bytes().to_vec();
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("it is complete");
}

/// A load request with two threads.
pub fn load(path: PathBuf, context: u32) -> LoadRequest {
    LoadRequest {
        path,
        context: Some(context),
        threads: Some(2),
        ..LoadRequest::default()
    }
}

/// A greedy generation request.
pub fn generate(prompt: Prompt, max_tokens: u32) -> GenerateRequest {
    let sampling = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    GenerateRequest {
        sampling,
        max_tokens: Some(max_tokens),
        ..GenerateRequest::new(prompt)
    }
}

pub fn raw(text: &str) -> Prompt {
    Prompt::Raw(text.to_owned())
}

pub fn message(role: Role, content: &str) -> Message {
    Message::of_text(role, content)
}

/// The summary of a finished answer.
pub fn summary(events: &[Event]) -> &Summary {
    match events.last() {
        Some(Event::Finished(summary)) => summary,
        other => panic!("did not finish: {other:?}"),
    }
}

/// The code and the sentence of a failed request's problem.
pub fn failed(events: &[Event]) -> (ProblemCode, String) {
    match events.last() {
        Some(Event::Failed(problem)) => (problem.code, problem.to_string()),
        other => panic!("did not fail: {other:?}"),
    }
}

/// The parts of an answer after these events. `initial` are the parts of a continued answer.
pub fn parts(initial: &[Part], events: &[Event]) -> Vec<Part> {
    let mut parts = initial.to_vec();
    for event in events {
        match event {
            Event::Started {
                so_far: Some(so_far), ..
            } => parts.clone_from(so_far),
            Event::Text { kind, text, .. } => append_text(&mut parts, *kind, text),
            Event::Folded => fold_text(&mut parts),
            _ => {}
        }
    }
    parts
}

/// The text of an answer.
pub fn text(events: &[Event]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        Event::Text { text, .. } => Some(&**text),
        _ => None,
    });
    pieces.collect()
}
