//! Arbitrary lines to a worker: a valid request round-trips; an invalid one is answered with at
//! most one event, and the worker continues.

use crate::seeds::Seed;
use hearth_protocol::{Envelope, Event, Message, Request, Role};
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

/// Output of a worker.
#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no thread panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn run(bytes: &[u8]) -> bool {
    let lines = || {
        bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
    };
    let read: Vec<Envelope<Request>> = lines().filter_map(|line| serde_json::from_slice(line).ok()).collect();
    for request in &read {
        let text = serde_json::to_vec(request).expect("it is written");
        let again: Envelope<Request> = serde_json::from_slice(&text).expect("what Hearth wrote");
        // Compare serialized text: a setting may be NaN.
        assert_eq!(serde_json::to_vec(&again).expect("it is written"), text);
    }
    // Requests that would load or train are not served.
    if read.is_empty() {
        let output = OutputBuffer::default();
        hearth_engine::worker::serve(Cursor::new(bytes.to_vec()), output.clone()).expect("its input can be read");
        let output = output.0.lock().expect("no thread panicked");
        let events = output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let events = events.map(|line| serde_json::from_slice::<Envelope<Event>>(line).expect("an event a line"));
        assert!(events.count() <= 1 + lines().count());
    }
    !read.is_empty()
}

pub fn seeds() -> Vec<Seed> {
    let message = Message::of_text(Role::User, "Hi");
    let requests = [
        Request::Load(hearth_protocol::LoadRequest::default()),
        Request::Unload,
        Request::Cancel { request: 1 },
        Request::Count {
            messages: vec![message],
        },
        Request::Devices,
        Request::Check {
            device: "gpu0".to_owned(),
        },
        Request::Measure,
        Request::RemovePromptCache { conversation: -4 },
        Request::SetPromptCacheLimit { max_bytes: 5 },
        Request::Shutdown,
    ];
    let written = requests.into_iter().map(|message| {
        let request = Envelope { id: 7, message };
        serde_json::to_string(&request).expect("it is written")
    });
    let mut inputs: Vec<Seed> = written.map(|line| Seed::new("a request", line)).collect();
    // Requests with settings, as written by the window.
    let others = [
        r#"{"id":1,"type":"generate","prompt":{"chat":[{"role":"system","parts":[{"type":"text","text":"Be brief."}]},{"role":"user","parts":[{"type":"file","name":"a","mediaType":"text/plain","text":"A"},{"type":"toolResult","id":"1","name":"f","text":"2"}]}]},"sampling":{"temperature":0.7,"topK":40,"topP":0.9,"minP":null},"max_tokens":16,"stop":["\n"],"conversation":-3}"#,
        r#"{"id":1,"type":"generate","prompt":{"raw":"Once"},"sampling":{"xtcProbability":0.5,"dryMultiplier":null,"dryBreakers":["\n"],"mirostat":true,"logitBias":[{"text":"a","bias":null},{"id":3,"bias":-1.5}],"bannedStrings":["é"]},"max_tokens":16,"stop":[]}"#,
        r#"{"id":1,"type":"generate","prompt":{"raw":"Once"},"sampling":{},"max_tokens":null,"stop":[]}"#,
        r#"{"id":2,"type":"plan","path":"m.gguf","context":4096,"device":"gpu0,gpu1","assume_gpu":8589934592}"#,
        r#"{"id":4,"type":"inspect","model":"m.gguf","data":{"path":"d.jsonl","mapping":{"prompt":"q","answer":"a"},"skip_broken":true},"sequence":null,"previews":3}"#,
        r#"{"id":3,"type":"count_unsent","conversation":7,"before":{"messages":[],"thinking":{}},"text":{"base":null,"revision":1,"start":0,"removed":0,"inserted":"Hi"},"files":null}"#,
        r#"{"id":5,"type":"control_run","run":4,"command":"pause"}"#,
    ];
    inputs.extend(others.map(|line| Seed::new("a request", line)));
    inputs
}
