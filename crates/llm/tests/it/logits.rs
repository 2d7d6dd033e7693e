//! Compares the logits of tiny random models with `transformers`, and the bits of all ways to
//! compute them: in chunks, token by token, in a batch, after a snapshot, after rejected drafts.

use crate::batch::{self, Part};
use crate::reference::{Fixture, MAX_DISTANCE, Reference, distance, names};
use hearth_formats::Architecture;
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{CacheSize, Model, SavedCells, Session};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A fixture's model with a reference.
struct Case<'a> {
    fixture: &'a Fixture,
    reference: &'a Reference,
    model: Arc<Model>,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{}, context {:?}", self.fixture.name, self.reference.context)
    }

    fn ids(&self) -> &[u32] {
        &self.fixture.ids[..self.reference.fed]
    }

    fn session(&self, drafts: usize) -> Session {
        let size = CacheSize {
            context: self.reference.fed + drafts,
            sequences: 1,
            snapshots: 0,
            step: self.reference.fed,
            drafts,
        };
        Session::with_size(self.model.clone(), size, KvFormat::F16).expect("a session")
    }

    /// The logits after every token, in chunks of this many tokens.
    fn logits(&self, precision: MatmulPrecision, chunk: usize) -> Vec<f32> {
        let mut session = self.session(0).with_precision(precision);
        let chunks = self.ids().chunks(chunk);
        chunks.flat_map(|ids| session.extend(ids).expect("it runs")).collect()
    }

    /// Checks the logits for both precisions and several chunk sizes, which give the same bits.
    /// Returns the logits of 8-bit activations.
    fn check_chunks(&self) -> Vec<f32> {
        let mut last = Vec::new();
        for precision in [MatmulPrecision::F32, MatmulPrecision::Int8Activations] {
            let case = format!("{}, {precision:?}", self.name());
            let whole = self.logits(precision, self.reference.fed);
            self.reference.assert_near(&case, &whole);
            // A single token, and a number that does not divide the length.
            for chunk in [1, 7] {
                assert!(
                    self.logits(precision, chunk) == whole,
                    "{case}, chunks of {chunk} tokens"
                );
            }
            last = whole;
        }
        last
    }

    /// Checks that neighbors in a batch change no bit.
    fn check_batch(&self, expected: &[f32]) {
        let part = |ids: Vec<u32>| Part {
            model: self.model.clone(),
            ids,
        };
        let ids = self.ids();
        let reversed = ids.iter().rev().copied().collect();
        let parts = [part(reversed), part(ids.to_vec()), part(ids[..3].to_vec())];
        let together = batch::together(&parts, KvFormat::F16, ids.len());
        let expected: Vec<u32> = expected.iter().map(|logit| logit.to_bits()).collect();
        assert!(together[1] == expected, "{} in a batch", self.name());
    }

    /// Checks that a session restored from a snapshot continues to the same bits.
    fn check_snapshot(&self, expected: &[f32]) {
        let key = [3; 32];
        let (ids, mut bytes) = (self.ids(), Vec::new());
        let half = self.reference.fed / 2;
        let mut first = self.session(0);
        first.extend(&ids[..half]).expect("it runs");
        first
            .save(&key, &mut SavedCells::default(), &mut bytes)
            .expect("it is saved");
        let mut second = self.session(0);
        second.restore(&key, &mut &*bytes, usize::MAX).expect("it is restored");
        let restored = second.tokens().len();
        assert!(
            restored > 0 && restored <= half,
            "{}: {restored} tokens are restored",
            self.name()
        );
        let logits = second.extend(&ids[restored..]).expect("it runs");
        assert!(
            logits == expected[restored * self.fixture.vocab..],
            "{} after a snapshot",
            self.name()
        );
    }

    /// Checks that rejected drafts change no bit.
    fn check_draft(&self, expected: &[f32]) {
        const DRAFTS: usize = 3;
        let ids = self.ids();
        let mut session = self.session(DRAFTS);
        let mut logits: Vec<f32> = Vec::new();
        for (index, ids) in ids.chunks(5).enumerate() {
            let draft: Vec<u32> = (0..DRAFTS).map(|i| (index * 3 + i + 1) as u32).collect();
            let length = session.tokens().len() + ids.len();
            let drafted = session.extend(&[ids, &draft].concat()).expect("it runs");
            logits.extend(&drafted[..ids.len() * self.fixture.vocab]);
            session.truncate(length);
            assert_eq!(session.tokens().len(), length, "{}", self.name());
        }
        assert!(logits == expected, "{} with rejected drafts", self.name());
    }
}

