//! Tests the worker with its real protocol and a tiny random model:
//! `tests/fixtures/models/llama.gguf`.

use crate::common::*;
use hearth_formats::gguf::{GgufWriter, Strings, Value};
use hearth_protocol::{
    ConversationId, Event, FinishReason, GenerateRequest, KvType, LoadRequest, Message, Notice, PlanRequest,
    ProblemCode, Prompt, PromptCacheFolder, Request, Role, SamplingParams,
};
use std::fs::File;
use std::path::Path;

#[test]
fn it_loads_answers_and_unloads() {
    let mut worker = Worker::start();
    let id = worker.send(Request::Load(load(model(), 100)));
    let mut fractions = Vec::new();
    let info = loop {
        match worker.event(id) {
            Event::Progress { fraction, .. } => fractions.push(fraction),
            Event::Loaded(info) => break info,
            other => panic!("{other:?}"),
        }
    };
    assert!(!fractions.is_empty() && fractions.is_sorted() && fractions.iter().all(|f| (0.0..=1.0).contains(f)));
    assert_eq!(
        (info.architecture.as_str(), info.layers, info.context, info.threads),
        ("llama", 2, 100, 2)
    );
    assert!(
        info.notices
            .iter()
            .any(|notice| notice.to_string().contains("template")),
        "{info:?}"
    );

    let first = worker.answer(generate(raw("Once upon a time"), 12));
    let Event::Started {
        prompt_tokens,
        cached_tokens: 0,
        dropped: None,
        so_far: None,
    } = first[0]
    else {
        panic!("{first:?}")
    };
    let first_summary = summary(&first);
    assert_eq!(
        (first_summary.prompt_tokens, first_summary.context),
        (prompt_tokens, 100)
    );
    assert_eq!(first_summary.tokens as usize, first_summary.ids.len());
    assert!(first_summary.ids.len() <= 12 && first_summary.context_used == prompt_tokens + first_summary.tokens);

    let again = worker.answer(generate(raw("Once upon a time"), 12));
    assert!(
        matches!(again[0], Event::Started { cached_tokens, .. } if cached_tokens == prompt_tokens - 1),
        "{again:?}"
    );
    assert_eq!(summary(&again).ids, first_summary.ids);

    assert_eq!(worker.call(Request::Unload), Event::Done);
    assert_eq!(failed(&worker.answer(generate(raw("Once"), 1))).0, ProblemCode::NoModel);
    worker.close();
}

#[test]
fn the_text_of_the_events_is_the_text_of_the_ids() {
    let mut worker = Worker::load_llama(128);
    let mut request = generate(raw("Once upon a time"), 40);
    request.sampling = SamplingParams {
        temperature: 2.0,
        seed: Some(3),
        ..SamplingParams::default()
    };
    let events = worker.answer(request.clone());
    let gguf = hearth_formats::gguf::Gguf::open(model()).unwrap();
    let tokenizer = hearth_formats::tokenizer::Tokenizer::from_gguf(&gguf).unwrap();
    let ids: Vec<u32> = summary(&events)
        .ids
        .iter()
        .copied()
        .filter(|&id| !tokenizer.is_special(id))
        .collect();
    assert!(!ids.is_empty());
    let bytes: Vec<u8> = ids
        .iter()
        .flat_map(|&id| tokenizer.token_bytes(id).unwrap().to_vec())
        .collect();
    assert_eq!(text(&events), String::from_utf8_lossy(&bytes));

    // The same answer ends before a stop string in it.
    let answer = text(&events);
    let stop: String = answer.chars().skip(5).take(2).collect();
    let before_stop = answer.split(&stop).next().unwrap().to_owned();
    let events = worker.answer(GenerateRequest {
        stop: vec![stop],
        ..request
    });
    assert_eq!(
        (text(&events), summary(&events).finish_reason),
        (before_stop, FinishReason::Stop)
    );
}

/// A request with a prompt that takes a while to read.
fn long_prompt() -> GenerateRequest {
    generate(raw(&"many words, ".repeat(1200)), 1)
}

