//! A worker in this process with its real protocol and a tiny random model:
//! `tests/fixtures/models/llama.gguf`.

// Each test program uses a part of it.
#![allow(dead_code)]

use hearth_engine::worker::serve;
use hearth_protocol::{
    Event, GenerateRequest, LoadRequest, Message, ProblemCode, Prompt, Request, Role, SamplingParams, Summary,
};
use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Time limit of an event, so that a hang fails; all tests take less than a tenth of it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Worker {
    input: Option<PipeWriter>,
    events: mpsc::Receiver<Event>,
    serving: Option<JoinHandle<()>>,
}

impl Worker {
    /// Start a worker and wait until it is ready.
    pub fn start() -> Self {
        let (requests, input) = pipe().unwrap();
        let (output, events) = pipe().unwrap();
        let serving = std::thread::spawn(move || serve(BufReader::new(requests), events).unwrap());
        let (heard, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if heard.send(serde_json::from_str(&line.unwrap()).unwrap()).is_err() {
                    return;
                }
            }
        });
        let worker = Self {
            input: Some(input),
            events,
            serving: Some(serving),
        };
        assert!(matches!(worker.next(), Event::Ready { .. }));
        worker
    }

    pub fn with_model(context: u32) -> Self {
        let mut worker = Self::start();
        worker.ask(&Request::Load(load(model(), context)));
        assert!(matches!(worker.last_of_load(), Event::Loaded(_)));
        worker
    }

    pub fn ask(&mut self, request: &Request) {
        self.say(&serde_json::to_string(request).unwrap());
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    pub fn last_of_load(&self) -> Event {
        loop {
            match self.next() {
                Event::LoadProgress { .. } => {}
                event => return event,
            }
        }
    }

    /// All events of a generation.
    pub fn answer(&mut self, request: GenerateRequest) -> Vec<Event> {
        self.ask(&Request::Generate(request));
        self.rest_of_answer()
    }

    pub fn rest_of_answer(&self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            events.push(self.next());
            if let Some(Event::Finished { .. } | Event::GenerationFailed { .. }) = events.last() {
                return events;
            }
        }
    }

    /// Close its input, and wait for its end.
    pub fn close(mut self) {
        drop(self.input.take());
        self.serving.take().unwrap().join().unwrap();
    }
}

pub fn model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf")
}

pub fn load(path: PathBuf, context: u32) -> LoadRequest {
    LoadRequest {
        path,
        context: Some(context),
        threads: Some(2),
        ..LoadRequest::default()
    }
}

pub fn generate(id: u64, prompt: Prompt, max_tokens: u32) -> GenerateRequest {
    let sampling = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    GenerateRequest {
        id,
        prompt,
        sampling,
        max_tokens: Some(max_tokens),
        stop: Vec::new(),
        adapters: Vec::new(),
        conversation: None,
    }
}

pub fn raw(text: &str) -> Prompt {
    Prompt::Raw(text.to_owned())
}

pub fn message(role: Role, content: &str) -> Message {
    Message {
        role,
        content: content.to_owned(),
    }
}

pub fn finished(events: &[Event]) -> &Summary {
    match events.last() {
        Some(Event::Finished { summary, .. }) => summary,
        other => panic!("did not finish: {other:?}"),
    }
}

pub fn failed(events: &[Event]) -> (ProblemCode, &str) {
    match events.last() {
        Some(Event::GenerationFailed { problem, .. }) => (problem.code, &problem.message),
        other => panic!("did not fail: {other:?}"),
    }
}
