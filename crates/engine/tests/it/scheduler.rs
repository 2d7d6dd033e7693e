//! Several answers at a time: each is the one that is given alone.

use crate::common::*;
use hearth_protocol::{AdapterChoice, Event, FinishReason, GenerateRequest, Request, RequestId, SamplingParams};
use std::path::Path;

/// Prompts of different lengths, greedy and drawn.
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

/// Text, tokens and the reason of the end.
fn said(events: &[Event]) -> (String, Vec<u32>, FinishReason) {
    let summary = finished(events);
    (text(events), summary.ids.clone(), summary.reason)
}

/// The answer of a worker that gives no other.
fn alone(model: &Path, request: &GenerateRequest, context: u32) -> (String, Vec<u32>, FinishReason) {
    said(&Worker::with(model.to_owned(), context).answer(request.clone()))
}

/// All requests at once are answered as each alone, and again when the cache has their sessions.
fn answers_are_those_given_alone(model: &Path, requests: &[GenerateRequest], context: u32) {
    let alone: Vec<_> = requests.iter().map(|request| alone(model, request, context)).collect();
    let mut worker = Worker::with(model.to_owned(), context);
    for _ in 0..2 {
        let ids: Vec<RequestId> = requests
            .iter()
            .map(|request| worker.ask(Request::Generate(request.clone())))
            .collect();
        for ((id, request), alone) in ids.into_iter().zip(requests).zip(&alone) {
            let events = worker.rest(id);
            let starts = events.iter().filter(|event| matches!(event, Event::Started { .. }));
            assert_eq!(starts.count(), 1);
            assert_eq!(said(&events), *alone, "{:?}", request.prompt);
        }
    }
}

#[test]
fn answers_at_a_time_are_those_given_alone() {
    answers_are_those_given_alone(&model(), &requests(12), 4096);
}

#[test]
fn answers_of_a_model_with_windows_are_those_given_alone() {
    let model = fixture("models/gemma3.gguf");
    answers_are_those_given_alone(&model, &requests(8), 4096);
    let long = |number: u64| GenerateRequest {
        max_tokens: Some(600),
        ..generate(raw(&format!("Tale {number}. ").repeat(40)), 0)
    };
    let long: Vec<GenerateRequest> = (0..5).map(long).collect();
    answers_are_those_given_alone(&model, &long, 2048);
}

/// The cache has the windows of one answer, and of its snapshots: those make room for another.
#[test]
fn answers_of_a_model_with_windows_grow_together() {
    let mut worker = Worker::with(fixture("models/gemma3.gguf"), 4096);
    let ids = [1, 2].map(|seed| {
        let mut request = generate(raw(&format!("Tale {seed}. ").repeat(40)), 2000);
        (request.sampling.temperature, request.sampling.seed) = (3.0, Some(seed));
        worker.ask(Request::Generate(request))
    });
    let mut texts = [0, 0];
    loop {
        match worker.next() {
            (id, Event::Text { .. }) => texts[usize::from(id == ids[1])] += 1,
            (_, event) if event.is_last() => break,
            _ => {}
        }
    }
    assert!(texts.iter().all(|texts| *texts > 3), "{texts:?}");
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
    answers_are_those_given_alone(&model(), &requests, 2048);
    let [base, adapted] = [0, 2].map(|at| alone(&model(), &requests[at], 2048));
    assert_ne!(base.1, adapted.1, "the adapter changes the answer");
}

