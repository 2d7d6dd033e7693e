//! Adapter fixtures made by PEFT, and their base models.

use hearth_formats::adapter::{AdapterFile, AdapterManifest, BaseId, BaseShape, DataId};
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorType};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Path of a fixture.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

/// Opens a tiny model.
pub fn model(name: &str) -> Gguf {
    Gguf::open(path(&format!("models/{name}.gguf"))).unwrap_or_else(|error| panic!("{error}"))
}

/// The shape of a tiny model.
pub fn shape(name: &str) -> BaseShape {
    BaseShape::from_gguf(&model(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// The shape of a tiny model with this number of layers.
pub fn shape_with_layers(name: &str, layers: usize) -> BaseShape {
    let mut shape = shape(name);
    shape.layers.resize(layers, shape.layers[0]);
    shape
}

/// The reference values of an adapter, computed by PEFT.
pub fn known(name: &str) -> Value {
    serde_json::from_slice(&fs::read(path(&format!("adapters/{name}.json"))).unwrap()).unwrap()
}

/// Opens an adapter for its base model, from its folder (`llama`) or file (`llama.gguf`).
pub fn adapter(name: &str) -> AdapterFile {
    let base = known(name.trim_end_matches(".gguf"))["base"]
        .as_str()
        .unwrap()
        .to_owned();
    AdapterFile::open(&path(&format!("adapters/{name}")), &shape(&base)).unwrap_or_else(|error| panic!("{error}"))
}

/// The adapter with a manifest as if Hearth had trained it on `base`.
pub fn with_manifest(name: &str, base: &Gguf) -> AdapterFile {
    let mut adapter = adapter(name);
    adapter.manifest = Some(AdapterManifest {
        hearth: "0.1.0".to_owned(),
        base: BaseId::from_gguf(base).unwrap(),
        template_sha256: None,
        system_prompt: None,
        data: DataId {
            name: "letters.jsonl".to_owned(),
            sha256: "00".repeat(32),
        },
        settings: json!({"rank": 4}),
        seed: u64::MAX,
        metrics: json!({"eval_loss": [2.5, 1.25]}),
        created: AdapterManifest::now(),
    });
    adapter
}

/// A copy of a model with one tensor changed: `change` maps its bytes to a new type and new bytes.
pub fn changed(base: &Gguf, tensor: &str, change: impl Fn(&[u8]) -> (TensorType, Vec<u8>)) -> Gguf {
    let contents = |name: &str| {
        let original = base.tensor(name).unwrap();
        if name == tensor {
            change(original.bytes())
        } else {
            (original.info.kind, original.bytes().to_vec())
        }
    };
    let table: Vec<_> = base
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: contents(&info.name).0,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), base.metadata(), &table).unwrap();
    for info in base.tensors() {
        writer.tensor(&contents(&info.name).1).unwrap();
    }
    Gguf::from_bytes(writer.finish().unwrap()).unwrap()
}

/// Asserts bit-identical tensors with the same scales; metadata is not compared.
#[track_caller]
pub fn assert_same(expected: &AdapterFile, actual: &AdapterFile) {
    assert_eq!(expected.architecture, actual.architecture);
    assert!(expected.tensors.keys().eq(actual.tensors.keys()));
    for (&target, lora) in &expected.tensors {
        let actual_lora = &actual.tensors[&target];
        assert_eq!((&lora.a, &lora.b), (&actual_lora.a, &actual_lora.b), "{target}");
        assert_eq!(expected.scale(target), actual.scale(target), "{target}");
    }
}