#[test]
fn a_prefill_can_be_cancelled() {
    let mut worker = Worker::load_llama(16_384);
    let long = worker.send(Request::Generate(long_prompt()));
    worker.wait_for_prefill(long);
    worker.send(Request::Cancel { request: long });
    let next = worker.answer(generate(raw("Once"), 1));
    assert_eq!(summary(&worker.events(long)).finish_reason, FinishReason::Cancelled);
    assert_eq!(summary(&next).tokens, 1);
}

#[test]
fn requests_that_wait_for_a_load_are_cancelled_at_once() {
    let mut worker = Worker::start();
    let load = worker.send(Request::Load(load(model(), 256)));
    let answers = [(); 3].map(|()| worker.send(Request::Generate(generate(raw("Once"), 1))));
    worker.send(Request::Cancel { request: answers[1] });
    let measurement = worker.send(Request::Measure);
    worker.send(Request::Cancel { request: measurement });
    assert_eq!(
        summary(&worker.events(answers[1])).finish_reason,
        FinishReason::Cancelled
    );
    assert_eq!(failed(&worker.events(measurement)).0, ProblemCode::Cancelled);
    assert!(matches!(worker.last_event(load), Event::Loaded(_)));
    for id in [answers[0], answers[2]] {
        assert_eq!(summary(&worker.events(id)).tokens, 1);
    }
}

#[test]
fn a_load_replaces_another_and_cancels_answers() {
    let mut worker = Worker::load_llama(16_384);
    let answer = worker.send(Request::Generate(long_prompt()));
    worker.wait_for_prefill(answer);
    let loads = [64, 80, 96].map(|context| worker.send(Request::Load(load(model(), context))));
    assert_eq!(summary(&worker.events(answer)).finish_reason, FinishReason::Cancelled);
    let [first, second, third] = loads.map(|id| worker.last_event(id));
    for replaced in [first, second] {
        let is_loaded = matches!(replaced, Event::Loaded(_));
        assert!(
            is_loaded || failed(std::slice::from_ref(&replaced)).0 == ProblemCode::Cancelled,
            "{replaced:?}"
        );
    }
    assert!(matches!(third, Event::Loaded(info) if info.context == 96));
}

#[test]
fn an_answer_can_be_cancelled_during_plans() {
    const PLANS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.gguf");
    // The header of this file is slow to read, and it is not a model.
    let texts: Strings = std::iter::repeat_n("text", 2_000_000).collect();
    let metadata = [("texts".to_owned(), Value::from(texts))].into_iter().collect();
    let file = File::create(&path).unwrap();
    GgufWriter::begin(file, &metadata, &[]).unwrap().finish().unwrap();
    let mut worker = Worker::load_llama(16_384);
    let answer = worker.send(Request::Generate(long_prompt()));
    worker.wait_for_prefill(answer);
    let plan = || {
        Request::Plan(PlanRequest {
            path: path.clone(),
            ..PlanRequest::default()
        })
    };
    let plans: Vec<_> = (0..PLANS).map(|_| worker.send(plan())).collect();
    worker.send(Request::Cancel { request: answer });
    let mut completed_plans = 0;
    loop {
        match worker.next_event() {
            (id, Event::Finished(summary)) if id == answer => {
                assert_eq!(summary.finish_reason, FinishReason::Cancelled);
                break;
            }
            (id, event) if id != answer => {
                assert!(matches!(event, Event::Failed(_)), "{event:?}");
                completed_plans += 1;
            }
            _ => {}
        }
    }
    assert!(
        completed_plans < PLANS,
        "all plans were completed before the cancellation"
    );
    for &id in &plans[completed_plans..] {
        assert!(matches!(worker.event(id), Event::Failed(_)));
    }
    worker.close();
}

