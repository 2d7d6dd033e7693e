//! Tests speculative decoding: an answer with a draft equals the answer without one, for every kind
//! of draft, draft length and cache type, and beside other answers.

use crate::common::*;
use hearth_protocol::{
    AdapterChoice, DraftChoice, DraftKind, DraftStats, Event, FinishReason, GenerateRequest, KvType, LoadRequest,
    LogitBias, ModelInfo, Notice, Prompt, Request, RequestId, SamplingParams,
};
use std::path::PathBuf;

/// The architectures of the fixtures. `gemma3` has layers with a sliding window of 8 tokens.
const MODELS: [&str; 5] = ["llama", "llama3", "qwen2", "qwen3", "gemma3"];

fn file(model: &str) -> PathBuf {
    fixture(&format!("models/{model}.gguf"))
}

/// All kinds of drafts for a model.
fn drafts(model: &str) -> [DraftChoice; 3] {
    // The target itself as its draft, so that many tokens are accepted. For `gemma3` another model.
    let path = file(if model == "gemma3" { "llama" } else { model });
    [
        DraftChoice::Ngram,
        DraftChoice::FirstLayers { layers: Some(1) },
        DraftChoice::Model { path },
    ]
}

fn load_request(model: &str, context: u32, draft: DraftChoice, tokens: Option<u32>) -> LoadRequest {
    LoadRequest {
        draft,
        draft_tokens: tokens,
        ..load(file(model), context)
    }
}

fn load_model(request: LoadRequest) -> (Worker, ModelInfo) {
    let mut worker = Worker::start();
    match worker.call(Request::Load(request)) {
        Event::Loaded(info) => (worker, info),
        other => panic!("{other:?}"),
    }
}

