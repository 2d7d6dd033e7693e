//! Tests concurrent answers: each equals the answer of a worker that gives no other.

use crate::common::*;
use hearth_protocol::{AdapterChoice, Event, FinishReason, GenerateRequest, Request, RequestId, SamplingParams};
use std::path::Path;

/// Requests with prompts of different lengths, greedy and sampled.
fn requests(count: u64) -> Vec<GenerateRequest> {
    let request = |number: u64| {
        let prompt = format!("Tale {number}. ").repeat([1, 9, 3, 30][number as usize % 4]);
        let mut request = generate(raw(&prompt), [20, 7, 33, 12][number as usize / 2 % 4]);
        if number % 2 == 1 {
            request.sampling = SamplingParams {
                temperature: 1.5,
                repetition_penalty: 1.2,
                seed: Some(number),
                ..SamplingParams::default()
            };
        }
        request
    };
    (0..count).map(request).collect()
}

/// The result of an answer.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    ids: Vec<u32>,
    finish_reason: FinishReason,
}

fn outcome(events: &[Event]) -> Outcome {
    let summary = summary(events);
    Outcome {
        text: text(events),
        ids: summary.ids.clone(),
        finish_reason: summary.finish_reason,
    }
}

/// The answer of a worker that gives no other.
fn answer_alone(model: &Path, request: &GenerateRequest, context: u32) -> Outcome {
    outcome(&Worker::load(model.to_owned(), context).answer(request.clone()))
}

/// Asserts that concurrent answers equal answers given alone, also when the cache has their
/// sessions.
fn assert_same_as_alone(model: &Path, requests: &[GenerateRequest], context: u32) {
    let expected: Vec<_> = requests
        .iter()
        .map(|request| answer_alone(model, request, context))
        .collect();
    let mut worker = Worker::load(model.to_owned(), context);
    for _ in 0..2 {
        let ids: Vec<RequestId> = requests
            .iter()
            .map(|request| worker.send(Request::Generate(request.clone())))
            .collect();
        for ((id, request), expected) in ids.into_iter().zip(requests).zip(&expected) {
            let events = worker.events(id);
            let starts = events.iter().filter(|event| matches!(event, Event::Started { .. }));
            assert_eq!(starts.count(), 1);
            assert_eq!(outcome(&events), *expected, "{:?}", request.prompt);
        }
    }
}

#[test]
fn concurrent_answers_equal_answers_given_alone() {
    assert_same_as_alone(&model(), &requests(12), 4096);
}

#[test]
fn concurrent_answers_with_sliding_windows_equal_answers_given_alone() {
    let model = fixture("models/gemma3.gguf");
    assert_same_as_alone(&model, &requests(8), 4096);
    let long = |number: u64| GenerateRequest {
        max_tokens: Some(600),
        ..generate(raw(&format!("Tale {number}. ").repeat(40)), 0)
    };
    let long: Vec<GenerateRequest> = (0..5).map(long).collect();
    assert_same_as_alone(&model, &long, 2048);
}

/// The KV cache has room for the windows of one answer with its snapshots. The snapshots are
/// dropped for the other answer.
#[test]
fn answers_with_sliding_windows_advance_together() {
    let mut worker = Worker::load(fixture("models/gemma3.gguf"), 4096);
    let ids = [1, 2].map(|seed| {
        let mut request = generate(raw(&format!("Tale {seed}. ").repeat(40)), 2000);
        (request.sampling.temperature, request.sampling.seed) = (3.0, Some(seed));
        worker.send(Request::Generate(request))
    });
    let mut pieces = [0, 0];
    loop {
        match worker.next_event() {
            (id, Event::Text { .. }) => pieces[usize::from(id == ids[1])] += 1,
            (_, event) if event.is_last() => break,
            _ => {}
        }
    }
    assert!(pieces.iter().all(|pieces| *pieces > 3), "{pieces:?}");
}

#[test]
fn each_answer_has_its_own_adapters() {
    let choice = |scale| AdapterChoice {
        path: fixture("adapters/llama"),
        scale,
    };
    let adapters = [
        vec![],
        vec![choice(1.0)],
        vec![choice(8.0)],
        vec![choice(1.0), choice(0.5)],
    ];
    let requests: Vec<GenerateRequest> = (0..8)
        .map(|number| GenerateRequest {
            adapters: adapters[number % 4].clone(),
            ..generate(raw("Once upon a time there was a tale."), 40)
        })
        .collect();
    assert_same_as_alone(&model(), &requests, 2048);
    let [base, adapted] = [0, 2].map(|index| answer_alone(&model(), &requests[index], 2048));
    assert_ne!(base.ids, adapted.ids, "the adapter changes the answer");
}