#[test]
fn an_answer_grows_while_a_long_prompt_is_read() {
    let mut worker = Worker::with_model(16_384);
    // Several, since the tiny model may end one soon.
    let short = [1, 2, 3, 4].map(|seed| {
        let mut request = generate(raw("Once upon a time"), 12_000);
        (request.sampling.temperature, request.sampling.seed) = (3.0, Some(seed));
        worker.ask(Request::Generate(request))
    });
    let long = worker.ask(Request::Generate(generate(raw(&"many words, ".repeat(1200)), 3)));
    worker.wait_for_prefill(long);
    let mut grown = 0;
    loop {
        match worker.next() {
            (id, Event::Text { .. }) if short.contains(&id) => grown += 1,
            (id, Event::Text { .. } | Event::Finished(_)) if id == long => break,
            _ => {}
        }
    }
    assert!(grown > 3, "{grown} pieces of text while the prompt was read");
}

#[test]
fn one_is_cancelled_and_the_others_continue() {
    let requests = requests(4);
    let mut worker = Worker::with_model(4096);
    let endless = worker.ask(Request::Generate(GenerateRequest {
        max_tokens: None,
        ..generate(raw("Once upon a time"), 0)
    }));
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|request| worker.ask(Request::Generate(request.clone())))
        .collect();
    while !matches!(worker.event(ids[2]), Event::Text { .. }) {}
    worker.ask(Request::Cancel { request: endless });
    for (request, &id) in requests.iter().zip(&ids) {
        assert_eq!(finished(&worker.rest(id)).ids, alone(&model(), request, 4096).1);
    }
    let end = worker.last(endless);
    assert!(matches!(end, Event::Finished(summary) if summary.reason != FinishReason::Length));
}

/// The cache has room for one context: the newest answers give their pages up and are read again.
#[test]
fn answers_that_do_not_fit_the_cache_together_are_complete() {
    let request = |number: u64| GenerateRequest {
        max_tokens: Some(300),
        ..generate(raw(&format!("Tale {number}. ").repeat(10)), 0)
    };
    let requests: Vec<GenerateRequest> = (0..6).map(request).collect();
    answers_are_those_given_alone(&model(), &requests, 512);
}

#[test]
fn a_measurement_waits_for_answers_and_holds_up_none() {
    let mut worker = Worker::with_model(1024);
    let first = worker.ask(Request::Generate(generate(raw("Once upon a time"), 100)));
    let measurement = worker.ask(Request::Measure);
    let second = worker.ask(Request::Generate(generate(raw("Once upon a time"), 5)));
    let mut ends = Vec::new();
    while ends.len() < 3 {
        let (id, event) = worker.next();
        if event.is_last() {
            assert!(!matches!(event, Event::Failed(_)), "{event:?}");
            ends.push(id);
        }
    }
    assert_eq!(ends, [second, first, measurement]);
}

/// Requests and cancellations in a fixed, irregular order: nothing is stuck, and what finishes is
/// what is given alone.
#[test]
fn many_requests_and_cancellations_leave_nothing_stuck() {
    const CONTEXT: u32 = 1024;
    let requests = requests(8);
    let alone: Vec<_> = requests
        .iter()
        .map(|request| alone(&model(), request, CONTEXT))
        .collect();
    let mut worker = Worker::with_model(CONTEXT);
    let (mut open, mut state, mut finished) = (Vec::new(), 7_u32, 0);
    for _ in 0..150 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = (state >> 16) as usize % requests.len();
        match (state >> 8) % 4 {
            0 if !open.is_empty() => {
                let (request, _) = open[number % open.len()];
                worker.ask(Request::Cancel { request });
            }
            1 if !open.is_empty() => {
                let (id, number): (RequestId, usize) = open.remove(number % open.len());
                let events = worker.rest(id);
                if said(&events).2 != FinishReason::Cancelled {
                    assert_eq!(said(&events), alone[number]);
                    finished += 1;
                }
            }
            _ => {
                let id = worker.ask(Request::Generate(requests[number].clone()));
                open.push((id, number));
            }
        }
    }
    for (id, number) in open {
        let events = worker.rest(id);
        if said(&events).2 != FinishReason::Cancelled {
            assert_eq!(said(&events), alone[number]);
            finished += 1;
        }
    }
    assert!(finished > 40, "{finished}");
}
