//! The worker over its real protocol, with a tiny random model: `tests/fixtures/models/llama.gguf`.

mod common;

use common::*;
use hearth_formats::gguf::{GgufWriter, Strings, Value};
use hearth_protocol::{
    ConversationId, Event, FinishReason, GenerateRequest, KvType, LoadRequest, PlanRequest, ProblemCode, Prompt,
    PromptCacheFolder, Request, Role, SamplingParams,
};
use std::fs::File;
use std::path::Path;

#[test]
fn it_loads_answers_and_unloads() {
    let mut worker = Worker::start();
    worker.ask(&Request::Load(load(model(), 100)));
    let mut fractions = Vec::new();
    let info = loop {
        match worker.next() {
            Event::LoadProgress { fraction, .. } => fractions.push(fraction),
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
        info.notices.iter().any(|notice| notice.contains("template")),
        "{info:?}"
    );

    let first = worker.answer(generate(1, raw("Once upon a time"), 12));
    let Event::Started {
        id: 1,
        prompt_tokens,
        cached_tokens: 0,
        left_out: None,
    } = first[0]
    else {
        panic!("{first:?}")
    };
    let summary = finished(&first);
    assert_eq!((summary.prompt_tokens, summary.context), (prompt_tokens, 100));
    assert_eq!(summary.tokens as usize, summary.ids.len());
    assert!(summary.ids.len() <= 12 && summary.context_used == prompt_tokens + summary.tokens);

    let again = worker.answer(generate(2, raw("Once upon a time"), 12));
    assert!(
        matches!(again[0], Event::Started { cached_tokens, .. } if cached_tokens == prompt_tokens - 1),
        "{again:?}"
    );
    assert_eq!(finished(&again).ids, summary.ids);

    worker.ask(&Request::Unload);
    assert_eq!(worker.next(), Event::Unloaded);
    assert_eq!(
        failed(&worker.answer(generate(3, raw("Once"), 1))).0,
        ProblemCode::NoModel
    );
    worker.close();
}

#[test]
fn the_text_of_the_events_is_the_text_of_the_ids() {
    let mut worker = Worker::with_model(128);
    let mut request = generate(1, raw("Once upon a time"), 40);
    request.sampling = SamplingParams {
        temperature: 2.0,
        seed: Some(3),
        ..SamplingParams::default()
    };
    let events = worker.answer(request.clone());
    let text = |events: &[Event]| -> String {
        events
            .iter()
            .filter_map(|event| {
                if let Event::Text { text, .. } = event {
                    Some(&**text)
                } else {
                    None
                }
            })
            .collect()
    };
    let gguf = hearth_formats::gguf::Gguf::open(model()).unwrap();
    let tokenizer = hearth_formats::tokenizer::Tokenizer::from_gguf(&gguf).unwrap();
    let ids: Vec<u32> = finished(&events)
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
    let whole = text(&events);
    let stop: String = whole.chars().skip(5).take(2).collect();
    let before = whole.split(&stop).next().unwrap().to_owned();
    let events = worker.answer(GenerateRequest {
        id: 2,
        stop: vec![stop],
        ..request
    });
    assert_eq!((text(&events), finished(&events).reason), (before, FinishReason::Stop));
}

#[test]
fn a_prefill_can_be_cancelled() {
    let mut worker = Worker::with_model(16_384);
    worker.ask(&Request::Generate(generate(7, raw(&"many words, ".repeat(1200)), 1)));
    while !matches!(worker.next(), Event::Prefill { .. }) {}
    // Another one is refused, until the first is cancelled.
    worker.ask(&Request::Generate(generate(8, raw("Once"), 1)));
    worker.ask(&Request::Cancel { id: 7 });
    worker.ask(&Request::Generate(generate(9, raw("Once"), 1)));
    let mut ends = Vec::new();
    while ends.len() < 3 {
        match worker.next() {
            Event::Finished { id, summary } => ends.push((id, Ok(summary.reason))),
            Event::GenerationFailed { id, problem } => ends.push((id, Err(problem.code))),
            _ => {}
        }
    }
    assert_eq!(
        ends[..2],
        [(8, Err(ProblemCode::Busy)), (7, Ok(FinishReason::Cancelled))]
    );
    assert!(
        matches!(ends[2], (9, Ok(FinishReason::Length | FinishReason::Stop))),
        "{ends:?}"
    );
}

#[test]
fn an_answer_can_be_cancelled_during_plans() {
    const PLANS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.gguf");
    // A header that is slow to read, of a file that is not a model.
    let texts: Strings = std::iter::repeat_n("text", 2_000_000).collect();
    let metadata = [("texts".to_owned(), Value::from(texts))].into_iter().collect();
    let file = File::create(&path).unwrap();
    GgufWriter::begin(file, &metadata, &[]).unwrap().finish().unwrap();
    let mut worker = Worker::with_model(16_384);
    worker.ask(&Request::Generate(generate(7, raw(&"many words, ".repeat(1200)), 1)));
    while !matches!(worker.next(), Event::Prefill { .. }) {}
    for id in 100..100 + PLANS {
        let plan = PlanRequest {
            path: path.clone(),
            ..PlanRequest::default()
        };
        worker.ask(&Request::Plan { id, plan });
    }
    worker.ask(&Request::Cancel { id: 7 });
    let events = worker.rest_of_answer();
    assert_eq!(finished(&events).reason, FinishReason::Cancelled);
    let is_failed = |event: &&Event| matches!(event, Event::PlanFailed { .. });
    let before = events.iter().filter(is_failed).count() as u64;
    assert!(before < PLANS, "all plans were made before the cancellation");
    for _ in before..PLANS {
        assert!(matches!(worker.next(), Event::PlanFailed { .. }));
    }
    worker.close();
}

#[test]
fn turns_that_do_not_fit_are_dropped_and_reported() {
    let mut worker = Worker::with_model(128);
    let turn = |n: usize| {
        [
            message(Role::User, &format!("question {n}")),
            message(Role::Assistant, "an answer"),
        ]
    };
    let mut messages = vec![message(Role::System, "be kind")];
    messages.extend((0..40).flat_map(turn));
    messages.push(message(Role::User, "and now?"));
    let events = worker.answer(generate(1, Prompt::Chat(messages.clone()), 1));
    let Event::Started {
        prompt_tokens,
        left_out: Some(left),
        ..
    } = events[0]
    else {
        panic!("{events:?}")
    };
    // A quarter of the context is reserved for the answer, or less if less is requested.
    assert!(
        prompt_tokens <= 127 && left.messages % 2 == 0 && (2..=80).contains(&left.messages),
        "{left:?}"
    );

    worker.ask(&Request::Count {
        id: 5,
        messages: messages.clone(),
    });
    assert_eq!(
        worker.next(),
        Event::Counted {
            id: 5,
            tokens: prompt_tokens + left.tokens
        }
    );
    messages.drain(1..=left.messages as usize);
    worker.ask(&Request::Count { id: 6, messages });
    assert_eq!(
        worker.next(),
        Event::Counted {
            id: 6,
            tokens: prompt_tokens
        }
    );
}

#[test]
fn invalid_requests_are_refused_and_the_worker_continues() {
    let mut worker = Worker::with_model(64);
    let long = worker.answer(generate(1, raw(&"x y ".repeat(100)), 100));
    let (code, text) = failed(&long);
    assert!(
        code == ProblemCode::PromptTooLong && text.contains("64") && text.contains("48"),
        "{text}"
    );
    assert_eq!(
        failed(&worker.answer(generate(2, Prompt::Chat(Vec::new()), 1))).0,
        ProblemCode::BadRequest
    );
    let mut request = generate(3, raw("Once"), 1);
    request.sampling.top_p = 7.0;
    assert_eq!(failed(&worker.answer(request)).0, ProblemCode::BadRequest);
    worker.say("{\"type\":\"generate\",\"id\":4}");
    assert_eq!(failed(&worker.rest_of_answer()).0, ProblemCode::BadRequest);
    worker.say("not json at all");
    worker.ask(&Request::Cancel { id: 99 });
    assert_eq!(
        finished(&worker.answer(generate(5, raw("Once"), 0))).reason,
        FinishReason::Length
    );
    worker.ask(&Request::Devices);
    assert!(matches!(worker.next(), Event::Devices { devices } if devices[0].id == "cpu"));
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
    let cut = file("cut.gguf", &bytes[..bytes.len() / 2]);
    let text = file("text.gguf", b"a letter, not a model");
    let mut check = |request: LoadRequest, expected: ProblemCode| {
        worker.ask(&Request::Load(request.clone()));
        match worker.last_of_load() {
            Event::LoadFailed(problem) => assert_eq!(problem.code, expected, "{request:?} {problem:?}"),
            other => panic!("{request:?} {other:?}"),
        }
    };
    check(
        load(folder.path().join("missing.gguf"), 64),
        ProblemCode::FileUnreadable,
    );
    check(load(cut, 64), ProblemCode::FileInvalid);
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
    worker.ask(&Request::Load(LoadRequest {
        device: Some("gpu99".into()),
        ..load(model(), 64)
    }));
    match worker.last_of_load() {
        Event::Loaded(info) => {
            assert_eq!((info.device.as_str(), info.gpu_layers), ("cpu", 0));
            assert!(info.notices.iter().any(|notice| notice.contains("gpu99")), "{info:?}");
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
    worker.ask(&Request::Load(load(path.clone(), 64)));
    assert!(matches!(worker.last_of_load(), Event::Loaded(_)));
    std::fs::File::create(&path).unwrap();
    assert!(finished(&worker.answer(generate(1, raw("Once upon"), 8))).prompt_tokens > 0);
}

/// A worker with a prompt cache.
fn keeping(folder: &Path, how: LoadRequest) -> Worker {
    let mut worker = Worker::start();
    worker.ask(&Request::Load(LoadRequest {
        prompt_cache: Some(PromptCacheFolder {
            path: folder.to_owned(),
            max_bytes: 1 << 30,
        }),
        device: Some("cpu".to_owned()),
        ..how
    }));
    assert!(matches!(worker.last_of_load(), Event::Loaded(_)));
    worker
}

/// Ask in a conversation, and wait until it is saved. Returns the number of cached prompt tokens,
/// and the answer's tokens.
fn ask(worker: &mut Worker, conversation: ConversationId, text: &str) -> (u32, Vec<u32>) {
    let events = worker.answer(GenerateRequest {
        conversation: Some(conversation),
        ..generate(1, raw(text), 8)
    });
    let Event::Started { cached_tokens, .. } = events[0] else {
        panic!("{events:?}")
    };
    let ids = finished(&events).ids.clone();
    settled(worker);
    (cached_tokens, ids)
}

/// Wait until all earlier requests are done.
fn settled(worker: &mut Worker) {
    let messages = vec![message(Role::User, "Hello")];
    worker.ask(&Request::Count { id: 9, messages });
    assert!(matches!(
        worker.next(),
        Event::Counted { .. } | Event::GenerationFailed { .. }
    ));
}

#[test]
fn a_conversation_continues_in_another_worker() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let how = || load(model(), 2048);
    let (old, other) = ("Once upon a time. ".repeat(20), "Never before. ".repeat(20));
    let more = format!("{old} And then?");
    let mut first = keeping(&kept, how());
    assert_eq!(ask(&mut first, 7, &old).0, 0);
    let (known, answer) = ask(&mut first, 7, &more);
    assert!(ask(&mut first, 8, &other).0 < 16);
    let (back, same) = ask(&mut first, 7, &more);
    assert!(back >= known, "{back} of {known}");
    assert_eq!(same, answer);
    first.close();

    let mut second = keeping(&kept, how());
    let (again, same) = ask(&mut second, 7, &more);
    assert!(again >= known, "{again} of {known}");
    assert_eq!(same, answer);

    // Another model, another KV cache type.
    let changed = folder.path().join("changed.gguf");
    let mut bytes = std::fs::read(model()).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    std::fs::write(&changed, bytes).unwrap();
    let mut third = keeping(&kept, load(changed, 2048));
    assert_eq!(ask(&mut third, 9, &more).0, 0);
    let q8_0 = LoadRequest {
        kv: KvType::Q8_0,
        ..how()
    };
    assert_eq!(ask(&mut keeping(&kept, q8_0), 9, &more).0, 0);

    second.ask(&Request::RemovePromptCache { conversation: 7 });
    settled(&mut second);
    assert!(!kept.join("7").exists() && kept.join("8").exists());
    second.ask(&Request::SetPromptCacheLimit { max_bytes: 0 });
    ask(&mut second, 7, &more);
    assert!(!kept.join("7").exists() && !kept.join("8").exists());
}

#[test]
fn closing_its_input_shuts_it_down_during_an_answer() {
    let mut worker = Worker::with_model(16_384);
    worker.ask(&Request::Generate(generate(1, raw(&"many words, ".repeat(1200)), 1)));
    while !matches!(worker.next(), Event::Prefill { .. }) {}
    worker.close();
}
