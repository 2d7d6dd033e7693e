//! Any bytes as an adapter, of PEFT with its configuration and passport, or a GGUF: refused, or sound.

use crate::seeds::{self, Seed, part, with_length};
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use std::sync::LazyLock;

/// The models of the fixtures' adapters.
static BASES: LazyLock<[(Gguf, BaseShape); 2]> = LazyLock::new(|| {
    ["llama", "qwen2"].map(|name| {
        let file = seeds::file(&format!("tests/fixtures/models/{name}.gguf"));
        let gguf = Gguf::from_bytes(file).expect("a fixture");
        let shape = BaseShape::from_gguf(&gguf).expect("a fixture's sizes");
        (gguf, shape)
    })
});

/// The input: which model and kind, then the GGUF file; or a configuration and a passport, each behind its length, and the tensors.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&how, bytes)) = bytes.split_first() else {
        return false;
    };
    let (gguf, shape) = &BASES[usize::from(how & 1)];
    let adapter = match how & 2 {
        0 => Gguf::from_bytes(bytes.to_vec())
            .ok()
            .and_then(|file| AdapterFile::from_gguf(&file).ok()),
        _ => {
            let (config, rest) = part(bytes);
            let (passport, tensors) = part(rest);
            let passport = Some(passport).filter(|passport| !passport.is_empty());
            AdapterFile::from_peft(config, tensors, passport, shape).ok()
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
    let mut all = Vec::new();
    for (number, name) in [(0, "llama"), (1, "qwen2")] {
        let gguf = seeds::file(&format!("tests/fixtures/adapters/{name}.gguf"));
        all.push(Seed::new(format!("{name}.gguf"), [&[number], &gguf[..]].concat()));
    }
    let mut folder = |which: u8, path: &str, passport: bool| {
        let read = |name: &str| seeds::file(&format!("tests/fixtures/{path}/{name}"));
        let passport = if passport { read("hearth.json") } else { Vec::new() };
        let parts = [
            vec![2 | which],
            with_length(&read("adapter_config.json")),
            with_length(&passport),
            read("adapter_model.safetensors"),
        ];
        all.push(Seed::new(path, parts.concat()));
    };
    folder(0, "adapters/llama", false);
    folder(0, "adapters/patterns", false);
    folder(1, "adapters/qwen2", false);
    folder(0, "ba366ad/run/adapter", true);
    all
}
