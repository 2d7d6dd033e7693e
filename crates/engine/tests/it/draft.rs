//! Speculative decoding: an answer with a draft is the one without, whatever the draft, its length,
//! its cache and its neighbors.

use crate::common::*;
use hearth_protocol::{
    AdapterChoice, DraftChoice, DraftKind, DraftStats, Event, FinishReason, GenerateRequest, KvType, LoadRequest,
    LogitBias, ModelInfo, Prompt, Request, RequestId, SamplingParams,
};
use std::path::PathBuf;

/// The architectures of the fixtures; `gemma3` has layers with a window of 8.
const MODELS: [&str; 5] = ["llama", "llama3", "qwen2", "qwen3", "gemma3"];

fn file(model: &str) -> PathBuf {
    fixture(&format!("models/{model}.gguf"))
}

fn drafts(model: &str) -> [DraftChoice; 3] {
    // One that is as good as its target, so that many tokens are accepted, and a worse one.
    let path = file(if model == "gemma3" { "llama" } else { model });
    [
        DraftChoice::Ngram,
        DraftChoice::Own { layers: Some(1) },
        DraftChoice::Model { path },
    ]
}

fn request(model: &str, context: u32, draft: DraftChoice, tokens: Option<u32>) -> LoadRequest {
    LoadRequest {
        draft,
        draft_tokens: tokens,
        ..load(file(model), context)
    }
}

fn loaded(request: LoadRequest) -> (Worker, ModelInfo) {
    let mut worker = Worker::start();
    match worker.call(Request::Load(request)) {
        Event::Loaded(info) => (worker, info),
        other => panic!("{other:?}"),
    }
}

/// Prompts of many lengths, with repetitions and without; greedy, drawn, and with penalties.
fn prompt(number: u64) -> GenerateRequest {
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

/// Text, tokens and the reason of the end.
fn said(events: &[Event]) -> (String, Vec<u32>, FinishReason) {
    let summary = finished(events);
    (text(events), summary.ids.clone(), summary.reason)
}

fn stats(events: &[Event]) -> DraftStats {
    finished(events).draft.expect("a draft")
}

/// Answers with a draft and without are equal. Returns how many tokens were drafted and accepted.
fn same_answers(load: &LoadRequest, requests: &[GenerateRequest]) -> (u32, u32) {
    let plain = LoadRequest {
        draft: DraftChoice::None,
        ..load.clone()
    };
    let ((mut with, info), (mut without, _)) = (loaded(load.clone()), loaded(plain));
    assert!(info.draft.is_some(), "{:?}", info.notices);
    let (mut drafted, mut accepted) = (0, 0);
    for request in requests {
        let (events, expected) = (with.answer(request.clone()), without.answer(request.clone()));
        assert_eq!(said(&events), said(&expected), "{:?} {load:?}", request.prompt);
        assert_eq!(finished(&expected).draft, None);
        let stats = stats(&events);
        assert!(
            stats.accepted <= stats.drafted && (0.0..=1.0).contains(&stats.used),
            "{stats:?}"
        );
        (drafted, accepted) = (drafted + stats.drafted, accepted + stats.accepted);
    }
    (drafted, accepted)
}

/// More than a thousand prompts over models, kinds of drafts, their lengths, and cache types.
#[test]
fn answers_with_a_draft_are_those_without() {
    let (mut number, mut lengths) = (0, [3, 1, 8, 32].into_iter().cycle());
    let mut sums = [(0, 0); 3];
    for model in MODELS {
        for (draft, sum) in drafts(model).into_iter().zip(&mut sums) {
            for kv in [KvType::F16, KvType::Q8_0] {
                let requests: Vec<GenerateRequest> = (number..number + 36).map(prompt).collect();
                number += 36;
                let load = LoadRequest {
                    kv,
                    ..request(model, 112, draft.clone(), lengths.next())
                };
                let (drafted, accepted) = same_answers(&load, &requests);
                // The same model mostly agrees; a draft without accepted tokens tests little.
                assert!(drafted > 0, "{model} {draft} drafted nothing");
                *sum = (sum.0 + drafted, sum.1 + accepted);
                let is_same = draft.path() == Some(&file(model));
                assert!(!is_same || 2 * accepted > drafted, "{model}: {accepted} of {drafted}");
            }
        }
    }
    assert!(number > 1000);
    // Each kind was accepted, and refused.
    assert!(
        sums.iter()
            .all(|(drafted, accepted)| 0 < *accepted && accepted < drafted),
        "{sums:?}"
    );
}

/// The samplers that draw numbers, have a state, or depend on several tokens.
#[test]
fn answers_with_every_sampler_and_a_draft_are_those_without() {
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
            let mut request = prompt(number);
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
        let (drafted, accepted) = same_answers(&request("llama", 112, draft, Some(4)), &requests);
        assert!(0 < accepted && accepted < drafted, "{accepted} of {drafted}");
    }
}