#[test]
fn turns_that_do_not_fit_are_dropped_and_reported() {
    let mut worker = Worker::load_llama(128);
    let turn = |n: usize| {
        [
            message(Role::User, &format!("question {n}")),
            message(Role::Assistant, "an answer"),
        ]
    };
    let mut messages = vec![message(Role::System, "be kind")];
    messages.extend((0..40).flat_map(turn));
    messages.push(message(Role::User, "and now?"));
    let events = worker.answer(generate(Prompt::Chat(messages.clone()), 1));
    let Event::Started {
        prompt_tokens,
        dropped: Some(dropped),
        ..
    } = events[0]
    else {
        panic!("{events:?}")
    };
    // A quarter of the context is reserved for the answer, or the requested maximum if it is less.
    assert!(
        prompt_tokens <= 127 && dropped.messages % 2 == 0 && (2..=80).contains(&dropped.messages),
        "{dropped:?}"
    );

    let mut count = |messages: &[Message]| {
        worker.call(Request::Count {
            messages: messages.to_vec(),
        })
    };
    let tokens = prompt_tokens + dropped.tokens;
    assert_eq!(count(&messages), Event::Counted { tokens });
    messages.drain(1..=dropped.messages as usize);
    let tokens = prompt_tokens;
    assert_eq!(count(&messages), Event::Counted { tokens });
}

#[test]
fn invalid_requests_are_refused_and_the_worker_continues() {
    let mut worker = Worker::load_llama(64);
    let long = worker.answer(generate(raw(&"x y ".repeat(100)), 100));
    let (code, sentence) = failed(&long);
    assert!(
        code == ProblemCode::PromptTooLong && sentence.contains("64") && sentence.contains("48"),
        "{sentence}"
    );
    assert_eq!(
        failed(&worker.answer(generate(Prompt::Chat(Vec::new()), 1))).0,
        ProblemCode::BadRequest
    );
    let mut request = generate(raw("Once"), 1);
    request.sampling.top_p = 7.0;
    assert_eq!(failed(&worker.answer(request)).0, ProblemCode::BadRequest);
    worker.send_line("{\"type\":\"generate\",\"id\":444}");
    assert_eq!(failed(&worker.events(444)).0, ProblemCode::BadRequest);
    worker.send_line("not json at all");
    worker.send(Request::Cancel { request: 99 });
    assert_eq!(
        summary(&worker.answer(generate(raw("Once"), 0))).finish_reason,
        FinishReason::Length
    );
    assert!(matches!(worker.call(Request::Devices), Event::Devices { devices } if devices[0].id == "cpu"));
}

#[test]
fn load_failures_have_their_codes() {
    let mut worker = Worker::start();
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(model()).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let truncated = file("truncated.gguf", &bytes[..bytes.len() / 2]);
    let text = file("text.gguf", b"a letter, not a model");
    let mut check = |request: LoadRequest, expected: ProblemCode| match worker.call(Request::Load(request.clone())) {
        Event::Failed(problem) => assert_eq!(problem.code, expected, "{request:?} {problem:?}"),
        other => panic!("{request:?} {other:?}"),
    };
    check(
        load(folder.path().join("missing.gguf"), 64),
        ProblemCode::FileUnreadable,
    );
    check(load(truncated, 64), ProblemCode::FileInvalid);
    check(load(text, 64), ProblemCode::FileInvalid);
    check(load(model(), 0), ProblemCode::BadRequest);
    check(load(model(), u32::MAX), ProblemCode::OutOfMemory);
    check(
        LoadRequest {
            threads: Some(0),
            ..load(model(), 64)
        },
        ProblemCode::BadRequest,
    );
}

