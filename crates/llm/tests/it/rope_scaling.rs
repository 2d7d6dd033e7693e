//! Models whose file scales RoPE: the magnitude, YaRN, and LongRoPE, whose frequencies depend on
//! the planned context.

use crate::unusual_values::llama_with_keys;
use hearth_formats::gguf::Value;
use hearth_kernels::MatmulPrecision;
use hearth_llm::arch::RopeIdentity;
use hearth_llm::{LoadError, LoadOptions, Model, SavedCells, Session, SnapshotError};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;

const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";
/// Pairs of the fixture's heads of 16.
const PAIRS: usize = 8;

fn load(keys: &[(&str, Value)], vectors: &[(&str, Vec<f32>)], context: usize) -> Result<Arc<Model>, LoadError> {
    let options = LoadOptions {
        context: Some(context),
        ..LoadOptions::default()
    };
    let gguf = llama_with_keys(keys, vectors);
    Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(())).map(Arc::new)
}

fn logits(model: &Arc<Model>) -> Vec<f32> {
    let session = Session::new(model.clone(), 64).expect("a session");
    let mut session = session.with_precision(MatmulPrecision::F32);
    session.extend(&[1, 2, 3, 5, 8, 13, 21, 34]).expect("it runs")
}

/// The logits of the fixture with these keys.
fn logits_with(keys: &[(&str, Value)]) -> Vec<f32> {
    logits(&load(keys, &[], 64).expect("it loads"))
}

#[test]
fn yarn_and_the_magnitude_change_the_logits() {
    let plain = logits_with(&[]);
    let magnitude = |value| ("rope.scaling.attn_factor", Value::F32(value));
    assert_eq!(logits_with(&[magnitude(1.0)]), plain);
    let yarn = [
        ("rope.scaling.type", Value::from("yarn")),
        ("rope.scaling.factor", Value::F32(4.0)),
        ("rope.scaling.original_context_length", Value::U32(16)),
    ];
    let with_yarn = logits_with(&yarn);
    let with_both = logits_with(&[&yarn[..], &[magnitude(0.5)]].concat());
    let changed = [&logits_with(&[magnitude(1.5)]), &with_yarn, &with_both];
    for (index, logits) in changed.iter().enumerate() {
        assert!(logits.iter().all(|logit| logit.is_finite()), "{index}");
        assert!(**logits != plain && !changed[..index].contains(logits), "{index}");
    }
}

/// Keys of LongRoPE with an original context of 32 tokens.
fn longrope() -> [(&'static str, Value); 2] {
    [
        ("rope.scaling.type", Value::from("longrope")),
        ("rope.scaling.original_context_length", Value::U32(32)),
    ]
}

#[test]
fn the_planned_context_chooses_the_frequencies() {
    let plain = logits_with(&[]);
    let divided = load(&[], &[("rope_freqs.weight", vec![8.0; PAIRS])], 64).expect("it loads");
    let vectors = [(SHORT, vec![1.0; PAIRS]), (LONG, vec![8.0; PAIRS])];
    for (context, identity, expected) in [
        (1, RopeIdentity::Short, &plain),
        (32, RopeIdentity::Short, &plain),
        (33, RopeIdentity::Long, &logits(&divided)),
    ] {
        let model = load(&longrope(), &vectors, context).expect("it loads");
        assert_eq!(model.rope_identity(), identity, "{context}");
        assert_eq!(logits(&model), *expected, "{context}");
    }
    assert_eq!(divided.rope_identity(), RopeIdentity::Fixed);
}

#[test]
fn longrope_has_both_sets_or_none() {
    let plain = logits_with(&[]);
    let without = load(&longrope(), &[], 64).expect("it loads");
    assert_eq!(logits(&without), plain);
    for (present, missing) in [(SHORT, LONG), (LONG, SHORT)] {
        for context in [32, 64] {
            let error = load(&longrope(), &[(present, vec![1.0; PAIRS])], context);
            let error = error.err().expect("it is refused").to_string();
            assert!(error.contains(missing), "{error}");
        }
    }
}

/// Both sets are checked, so that no plan depends on a corrupt one.
#[test]
fn both_sets_of_longrope_are_positive_numbers() {
    for context in [32, 33] {
        for (name, other) in [(SHORT, LONG), (LONG, SHORT)] {
            for divisor in [0.0, -0.0, -1.0, 1e-40, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut divisors = vec![1.0; PAIRS];
                divisors[PAIRS - 1] = divisor;
                let vectors = [(other, vec![1.0; PAIRS]), (name, divisors)];
                let error = load(&longrope(), &vectors, context).err().expect("it is refused");
                assert!(error.to_string().contains(name), "{context} {divisor}: {error}");
            }
        }
    }
}

#[test]
fn a_snapshot_of_other_frequencies_is_refused() {
    let vectors = [(SHORT, vec![1.0; PAIRS]), (LONG, vec![8.0; PAIRS])];
    let session = |context| {
        let model = load(&longrope(), &vectors, context).expect("it loads");
        Session::new(model, 64).expect("a session")
    };
    let (mut short, mut saved, mut bytes) = (session(32), SavedCells::default(), Vec::<u8>::new());
    let ids: Vec<u32> = (0..40).collect();
    short
        .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("it runs");
    short.save(&[7; 32], &mut saved, &mut bytes).expect("it is saved");
    let is_refused = |context| {
        let mut session = session(context);
        let saved = session.saved(&[7; 32], &mut Cursor::new(&bytes));
        let restored = session.restore(&[7; 32], &mut &bytes[..], 64);
        matches!(saved, Err(SnapshotError::Other)) && matches!(restored, Err(SnapshotError::Other))
    };
    assert!(is_refused(64));
    assert!(!is_refused(16));
}
