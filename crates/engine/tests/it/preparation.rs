//! Tests that the preparation of a prompt does not delay answers in progress, and can be cancelled.

use crate::common::*;
use hearth_protocol::{
    AdapterChoice, Event, FinishReason, GenerateRequest, Message, ProblemCode, Prompt, Request, RequestId, Role,
};
use std::time::{Duration, Instant};

/// A template that runs for seconds, until its limit, for a conversation with the word `slow`.
const TEMPLATE: &str = "{% if 'slow' in messages[0].content %}{% for a in range(9999) %}{% for b in range(9999) %}\
                        {% endfor %}{% endfor %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";

/// Minimum number of pieces of another answer during a preparation. If the answer waited for the
/// preparation, there would be a few pieces only.
const MIN_PIECES: usize = 50;

fn chat(text: &str) -> Prompt {
    Prompt::Chat(vec![Message::of_text(Role::User, text)])
}

/// Starts a worker whose model has [`TEMPLATE`], with an answer in progress.
fn start_answer(folder: &tempfile::TempDir) -> (Worker, RequestId) {
    let path = folder.path().join("slow.gguf");
    write_model(&path, TEMPLATE);
    let mut worker = Worker::load(path, 1 << 17);
    let request = GenerateRequest {
        ignore_end: true,
        ..generate(raw("Once upon a time"), 130_000)
    };
    let answer = worker.send(Request::Generate(request));
    while !matches!(worker.event(answer), Event::Text { .. }) {}
    (worker, answer)
}

/// Waits for the last event of a request. Also returns the number of pieces of the answer in
/// progress until then.
fn wait_for_end(worker: &mut Worker, request: RequestId, answer: RequestId) -> (Event, usize) {
    let mut pieces = 0;
    loop {
        match worker.next_event() {
            (id, event) if id == request && event.is_last() => return (event, pieces),
            (id, Event::Text { .. }) if id == answer => pieces += 1,
            (id, event) => assert!(id == request || !event.is_last(), "{event:?}"),
        }
    }
}

#[test]
fn a_slow_template_or_a_long_text_delays_no_other_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = start_answer(&folder);
    let long = "many words ".repeat(1 << 20);
    let count = Request::Count {
        messages: vec![Message::of_text(Role::User, long.as_str())],
    };
    for (request, code) in [
        (
            Request::Generate(generate(chat("slow"), 1)),
            Some(ProblemCode::Template),
        ),
        (
            Request::Generate(generate(raw(&long), 1)),
            Some(ProblemCode::PromptTooLong),
        ),
        (count, None),
    ] {
        let id = worker.send(request);
        let (event, pieces) = wait_for_end(&mut worker, id, answer);
        match code {
            Some(code) => assert_eq!(failed(&[event]).0, code),
            None => assert!(
                matches!(event, Event::Counted { tokens } if tokens > 1 << 20),
                "{event:?}"
            ),
        }
        assert!(pieces >= MIN_PIECES, "{pieces} pieces meanwhile");
    }
}

#[test]
fn reading_adapters_delays_no_other_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = start_answer(&folder);
    let choice = |path| AdapterChoice { path, scale: 1.0 };
    let mut request = generate(raw("Once upon a time"), 1);
    // The last adapter is missing, so the request fails after the others are read.
    request.adapters = vec![choice(fixture("adapters/llama")); 2000];
    request.adapters.push(choice(folder.path().join("missing")));
    let id = worker.send(Request::Generate(request));
    let (event, pieces) = wait_for_end(&mut worker, id, answer);
    assert_eq!(failed(&[event]).0, ProblemCode::AdapterInvalid);
    assert!(pieces >= MIN_PIECES, "{pieces} pieces meanwhile");
}

#[test]
fn a_preparation_is_cancelled_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = start_answer(&folder);
    let prompt = |text: &str| Request::Generate(generate(chat(text), 1));
    let start = Instant::now();
    let id = worker.send(prompt("slow"));
    assert_eq!(
        failed(&[wait_for_end(&mut worker, id, answer).0]).0,
        ProblemCode::Template
    );
    let single = start.elapsed();
    // Three preparations for each thread.
    let slow = [(); 12].map(|()| worker.send(prompt("slow")));
    for request in slow {
        worker.send(Request::Cancel { request });
    }
    for id in slow {
        assert_eq!(summary(&worker.events(id)).finish_reason, FinishReason::Cancelled);
    }
    // The threads are free again. Without cancellation each would be busy for three preparations.
    let start = Instant::now();
    let next = worker.send(prompt("quick"));
    let (event, _) = wait_for_end(&mut worker, next, answer);
    assert_eq!(summary(&[event]).tokens, 1);
    assert!(
        start.elapsed() < single,
        "{:?}, and {single:?} for one preparation",
        start.elapsed()
    );
    worker.send(Request::Cancel { request: answer });
    assert_eq!(summary(&worker.events(answer)).finish_reason, FinishReason::Cancelled);
    worker.close();
}

#[test]
fn closing_the_input_ends_a_worker_that_prepares() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, _) = start_answer(&folder);
    worker.send(Request::Generate(generate(chat("slow"), 1)));
    worker.close();
}

#[test]
fn a_schema_that_takes_long_delays_no_other_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = start_answer(&folder);
    let with_schema = |schema: &str| {
        Request::Generate(GenerateRequest {
            json_schema: Some(schema.to_owned()),
            ..generate(raw("Once upon a time"), 1)
        })
    };
    // Each pattern doubles the number of derivatives of the intersection, so that it takes seconds.
    let pattern = |n: u8| {
        let last = char::from(b'b' + n);
        format!(r#"{{"type": "string", "pattern": "^.*[a-{last}].{{{}}}x"}}"#, 20 + n)
    };
    let slow = format!(
        r#"{{"allOf": [{}]}}"#,
        (0..20).map(pattern).collect::<Vec<_>>().join(",")
    );
    let slow = [(); 8].map(|()| worker.send(with_schema(&slow)));
    let plain = worker.send(Request::Generate(generate(raw("Once upon a time"), 1)));
    // The answer does not wait for the schemas.
    let (event, _) = wait_for_end(&mut worker, plain, answer);
    assert_eq!(summary(&[event]).tokens, 1);
    for request in slow {
        worker.send(Request::Cancel { request });
    }
    for request in slow {
        let (event, _) = wait_for_end(&mut worker, request, answer);
        assert_eq!(summary(&[event]).finish_reason, FinishReason::Cancelled);
    }
    let start = Instant::now();
    let simple = worker.send(with_schema(r#"{"type": "boolean"}"#));
    let (event, _) = wait_for_end(&mut worker, simple, answer);
    assert_eq!(summary(&[event]).tokens, 1);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
