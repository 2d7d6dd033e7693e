//! Sessions of a model with sliding-window layers, whose caches hold fewer positions than the
//! context.

use crate::sample::Sample;
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

/// Five layers that see 8 tokens back, and one that sees all.
fn model() -> Arc<Model> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/gemma3.gguf");
    let gguf = Gguf::open(file).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
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

/// Prefills and returns the tokens that were cached.
fn prefill(session: &mut Session, ids: &[u32]) -> usize {
    let reusable = session.reusable(ids);
    let done = session
        .prefill(ids, &mut |_, _| ControlFlow::Continue(()))
        .expect("it runs");
    assert_eq!(done.cached, reusable);
    done.cached
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
    // Window (8), slack (16) and step (512): five pages, one more for alignment. Two snapshots of
    // window and slack: one page each, one more for alignment. The full group: 16 pages of context
    // and a copy of the last page per snapshot.
    assert_eq!((local.pages(&size), full.pages(&size)), (5 + 1 + 2 * 2, 16 + 2));
    let mut session = session(&model);
    prefill(&mut session, &ids(PROMPT_LEN, 0, 0));
    let group_bytes = |group: &hearth_llm::LayerGroup| group.layers.len() * group.cpu_bytes(KvFormat::F16, &size);
    assert_eq!(session.cache_bytes(), group_bytes(local) + group_bytes(full));
    // No window shortens a context of 1024, so there are no snapshots.
    let short = CacheSize::chat(1024, model.groups());
    assert_eq!((local.pages(&short), full.pages(&short), short.snapshots), (8, 8, 0));
}

#[test]
fn a_smaller_cache_gives_the_same_bits() {
    let model = model();
    let ids = ids(1000, 0, 0);
    let mut whole = Session::new(model.clone(), 1024).expect("a session");
    let mut windowed = session(&model);
    for chunk in [&ids[..500], &ids[500..990], &ids[990..991], &ids[991..]] {
        let [expected, actual] = [&mut whole, &mut windowed].map(|session| session.extend(chunk).expect("it runs"));
        assert!(actual == expected);
    }
}

#[test]
fn dropped_snapshots_free_their_pages_and_change_no_bit() {
    let model = model();
    let first = ids(PROMPT_LEN, 0, 0);
    let [mut keeping, mut dropping] = [(); 2].map(|()| session(&model));
    for session in [&mut keeping, &mut dropping] {
        prefill(session, &first);
        // Past the window, so that the snapshot has unshared pages.
        (0..200).for_each(|token| session.push(token).expect("room"));
    }
    let before = dropping.cache().free_pages()[0][0];
    assert!(dropping.drop_snapshots() && !dropping.drop_snapshots());
    assert!(dropping.cache().free_pages()[0][0] > before);
    for session in [&mut keeping, &mut dropping] {
        session.push(7).expect("room");
    }
    assert!(keeping.logits() == dropping.logits());
    assert_eq!(prefill(&mut dropping, &first), 0, "nothing is reused");
    assert!(dropping.logits() == fresh_logits(&model, &first));
}

