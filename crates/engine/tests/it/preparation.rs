//! Preparing a prompt delays no answer in progress, and ends with its request.

use crate::common::*;
use hearth_protocol::{
    AdapterChoice, Event, FinishReason, GenerateRequest, Message, ProblemCode, Prompt, Request, RequestId, Role,
};
use std::time::{Duration, Instant};

/// A template that works until its limit for a conversation with the word `slow`: for seconds.
const TEMPLATE: &str = "{% if 'slow' in messages[0].content %}{% for a in range(9999) %}{% for b in range(9999) %}\
                        {% endfor %}{% endfor %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";

/// Pieces of another answer during a preparation. If one waited for the other, it would be a few.
const PIECES: usize = 50;

fn chat(text: &str) -> Prompt {
    Prompt::Chat(vec![Message::of_text(Role::User, text)])
}

/// A worker whose model has [`TEMPLATE`], and an answer in progress.
fn answering(folder: &tempfile::TempDir) -> (Worker, RequestId) {
    let path = folder.path().join("slow.gguf");
    write_model(&path, TEMPLATE);
    let mut worker = Worker::with(path, 1 << 17);
    let request = GenerateRequest {
        ignore_end: true,
        ..generate(raw("Once upon a time"), 130_000)
    };
    let answer = worker.ask(Request::Generate(request));
    while !matches!(worker.event(answer), Event::Text { .. }) {}
    (worker, answer)
}

/// The last event of a request, and the pieces of the answer in progress until then.
fn end(worker: &mut Worker, request: RequestId, answer: RequestId) -> (Event, usize) {
    let mut pieces = 0;
    loop {
        match worker.next() {
            (id, event) if id == request && event.is_last() => return (event, pieces),
            (id, Event::Text { .. }) if id == answer => pieces += 1,
            (id, event) => assert!(id == request || !event.is_last(), "{event:?}"),
        }
    }
}

#[test]
fn a_slow_template_or_a_long_text_delays_no_other_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = answering(&folder);
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
        let id = worker.ask(request);
        let (event, pieces) = end(&mut worker, id, answer);
        match code {
            Some(code) => assert_eq!(failed(&[event]).0, code),
            None => assert!(
                matches!(event, Event::Counted { tokens } if tokens > 1 << 20),
                "{event:?}"
            ),
        }
        assert!(pieces >= PIECES, "{pieces} pieces meanwhile");
    }
}

#[test]
fn reading_adapters_delays_no_other_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = answering(&folder);
    let choice = |path| AdapterChoice { path, scale: 1.0 };
    let mut request = generate(raw("Once upon a time"), 1);
    // The last one is missing, so that nothing but reading is done with them.
    request.adapters = vec![choice(fixture("adapters/llama")); 2000];
    request.adapters.push(choice(folder.path().join("missing")));
    let id = worker.ask(Request::Generate(request));
    let (event, pieces) = end(&mut worker, id, answer);
    assert_eq!(failed(&[event]).0, ProblemCode::AdapterInvalid);
    assert!(pieces >= PIECES, "{pieces} pieces meanwhile");
}

#[test]
fn a_preparation_is_cancelled_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = answering(&folder);
    let prompt = |text: &str| Request::Generate(generate(chat(text), 1));
    let began = Instant::now();
    let id = worker.ask(prompt("slow"));
    assert_eq!(failed(&[end(&mut worker, id, answer).0]).0, ProblemCode::Template);
    let one = began.elapsed();
    // Three for each thread.
    let slow = [(); 12].map(|()| worker.ask(prompt("slow")));
    for request in slow {
        worker.ask(Request::Cancel { request });
    }
    for id in slow {
        assert_eq!(finished(&worker.rest(id)).reason, FinishReason::Cancelled);
    }
    // The threads are free again: each would have taken the time of three.
    let began = Instant::now();
    let next = worker.ask(prompt("quick"));
    let (event, _) = end(&mut worker, next, answer);
    assert_eq!(finished(&[event]).tokens, 1);
    assert!(began.elapsed() < one, "{:?}, and {one:?} alone", began.elapsed());
    worker.ask(Request::Cancel { request: answer });
    assert_eq!(finished(&worker.rest(answer)).reason, FinishReason::Cancelled);
    worker.close();
}

#[test]
fn closing_the_input_ends_a_worker_that_prepares() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, _) = answering(&folder);
    worker.ask(Request::Generate(generate(chat("slow"), 1)));
    worker.close();
}

#[test]
fn a_schema_that_takes_long_delays_no_other_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut worker, answer) = answering(&folder);
    let with_schema = |schema: &str| {
        Request::Generate(GenerateRequest {
            json_schema: Some(schema.to_owned()),
            ..generate(raw("Once upon a time"), 1)
        })
    };
    // Each further pattern doubles the derivatives of their intersection: seconds.
    let pattern = |n: u8| {
        let last = char::from(b'b' + n);
        format!(r#"{{"type": "string", "pattern": "^.*[a-{last}].{{{}}}x"}}"#, 20 + n)
    };
    let slow = format!(
        r#"{{"allOf": [{}]}}"#,
        (0..20).map(pattern).collect::<Vec<_>>().join(",")
    );
    let slow = [(); 8].map(|()| worker.ask(with_schema(&slow)));
    let plain = worker.ask(Request::Generate(generate(raw("Once upon a time"), 1)));
    // None of the others ends before it.
    let (event, _) = end(&mut worker, plain, answer);
    assert_eq!(finished(&[event]).tokens, 1);
    for request in slow {
        worker.ask(Request::Cancel { request });
    }
    for request in slow {
        let (event, _) = end(&mut worker, request, answer);
        assert_eq!(finished(&[event]).reason, FinishReason::Cancelled);
    }
    let began = Instant::now();
    let simple = worker.ask(with_schema(r#"{"type": "boolean"}"#));
    let (event, _) = end(&mut worker, simple, answer);
    assert_eq!(finished(&[event]).tokens, 1);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
