//! Exported adapters and models. With HEARTH_EXPORTS=FOLDER they stay in the folder, and
//! `tests/fixtures/training/check.py` loads them in PEFT and llama.cpp.

use hearth_formats::adapter::{AdapterFile, BaseShape, LoraTensors, TargetName};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoraPart, Model, Session};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The folder for exports of a kind.
pub fn folder(temporary: &TempDir, kind: &str) -> PathBuf {
    let folder = std::env::var_os("HEARTH_EXPORTS").map_or(temporary.path().to_owned(), PathBuf::from);
    let folder = folder.join(kind);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The logits after each of these tokens, row by row.
pub fn logits(model: Model, ids: &[u32]) -> Vec<f32> {
    let session = Session::new(Arc::new(model), ids.len()).expect("a session");
    let mut session = session.with_precision(MatmulPrecision::F32);
    session.extend(ids).expect("it runs")
}

/// A trained adapter with this alpha.
fn adapter_file(base: &BaseShape, parts: &[LoraPart], alpha: f32) -> AdapterFile {
    let tensors = parts.iter().map(|part| {
        let target = TargetName {
            layer: part.layer,
            linear: part.linear,
        };
        let [outputs, inputs] = base.linear(target).expect("the model has it");
        let lora = LoraTensors {
            a: part.a.clone(),
            b: part.b.clone(),
            rank: part.rank,
            inputs,
            outputs,
            alpha,
        };
        (target, lora)
    });
    AdapterFile {
        path: PathBuf::new(),
        architecture: base.architecture.clone(),
        base_name: None,
        rslora: false,
        tensors: tensors.collect(),
        manifest: None,
        unmatched: Vec::new(),
    }
}

/// Exports a trained adapter in both formats and imports it again. Its logits for `ids` are for
/// `check.py`.
pub fn check_trained(name: &str, base: &BaseShape, model: &Model, parts: &[LoraPart], alpha: f32, ids: &[u32]) {
    let temporary = tempfile::tempdir().expect("a folder");
    let out = folder(&temporary, "trained");
    let [peft, gguf, row_file] = ["", ".gguf", ".logits"].map(|end| out.join(format!("{name}{end}")));
    let adapter = adapter_file(base, parts, alpha);
    adapter.write_peft(&peft, base).expect("it is written");
    adapter.write_gguf(&gguf, base).expect("it is written");
    let read = |path: &Path| LoraPart::from_file(&AdapterFile::open(path, base).expect("the adapter opens"), 1.0);
    for path in [peft, gguf] {
        assert!(same_parts(&read(&path), parts), "{}", path.display());
    }
    let rows = logits(model.adapted(parts).expect("it fits"), ids);
    let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(row_file, bytes).expect("it is written");
}

/// Whether these are the same, in any order.
fn same_parts(actual: &[LoraPart], expected: &[LoraPart]) -> bool {
    actual.len() == expected.len() && expected.iter().all(|part| actual.contains(part))
}