fn check(name: &str) {
    let fixture = Fixture::read(name);
    assert!(!fixture.references.is_empty());
    for reference in &fixture.references {
        let case = Case {
            fixture: &fixture,
            reference,
            model: fixture.model(reference.context),
        };
        let logits = case.check_chunks();
        case.check_batch(&logits);
        case.check_snapshot(&logits);
        case.check_draft(&logits);
    }
}

macro_rules! logits {
    ($($name:ident),* $(,)?) => {
        /// The names of the files, sorted, with `_` for `-`.
        const FIXTURES: &[&str] = &[$(stringify!($name)),*];
        $(
        #[test]
        fn $name() {
            check(&stringify!($name).replace('_', "-"));
        }
    )*};
}

logits!(
    gemma2, gemma2_2, gemma2_3, gemma3, granite, granite_2, granite_3, llama, llama3, mistral, mistral_2, mistral_3,
    mistral3, mistral3_2, mistral3_3, olmo2, olmo2_2, olmo2_3, phi3, phi3_2, phi3_3, qwen2, qwen3, smollm3, smollm3_2,
    smollm3_3,
);

#[test]
fn every_fixture_is_tested() {
    let tested: Vec<_> = FIXTURES.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(names(), tested);
}

#[test]
fn every_architecture_has_a_fixture() {
    for architecture in Architecture::ALL {
        assert!(FIXTURES.contains(&architecture.name()), "{architecture}");
        let model = Fixture::read(architecture.name()).model(None);
        assert_eq!(model.config().architecture, *architecture);
    }
}

#[test]
fn a_shared_prefix_is_reused_from_the_kv_cache() {
    let fixture = Fixture::read("llama");
    let mut fresh = Session::new(fixture.model(None), 64).expect("a session");
    let mut reused = Session::new(fixture.model(None), 64).expect("a session");
    let on_progress = &mut |_: usize, _: usize| ControlFlow::Continue(());
    let other: Vec<u32> = fixture.ids[..20].iter().copied().chain([1, 2, 3]).collect();
    reused.prefill(&other, on_progress).expect("it runs");
    let result = reused.prefill(&fixture.ids, on_progress).expect("it runs");
    fresh.prefill(&fixture.ids, on_progress).expect("it runs");
    assert_eq!((result.cached, result.evaluated, result.completed), (20, 20, true));
    assert!(distance(reused.logits(), fresh.logits()) < MAX_DISTANCE);
}

#[test]
fn a_cancelled_prefill_can_be_resumed() {
    let fixture = Fixture::read("qwen2");
    let mut session = Session::new(fixture.model(None), 64).expect("a session");
    let cancelled = session
        .prefill(&fixture.ids, &mut |_, _| ControlFlow::Break(()))
        .expect("it runs");
    assert!(!cancelled.completed && session.logits().is_empty());
    let resumed = session
        .prefill(&fixture.ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("it runs");
    assert!(resumed.completed);
    let (_, last) = fixture.references[0].rows.last().expect("a row");
    assert!(distance(session.logits(), last) < MAX_DISTANCE);
}

#[test]
fn tokens_that_do_not_fit_are_refused_and_change_nothing() {
    let fixture = Fixture::read("llama");
    let mut session = Session::new(fixture.model(None), 8).expect("a session");
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
    let fixture = Fixture::read("qwen3");
    let mut session = Session::new(fixture.model(None), 64)
        .expect("a session")
        .with_precision(MatmulPrecision::F32);
    let scores = session.score(&fixture.ids, 5).expect("it runs");
    let expected: Vec<f64> = (5..fixture.ids.len())
        .map(|position| {
            let row = &fixture.references[0].rows[position - 1].1;
            let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            f64::from(row[fixture.ids[position] as usize]) - sum.ln()
        })
        .collect();
    assert_eq!(scores.len(), expected.len());
    for (actual, expected) in scores.iter().zip(&expected) {
        assert!((actual - expected).abs() < 1e-3, "{actual} instead of {expected}");
    }
}