/// Requests with prompts of many lengths, with and without repetitions; greedy, sampled, and with
/// penalties.
fn request(number: u64) -> GenerateRequest {
    let text = format!(
        "{}{number} ",
        ["tell ", "a b a b ", "x", "one two three "][number as usize % 4]
    );
    let tokens = text.repeat([1, 3, 4, 2][number as usize / 4 % 4]);
    let mut request = generate(raw(&tokens), [24, 7, 40, 1, 2][number as usize % 5]);
    let sampling = SamplingParams {
        seed: Some(number),
        ..SamplingParams::default()
    };
    match number % 6 {
        0..3 => {}
        3 => request.sampling.repetition_penalty = 1.3,
        4 => {
            request.sampling = SamplingParams {
                temperature: 0.05,
                ..sampling
            }
        }
        _ => {
            request.sampling = SamplingParams {
                temperature: 0.7,
                presence_penalty: 0.2,
                frequency_penalty: 0.1,
                ..sampling
            }
        }
    }
    request
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

fn stats(events: &[Event]) -> DraftStats {
    summary(events).draft.expect("a draft")
}

/// Tokens of the drafts of several answers.
#[derive(Debug, Default)]
struct DraftedTokens {
    drafted: u32,
    accepted: u32,
}

/// Asserts that answers with and without a draft are equal.
fn assert_same_answers(load: &LoadRequest, requests: &[GenerateRequest]) -> DraftedTokens {
    let plain = LoadRequest {
        draft: DraftChoice::None,
        ..load.clone()
    };
    let ((mut with, info), (mut without, _)) = (load_model(load.clone()), load_model(plain));
    assert!(info.draft.is_some(), "{:?}", info.notices);
    let mut tokens = DraftedTokens::default();
    for request in requests {
        let (events, expected) = (with.answer(request.clone()), without.answer(request.clone()));
        assert_eq!(outcome(&events), outcome(&expected), "{:?} {load:?}", request.prompt);
        assert_eq!(summary(&expected).draft, None);
        let stats = stats(&events);
        assert!(
            stats.accepted <= stats.drafted && (0.0..=1.0).contains(&stats.used),
            "{stats:?}"
        );
        tokens.drafted += stats.drafted;
        tokens.accepted += stats.accepted;
    }
    tokens
}

/// More than a thousand prompts with all models, kinds of drafts, draft lengths and cache types.
#[test]
fn answers_with_and_without_a_draft_are_equal() {
    let (mut number, mut lengths) = (0, [3, 1, 8, 32].into_iter().cycle());
    let mut sums: [DraftedTokens; 3] = Default::default();
    for model in MODELS {
        for (draft, sum) in drafts(model).into_iter().zip(&mut sums) {
            for kv in [KvType::F16, KvType::Q8_0] {
                let requests: Vec<GenerateRequest> = (number..number + 36).map(request).collect();
                number += 36;
                let load = LoadRequest {
                    kv,
                    ..load_request(model, 112, draft.clone(), lengths.next())
                };
                let DraftedTokens { drafted, accepted } = assert_same_answers(&load, &requests);
                assert!(drafted > 0, "{model} {draft} drafted nothing");
                sum.drafted += drafted;
                sum.accepted += accepted;
                // The target as its own draft mostly agrees with itself.
                let is_same = draft.path() == Some(&file(model));
                assert!(!is_same || 2 * accepted > drafted, "{model}: {accepted} of {drafted}");
            }
        }
    }
    assert!(number > 1000);
    // Tokens of each kind of draft are accepted and rejected.
    assert!(
        sums.iter()
            .all(|tokens| 0 < tokens.accepted && tokens.accepted < tokens.drafted),
        "{sums:?}"
    );
}

/// Samplers that draw random numbers, have a state, or depend on several tokens.
#[test]
fn answers_of_every_sampler_with_and_without_a_draft_are_equal() {
    let changes: [fn(&mut SamplingParams); 10] = [
        |s| (s.dry_multiplier, s.dry_allowed_length, s.dry_last_n) = (0.8, 1, 256),
        |s| (s.temperature, s.dry_multiplier, s.dry_breakers) = (0.0, 2.0, vec!["b".to_owned(), "ne t".to_owned()]),
        |s| (s.xtc_probability, s.xtc_threshold) = (0.5, 0.05),
        |s| (s.mirostat, s.mirostat_tau, s.mirostat_eta) = (true, 3.0, 0.3),
        |s| (s.dynatemp_range, s.dynatemp_exponent) = (0.6, 1.5),
        |s| (s.typical_p, s.top_n_sigma, s.top_k) = (0.7, 2.0, 0),
        |s| s.banned_strings = ["e", "t ", "ab", "\u{e9}"].map(String::from).into(),
        |s| (s.temperature, s.banned_strings) = (0.0, ["a", "  "].map(String::from).into()),
        |s| {
            s.logit_bias = vec![
                LogitBias::Id {
                    id: 70,
                    bias: Some(2.0),
                },
                LogitBias::Id { id: 71, bias: None },
            ]
        },
        |s| (s.mirostat, s.dry_multiplier, s.banned_strings) = (true, 0.8, vec!["a".to_owned()]),
    ];
    let requests: Vec<GenerateRequest> = (0..40)
        .map(|number| {
            let mut request = request(number);
            request.sampling = SamplingParams {
                temperature: [0.7, 0.2, 1.5][number as usize % 3],
                seed: Some(number),
                ..SamplingParams::default()
            };
            changes[number as usize % changes.len()](&mut request.sampling);
            request
        })
        .collect();
    for draft in drafts("llama") {
        let DraftedTokens { drafted, accepted } =
            assert_same_answers(&load_request("llama", 112, draft, Some(4)), &requests);
        assert!(0 < accepted && accepted < drafted, "{accepted} of {drafted}");
    }
}

/// In this context, layers with a sliding window release pages.
#[test]
fn rejected_drafts_are_taken_back_where_windows_release_pages() {
    for draft in drafts("gemma3") {
        let long = GenerateRequest {
            ignore_end: true,
            ..generate(raw("a b a b a"), 700)
        };
        let DraftedTokens { drafted, .. } =
            assert_same_answers(&load_request("gemma3", 2048, draft, Some(32)), &[long]);
        assert!(drafted > 100, "{drafted}");
    }
}

#[test]
fn answers_are_the_same_if_drafts_follow_measured_times() {
    let requests: Vec<GenerateRequest> = (0..40).map(request).collect();
    for draft in drafts("llama") {
        assert_same_answers(&load_request("llama", 128, draft, None), &requests);
    }
}

#[test]
fn a_draft_does_not_change_answers_with_an_adapter() {
    let adapter = AdapterChoice {
        path: fixture("adapters/llama"),
        scale: 1.0,
    };
    let mut requests: Vec<GenerateRequest> = (0..20).map(request).collect();
    let add_adapter = |(index, request): (usize, &mut GenerateRequest)| {
        if index % 3 > 0 {
            request.adapters = vec![adapter.clone()];
        }
    };
    requests.iter_mut().enumerate().for_each(add_adapter);
    for draft in drafts("llama") {
        let DraftedTokens { drafted, .. } = assert_same_answers(&load_request("llama", 128, draft, Some(4)), &requests);
        assert!(drafted > 0);
    }
}

/// Each answer has a separate draft, even if the KV cache has no room for all of them.
#[test]
fn concurrent_answers_with_drafts_equal_answers_given_alone() {
    for (model, context) in [("llama", 2048), ("llama", 256), ("gemma3", 1024)] {
        for draft in drafts(model) {
            let requests: Vec<GenerateRequest> = (0..9).map(request).collect();
            let (mut alone, _) = load_model(load_request(model, context, DraftChoice::None, None));
            let expected: Vec<_> = requests
                .iter()
                .map(|request| outcome(&alone.answer(request.clone())))
                .collect();
            let (mut worker, _) = load_model(load_request(model, context, draft, Some(5)));
            let send = |request: &GenerateRequest| worker.send(Request::Generate(request.clone()));
            let ids: Vec<RequestId> = requests.iter().map(send).collect();
            for (id, expected) in ids.into_iter().zip(expected) {
                assert_eq!(outcome(&worker.events(id)), expected);
            }
        }
    }
}

/// The context is smaller than, equal to, and larger than the draft's trained context (128). The
/// answer ends at the end of the context, at the same token.
#[test]
fn a_full_context_ends_an_answer_as_without_a_draft() {
    for model in ["llama", "gemma3"] {
        for context in [33, 64, 128, 129, 300] {
            for draft in drafts(model) {
                let endless = GenerateRequest {
                    max_tokens: None,
                    ignore_end: true,
                    ..generate(raw("a b a b a"), 0)
                };
                let long = GenerateRequest {
                    prompt: raw(&"ab ".repeat(context as usize / 5)),
                    ..endless.clone()
                };
                let load = load_request(model, context, draft, Some(32));
                let (mut worker, info) = load_model(load.clone());
                assert_eq!(info.context, context);
                let events = worker.answer(endless.clone());
                assert_eq!(summary(&events).finish_reason, FinishReason::ContextFull);
                let summary = summary(&events);
                assert_eq!(summary.prompt_tokens + summary.tokens, context + 1);
                assert_same_answers(&load, &[endless, long]);
            }
        }
    }
}

#[test]
fn a_draft_never_passes_the_limit_of_an_answer() {
    for max in [1, 2, 3, 7] {
        let request = GenerateRequest {
            max_tokens: Some(max),
            ..request(5)
        };
        for draft in drafts("llama") {
            let (mut worker, _) = load_model(load_request("llama", 128, draft, Some(32)));
            let events = worker.answer(request.clone());
            assert_eq!(summary(&events).tokens, max);
        }
    }
}

#[test]
fn a_repetition_ends_an_answer_at_the_same_token_as_without_a_draft() {
    for model in ["llama", "gemma3"] {
        let mut sum = 0;
        for draft in drafts(model) {
            let mut requests: Vec<GenerateRequest> = (0..12).map(request).collect();
            for (request, limit) in requests.iter_mut().zip([3, 10, 25].into_iter().cycle()) {
                (request.max_tokens, request.max_repeated) = (Some(80), Some(limit));
                request.ignore_end = true;
            }
            let mut looping = requests[0].clone();
            looping.prompt = raw("tell ");
            looping.sampling.logit_bias = vec![LogitBias::Id {
                id: 70,
                bias: Some(500.0),
            }];
            requests.push(looping.clone());
            let load = load_request(model, 256, draft, Some(8));
            let DraftedTokens { accepted, .. } = assert_same_answers(&load, &requests);
            sum += accepted;
            let (mut worker, _) = load_model(load);
            let reason = summary(&worker.answer(looping)).finish_reason;
            assert_eq!(reason, FinishReason::Repetition);
        }
        assert!(sum > 0);
    }
}

#[test]
fn a_stop_string_inside_a_draft_ends_the_answer_there() {
    let (mut plain, _) = load_model(load_request("llama", 128, DraftChoice::None, None));
    let answer = text(&plain.answer(request(2)));
    let stop: String = answer.chars().skip(9).take(2).collect();
    let stopped = GenerateRequest {
        stop: vec![stop],
        ..request(2)
    };
    for draft in drafts("llama") {
        assert_same_answers(
            &load_request("llama", 128, draft, Some(16)),
            &[stopped.clone(), request(2)],
        );
    }
}

#[test]
fn a_cancelled_answer_does_not_affect_the_drafts_of_others() {
    let expected: Vec<_> = {
        let (mut plain, _) = load_model(load_request("llama", 1024, DraftChoice::None, None));
        (0..12).map(|number| outcome(&plain.answer(request(number)))).collect()
    };
    for draft in drafts("llama") {
        let (mut worker, _) = load_model(load_request("llama", 1024, draft, Some(6)));
        let endless = GenerateRequest {
            max_tokens: None,
            ignore_end: true,
            ..request(1)
        };
        for round in 0..4 {
            let send = |worker: &mut Worker, request: &GenerateRequest| worker.send(Request::Generate(request.clone()));
            let cancelled = send(&mut worker, &endless);
            let ids: Vec<RequestId> = (0..12).map(|number| send(&mut worker, &request(number))).collect();
            for _ in 0..round {
                worker.event(cancelled);
            }
            worker.send(Request::Cancel { request: cancelled });
            for (id, expected) in ids.into_iter().zip(&expected) {
                assert_eq!(outcome(&worker.events(id)), *expected);
            }
            assert!(worker.last_event(cancelled).is_last());
        }
    }
}

#[test]
fn a_draft_with_another_vocabulary_is_mapped_or_refused() {
    // The draft is refused with a notice, and the model answers without it.
    let other = fixture("tokenizer/qwen2.gguf");
    let (mut worker, info) = load_model(load_request(
        "llama",
        128,
        DraftChoice::Model { path: other.clone() },
        None,
    ));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    let notices = info.notices.iter().map(ToString::to_string);
    let [notice] = &*notices.filter(|notice| notice.contains("draft")).collect::<Vec<_>>() else {
        panic!("{:?}", info.notices);
    };
    assert!(notice.starts_with(&*other.to_string_lossy()), "{notice}");
    assert!(!text(&worker.answer(request(1))).is_empty());
    let missing = PathBuf::from("no-such-model.gguf");
    let (_, info) = load_model(load_request("llama", 128, DraftChoice::Model { path: missing }, None));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    let names_file = |notice: &Notice| notice.to_string().contains("no-such-model.gguf");
    assert!(info.notices.iter().any(names_file), "{:?}", info.notices);
}

#[test]
fn too_many_own_layers_are_refused_with_a_sentence() {
    let (_, info) = load_model(load_request(
        "llama",
        128,
        DraftChoice::FirstLayers { layers: Some(2) },
        None,
    ));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    let advises = |notice: &Notice| notice.to_string().contains("Choose from 1 to 1");
    assert!(info.notices.iter().any(advises), "{:?}", info.notices);
}

#[test]
fn tokens_of_a_prompt_outside_the_vocabulary_are_refused() {
    let (mut worker, _) = load_model(load_request("llama", 128, DraftChoice::Ngram, None));
    let events = worker.answer(generate(Prompt::Tokens(vec![1, 1_000_000]), 4));
    assert!(failed(&events).1.contains("1000000"), "{events:?}");
}
