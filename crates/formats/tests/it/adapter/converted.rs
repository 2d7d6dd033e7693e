//! Adapters of the families in `tests/fixtures/training/gradients`: PEFT's folders and the files
//! that llama.cpp's converter makes of them are read as equal, and written tensor by tensor as they
//! are.

use crate::adapter::fixtures::{assert_same, path, shape};
use hearth_formats::Architecture;
use hearth_formats::adapter::{AdapterFile, BaseShape, RowOrder};
use hearth_formats::gguf::{Gguf, TensorType};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The models, which are also the names of the folders.
const FAMILIES: [&str; 7] = ["gemma2", "granite", "mistral", "mistral3", "olmo2", "phi3-3", "smollm3"];

fn folder(name: &str) -> PathBuf {
    path("training/gradients").join(name)
}

/// The adapter as read from PEFT's folder, and as read from llama.cpp's file.
fn adapters(name: &str, base: &BaseShape) -> [AdapterFile; 2] {
    let open = |path: &Path| AdapterFile::open(path, base).unwrap_or_else(|error| panic!("{error}"));
    [open(&folder(name)), open(&folder(name).join("adapter.gguf"))]
}

/// The tensors of a PEFT folder: types, shapes and bytes by name.
fn peft_tensors(folder: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let file = fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let tensor = |name: &str| {
        let tensor = tensors.tensor(name).unwrap();
        (tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec())
    };
    let names = tensors.names().into_iter();
    names.map(|name| (name.to_owned(), tensor(name))).collect()
}

/// The tensors of a GGUF file: types, shapes and bytes by name.
fn gguf_tensors(file: &Gguf) -> BTreeMap<String, (TensorType, Vec<u64>, Vec<u8>)> {
    let bytes = |name: &str| file.tensor(name).unwrap().bytes().to_vec();
    let infos = file.tensors();
    infos
        .map(|info| (info.name.clone(), (info.kind, info.shape.clone(), bytes(&info.name))))
        .collect()
}

/// The parts of a configuration that PEFT applies.
fn settings(folder: &Path) -> (BTreeSet<String>, BTreeMap<&'static str, Value>) {
    let file = fs::read(folder.join("adapter_config.json")).unwrap();
    let config: Value = serde_json::from_slice(&file).unwrap();
    let targets = serde_json::from_value(config["target_modules"].clone()).unwrap();
    let keys = [
        "peft_type",
        "r",
        "lora_alpha",
        "use_rslora",
        "rank_pattern",
        "alpha_pattern",
    ];
    // The alpha is a whole number there, and a fraction here.
    let value = |key: &str| match config[key].as_f64() {
        Some(number) => Value::from(number),
        None => config[key].clone(),
    };
    (targets, keys.map(|key| (key, value(key))).into())
}

#[test]
fn folders_and_conversions_are_equal() {
    for name in FAMILIES {
        let base = shape(name);
        let [peft, gguf] = adapters(name, &base);
        assert_eq!(peft.tensors.len(), 7 * base.layers.len(), "{name}");
        assert!(peft.unmatched.is_empty(), "{name}: {:?}", peft.unmatched);
        assert_same(&peft, &gguf);
    }
}

/// Among them are adapters whose rows of queries and keys llama.cpp reorders.
#[test]
fn tensors_are_written_as_they_are() {
    let mut orders = Vec::new();
    for name in FAMILIES {
        let base = shape(name);
        orders.push(Architecture::named(&base.architecture).unwrap().row_order());
        for adapter in adapters(name, &base) {
            let out = tempfile::tempdir().unwrap();
            let (peft, gguf) = (out.path().join("peft"), out.path().join("adapter.gguf"));
            adapter.write_peft(&peft, &base).unwrap();
            adapter.write_gguf(&gguf, &base).unwrap();
            assert!(peft_tensors(&peft) == peft_tensors(&folder(name)), "{name}");
            assert_eq!(settings(&peft), settings(&folder(name)), "{name}");
            let [actual, expected] = [gguf, folder(name).join("adapter.gguf")].map(|path| Gguf::open(path).unwrap());
            assert!(gguf_tensors(&actual) == gguf_tensors(&expected), "{name}");
            for key in [
                "general.architecture",
                "general.type",
                "adapter.type",
                "adapter.lora.alpha",
            ] {
                assert_eq!(actual.metadata().get(key), expected.metadata().get(key), "{name} {key}");
            }
        }
    }
    for order in [RowOrder::Interleaved, RowOrder::Same] {
        assert!(orders.contains(&order), "{order:?}");
    }
}
