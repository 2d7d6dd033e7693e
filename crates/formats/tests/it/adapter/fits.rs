//! Compatibility of adapters with models.

use crate::adapter::fixtures::{adapter, changed, model, with_manifest};
use hearth_formats::adapter::{AdapterFile, Fingerprint, Fit};
use hearth_formats::gguf::{Gguf, TensorType};

/// Truncates F32 values to BF16.
fn as_bf16(bytes: &[u8]) -> (TensorType, Vec<u8>) {
    (
        TensorType::BF16,
        bytes.chunks_exact(4).flat_map(|x| [x[2], x[3]]).collect(),
    )
}

#[track_caller]
fn refused(adapter: &AdapterFile, base: &Gguf, expected: &str) {
    let message = adapter.check_base(base).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn the_same_file_is_exact_and_another_quantization_gives_a_warning() {
    let base = model("llama");
    let adapter = with_manifest("llama", &base);
    assert_eq!(adapter.check_base(&base).unwrap(), Fit::Exact);
    let other = changed(&base, "blk.1.ffn_up.weight", as_bf16);
    let file = "llama.gguf".to_owned();
    assert_eq!(adapter.check_base(&other).unwrap(), Fit::OtherQuantization { file });
}

#[test]
fn another_model_is_refused_with_the_reason() {
    let base = model("llama");
    let adapter = with_manifest("llama", &base);
    refused(
        &adapter,
        &model("qwen2"),
        "architecture 'llama', but this model's is 'qwen2'",
    );
    refused(
        &adapter,
        &model("llama3"),
        "whose hidden size is 64, but this model's is 96",
    );
    let tuned = changed(&base, "blk.0.ffn_norm.weight", |bytes| {
        (TensorType::F32, bytes.iter().map(|byte| byte ^ 1).collect())
    });
    refused(&adapter, &tuned, "same sizes as this model but different weights");
}

#[test]
fn without_a_manifest_only_the_sizes_are_checked() {
    let base = model("llama");
    assert_eq!(adapter("llama").check_base(&base).unwrap(), Fit::SizesOnly);
    assert_eq!(
        adapter("qwen2.gguf").check_base(&model("qwen2")).unwrap(),
        Fit::SizesOnly
    );
    refused(
        &adapter("llama.gguf"),
        &model("llama3"),
        "blk.0.attn_q are for 64 x 64, but this model's weight is 96 x 96",
    );
    refused(&adapter("llama.gguf"), &model("qwen2"), "architecture 'llama'");
    let mut deep = adapter("llama.gguf");
    let (mut target, lora) = deep.tensors.pop_last().unwrap();
    target.layer = 2;
    deep.tensors.insert(target, lora);
    refused(&deep, &base, "blk.2.ffn_down, but this model has 2 layers");
}

#[test]
fn fingerprints_depend_on_every_tensor_but_not_on_titles() {
    let base = model("qwen2");
    let print = Fingerprint::from_gguf(&base).unwrap();
    for info in base.tensors() {
        let flipped = changed(&base, &info.name, |bytes| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            (info.kind, bytes)
        });
        assert_ne!(
            Fingerprint::from_gguf(&flipped).unwrap().file,
            print.file,
            "{}",
            info.name
        );
    }
    let mut writer_metadata = base.metadata().clone();
    writer_metadata.insert("general.name", "another title");
    let table: Vec<_> = base
        .tensors()
        .map(|info| hearth_formats::gguf::TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    let mut writer = hearth_formats::gguf::GgufWriter::begin(Vec::new(), &writer_metadata, &table).unwrap();
    for info in base.tensors() {
        writer.tensor(base.tensor(&info.name).unwrap().bytes()).unwrap();
    }
    let renamed = Gguf::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(Fingerprint::from_gguf(&renamed).unwrap(), print);
}
