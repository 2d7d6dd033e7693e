//! Tests sampling parameters with the worker: their effects on answers, and invalid values.

use crate::common::*;
use hearth_protocol::{GenerateRequest, LogitBias, ProblemCode, SamplingParams};

/// A request for an answer at a high temperature.
fn request(seed: u64, change: impl FnOnce(&mut SamplingParams)) -> GenerateRequest {
    let mut request = generate(raw("Once upon a time"), 60);
    request.sampling = SamplingParams {
        temperature: 1.5,
        top_k: 0,
        seed: Some(seed),
        ..SamplingParams::default()
    };
    change(&mut request.sampling);
    request
}

/// The tokens of the model are bytes and a few pairs of bytes, so most strings have several tokens.
#[test]
fn an_answer_contains_no_banned_string() {
    let mut worker = Worker::load_llama(128);
    let mut changed = 0;
    for seed in 0..20 {
        let plain = text(&worker.answer(request(seed, |_| ())));
        let characters: Vec<char> = plain.chars().filter(|c| *c != char::REPLACEMENT_CHARACTER).collect();
        // Strings of one to four characters of the answer.
        let banned: Vec<String> = (1..=4)
            .flat_map(|length| {
                characters
                    .chunks(length + 5)
                    .map(move |chunk| chunk.iter().take(length).collect())
            })
            .collect();
        let banned = [&banned[..], &[String::new()]].concat();
        let with_bans = text(&worker.answer(request(seed, |s| s.banned_strings = banned.clone())));
        let actual = banned.iter().find(|text| !text.is_empty() && with_bans.contains(*text));
        assert_eq!(actual, None, "{with_bans:?}");
        changed += usize::from(plain != with_bans);
        // With banned strings, greedy decoding does not use the device's argmax.
        let greedy = |s: &mut SamplingParams| (s.temperature, s.banned_strings) = (0.0, banned.clone());
        let with_bans = text(&worker.answer(request(seed, greedy)));
        assert!(
            !banned.iter().any(|text| !text.is_empty() && with_bans.contains(text)),
            "{with_bans:?}"
        );
    }
    assert!(changed > 15, "{changed}");
}

#[test]
fn a_bias_makes_a_token_certain_or_impossible() {
    let mut worker = Worker::load_llama(128);
    let x = || LogitBias::Text {
        text: "x".to_owned(),
        bias: Some(1000.0),
    };
    let certain = worker.answer(request(1, |s| s.logit_bias = vec![x()]));
    assert_eq!(text(&certain), "x".repeat(60));
    let id = summary(&certain).ids[0];
    let by_id = worker.answer(request(2, |s| {
        s.logit_bias = vec![LogitBias::Id { id, bias: Some(1000.0) }]
    }));
    assert_eq!(text(&by_id), "x".repeat(60));
    let greedy = worker.answer(request(3, |s| (s.temperature, s.logit_bias) = (0.0, vec![x()])));
    assert_eq!(text(&greedy), "x".repeat(60));
    let banned = worker.answer(request(4, |s| {
        s.logit_bias = vec![x(), LogitBias::Id { id, bias: None }]
    }));
    assert!(!summary(&banned).ids.contains(&id));
}

#[test]
fn dry_ends_a_repetition() {
    let mut worker = Worker::load_llama(128);
    let bias = || {
        let logit_bias = |text: &str| LogitBias::Text {
            text: text.to_owned(),
            bias: Some(500.0),
        };
        vec![logit_bias("x"), logit_bias("y")]
    };
    let longest_run = |text: &str| text.as_bytes().chunk_by(|a, b| a == b).map(<[u8]>::len).max();
    let plain = worker.answer(request(1, |s| (s.temperature, s.logit_bias) = (0.0, bias())));
    assert!(longest_run(&text(&plain)) > Some(20), "{}", text(&plain));
    let with_dry = worker.answer(request(1, |s| {
        (s.temperature, s.logit_bias) = (0.0, bias());
        (s.dry_multiplier, s.dry_allowed_length) = (5.0, 2);
    }));
    assert!(longest_run(&text(&with_dry)) < Some(10), "{}", text(&with_dry));
}

#[test]
fn invalid_parameters_are_refused_with_a_sentence() {
    let mut worker = Worker::load_llama(128);
    let many = || (0..10_000).map(|number| number.to_string()).collect();
    type Change = fn(&mut SamplingParams);
    let bad: [(Change, &str); 15] = [
        (|s| s.typical_p = f32::NAN, "typical_p"),
        (|s| s.top_n_sigma = 1e9, "top_n_sigma"),
        (|s| s.xtc_probability = 2.0, "xtc_probability"),
        (|s| s.xtc_threshold = -1.0, "xtc_threshold"),
        (|s| s.dry_multiplier = f32::INFINITY, "dry_multiplier"),
        (|s| s.dry_base = 0.0, "dry_base"),
        (|s| s.mirostat_tau = -1.0, "mirostat_tau"),
        (|s| s.mirostat_eta = 7.0, "mirostat_eta"),
        (|s| s.dynatemp_range = -1.0, "dynatemp_range"),
        (|s| s.dynatemp_exponent = f32::NAN, "dynatemp_exponent"),
        (|s| s.banned_strings = vec!["a".repeat(300)], "300 bytes"),
        (|s| s.banned_strings = vec!["a\u{fffd}".to_owned()], "U+FFFD"),
        (
            |s| (s.dry_multiplier, s.dry_breakers) = (1.0, vec!["b".repeat(300)]),
            "dry_breakers",
        ),
        (
            |s| {
                s.logit_bias = vec![LogitBias::Id {
                    id: 1 << 30,
                    bias: None,
                }]
            },
            "1073741824",
        ),
        (
            |s| {
                s.logit_bias = vec![LogitBias::Id {
                    id: 1,
                    bias: Some(2000.0),
                }]
            },
            "logit_bias",
        ),
    ];
    for (change, expected) in bad {
        let events = worker.answer(request(0, change));
        let (code, message) = failed(&events);
        assert_eq!(code, ProblemCode::BadRequest, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let ten_thousand = worker.answer(request(0, |s| (s.dry_multiplier, s.dry_breakers) = (1.0, many())));
    assert!(failed(&ten_thousand).1.contains("10000"));
    let ten_thousand = worker.answer(request(0, |s| s.banned_strings = many()));
    assert!(failed(&ten_thousand).1.contains("10000"));
    // The worker continues.
    assert!(!text(&worker.answer(request(0, |_| ()))).is_empty());
}

#[test]
fn parameters_that_leave_no_token_end_the_answer_with_a_sentence() {
    let mut worker = Worker::load_llama(128);
    let gguf = hearth_formats::gguf::Gguf::open(model()).unwrap();
    let tokens = hearth_formats::tokenizer::Tokenizer::from_gguf(&gguf)
        .unwrap()
        .vocab_size();
    let all: Vec<LogitBias> = (0..tokens as u32).map(|id| LogitBias::Id { id, bias: None }).collect();
    assert!(all.len() <= 1000);
    let events = worker.answer(request(0, |s| s.logit_bias = all));
    let (code, message) = failed(&events);
    assert_eq!(code, ProblemCode::BadRequest);
    assert!(message.contains("no token"), "{message}");
}