/// The context is so long that layers with a window release pages.
#[test]
fn rejected_drafts_are_taken_back_where_windows_release_pages() {
    for draft in drafts("gemma3") {
        let long = GenerateRequest {
            ignore_end: true,
            ..generate(raw("a b a b a"), 700)
        };
        let (drafted, _) = same_answers(&request("gemma3", 2048, draft, Some(32)), &[long]);
        assert!(drafted > 100, "{drafted}");
    }
}

#[test]
fn answers_are_the_same_if_drafts_follow_measured_times() {
    let requests: Vec<GenerateRequest> = (0..40).map(prompt).collect();
    for draft in drafts("llama") {
        same_answers(&request("llama", 128, draft, None), &requests);
    }
}

#[test]
fn answers_with_an_adapter_and_a_draft_are_those_with_the_adapter() {
    let adapter = AdapterChoice {
        path: fixture("adapters/llama"),
        scale: 1.0,
    };
    let mut requests: Vec<GenerateRequest> = (0..20).map(prompt).collect();
    let with_adapter = |(at, request): (usize, &mut GenerateRequest)| {
        if at % 3 > 0 {
            request.adapters = vec![adapter.clone()];
        }
    };
    requests.iter_mut().enumerate().for_each(with_adapter);
    for draft in drafts("llama") {
        let (drafted, _) = same_answers(&request("llama", 128, draft, Some(4)), &requests);
        assert!(drafted > 0);
    }
}

/// Each answer has a separate draft, also if the cache has no room for all of them.
#[test]
fn several_answers_with_a_draft_each_are_those_given_alone() {
    for (model, context) in [("llama", 2048), ("llama", 256), ("gemma3", 1024)] {
        for draft in drafts(model) {
            let requests: Vec<GenerateRequest> = (0..9).map(prompt).collect();
            let (mut alone, _) = loaded(request(model, context, DraftChoice::None, None));
            let expected: Vec<_> = requests
                .iter()
                .map(|request| said(&alone.answer(request.clone())))
                .collect();
            let (mut worker, _) = loaded(request(model, context, draft, Some(5)));
            let ask = |request: &GenerateRequest| worker.ask(Request::Generate(request.clone()));
            let ids: Vec<RequestId> = requests.iter().map(ask).collect();
            for (id, expected) in ids.into_iter().zip(expected) {
                assert_eq!(said(&worker.rest(id)), expected);
            }
        }
    }
}

/// The target is smaller than, as large as, and larger than the context that the draft was trained
/// with (128). The answer ends at the context's end, at the same token.
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
                let load = request(model, context, draft, Some(32));
                let (mut worker, info) = loaded(load.clone());
                assert_eq!(info.context, context);
                let events = worker.answer(endless.clone());
                assert_eq!(finished(&events).reason, FinishReason::ContextFull);
                let summary = finished(&events);
                assert_eq!(summary.prompt_tokens + summary.tokens, context + 1);
                same_answers(&load, &[endless, long]);
            }
        }
    }
}

