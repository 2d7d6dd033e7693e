//! An adapter knows the model it was trained on.

use crate::fixtures::{adapter, changed, model, with_passport};
use hearth_formats::adapter::{AdapterFile, Fingerprint, Fit};
use hearth_formats::gguf::{Gguf, TensorType};

/// A tensor in half the bytes: each number's upper half.
fn as_bf16(bytes: &[u8]) -> (TensorType, Vec<u8>) {
    (
        TensorType::BF16,
        bytes.chunks_exact(4).flat_map(|x| [x[2], x[3]]).collect(),
    )
}

#[track_caller]
fn refused(adapter: &AdapterFile, base: &Gguf, why: &str) {
    let said = adapter.check_base(base).unwrap_err().to_string();
    assert!(said.contains(why), "{said}");
}

#[test]
fn the_same_file_fits_exactly_and_another_quantisation_with_a_warning() {
    let base = model("llama");
    let adapter = with_passport("llama", &base);
    assert_eq!(adapter.check_base(&base).unwrap(), Fit::Exact);
    let other = changed(&base, "blk.1.ffn_up.weight", as_bf16);
    match adapter.check_base(&other).unwrap() {
        Fit::OtherQuantization(said) => assert!(said.contains("'llama.gguf'"), "{said}"),
        fit => panic!("{fit:?}"),
    }
}

#[test]
fn another_model_is_refused_and_the_sentence_says_why() {
    let base = model("llama");
    let adapter = with_passport("llama", &base);
    refused(
        &adapter,
        &model("qwen2"),
        "architecture 'llama', and this model's is 'qwen2'",
    );
    refused(
        &adapter,
        &model("llama3"),
        "64 numbers a token in its residual stream, and this one has 96",
    );
    let tuned = changed(&base, "blk.0.ffn_norm.weight", |bytes| {
        (TensorType::F32, bytes.iter().map(|byte| byte ^ 1).collect())
    });
    refused(&adapter, &tuned, "weights are not those of this model");
}

#[test]
fn without_a_passport_sizes_are_what_can_be_known() {
    let base = model("llama");
    assert_eq!(adapter("llama").check_base(&base).unwrap(), Fit::SizesOnly);
    assert_eq!(
        adapter("qwen2.gguf").check_base(&model("qwen2")).unwrap(),
        Fit::SizesOnly
    );
    refused(
        &adapter("llama.gguf"),
        &model("llama3"),
        "blk.0.attn_q is 64 x 64, and this model's weight is 96 x 96",
    );
    refused(&adapter("llama.gguf"), &model("qwen2"), "architecture 'llama'");
    let mut deep = adapter("llama.gguf");
    let (mut target, lora) = deep.tensors.pop_last().unwrap();
    target.layer = 2;
    deep.tensors.insert(target, lora);
    refused(&deep, &base, "blk.2.ffn_down, and this model has 2 layers");
}

#[test]
fn a_fingerprint_sees_a_bit_of_any_tensor_and_nothing_of_titles() {
    let base = model("qwen2");
    let print = Fingerprint::of(&base).unwrap();
    for info in base.tensors() {
        let flipped = changed(&base, &info.name, |bytes| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            (info.kind, bytes)
        });
        assert_ne!(Fingerprint::of(&flipped).unwrap().file, print.file, "{}", info.name);
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
    assert_eq!(Fingerprint::of(&renamed).unwrap(), print);
}
