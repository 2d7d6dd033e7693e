//! Arbitrary bytes as an adapter: a PEFT folder with configuration and manifest, or a GGUF. It must
//! be refused or valid.

use crate::seeds::{self, Seed, part, with_length};
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use std::sync::LazyLock;

/// The base models of the adapter fixtures.
static BASES: LazyLock<[(Gguf, BaseShape); 2]> = LazyLock::new(|| {
    ["llama", "qwen2"].map(|name| {
        let file = seeds::file(&format!("tests/fixtures/models/{name}.gguf"));
        let gguf = Gguf::from_bytes(file).expect("a fixture");
        let shape = BaseShape::from_gguf(&gguf).expect("a fixture's sizes");
        (gguf, shape)
    })
});

/// The input: flags (model and kind), then the GGUF file, or a length-prefixed configuration and
/// manifest and the tensors.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let (gguf, shape) = &BASES[usize::from(flags & 1)];
    let adapter = match flags & 2 {
        0 => Gguf::from_bytes(bytes.to_vec())
            .ok()
            .and_then(|file| AdapterFile::from_gguf(&file).ok()),
        _ => {
            let (config, rest) = part(bytes);
            let (manifest, tensors) = part(rest);
            let manifest = Some(manifest).filter(|manifest| !manifest.is_empty());
            AdapterFile::from_peft(config, tensors, manifest, shape).ok()
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
    let _ = adapter.check_base(gguf);
    true
}

pub fn seeds() -> Vec<Seed> {
    let mut inputs = Vec::new();
    for (number, name) in [(0, "llama"), (1, "qwen2")] {
        let gguf = seeds::file(&format!("tests/fixtures/adapters/{name}.gguf"));
        inputs.push(Seed::new(format!("{name}.gguf"), [&[number], &gguf[..]].concat()));
    }
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
    folder(0, "v0/run/adapter", true);
    inputs
}