#[test]
fn regenerating_and_branching_resume_from_snapshots() {
    let model = model();
    let mut session = session(&model);
    let first = ids(PROMPT_LEN, 0, 0);
    assert_eq!(prefill(&mut session, &first), 0);
    (0..60).for_each(|token| session.push(token).expect("room"));

    // Regenerate: all but the last prompt token is reused, because its logits are needed.
    assert_eq!(prefill(&mut session, &first), PROMPT_LEN - 1);
    assert!(session.logits() == fresh_logits(&model, &first));
    (0..60).for_each(|token| session.push(token).expect("room"));

    // A second turn, then another one in its place.
    let answered = session.tokens().to_vec();
    let turn = |kind: u32| [&answered[..], &vec![kind; 90]].concat();
    assert_eq!(prefill(&mut session, &turn(7)), PROMPT_LEN + 60);
    assert_eq!(prefill(&mut session, &turn(8)), PROMPT_LEN + 60);
    assert!(session.logits() == fresh_logits(&model, &turn(8)));

    // An edit before the first snapshot: nothing is reused, and the logits are right.
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
    // The ends of the three saves, and segments whose windows were saved with them.
    assert_eq!(second.restorable(&actual, usize::MAX), end);
    assert_eq!(second.restorable(&actual, end - 1), PROMPT_LEN / 16 * 16);
    assert_eq!(second.restorable(&actual, 700), 700 / 16 * 16);
    assert_eq!(second.restorable(&actual, 100), 0, "its windows were left");
    for (limit, count) in [(usize::MAX, end), (PROMPT_LEN / 16 * 16, PROMPT_LEN / 16 * 16)] {
        second.restore(&KEY, &mut &*bytes, limit).expect("its header is valid");
        assert_eq!(second.tokens(), &all[..count]);
        assert_eq!(prefill(&mut second, &all), count);
        assert!(second.logits() == fresh_logits(&model, &all));
    }
    // Tokens behind which the windows are missing are not restored.
    let read = second.restore(&KEY, &mut &*bytes, 100).expect("its header is valid");
    assert!(second.tokens().is_empty() && !read.tokens().is_empty());
    // A corrupt tail: what is before it may not be restorable, but is valid.
    let mut corrupt = bytes.clone();
    *corrupt.last_mut().expect("bytes") ^= 1;
    let read = second
        .restore(&KEY, &mut &*corrupt, usize::MAX)
        .expect("its header is valid");
    assert!(read.tokens().len() < end && all.starts_with(read.tokens()));
    assert!([0, read.tokens().len()].contains(&second.tokens().len()));
    prefill(&mut second, &all);
    assert!(second.logits() == fresh_logits(&model, &all));
    // A cache that releases nothing has other snapshots.
    let mut short = Session::new(model.clone(), 1024).expect("a session");
    assert!(short.restore(&KEY, &mut &*bytes, usize::MAX).is_err());
}

/// A window of 270 tokens: more than a tile and a page.
fn wide() -> Arc<Model> {
    let sample = Sample {
        architecture: Architecture::Gemma3,
        layers: 6,
        width: 64,
        ffn_width: 64,
        heads: 2,
        kv_heads: 1,
        vocab: 300,
        formats: &[Quant::Q8_0],
    };
    let gguf = sample.gguf().expect("a file");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

/// Turns whose prompts end anywhere in a chunk: the pages of snapshots are those planned.
#[test]
fn turns_of_any_length_fit_the_planned_pages() {
    for model in [model(), wide()] {
        for (first, answer, second) in [(1408, 100, 532), (1468, 16, 540), (1000, 400, 640), (513, 511, 1024)] {
            let mut session = Session::new(model.clone(), CONTEXT + 128).expect("a session");
            assert!(CacheSize::chat(CONTEXT + 128, model.groups()).snapshots > 0);
            prefill(&mut session, &ids(first, 0, 0));
            (0..answer).for_each(|token| session.push(token % 300).expect("room"));
            let next = [session.tokens(), &ids(second, 0, 5)].concat();
            assert_eq!(prefill(&mut session, &next), first + answer as usize);
            // Regenerate, then continue.
            (0..9).for_each(|token| session.push(token).expect("room"));
            assert_eq!(prefill(&mut session, &next), next.len() - 1);
            (0..9).for_each(|token| session.push(token).expect("room"));
        }
    }
}

/// Wherever a prompt leaves the saved one, no cell is used that the file does not have.
#[test]
fn a_restored_session_uses_no_cell_that_was_not_saved() {
    const KEY: [u8; 32] = [3; 32];
    let model = wide();
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

/// A regenerated answer shorter than the window.
#[test]
fn a_regenerated_answer_shorter_than_the_window_can_be_restored() {
    const KEY: [u8; 32] = [3; 32];
    let model = wide();
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
