//! GGUF files of tiny models for tests.

use hearth_formats::Architecture;
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType, Value};

/// A file with the required keys of two layers with two heads of width 4, and an embedding of two
/// rows. `keys` are added to the required ones, and `tensors` are added with 8 elements each.
pub(super) fn gguf(architecture: Architecture, keys: &[(&str, Value)], tensors: &[&str]) -> Gguf {
    let mut metadata = Metadata::new();
    metadata.insert("general.architecture", architecture.name());
    for (key, value) in [
        ("block_count", 2u32),
        ("context_length", 8),
        ("embedding_length", 8),
        ("feed_forward_length", 8),
        ("attention.head_count", 2),
        ("attention.key_length", 4),
        ("attention.value_length", 4),
    ] {
        metadata.insert(format!("{architecture}.{key}"), value);
    }
    for (key, value) in keys {
        metadata.insert(format!("{architecture}.{key}"), value.clone());
    }
    let header = |name: &str, shape: Vec<u64>| TensorHeader {
        name: name.to_owned(),
        shape,
        kind: TensorType::F32,
    };
    let mut headers = vec![header("token_embd.weight", vec![8, 2])];
    headers.extend(tensors.iter().map(|name| header(name, vec![8])));
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).expect("a header");
    writer.tensor(&[0; 64]).expect("a tensor");
    for _ in tensors {
        writer.tensor(&[0; 32]).expect("a tensor");
    }
    Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
}