#[test]
fn a_missing_gpu_is_replaced_by_the_cpu_with_a_notice() {
    let mut worker = Worker::start();
    let request = LoadRequest {
        device: Some("gpu99".into()),
        ..load(model(), 64)
    };
    match worker.call(Request::Load(request)) {
        Event::Loaded(info) => {
            assert_eq!((info.device.as_str(), info.gpu_layers), ("cpu", 0));
            let names_gpu = |notice: &Notice| notice.to_string().contains("gpu99");
            assert!(info.notices.iter().any(names_gpu), "{info:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_file_may_be_removed_while_it_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::copy(model(), &path).unwrap();
    let mut worker = Worker::start();
    let loaded = worker.call(Request::Load(load(path.clone(), 64)));
    assert!(matches!(loaded, Event::Loaded(_)));
    std::fs::File::create(&path).unwrap();
    assert!(summary(&worker.answer(generate(raw("Once upon"), 8))).prompt_tokens > 0);
}

/// Starts a worker with a prompt cache.
fn start_with_cache(folder: &Path, request: LoadRequest) -> Worker {
    let mut worker = Worker::start();
    let loaded = worker.call(Request::Load(LoadRequest {
        prompt_cache: Some(PromptCacheFolder {
            path: folder.to_owned(),
            max_bytes: 1 << 30,
        }),
        device: Some("cpu".to_owned()),
        ..request
    }));
    assert!(matches!(loaded, Event::Loaded(_)));
    worker
}

/// Answers in a conversation, and waits until it is saved. Returns the number of cached prompt
/// tokens and the answer's tokens.
fn answer(worker: &mut Worker, conversation: ConversationId, text: &str) -> (u32, Vec<u32>) {
    let events = worker.answer(GenerateRequest {
        conversation: Some(conversation),
        ..generate(raw(text), 8)
    });
    let Event::Started { cached_tokens, .. } = events[0] else {
        panic!("{events:?}")
    };
    let ids = summary(&events).ids.clone();
    wait_until_idle(worker);
    (cached_tokens, ids)
}

/// Waits until all earlier requests are executed.
fn wait_until_idle(worker: &mut Worker) {
    let messages = vec![message(Role::User, "Hello")];
    assert!(matches!(
        worker.call(Request::Count { messages }),
        Event::Counted { .. } | Event::Failed(_)
    ));
}

#[test]
fn a_conversation_continues_in_another_worker() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let request = || load(model(), 2048);
    let (prompt, other) = ("Once upon a time. ".repeat(20), "Never before. ".repeat(20));
    let next_prompt = format!("{prompt} And then?");
    let mut first = start_with_cache(&cache, request());
    assert_eq!(answer(&mut first, 7, &prompt).0, 0);
    let (cached, expected) = answer(&mut first, 7, &next_prompt);
    assert!(answer(&mut first, 8, &other).0 < 16);
    let (cached_again, actual) = answer(&mut first, 7, &next_prompt);
    assert!(cached_again >= cached, "{cached_again} of {cached}");
    assert_eq!(actual, expected);
    first.close();

    let mut second = start_with_cache(&cache, request());
    let (restored, actual) = answer(&mut second, 7, &next_prompt);
    assert!(restored >= cached, "{restored} of {cached}");
    assert_eq!(actual, expected);

    // Another model or KV cache type does not use the saved cells.
    let changed = folder.path().join("changed.gguf");
    let mut bytes = std::fs::read(model()).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    std::fs::write(&changed, bytes).unwrap();
    let mut third = start_with_cache(&cache, load(changed, 2048));
    assert_eq!(answer(&mut third, 9, &next_prompt).0, 0);
    let q8_0 = LoadRequest {
        kv: KvType::Q8_0,
        ..request()
    };
    assert_eq!(answer(&mut start_with_cache(&cache, q8_0), 9, &next_prompt).0, 0);

    assert_eq!(second.call(Request::RemovePromptCache { conversation: 7 }), Event::Done);
    assert!(!cache.join("7").exists() && cache.join("8").exists());
    assert_eq!(second.call(Request::SetPromptCacheLimit { max_bytes: 0 }), Event::Done);
    answer(&mut second, 7, &next_prompt);
    assert!(!cache.join("7").exists() && !cache.join("8").exists());
}

#[test]
fn closing_the_input_ends_a_worker_that_answers() {
    let mut worker = Worker::load_llama(16_384);
    let answer = worker.send(Request::Generate(long_prompt()));
    worker.wait_for_prefill(answer);
    worker.close();
}
