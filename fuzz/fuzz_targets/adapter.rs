//! Any bytes as an adapter: refused, or sound. Start from the fixtures: `cargo +nightly fuzz run adapter tests/fixtures/adapters/llama`.
#![no_main]

use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static BASE: LazyLock<(Gguf, BaseShape)> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(file).expect("a fixture");
    let shape = BaseShape::from_gguf(&gguf).expect("a fixture's sizes");
    (gguf, shape)
});

/// A configuration that leaves the most to the tensors.
const CONFIG: &[u8] = br#"{"peft_type":"LORA","r":4,"lora_alpha":8}"#;

fuzz_target!(|bytes: &[u8]| {
    let (gguf, shape) = &*BASE;
    let config = AdapterFile::from_peft(bytes, &[], None, shape);
    assert!(config.is_err(), "there are no tensors");
    let read = [
        AdapterFile::from_peft(CONFIG, bytes, None, shape).ok(),
        Gguf::from_bytes(bytes.to_vec())
            .ok()
            .and_then(|file| AdapterFile::from_gguf(&file).ok()),
    ];
    for adapter in read.into_iter().flatten() {
        for lora in adapter.tensors.values() {
            assert_eq!(lora.a.len(), lora.rank * lora.inputs);
            assert_eq!(lora.b.len(), lora.rank * lora.outputs);
        }
        let _ = adapter.check_base(gguf);
    }
});
