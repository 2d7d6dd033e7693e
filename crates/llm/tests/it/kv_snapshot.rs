//! Saves and restores sessions of the tiny random models in `tests/fixtures/models`.

use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{LoadOptions, Model, SavedCells, Session, SnapshotError, SnapshotKey};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

const KEY: SnapshotKey = [7; 32];
/// Bytes before the first segment.
const HEADER_BYTES: usize = 72;

fn model(name: &str) -> Arc<Model> {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(base.join(name).with_extension("gguf")).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn session(model: &Arc<Model>, context: usize, format: KvFormat) -> Session {
    Session::with_cache(model.clone(), context, format).expect("a session")
}

/// `count` token ids. The first `shared` are the same in every variant.
fn ids(count: u32, shared: u32, variant: u32) -> Vec<u32> {
    (0..count)
        .map(|i| (i * 5 + if i < shared { 0 } else { variant }) % 61)
        .collect()
}

/// A snapshot: the bytes of its file, and the state of the saved cells.
#[derive(Default)]
struct Snapshot {
    bytes: Vec<u8>,
    saved: SavedCells,
}

impl Snapshot {
    /// Prefills `ids`, and saves the cells after the segments that are still valid. Returns the
    /// number of bytes written.
    fn append(&mut self, session: &mut Session, ids: &[u32]) -> usize {
        let on_progress = &mut |_: usize, _: usize| ControlFlow::Continue(());
        session.prefill(ids, on_progress).expect("it runs");
        self.saved.cut(session.savable());
        let (start, expected) = (self.saved.bytes() as usize, session.bytes_to_save(&self.saved));
        self.bytes.truncate(start);
        session
            .save(&KEY, &mut self.saved, &mut self.bytes)
            .expect("it is saved");
        assert_eq!(
            (self.saved.bytes() as usize, expected as usize),
            (self.bytes.len(), self.bytes.len() - start)
        );
        assert_eq!(self.saved.tokens(), session.savable());
        expected as usize
    }
}

/// Restores a session from bytes with a valid header, and checks that its tokens are a prefix of
/// `ids`. Returns their number.
fn restore(session: &mut Session, bytes: &[u8], ids: &[u32]) -> usize {
    let saved = session
        .restore(&KEY, &mut &*bytes, usize::MAX)
        .expect("its header is valid");
    assert_eq!(saved.tokens(), session.tokens());
    assert!(ids.starts_with(session.tokens()));
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
        let mut snapshot = Snapshot::default();
        for end in [20, 37, 325] {
            snapshot.append(&mut first, &ids[..end]);
        }
        first
            .prefill(&ids[..325], &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        let uninterrupted = first.extend(&ids[325..]).expect("it runs");

        let mut second = session(&model, 345, format);
        let actual = second
            .saved(&KEY, &mut Cursor::new(&snapshot.bytes))
            .expect("its header is valid");
        assert_eq!((actual.tokens(), actual.bytes()), (&ids[..320], snapshot.saved.bytes()));
        second.extend(&[1, 2, 3]).expect("it runs");
        assert_eq!(restore(&mut second, &snapshot.bytes, &ids), 320);
        second.extend(&ids[320..325]).expect("it runs");
        assert_eq!(
            second.extend(&ids[325..]).expect("it runs"),
            uninterrupted,
            "{name} {format:?}"
        );

        // The segments of the requested tokens are restored, but not more than the context.
        let actual = second
            .restore(&KEY, &mut &*snapshot.bytes, 17)
            .expect("its header is valid");
        assert_eq!((actual.tokens(), second.tokens()), (&ids[..32], &ids[..32]));
        let mut short = session(&model, 47, format);
        let actual = short
            .saved(&KEY, &mut Cursor::new(&snapshot.bytes))
            .expect("its header is valid");
        assert_eq!(actual.tokens().len(), 32);
        assert_eq!(restore(&mut short, &snapshot.bytes, &ids), 32);
    }
}

#[test]
fn only_new_and_changed_segments_are_written() {
    let model = model("llama");
    let mut first = session(&model, 1024, KvFormat::F16);
    let mut snapshot = Snapshot::default();
    let (old, new) = (ids(800, 640, 0), ids(800, 640, 1));
    let token_bytes = snapshot.append(&mut first, &old[..700]) / 688;
    assert_eq!(snapshot.append(&mut first, &old[..703]), 0, "no tile is full");
    assert_eq!(snapshot.append(&mut first, &old) / token_bytes, 112);
    // The change is in the third segment, which starts at 512.
    assert_eq!(snapshot.append(&mut first, &new) / token_bytes, 288);
    assert_eq!(
        restore(&mut session(&model, 1024, KvFormat::F16), &snapshot.bytes, &new),
        800
    );
    assert_eq!(snapshot.append(&mut first, &new[..520]), 0);
    assert_eq!(snapshot.saved.tokens().len(), 512);

    let mut other = session(&model, 64, KvFormat::F16);
    other.extend(&new[1..40]).expect("it runs");
    let result = other.save(&KEY, &mut snapshot.saved, &mut Vec::new());
    assert!(matches!(result, Err(SnapshotError::Other)));
    snapshot.saved.cut(other.savable());
    assert_eq!((snapshot.saved.tokens(), snapshot.saved.bytes()), (&[][..], 0));
}

#[test]
fn a_segment_is_valid_only_after_its_predecessors() {
    let model = model("llama");
    let mut first = session(&model, 128, KvFormat::F16);
    let (old, new) = (ids(96, 32, 0), ids(96, 32, 1));
    let [mut old_snapshot, mut new_snapshot] = [Snapshot::default(), Snapshot::default()];
    let ends = [32, 64, 96].map(|end| {
        old_snapshot.append(&mut first, &old[..end]);
        old_snapshot.bytes.len()
    });
    let old_segment = |number: usize| &old_snapshot.bytes[ends[number - 1]..ends[number]];
    new_snapshot.append(&mut first, &new[..32]);
    new_snapshot.append(&mut first, &new[..64]);
    assert_eq!(new_snapshot.bytes.len(), ends[1]);

    let mut second = session(&model, 128, KvFormat::F16);
    let stale_after_new = [&new_snapshot.bytes, old_segment(2)].concat();
    let ids = [&new[..64], &old[64..]].concat();
    assert_eq!(restore(&mut second, &stale_after_new, &ids), 64);
    let repeated = [&old_snapshot.bytes[..ends[1]], old_segment(1)].concat();
    assert_eq!(restore(&mut second, &repeated, &old), 64);
    let without_middle = [&old_snapshot.bytes[..ends[0]], old_segment(2)].concat();
    assert_eq!(restore(&mut second, &without_middle, &old), 32);
}

#[test]
fn a_truncated_or_corrupt_snapshot_is_valid_up_to_there() {
    let model = model("llama");
    let [mut first, mut other] = [(); 2].map(|()| session(&model, 64, KvFormat::Q8_0));
    let (mut snapshot, ids) = (Snapshot::default(), ids(64, 64, 0));
    let ends = [16, 48, 64].map(|end| {
        snapshot.append(&mut first, &ids[..end]);
        (snapshot.bytes.len(), end)
    });
    let valid_tokens = |offset: usize| {
        ends.iter()
            .rev()
            .find(|(end, _)| *end <= offset)
            .map_or(0, |(_, tokens)| *tokens)
    };
    let bytes = &snapshot.bytes;
    for offset in 0..bytes.len() {
        let truncated = &bytes[..offset];
        let mut corrupt = bytes.clone();
        corrupt[offset] ^= 1 << (offset % 8);
        if offset < HEADER_BYTES {
            assert!(
                other.restore(&KEY, &mut &*truncated, 64).is_err(),
                "truncated at {offset}"
            );
            let result = other.restore(&KEY, &mut &*corrupt, 64);
            assert!(matches!(result, Err(SnapshotError::Other)), "flipped bit at {offset}");
            continue;
        }
        let expected = valid_tokens(offset);
        assert_eq!(restore(&mut other, truncated, &ids), expected, "truncated at {offset}");
        assert_eq!(restore(&mut other, &corrupt, &ids), expected, "flipped bit at {offset}");
        let actual = other
            .saved(&KEY, &mut Cursor::new(truncated))
            .expect("its header is valid");
        assert_eq!(actual.tokens(), &ids[..expected], "truncated at {offset}");
        // As after a full disk or a power failure.
        let mut zeroed = bytes.clone();
        zeroed[offset..].fill(0);
        assert_eq!(restore(&mut other, &zeroed, &ids), expected, "zeros from {offset}");
    }
}

#[test]
fn after_a_failed_write_the_complete_segments_are_known() {
    let model = model("llama");
    let mut first = session(&model, 400, KvFormat::F16);
    let (mut snapshot, ids) = (Snapshot::default(), ids(304, 304, 0));
    snapshot.append(&mut first, &ids);
    let mut other = session(&model, 400, KvFormat::F16);
    for capacity in (0..snapshot.bytes.len()).step_by(97) {
        let (mut buffer, mut saved) = (vec![0; capacity], SavedCells::default());
        let result = first.save(&KEY, &mut saved, &mut &mut buffer[..]);
        assert!(matches!(result, Err(SnapshotError::Io(_))), "{capacity}");
        buffer.truncate(saved.bytes() as usize);
        if !buffer.is_empty() {
            assert_eq!(restore(&mut other, &buffer, &ids), saved.tokens().len());
        }
        // Saving again appends the missing segments.
        first.save(&KEY, &mut saved, &mut buffer).expect("it is saved");
        assert!(buffer == snapshot.bytes, "{capacity}");
    }
}

#[test]
fn a_snapshot_of_another_model_is_refused() {
    let model = model("llama");
    let mut first = session(&model, 64, KvFormat::Q8_0);
    let mut snapshot = Snapshot::default();
    snapshot.append(&mut first, &ids(37, 37, 0));
    let bytes = &*snapshot.bytes;
    let is_refused = |session: &mut Session, key: &SnapshotKey| {
        let saved = session.saved(key, &mut Cursor::new(bytes));
        let restored = session.restore(key, &mut &*bytes, 64);
        matches!(saved, Err(SnapshotError::Other)) && matches!(restored, Err(SnapshotError::Other))
    };
    assert!(is_refused(&mut first, &[8; 32]) && first.tokens().len() == 37);
    assert!(is_refused(&mut session(&model, 64, KvFormat::F16), &KEY));
    assert!(!is_refused(&mut first, &KEY));
}
