//! Sessions that are saved and restored, with the tiny random models of `tests/fixtures/models`.

use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{LoadOptions, Model, SavedCells, Session, SnapshotError, SnapshotKey};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

const KEY: SnapshotKey = [7; 32];
/// Bytes before the first segment.
const HEAD: usize = 64;

fn model(name: &str) -> Arc<Model> {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(base.join(name).with_extension("gguf")).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn session(model: &Arc<Model>, context: usize, format: KvFormat) -> Session {
    Session::with_cache(model.clone(), context, format).expect("a session")
}

/// So many tokens, of which the first `same` are always the same and the others those of `kind`.
fn ids(count: u32, same: u32, kind: u32) -> Vec<u32> {
    (0..count)
        .map(|i| (i * 5 + if i < same { 0 } else { kind }) % 61)
        .collect()
}

/// What was saved: bytes, as a file has them, and what is known of them.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    saved: SavedCells,
}

impl Kept {
    /// Makes the session read what is new in `ids`, and saves that behind what is still right; how
    /// many bytes it took.
    fn keep(&mut self, session: &mut Session, ids: &[u32]) -> usize {
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        session.prefill(ids, go).expect("it runs");
        self.saved.cut(session.savable());
        let (begin, told) = (self.saved.bytes() as usize, session.bytes_to_save(&self.saved));
        self.bytes.truncate(begin);
        session
            .save(&KEY, &mut self.saved, &mut self.bytes)
            .expect("it is saved");
        assert_eq!(
            (self.saved.bytes() as usize, told as usize),
            (self.bytes.len(), self.bytes.len() - begin)
        );
        assert_eq!(self.saved.tokens(), session.savable());
        told as usize
    }
}

/// How many tokens a session gets out of bytes whose head is right. They are never others than
/// `right` begins with.
fn restored(session: &mut Session, bytes: &[u8], right: &[u32]) -> usize {
    let saved = session
        .restore(&KEY, &mut &*bytes, usize::MAX)
        .expect("its head is right");
    assert_eq!(saved.tokens(), session.tokens());
    assert!(right.starts_with(session.tokens()));
    session.tokens().len()
}

