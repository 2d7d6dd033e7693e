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
const HEADER_BYTES: usize = 68;

fn model(name: &str) -> Arc<Model> {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(base.join(name).with_extension("gguf")).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn session(model: &Arc<Model>, context: usize, format: KvFormat) -> Session {
    Session::with_cache(model.clone(), context, format).expect("a session")
}

/// `count` tokens: the first `same` are common to all kinds, the others depend on `kind`.
fn ids(count: u32, same: u32, kind: u32) -> Vec<u32> {
    (0..count)
        .map(|i| (i * 5 + if i < same { 0 } else { kind }) % 61)
        .collect()
}

/// A snapshot: the bytes of its file, and the state of the saved cells.
#[derive(Default)]
struct Snapshot {
    bytes: Vec<u8>,
    saved: SavedCells,
}

impl Snapshot {
    /// Prefills `ids` and appends the new cells to the still valid segments. Returns the number of
    /// bytes written.
    fn append(&mut self, session: &mut Session, ids: &[u32]) -> usize {
        let go = &mut |_: usize, _: usize| ControlFlow::Continue(());
        session.prefill(ids, go).expect("it runs");
        self.saved.cut(session.savable());
        let (begin, expected) = (self.saved.bytes() as usize, session.bytes_to_save(&self.saved));
        self.bytes.truncate(begin);
        session
            .save(&KEY, &mut self.saved, &mut self.bytes)
            .expect("it is saved");
        assert_eq!(
            (self.saved.bytes() as usize, expected as usize),
            (self.bytes.len(), self.bytes.len() - begin)
        );
        assert_eq!(self.saved.tokens(), session.savable());
        expected as usize
    }
}

/// Restores from bytes with a valid header; returns the number of tokens. They are always a prefix
/// of `ids_expected`.
fn restored(session: &mut Session, bytes: &[u8], ids_expected: &[u32]) -> usize {
    let saved = session
        .restore(&KEY, &mut &*bytes, usize::MAX)
        .expect("its header is valid");
    assert_eq!(saved.tokens(), session.tokens());
    assert!(ids_expected.starts_with(session.tokens()));
    session.tokens().len()
}

#[test]
fn a_restored_session_continues_to_the_same_bits() {
    for (name, format) in [
        ("llama", KvFormat::F16),
        ("llama", KvFormat::Q8_0),
        ("gemma3", KvFormat::F16),
    ] {
        let (model, ids) = (model(name), ids(330, 330, 0));
        let mut first = session(&model, 400, format);
        let mut snap = Snapshot::default();
        for end in [20, 37, 325] {
            snap.append(&mut first, &ids[..end]);
        }
        first
            .prefill(&ids[..325], &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        let uninterrupted = first.extend(&ids[325..]).expect("it runs");

        let mut second = session(&model, 345, format);
        let actual = second
            .saved(&KEY, &mut Cursor::new(&snap.bytes))
            .expect("its header is valid");
        assert_eq!((actual.tokens(), actual.bytes()), (&ids[..320], snap.saved.bytes()));
        second.extend(&[1, 2, 3]).expect("it runs");
        assert_eq!(restored(&mut second, &snap.bytes, &ids), 320);
        second.extend(&ids[320..325]).expect("it runs");
        assert_eq!(
            second.extend(&ids[325..]).expect("it runs"),
            uninterrupted,
            "{name} {format:?}"
        );

        // At most the requested tokens, or the context.
        let some = second
            .restore(&KEY, &mut &*snap.bytes, 17)
            .expect("its header is valid");
        assert_eq!((some.tokens(), second.tokens()), (&ids[..32], &ids[..32]));
        let mut short = session(&model, 47, format);
        let actual = short
            .saved(&KEY, &mut Cursor::new(&snap.bytes))
            .expect("its header is valid");
        assert_eq!(actual.tokens().len(), 32);
        assert_eq!(restored(&mut short, &snap.bytes, &ids), 32);
    }
}

#[test]
fn only_new_and_changed_segments_are_written() {
    let model = model("llama");
    let mut first = session(&model, 1024, KvFormat::F16);
    let mut snap = Snapshot::default();
    let (old, new) = (ids(800, 640, 0), ids(800, 640, 1));
    let a_token = snap.append(&mut first, &old[..700]) / 688;
    assert_eq!(snap.append(&mut first, &old[..703]), 0, "no tile is full");
    assert_eq!(snap.append(&mut first, &old) / a_token, 112);
    // The change is in the third segment, which starts at 512.
    assert_eq!(snap.append(&mut first, &new) / a_token, 288);
    assert_eq!(
        restored(&mut session(&model, 1024, KvFormat::F16), &snap.bytes, &new),
        800
    );
    assert_eq!(snap.append(&mut first, &new[..520]), 0);
    assert_eq!(snap.saved.tokens().len(), 512);

    let mut empty = session(&model, 64, KvFormat::F16);
    empty.extend(&new[1..40]).expect("it runs");
    let unlike = empty.save(&KEY, &mut snap.saved, &mut Vec::new());
    assert!(matches!(unlike, Err(SnapshotError::Other)));
    snap.saved.cut(empty.savable());
    assert_eq!((snap.saved.tokens(), snap.saved.bytes()), (&[][..], 0));
}

#[test]
fn a_segment_is_valid_only_after_its_predecessors() {
    let model = model("llama");
    let mut first = session(&model, 128, KvFormat::F16);
    let (old, new) = (ids(96, 32, 0), ids(96, 32, 1));
    let [mut before, mut now] = [Snapshot::default(), Snapshot::default()];
    let ends = [32, 64, 96].map(|end| {
        before.append(&mut first, &old[..end]);
        before.bytes.len()
    });
    let segment = |number: usize| &before.bytes[ends[number - 1]..ends[number]];
    now.append(&mut first, &new[..32]);
    now.append(&mut first, &new[..64]);
    assert_eq!(now.bytes.len(), ends[1]);

    let mut second = session(&model, 128, KvFormat::F16);
    let mut ids_expected = new[..64].to_vec();
    // A stale segment follows the new end; then the first segment is repeated, and the second is
    // missing.
    ids_expected.extend(&old[64..]);
    assert_eq!(
        restored(&mut second, &[&now.bytes, segment(2)].concat(), &ids_expected),
        64
    );
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
fn a_truncated_or_corrupt_snapshot_is_valid_up_to_there() {
    let model = model("llama");
    let [mut first, mut other] = [(); 2].map(|()| session(&model, 64, KvFormat::Q8_0));
    let (mut snap, ids) = (Snapshot::default(), ids(64, 64, 0));
    let ends = [16, 48, 64].map(|end| {
        snap.append(&mut first, &ids[..end]);
        (snap.bytes.len(), end)
    });
    let good = |at: usize| {
        ends.iter()
            .rev()
            .find(|(end, _)| *end <= at)
            .map_or(0, |(_, tokens)| *tokens)
    };
    let bytes = &snap.bytes;
    for at in 0..bytes.len() {
        let mut corrupt = bytes.clone();
        corrupt[at] ^= 1 << (at % 8);
        if at < HEADER_BYTES {
            assert!(other.restore(&KEY, &mut &bytes[..at], 64).is_err(), "truncated at {at}");
            let refused = other.restore(&KEY, &mut &*corrupt, 64);
            assert!(matches!(refused, Err(SnapshotError::Other)), "flipped bit at {at}");
            continue;
        }
        let good = good(at);
        assert_eq!(restored(&mut other, &bytes[..at], &ids), good, "truncated at {at}");
        assert_eq!(restored(&mut other, &corrupt, &ids), good, "flipped bit at {at}");
        let actual = other
            .saved(&KEY, &mut Cursor::new(&bytes[..at]))
            .expect("its header is valid");
        assert_eq!(actual.tokens(), &ids[..good], "truncated at {at}");
        // As after a full disk, or a power loss before these bytes were written.
        let mut empty = bytes.clone();
        empty[at..].fill(0);
        assert_eq!(restored(&mut other, &empty, &ids), good, "nothing from {at}");
    }
}

#[test]
fn after_a_failed_write_the_complete_segments_are_known() {
    let model = model("llama");
    let mut first = session(&model, 400, KvFormat::F16);
    let (mut snap, ids) = (Snapshot::default(), ids(304, 304, 0));
    snap.append(&mut first, &ids);
    let mut other = session(&model, 400, KvFormat::F16);
    for at in (0..snap.bytes.len()).step_by(97) {
        let (mut buffer, mut saved) = (vec![0; at], SavedCells::default());
        let full = first.save(&KEY, &mut saved, &mut &mut buffer[..]);
        assert!(matches!(full, Err(SnapshotError::Io(_))), "{at}");
        buffer.truncate(saved.bytes() as usize);
        if !buffer.is_empty() {
            assert_eq!(restored(&mut other, &buffer, &ids), saved.tokens().len());
        }
        // Saving resumes from there.
        first.save(&KEY, &mut saved, &mut buffer).expect("it is saved");
        assert!(buffer == snap.bytes, "{at}");
    }
}

#[test]
fn a_snapshot_of_another_model_is_refused() {
    let model = model("llama");
    let mut first = session(&model, 64, KvFormat::Q8_0);
    let mut snap = Snapshot::default();
    snap.append(&mut first, &ids(37, 37, 0));
    let bytes = &*snap.bytes;
    let refused = |session: &mut Session, key: &SnapshotKey| {
        let actual = session.saved(key, &mut Cursor::new(bytes));
        let other = session.restore(key, &mut &*bytes, 64);
        matches!(actual, Err(SnapshotError::Other)) && matches!(other, Err(SnapshotError::Other))
    };
    assert!(refused(&mut first, &[8; 32]) && first.tokens().len() == 37);
    assert!(refused(&mut session(&model, 64, KvFormat::F16), &KEY));
    assert!(!refused(&mut first, &KEY));
}
