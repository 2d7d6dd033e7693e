//! Sessions of models with sliding-window layers, whose caches have fewer positions than the
//! context.

use crate::sample::{Sample, layer_shape};
use hearth_formats::Architecture;
use hearth_formats::gguf::Gguf;
use hearth_kernels::Quant;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{CacheSize, LoadOptions, Model, SavedCells, Session};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const CONTEXT: usize = 2048;
const PROMPT_LEN: usize = 1500;

/// A model with five layers with a window of 8 tokens, and one layer with full attention.
fn model() -> Arc<Model> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/gemma3.gguf");
    let gguf = Gguf::open(file).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn session(model: &Arc<Model>) -> Session {
    Session::new(model.clone(), CONTEXT).expect("a session")
}

/// `count` token ids. The first `shared` are the same in every variant.
fn ids(count: usize, shared: usize, variant: usize) -> Vec<u32> {
    let id = |i: usize| (i * i * 5 + if i < shared { 0 } else { variant }) % 300;
    (0..count).map(|i| id(i) as u32).collect()
}

/// Prefills `ids`, and returns the number of tokens that were reused from the cache.
fn prefill(session: &mut Session, ids: &[u32]) -> usize {
    let reusable = session.reusable(ids);
    let result = session
        .prefill(ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("it runs");
    assert_eq!(result.cached, reusable);
    result.cached
}

fn fresh_logits(model: &Arc<Model>, ids: &[u32]) -> Vec<f32> {
    let mut session = session(model);
    prefill(&mut session, ids);
    session.logits().to_vec()
}

#[test]
fn windowed_layers_store_only_their_window_and_one_step() {
    let model = model();
    let [local, full] = model.groups() else {
        panic!("two groups")
    };
    assert_eq!((local.window, full.window), (Some(8), None));
    let size = CacheSize::chat(CONTEXT, model.groups());
    // With a window: five pages for window (8), slack (16) and step (512), one page for window and
    // slack of each of two snapshots, and one more page for each because of alignment. With full
    // attention: 16 pages for the context, and a copy of the last page for each snapshot.
    assert_eq!((local.pages(&size), full.pages(&size)), (5 + 1 + 2 * 2, 16 + 2));
    let mut session = session(&model);
    prefill(&mut session, &ids(PROMPT_LEN, 0, 0));
    let group_bytes = |group: &hearth_llm::LayerGroup| group.layers.len() * group.cpu_bytes(KvFormat::F16, &size);
    assert_eq!(session.cache_bytes(), group_bytes(local) + group_bytes(full));
    // With a context of 1024, windows and snapshots would take more pages than the whole context.
    let short = CacheSize::chat(1024, model.groups());
    assert_eq!((local.pages(&short), full.pages(&short), short.snapshots), (8, 8, 0));
}

#[test]
fn a_smaller_cache_gives_the_same_bits() {
    let model = model();
    let ids = ids(1000, 0, 0);
    let mut full = Session::new(model.clone(), 1024).expect("a session");
    let mut windowed = session(&model);
    for chunk in [&ids[..500], &ids[500..990], &ids[990..991], &ids[991..]] {
        let [expected, actual] = [&mut full, &mut windowed].map(|session| session.extend(chunk).expect("it runs"));
        assert!(actual == expected);
    }
}

#[test]
fn dropped_snapshots_free_their_pages_and_change_no_bit() {
    let model = model();
    let first = ids(PROMPT_LEN, 0, 0);
    let [mut with_snapshots, mut without_snapshots] = [(); 2].map(|()| session(&model));
    for session in [&mut with_snapshots, &mut without_snapshots] {
        prefill(session, &first);
        // Moves the window, so that the snapshot owns pages alone.
        (0..200).for_each(|token| session.push(token).expect("room"));
    }
    let free_before = without_snapshots.cache().free_pages()[0][0];
    assert!(without_snapshots.drop_snapshots() && !without_snapshots.drop_snapshots());
    assert!(without_snapshots.cache().free_pages()[0][0] > free_before);
    for session in [&mut with_snapshots, &mut without_snapshots] {
        session.push(7).expect("room");
    }
    assert!(with_snapshots.logits() == without_snapshots.logits());
    assert_eq!(prefill(&mut without_snapshots, &first), 0, "nothing is reused");
    assert!(without_snapshots.logits() == fresh_logits(&model, &first));
}

#[test]
fn regenerating_and_branching_resume_from_snapshots() {
    let model = model();
    let mut session = session(&model);
    let first = ids(PROMPT_LEN, 0, 0);
    assert_eq!(prefill(&mut session, &first), 0);
    (0..60).for_each(|token| session.push(token).expect("room"));

    // Regenerating reuses the prompt except for its last token, whose logits are needed.
    assert_eq!(prefill(&mut session, &first), PROMPT_LEN - 1);
    assert!(session.logits() == fresh_logits(&model, &first));
    (0..60).for_each(|token| session.push(token).expect("room"));

    // A second turn, which is then replaced by another one.
    let first_turn = session.tokens().to_vec();
    let turn = |token: u32| [&first_turn[..], &vec![token; 90]].concat();
    assert_eq!(prefill(&mut session, &turn(7)), PROMPT_LEN + 60);
    assert_eq!(prefill(&mut session, &turn(8)), PROMPT_LEN + 60);
    assert!(session.logits() == fresh_logits(&model, &turn(8)));

    // After an edit before the first snapshot, no token can be reused.
    let edited = ids(PROMPT_LEN, 200, 3);
    assert_eq!(prefill(&mut session, &edited), 0);
    assert!(session.logits() == fresh_logits(&model, &edited));
    assert_eq!(
        prefill(&mut session, &edited[..PROMPT_LEN - 10]),
        PROMPT_LEN - 11,
        "within the last tile"
    );
}

#[test]
fn a_windowed_session_is_saved_and_restored() {
    const KEY: [u8; 32] = [3; 32];
    let model = model();
    let all = ids(PROMPT_LEN + 300, 0, 0);
    let mut first = session(&model);
    let (mut saved, mut bytes) = (SavedCells::default(), Vec::new());
    for end in [700, PROMPT_LEN, PROMPT_LEN + 90] {
        prefill(&mut first, &all[..end]);
        saved.cut(first.savable());
        let expected = bytes.len() as u64 + first.bytes_to_save(&saved);
        first.save(&KEY, &mut saved, &mut bytes).expect("it is saved");
        assert_eq!((bytes.len() as u64, saved.bytes()), (expected, expected));
    }
    let end = (PROMPT_LEN + 90) / 16 * 16;
    assert_eq!(saved.tokens(), &all[..end]);

    let mut second = session(&model);
    let actual = second
        .saved(&KEY, &mut Cursor::new(&bytes))
        .expect("its header is valid");
    assert_eq!(actual.tokens(), saved.tokens());
    // Sessions can be restored at the ends of the three saves.
    assert_eq!(second.restorable(&actual, usize::MAX), end);
    assert_eq!(second.restorable(&actual, end - 1), PROMPT_LEN / 16 * 16);
    assert_eq!(second.restorable(&actual, 700), 700 / 16 * 16);
    assert_eq!(second.restorable(&actual, 100), 0, "its windows were released");
    for (limit, count) in [(usize::MAX, end), (PROMPT_LEN / 16 * 16, PROMPT_LEN / 16 * 16)] {
        second.restore(&KEY, &mut &*bytes, limit).expect("its header is valid");
        assert_eq!(second.tokens(), &all[..count]);
        assert_eq!(prefill(&mut second, &all), count);
        assert!(second.logits() == fresh_logits(&model, &all));
    }
    // Where cells of windows are missing, the segments are valid, but the session is not restored.
    let valid = second.restore(&KEY, &mut &*bytes, 100).expect("its header is valid");
    assert!(second.tokens().is_empty() && !valid.tokens().is_empty());
    // The segments before a corrupt one are valid, but the session may not be restored.
    let mut corrupt = bytes.clone();
    *corrupt.last_mut().expect("bytes") ^= 1;
    let valid = second
        .restore(&KEY, &mut &*corrupt, usize::MAX)
        .expect("its header is valid");
    assert!(valid.tokens().len() < end && all.starts_with(valid.tokens()));
    assert!([0, valid.tokens().len()].contains(&second.tokens().len()));
    prefill(&mut second, &all);
    assert!(second.logits() == fresh_logits(&model, &all));
    // The snapshot of a cache that releases positions does not fit one that does not.
    let mut short = Session::new(model.clone(), 1024).expect("a session");
    assert!(short.restore(&KEY, &mut &*bytes, usize::MAX).is_err());
}

/// A model with a window of 270 tokens: more than a tile and a page.
fn wide_model() -> Arc<Model> {
    let sample = Sample {
        architecture: Architecture::Gemma3,
        layers: vec![layer_shape(64, 64, 2, 1); 6],
        vocab: 300,
        formats: &[Quant::Q8_0],
    };
    let gguf = sample.gguf().expect("a file");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

/// Prompts may end anywhere in a chunk.
#[test]
fn turns_of_any_length_fit_the_planned_pages() {
    for model in [model(), wide_model()] {
        for (first, answer, second) in [(1408, 100, 532), (1468, 16, 540), (1000, 400, 640), (513, 511, 1024)] {
            let mut session = Session::new(model.clone(), CONTEXT + 128).expect("a session");
            assert!(CacheSize::chat(CONTEXT + 128, model.groups()).snapshots > 0);
            prefill(&mut session, &ids(first, 0, 0));
            (0..answer).for_each(|token| session.push(token % 300).expect("room"));
            let next = [session.tokens(), &ids(second, 0, 5)].concat();
            assert_eq!(prefill(&mut session, &next), first + answer as usize);
            // Regenerates the answer.
            (0..9).for_each(|token| session.push(token).expect("room"));
            assert_eq!(prefill(&mut session, &next), next.len() - 1);
            (0..9).for_each(|token| session.push(token).expect("room"));
        }
    }
}

/// The prompts share prefixes of several lengths with the restored session.
#[test]
fn a_restored_session_uses_no_cell_that_was_not_saved() {
    const KEY: [u8; 32] = [3; 32];
    let model = wide_model();
    let session = || Session::new(model.clone(), CONTEXT).expect("a session");
    let all = ids(1440, 0, 0);
    let mut first = session();
    prefill(&mut first, &all[..1200]);
    all[1200..].iter().for_each(|id| first.push(*id).expect("room"));
    let (mut saved, mut bytes) = (SavedCells::default(), Vec::new());
    first.save(&KEY, &mut saved, &mut bytes).expect("it is saved");
    for shared in (900..1440).step_by(27) {
        let prompt = [&all[..shared], &[299; 20]].concat();
        let mut restored = session();
        restored
            .restore(&KEY, &mut &*bytes, usize::MAX)
            .expect("its header is valid");
        assert_eq!(restored.tokens(), all);
        prefill(&mut restored, &prompt);
        let mut fresh = session();
        prefill(&mut fresh, &prompt);
        assert!(restored.logits() == fresh.logits(), "{shared} tokens shared");
    }
}

#[test]
fn a_regenerated_answer_shorter_than_the_window_can_be_restored() {
    const KEY: [u8; 32] = [3; 32];
    let model = wide_model();
    let mut session = Session::new(model.clone(), CONTEXT).expect("a session");
    let prompt = ids(1400, 0, 0);
    let (mut saved, mut bytes) = (SavedCells::default(), Vec::new());
    for answer in [200, 150] {
        prefill(&mut session, &prompt);
        (0..answer).for_each(|token| session.push((token + answer) % 300).expect("room"));
        session.cut(&mut saved);
        bytes.truncate(saved.bytes() as usize);
        session.save(&KEY, &mut saved, &mut bytes).expect("it is saved");
        let end = session.savable().len();
        assert_eq!(
            (saved.tokens(), session.restorable(&saved, end)),
            (session.savable(), end)
        );
        let mut restored = Session::new(model.clone(), CONTEXT).expect("a session");
        restored
            .restore(&KEY, &mut &*bytes, usize::MAX)
            .expect("its header is valid");
        assert_eq!(restored.tokens(), session.savable());
    }
}
