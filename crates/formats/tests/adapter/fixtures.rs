//! The adapters that PEFT made, and the models they are for.

use hearth_formats::adapter::{AdapterFile, BaseId, BaseShape, DataId, Passport};
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A file among the fixtures.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

/// A tiny model.
pub fn model(name: &str) -> Gguf {
    Gguf::open(path(&format!("models/{name}.gguf"))).unwrap_or_else(|error| panic!("{error}"))
}

/// The sizes of a tiny model.
pub fn shape(name: &str) -> BaseShape {
    BaseShape::from_gguf(&model(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// What PEFT says of an adapter.
pub fn known(name: &str) -> Value {
    serde_json::from_slice(&fs::read(path(&format!("adapters/{name}.json"))).unwrap()).unwrap()
}

/// An adapter, for its own base, from its folder (`llama`) or file (`llama.gguf`).
pub fn adapter(name: &str) -> AdapterFile {
    let base = known(name.trim_end_matches(".gguf"))["base"]
        .as_str()
        .unwrap()
        .to_owned();
    AdapterFile::open(&path(&format!("adapters/{name}")), &shape(&base)).unwrap_or_else(|error| panic!("{error}"))
}

/// The adapter as if Hearth had trained it on `base`.
pub fn with_passport(name: &str, base: &Gguf) -> AdapterFile {
    let mut adapter = adapter(name);
    adapter.passport = Some(Passport {
        hearth: "0.1.0".to_owned(),
        base: BaseId::of(base).unwrap(),
        template_sha256: None,
        data: DataId {
            name: "letters.jsonl".to_owned(),
            sha256: "00".repeat(32),
        },
        settings: json!({"rank": 4}),
        seed: u64::MAX,
        scores: json!({"eval_loss": [2.5, 1.25]}),
        created: Passport::now(),
    });
    adapter
}

/// A model with one tensor changed: its type and bytes, by what is given of the old ones; written anew from its parts.
pub fn changed(base: &Gguf, tensor: &str, change: impl Fn(&[u8]) -> (TensorType, Vec<u8>)) -> Gguf {
    let new = |name: &str| {
        let old = base.tensor(name).unwrap();
        match name == tensor {
            true => change(old.bytes()),
            false => (old.info.kind, old.bytes().to_vec()),
        }
    };
    let table: Vec<_> = base
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: new(&info.name).0,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), base.metadata(), &table).unwrap();
    for info in base.tensors() {
        writer.tensor(&new(&info.name).1).unwrap();
    }
    Gguf::from_bytes(writer.finish().unwrap()).unwrap()
}
