//! An adapter is not offered on the model into which it was merged.

use crate::harness::Harness;
use hearth_app::wire::{Adapter, AdapterFit};
use hearth_formats::{
    adapter::{AdapterFile, AdapterManifest, BaseId, BaseShape, DataId, MERGED_KEY},
    gguf::{Gguf, GgufWriter, Strings, TensorHeader},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

/// Writes an adapter as Hearth trains it. Returns its path and its id.
fn write_adapter(folder: &Path, base: &Gguf, seed: u64) -> (PathBuf, String) {
    let manifest = AdapterManifest {
        hearth: "0.0.0".into(),
        base: BaseId::from_gguf(base).expect("a model"),
        template_sha256: None,
        system_prompt: None,
        data: DataId {
            name: "tales.jsonl".into(),
            sha256: "00".into(),
        },
        settings: Value::Null,
        seed,
        metrics: Value::Null,
        created: "2026-11-30T00:00:00Z".into(),
    };
    let id = manifest.id();
    let shape = BaseShape::from_gguf(base).expect("a shape");
    let adapter = AdapterFile {
        manifest: Some(manifest),
        ..AdapterFile::open(&fixture("adapters/llama"), &shape).expect("an adapter")
    };
    let path = folder.join(format!("adapter-{seed}.gguf"));
    adapter.write_gguf(&path, &shape).expect("a file");
    (path, id)
}

/// Writes a copy of a model that names an adapter as merged into it, with slightly other weights.
fn write_merged(path: &Path, base: &Gguf, id: &str) {
    let mut metadata = base.metadata().clone();
    metadata.insert(MERGED_KEY, [id].iter().collect::<Strings>());
    let headers: Vec<TensorHeader> = base
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
    for header in &headers {
        let tensor = base.tensor(&header.name).expect("a tensor");
        let mut bytes = tensor.bytes().to_vec();
        // The norms are vectors, which merging leaves unchanged.
        if header.shape.len() == 2 {
            bytes[0] ^= 1;
        }
        writer.tensor(&bytes).expect("a tensor");
    }
    fs::write(path, writer.finish().expect("a file")).expect("a written file");
}

fn fit(adapter: &Adapter, model: &str) -> AdapterFit {
    let candidate = adapter.matches.iter().find(|candidate| candidate.model == model);
    candidate.expect("the model").fit.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_is_known_to_be_merged_into_a_model() {
    let harness = Harness::tiny();
    let bundled = harness.folder.path().join("bundled");
    let base = Gguf::open(fixture("models/llama.gguf")).expect("a model");
    fs::copy(fixture("models/llama.gguf"), bundled.join("llama.gguf")).expect("a copy");
    let (first, id) = write_adapter(harness.folder.path(), &base, 1);
    let (second, _) = write_adapter(harness.folder.path(), &base, 2);
    write_merged(&bundled.join("merged.gguf"), &base, &id);
    let first = harness.import_adapter(first, None).await.unwrap();
    assert_eq!(
        (fit(&first, "llama"), fit(&first, "merged")),
        (AdapterFit::Exact, AdapterFit::Merged)
    );
    let second = harness.import_adapter(second, None).await.unwrap();
    assert_eq!(
        (fit(&second, "llama"), fit(&second, "merged")),
        (AdapterFit::Exact, AdapterFit::Sizes)
    );
}