#[test]
fn a_restored_session_goes_on_to_the_same_bits() {
    for (name, format) in [
        ("llama", KvFormat::F16),
        ("llama", KvFormat::Q8_0),
        ("gemma3", KvFormat::F16),
    ] {
        let (model, ids) = (model(name), ids(330, 330, 0));
        let mut first = session(&model, 400, format);
        let mut kept = Kept::default();
        for end in [20, 37, 325] {
            kept.keep(&mut first, &ids[..end]);
        }
        first
            .prefill(&ids[..325], &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        let went_on = first.extend(&ids[325..]).expect("it runs");

        let mut second = session(&model, 345, format);
        let found = second
            .saved(&KEY, &mut Cursor::new(&kept.bytes))
            .expect("its head is right");
        assert_eq!((found.tokens(), found.bytes()), (&ids[..320], kept.saved.bytes()));
        second.extend(&[1, 2, 3]).expect("it runs");
        assert_eq!(restored(&mut second, &kept.bytes, &ids), 320);
        second.extend(&ids[320..325]).expect("it runs");
        assert_eq!(
            second.extend(&ids[325..]).expect("it runs"),
            went_on,
            "{name} {format:?}"
        );

        // As much as is wanted, or fits.
        let some = second.restore(&KEY, &mut &*kept.bytes, 17).expect("its head is right");
        assert_eq!((some.tokens(), second.tokens()), (&ids[..32], &ids[..32]));
        let mut short = session(&model, 47, format);
        let found = short
            .saved(&KEY, &mut Cursor::new(&kept.bytes))
            .expect("its head is right");
        assert_eq!(found.tokens().len(), 32);
        assert_eq!(restored(&mut short, &kept.bytes, &ids), 32);
    }
}

#[test]
fn only_what_is_new_is_written_and_what_changed_is_written_again() {
    let model = model("llama");
    let mut first = session(&model, 1024, KvFormat::F16);
    let mut kept = Kept::default();
    let (old, new) = (ids(800, 640, 0), ids(800, 640, 1));
    let a_token = kept.keep(&mut first, &old[..700]) / 688;
    assert_eq!(kept.keep(&mut first, &old[..703]), 0, "no tile is full");
    assert_eq!(kept.keep(&mut first, &old) / a_token, 112);
    // What changed lies in the third segment, which began at 512.
    assert_eq!(kept.keep(&mut first, &new) / a_token, 288);
    assert_eq!(
        restored(&mut session(&model, 1024, KvFormat::F16), &kept.bytes, &new),
        800
    );
    assert_eq!(kept.keep(&mut first, &new[..520]), 0);
    assert_eq!(kept.saved.tokens().len(), 512);

    let mut empty = session(&model, 64, KvFormat::F16);
    empty.extend(&new[1..40]).expect("it runs");
    let unlike = empty.save(&KEY, &mut kept.saved, &mut Vec::new());
    assert!(matches!(unlike, Err(SnapshotError::Other)));
    kept.saved.cut(empty.savable());
    assert_eq!((kept.saved.tokens(), kept.saved.bytes()), (&[][..], 0));
}

#[test]
fn a_segment_counts_only_behind_those_it_was_written_behind() {
    let model = model("llama");
    let mut first = session(&model, 128, KvFormat::F16);
    let (old, new) = (ids(96, 32, 0), ids(96, 32, 1));
    let [mut before, mut now] = [Kept::default(), Kept::default()];
    let ends = [32, 64, 96].map(|end| {
        before.keep(&mut first, &old[..end]);
        before.bytes.len()
    });
    let segment = |number: usize| &before.bytes[ends[number - 1]..ends[number]];
    now.keep(&mut first, &new[..32]);
    now.keep(&mut first, &new[..64]);
    assert_eq!(now.bytes.len(), ends[1]);

    let mut second = session(&model, 128, KvFormat::F16);
    let mut right = new[..64].to_vec();
    // What lay behind the old end turns up behind the new one; the second is written twice, or
    // never was.
    right.extend(&old[64..]);
    assert_eq!(restored(&mut second, &[&now.bytes, segment(2)].concat(), &right), 64);
    assert_eq!(
        restored(&mut second, &[&before.bytes[..ends[1]], segment(1)].concat(), &old),
        64
    );
    assert_eq!(
        restored(&mut second, &[&before.bytes[..ends[0]], segment(2)].concat(), &old),
        32
    );
}

#[test]
fn what_is_cut_or_damaged_is_good_up_to_there() {
    let model = model("llama");
    let [mut first, mut other] = [(); 2].map(|()| session(&model, 64, KvFormat::Q8_0));
    let (mut kept, ids) = (Kept::default(), ids(64, 64, 0));
    let ends = [16, 48, 64].map(|end| {
        kept.keep(&mut first, &ids[..end]);
        (kept.bytes.len(), end)
    });
    let good = |at: usize| {
        ends.iter()
            .rev()
            .find(|(end, _)| *end <= at)
            .map_or(0, |(_, tokens)| *tokens)
    };
    let bytes = &kept.bytes;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        if at < HEAD {
            assert!(other.restore(&KEY, &mut &bytes[..at], 64).is_err(), "cut at {at}");
            let refused = other.restore(&KEY, &mut &*damaged, 64);
            assert!(matches!(refused, Err(SnapshotError::Other)), "another bit at {at}");
            continue;
        }
        let good = good(at);
        assert_eq!(restored(&mut other, &bytes[..at], &ids), good, "cut at {at}");
        assert_eq!(restored(&mut other, &damaged, &ids), good, "another bit at {at}");
        let found = other
            .saved(&KEY, &mut Cursor::new(&bytes[..at]))
            .expect("its head is right");
        assert_eq!(found.tokens(), &ids[..good], "cut at {at}");
        // As a disk that was full leaves it, or one whose power went before these bytes were
        // written.
        let mut empty = bytes.clone();
        empty[at..].fill(0);
        assert_eq!(restored(&mut other, &empty, &ids), good, "nothing from {at}");
    }
}

#[test]
fn where_writing_ends_early_the_whole_segments_are_known() {
    let model = model("llama");
    let mut first = session(&model, 400, KvFormat::F16);
    let (mut kept, ids) = (Kept::default(), ids(304, 304, 0));
    kept.keep(&mut first, &ids);
    let mut other = session(&model, 400, KvFormat::F16);
    for at in (0..kept.bytes.len()).step_by(97) {
        let (mut room, mut saved) = (vec![0; at], SavedCells::default());
        let full = first.save(&KEY, &mut saved, &mut &mut room[..]);
        assert!(matches!(full, Err(SnapshotError::Io(_))), "{at}");
        room.truncate(saved.bytes() as usize);
        if !room.is_empty() {
            assert_eq!(restored(&mut other, &room, &ids), saved.tokens().len());
        }
        // It goes on from there.
        first.save(&KEY, &mut saved, &mut room).expect("it is saved");
        assert!(room == kept.bytes, "{at}");
    }
}

#[test]
fn what_is_of_another_is_refused() {
    let model = model("llama");
    let mut first = session(&model, 64, KvFormat::Q8_0);
    let mut kept = Kept::default();
    kept.keep(&mut first, &ids(37, 37, 0));
    let bytes = &*kept.bytes;
    let refused = |session: &mut Session, key: &SnapshotKey| {
        let found = session.saved(key, &mut Cursor::new(bytes));
        let other = session.restore(key, &mut &*bytes, 64);
        matches!(found, Err(SnapshotError::Other)) && matches!(other, Err(SnapshotError::Other))
    };
    assert!(refused(&mut first, &[8; 32]) && first.tokens().len() == 37);
    assert!(refused(&mut session(&model, 64, KvFormat::F16), &KEY));
    assert!(!refused(&mut first, &KEY));
}