#[test]
fn an_answer_grows_while_a_long_prompt_is_read() {
    let mut worker = Worker::load_llama(16_384);
    // Several answers, because the tiny model may end one soon.
    let short = [1, 2, 3, 4].map(|seed| {
        let mut request = generate(raw("Once upon a time"), 12_000);
        (request.sampling.temperature, request.sampling.seed) = (3.0, Some(seed));
        worker.send(Request::Generate(request))
    });
    let long = worker.send(Request::Generate(generate(raw(&"many words, ".repeat(1200)), 3)));
    worker.wait_for_prefill(long);
    let mut pieces = 0;
    loop {
        match worker.next_event() {
            (id, Event::Text { .. }) if short.contains(&id) => pieces += 1,
            (id, Event::Text { .. } | Event::Finished(_)) if id == long => break,
            _ => {}
        }
    }
    assert!(pieces > 3, "{pieces} pieces of text while the prompt was read");
}

#[test]
fn one_is_cancelled_and_the_others_continue() {
    let requests = requests(4);
    let mut worker = Worker::load_llama(4096);
    let endless = worker.send(Request::Generate(GenerateRequest {
        max_tokens: None,
        ..generate(raw("Once upon a time"), 0)
    }));
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|request| worker.send(Request::Generate(request.clone())))
        .collect();
    while !matches!(worker.event(ids[2]), Event::Text { .. }) {}
    worker.send(Request::Cancel { request: endless });
    for (request, &id) in requests.iter().zip(&ids) {
        assert_eq!(
            summary(&worker.events(id)).ids,
            answer_alone(&model(), request, 4096).ids
        );
    }
    let end = worker.last_event(endless);
    assert!(matches!(end, Event::Finished(summary) if summary.finish_reason != FinishReason::Length));
}

/// The KV cache has room for one context, so the newest answers are preempted and read again.
#[test]
fn answers_that_do_not_fit_the_cache_together_are_complete() {
    let request = |number: u64| GenerateRequest {
        max_tokens: Some(300),
        ..generate(raw(&format!("Tale {number}. ").repeat(10)), 0)
    };
    let requests: Vec<GenerateRequest> = (0..6).map(request).collect();
    assert_same_as_alone(&model(), &requests, 512);
}

#[test]
fn a_measurement_waits_for_answers_and_holds_up_none() {
    let mut worker = Worker::load_llama(1024);
    let first = worker.send(Request::Generate(generate(raw("Once upon a time"), 100)));
    let measurement = worker.send(Request::Measure);
    let second = worker.send(Request::Generate(generate(raw("Once upon a time"), 5)));
    let mut ends = Vec::new();
    while ends.len() < 3 {
        let (id, event) = worker.next_event();
        if event.is_last() {
            assert!(!matches!(event, Event::Failed(_)), "{event:?}");
            ends.push(id);
        }
    }
    assert_eq!(ends, [second, first, measurement]);
}

/// Requests and cancellations in a pseudorandom order: no request is stuck, and finished answers
/// equal answers given alone.
#[test]
fn many_requests_and_cancellations_leave_nothing_stuck() {
    const CONTEXT: u32 = 1024;
    let requests = requests(8);
    let expected: Vec<_> = requests
        .iter()
        .map(|request| answer_alone(&model(), request, CONTEXT))
        .collect();
    let mut worker = Worker::load_llama(CONTEXT);
    let (mut open, mut state, mut finished) = (Vec::new(), 7_u32, 0);
    for _ in 0..150 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = (state >> 16) as usize % requests.len();
        match (state >> 8) % 4 {
            0 if !open.is_empty() => {
                let (request, _) = open[number % open.len()];
                worker.send(Request::Cancel { request });
            }
            1 if !open.is_empty() => {
                let (id, number): (RequestId, usize) = open.remove(number % open.len());
                let events = worker.events(id);
                if outcome(&events).finish_reason != FinishReason::Cancelled {
                    assert_eq!(outcome(&events), expected[number]);
                    finished += 1;
                }
            }
            _ => {
                let id = worker.send(Request::Generate(requests[number].clone()));
                open.push((id, number));
            }
        }
    }
    for (id, number) in open {
        let events = worker.events(id);
        if outcome(&events).finish_reason != FinishReason::Cancelled {
            assert_eq!(outcome(&events), expected[number]);
            finished += 1;
        }
    }
    assert!(finished > 40, "{finished}");
}
