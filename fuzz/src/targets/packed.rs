//! Arbitrary bytes as a packed-weights file: the model must still load.

use crate::seeds::{self, Seed, VOCAB};
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_llm::{LoadOptions, Model, Session};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// A model and its packed-weights file as written by loading it.
struct Fixture {
    folder: TempDir,
    gguf: Gguf,
    file: PathBuf,
    valid: Vec<u8>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, seeds::model("llama", TensorType::Q4_0)).expect("a model");
    let gguf = Gguf::open(&path).expect("it opens");
    load(&gguf, &folder);
    let packed = fs::read_dir(folder.path().join("packed")).expect("a folder of packed weights");
    let file = packed.flatten().next().expect("a packed file").path();
    let valid = fs::read(&file).expect("it is read");
    Fixture {
        folder,
        gguf,
        file,
        valid,
    }
});

fn load(gguf: &Gguf, folder: &TempDir) -> Model {
    let options = LoadOptions {
        packed_in: Some(folder.path().join("packed")),
        ..LoadOptions::default()
    };
    Model::load(gguf, &options, &mut |_| ControlFlow::Continue(())).expect("packed weights are never needed")
}

/// The input: flags (whether to fix the table's checksum), then the file.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let mut bytes = bytes.to_vec();
    if flags & 1 == 1 {
        fix_checksums(&mut bytes);
    }
    let fixture = &*FIXTURE;
    fs::write(&fixture.file, &bytes).expect("it is written");
    let model = load(&fixture.gguf, &fixture.folder);
    let mut session = Session::new(Arc::new(model), 4).expect("a context of 4 tokens");
    session.push(1).expect("a token of the vocabulary");
    assert_eq!(session.logits().len(), VOCAB);
    drop(session);
    // An invalid file was removed, or is rewritten by the next load.
    let is_unchanged = fs::read(&fixture.file).is_ok_and(|content| content == bytes);
    let _ = fs::remove_file(&fixture.file);
    is_unchanged
}

/// Writes the correct checksum of the table into the header.
fn fix_checksums(bytes: &mut [u8]) {
    let table_offset = bytes
        .get(8..16)
        .and_then(|offset| offset.try_into().ok())
        .map(u64::from_le_bytes);
    let table = table_offset.and_then(|offset| bytes.get(usize::try_from(offset).ok()?..));
    if let (Some(sum), Some(field)) = (table.map(crc32fast::hash), bytes.get_mut(16..20)) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}

pub fn seeds() -> Vec<Seed> {
    [0, 1]
        .map(|flags| Seed::new("packed", [&[flags], &FIXTURE.valid[..]].concat()))
        .into()
}