#[test]
fn a_draft_never_passes_the_limit_of_an_answer() {
    for max in [1, 2, 3, 7] {
        let request = GenerateRequest {
            max_tokens: Some(max),
            ..prompt(5)
        };
        for draft in drafts("llama") {
            let (mut worker, _) = loaded(self::request("llama", 128, draft, Some(32)));
            let events = worker.answer(request.clone());
            assert_eq!(finished(&events).tokens, max);
        }
    }
}

#[test]
fn a_stop_string_inside_a_draft_ends_the_answer_there() {
    let (mut plain, _) = loaded(request("llama", 128, DraftChoice::None, None));
    let whole = text(&plain.answer(prompt(2)));
    let stop: String = whole.chars().skip(9).take(2).collect();
    let stopped = GenerateRequest {
        stop: vec![stop],
        ..prompt(2)
    };
    for draft in drafts("llama") {
        same_answers(&request("llama", 128, draft, Some(16)), &[stopped.clone(), prompt(2)]);
    }
}

#[test]
fn cancelled_answers_leave_their_neighbors_drafts_alone() {
    let expected: Vec<_> = {
        let (mut plain, _) = loaded(request("llama", 1024, DraftChoice::None, None));
        (0..12).map(|number| said(&plain.answer(prompt(number)))).collect()
    };
    for draft in drafts("llama") {
        let (mut worker, _) = loaded(request("llama", 1024, draft, Some(6)));
        let endless = GenerateRequest {
            max_tokens: None,
            ignore_end: true,
            ..prompt(1)
        };
        for round in 0..4 {
            let ask = |worker: &mut Worker, request: &GenerateRequest| worker.ask(Request::Generate(request.clone()));
            let victim = ask(&mut worker, &endless);
            let ids: Vec<RequestId> = (0..12).map(|number| ask(&mut worker, &prompt(number))).collect();
            for _ in 0..round {
                worker.event(victim);
            }
            worker.ask(Request::Cancel { request: victim });
            for (id, expected) in ids.into_iter().zip(&expected) {
                assert_eq!(said(&worker.rest(id)), *expected);
            }
            assert!(worker.last(victim).is_last());
        }
    }
}

#[test]
fn a_draft_with_another_vocabulary_is_mapped_or_refused() {
    // Refused with a sentence, and the model answers without it.
    let other = fixture("tokenizer/qwen2.gguf");
    let (mut worker, info) = loaded(request("llama", 128, DraftChoice::Model { path: other.clone() }, None));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    let [notice] = &*info
        .notices
        .iter()
        .filter(|notice| notice.contains("draft"))
        .collect::<Vec<_>>()
    else {
        panic!("{:?}", info.notices);
    };
    assert!(notice.starts_with(&*other.to_string_lossy()), "{notice}");
    assert!(!text(&worker.answer(prompt(1))).is_empty());
    let missing = PathBuf::from("no-such-model.gguf");
    let (_, info) = loaded(request("llama", 128, DraftChoice::Model { path: missing }, None));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    assert!(info.notices.iter().any(|notice| notice.contains("no-such-model.gguf")));
}

#[test]
fn too_many_own_layers_are_refused_with_a_sentence() {
    let (_, info) = loaded(request("llama", 128, DraftChoice::Own { layers: Some(2) }, None));
    assert_eq!(info.draft, Some(DraftKind::Ngram));
    assert!(
        info.notices.iter().any(|notice| notice.contains("Choose from 1 to 1")),
        "{:?}",
        info.notices
    );
}

#[test]
fn tokens_of_a_prompt_outside_the_vocabulary_are_refused() {
    let (mut worker, _) = loaded(request("llama", 128, DraftChoice::Ngram, None));
    let events = worker.answer(generate(Prompt::Tokens(vec![1, 1_000_000]), 4));
    assert!(failed(&events).1.contains("1000000"), "{events:?}");
}
