//! Compares the logits of tiny random models with `transformers`, at every position and for several
//! splits of the tokens.
//!
//! The fixtures, and the script that makes them, are in `tests/fixtures/models`.

use hearth_formats::Architecture;
use hearth_formats::gguf::Gguf;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, Model, Session};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Minimum cosine similarity with the reference logits at one position.
const MIN_COSINE: f64 = 0.9999;

/// A model, and the logits of `transformers` after each of these tokens.
struct Fixture {
    model: Arc<Model>,
    ids: Vec<u32>,
    logits: Vec<f32>,
    vocab: usize,
}

fn fixture(name: &str) -> Fixture {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/models")
        .join(name);
    let gguf = Gguf::open(base.with_extension("gguf")).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(())).expect("it loads");
    let text = std::fs::read_to_string(base.with_extension("json")).expect("the ids");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let ids = json["ids"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_u64().expect("an id") as u32)
        .collect();
    let bytes = std::fs::read(base.with_extension("logits")).expect("the logits");
    let (logits, _) = bytes.as_chunks();
    Fixture {
        model: Arc::new(model),
        ids,
        logits: logits.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        vocab: json["vocab"].as_u64().expect("a number") as usize,
    }
}

fn check(name: &str, precision: MatmulPrecision, chunks: &[usize]) {
    let fixture = fixture(name);
    for &chunk in chunks {
        let mut session = Session::new(fixture.model.clone(), 64)
            .expect("a session")
            .with_precision(precision);
        let mut actual = Vec::new();
        for ids in fixture.ids.chunks(chunk) {
            actual.extend(session.extend(ids).expect("it runs"));
        }
        assert_eq!(actual.len(), fixture.logits.len());
        let positions = actual
            .chunks_exact(fixture.vocab)
            .zip(fixture.logits.chunks_exact(fixture.vocab));
        for (position, (actual, expected)) in positions.enumerate() {
            let cosine = cosine(actual, expected);
            assert!(
                cosine > MIN_COSINE,
                "{name}, {precision:?}, chunks of {chunk} tokens, position {position}: cosine {cosine}"
            );
        }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Chunk sizes: all tokens, single tokens, and a size that does not divide the length.
const CHUNKS: [usize; 3] = [40, 1, 7];

macro_rules! logits {
    ($($name:ident),*) => {
        const FIXTURES: &[&str] = &[$(stringify!($name)),*];
        $(
        #[test]
        fn $name() {
            check(stringify!($name), MatmulPrecision::F32, &CHUNKS);
            check(stringify!($name), MatmulPrecision::Int8Activations, &CHUNKS);
        }
    )*};
}

logits!(llama, llama3, qwen2, qwen3, gemma3);

#[test]
fn every_architecture_has_a_fixture() {
    for architecture in Architecture::ALL {
        assert!(FIXTURES.contains(&architecture.name()), "{architecture}");
        assert_eq!(fixture(architecture.name()).model.config().architecture, *architecture);
    }
}

#[test]
fn a_shared_prefix_is_reused_from_the_kv_cache() {
    let fixture = fixture("llama");
    let mut fresh = Session::new(fixture.model.clone(), 64).expect("a session");
    let mut reused = Session::new(fixture.model.clone(), 64).expect("a session");
    let on_progress = &mut |_: usize, _: usize| ControlFlow::Continue(());
    let other: Vec<u32> = fixture.ids[..20].iter().copied().chain([1, 2, 3]).collect();
    reused.prefill(&other, on_progress).expect("it runs");
    let result = reused.prefill(&fixture.ids, on_progress).expect("it runs");
    fresh.prefill(&fixture.ids, on_progress).expect("it runs");
    assert_eq!((result.cached, result.evaluated, result.completed), (20, 20, true));
    assert!(cosine(reused.logits(), fresh.logits()) > MIN_COSINE);
}

#[test]
fn a_cancelled_prefill_can_be_resumed() {
    let fixture = fixture("qwen2");
    let mut session = Session::new(fixture.model.clone(), 64).expect("a session");
    let cancelled = session
        .prefill(&fixture.ids, &mut |_, _| ControlFlow::Break(()))
        .expect("it runs");
    assert!(!cancelled.completed && session.logits().is_empty());
    let resumed = session
        .prefill(&fixture.ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("it runs");
    assert!(resumed.completed);
    let last = &fixture.logits[fixture.logits.len() - fixture.vocab..];
    assert!(cosine(session.logits(), last) > MIN_COSINE);
}

#[test]
fn tokens_that_do_not_fit_are_refused_and_change_nothing() {
    let fixture = fixture("llama");
    let mut session = Session::new(fixture.model.clone(), 8).expect("a session");
    session
        .prefill(&fixture.ids[..8], &mut |_, _| ControlFlow::Continue(()))
        .expect("it fits");
    assert!(session.push(1).is_err());
    assert!(
        session
            .prefill(&fixture.ids, &mut |_, _| ControlFlow::Continue(()))
            .is_err()
    );
    assert!(
        session
            .prefill(&[fixture.vocab as u32], &mut |_, _| ControlFlow::Continue(()))
            .is_err()
    );
    assert_eq!(session.tokens(), &fixture.ids[..8]);
}

#[test]
fn scores_are_log_probabilities() {
    let fixture = fixture("qwen3");
    let mut session = Session::new(fixture.model.clone(), 64)
        .expect("a session")
        .with_precision(MatmulPrecision::F32);
    let scores = session.score(&fixture.ids, 5).expect("it runs");
    let expected: Vec<f64> = (5..fixture.ids.len())
        .map(|position| {
            let row = &fixture.logits[(position - 1) * fixture.vocab..][..fixture.vocab];
            let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            f64::from(row[fixture.ids[position] as usize]) - sum.ln()
        })
        .collect();
    assert_eq!(scores.len(), expected.len());
    for (actual, expected) in scores.iter().zip(&expected) {
        assert!((actual - expected).abs() < 1e-3, "{actual} instead of {expected}");
    }
}
