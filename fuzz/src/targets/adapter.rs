//! Arbitrary bytes as an adapter: a PEFT folder with configuration and manifest, or a GGUF, for a
//! model with separate or with fused linears. It must be refused or valid.

use crate::seeds::{self, Seed, part, with_length};
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::{Gguf, GgufFile};
use std::fs;
use std::sync::LazyLock;
use tempfile::TempDir;

/// A base model.
struct Base {
    gguf: Gguf,
    file: GgufFile,
    shape: BaseShape,
}

/// The base models of the adapter fixtures. Phi 3 has fused linears, Granite permuted rows.
static BASES: LazyLock<[Base; 4]> = LazyLock::new(|| {
    ["llama", "qwen2", "phi3-3", "granite"].map(|name| {
        let path = seeds::root().join(format!("tests/fixtures/models/{name}.gguf"));
        let gguf = Gguf::open(&path).expect("a fixture");
        Base {
            shape: BaseShape::from_gguf(&gguf).expect("a fixture's sizes"),
            file: GgufFile::open(&path).expect("a fixture"),
            gguf,
        }
    })
});

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// The index of the base model: bits 0 and 2 of the flags.
fn base_index(flags: u8) -> usize {
    usize::from((flags & 1) | ((flags >> 1) & 2))
}

/// The input: flags (model and kind), then the GGUF file, or a length-prefixed configuration and
/// manifest and the tensors.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let base = &BASES[base_index(flags)];
    let adapter = match flags & 2 {
        0 => read_gguf(bytes, base),
        _ => {
            let (config, rest) = part(bytes);
            let (manifest, tensors) = part(rest);
            let manifest = Some(manifest).filter(|manifest| !manifest.is_empty());
            AdapterFile::from_peft(config, tensors, manifest, &base.shape).ok()
        }
    };
    let Some(adapter) = adapter else {
        return false;
    };
    assert!(!adapter.tensors.is_empty());
    for (&target, lora) in &adapter.tensors {
        assert_eq!(lora.a.len(), lora.rank * lora.inputs);
        assert_eq!(lora.b.len(), lora.rank * lora.outputs);
        assert!(lora.a.iter().chain(&lora.b).all(|value| value.is_finite()));
        assert!(adapter.scale(target).is_some());
    }
    let _ = adapter.check_base(&base.gguf);
    // Fused linears of any ranks and scales become one module.
    let _ = adapter.write_gguf(&FOLDER.path().join("written.gguf"), &base.shape);
    true
}

/// Reads a GGUF adapter for a model, which a check of its file must confirm.
fn read_gguf(bytes: &[u8], base: &Base) -> Option<AdapterFile> {
    if let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) {
        // Without a model.
        let _ = AdapterFile::from_gguf(&gguf);
    }
    let path = FOLDER.path().join("adapter.gguf");
    fs::write(&path, bytes).expect("it is written");
    let adapter = AdapterFile::open(&path, &base.shape).ok();
    let fits = adapter
        .as_ref()
        .is_some_and(|adapter| adapter.check_base(&base.gguf).is_ok());
    assert_eq!(AdapterFile::check_file(&path, &base.file).is_ok(), fits);
    adapter
}

pub fn seeds() -> Vec<Seed> {
    let mut inputs = Vec::new();
    let mut gguf = |flags: u8, path: &str| {
        let file = seeds::file(&format!("tests/fixtures/{path}"));
        inputs.push(Seed::new(path, [&[flags], &file[..]].concat()));
    };
    gguf(0, "adapters/llama.gguf");
    gguf(1, "adapters/qwen2.gguf");
    gguf(4, "training/gradients/phi3-3/adapter.gguf");
    gguf(5, "training/gradients/granite/adapter.gguf");
    let mut folder = |which: u8, path: &str, manifest: bool| {
        let read = |name: &str| seeds::file(&format!("tests/fixtures/{path}/{name}"));
        let manifest = if manifest { read("hearth.json") } else { Vec::new() };
        let parts = [
            vec![2 | which],
            with_length(&read("adapter_config.json")),
            with_length(&manifest),
            read("adapter_model.safetensors"),
        ];
        inputs.push(Seed::new(path, parts.concat()));
    };
    folder(0, "adapters/llama", false);
    folder(0, "adapters/patterns", false);
    folder(1, "adapters/qwen2", false);
    folder(4, "training/gradients/phi3-3", false);
    folder(5, "training/gradients/granite", false);
    folder(0, "v0/run/adapter", true);
    inputs
}
