//! Sources of seeds: fixtures and tiny models.

use hearth_formats::Architecture;
use hearth_formats::gguf::{GgufWriter, Metadata, TensorHeader, TensorType};
use hearth_formats::shape::{AttentionShape, FeedForwardShape, LayerShape, MixerShape};
use hearth_kernels::reference::noise;
use hearth_llm::arch;
use std::fs;
use std::path::{Path, PathBuf};

/// An input.
pub struct Seed {
    /// Its origin.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// Creates a seed.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
        }
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads a file of the repository.
pub fn file(path: &str) -> Vec<u8> {
    let path = root().join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a text file of the repository.
pub fn text(path: &str) -> String {
    String::from_utf8(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder with this suffix, sorted by name; empty if there is no such folder.
pub fn files(folder: &str, suffix: &str) -> Vec<Seed> {
    let entries = fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(suffix))
        .collect();
    names.sort();
    let seed = |name: String| {
        let bytes = file(&format!("{folder}/{name}"));
        Seed { name, bytes }
    };
    names.into_iter().map(seed).collect()
}

/// Hidden size of [`model`].
pub const WIDTH: usize = 32;
const FFN_WIDTH: usize = 64;
const HEAD_DIM: usize = 16;
/// Vocabulary size of [`model`].
pub const VOCAB: usize = 48;

/// A model of one layer with matrices of this type.
pub fn model(architecture: &str, kind: TensorType) -> Vec<u8> {
    let (metadata, tensors) = description(architecture, 1, kind);
    write(&metadata, &tensors)
}

/// The metadata and the tensors of a model with this number of layers and matrices of this type.
pub fn description(architecture: &str, layers: usize, kind: TensorType) -> (Metadata, Vec<TensorHeader>) {
    let mut metadata: Metadata = [("general.architecture", architecture), ("general.name", "tiny")]
        .into_iter()
        .collect();
    for (key, value) in [
        ("block_count", layers),
        ("context_length", 64),
        ("embedding_length", WIDTH),
        ("feed_forward_length", FFN_WIDTH),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("attention.key_length", HEAD_DIM),
        ("attention.value_length", HEAD_DIM),
    ] {
        metadata.insert(format!("{architecture}.{key}"), value as u32);
    }
    metadata.insert(format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5_f32);
    metadata.insert(format!("{architecture}.rope.freq_base"), 1e4_f32);
    let mut tensors = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        tensors.push(TensorHeader {
            name: name.to_owned(),
            shape: shape.iter().map(|&n| n as u64).collect(),
            kind: if shape.len() == 1 { TensorType::F32 } else { kind },
        });
    };
    add("token_embd.weight", &[WIDTH, VOCAB]);
    add("output_norm.weight", &[WIDTH]);
    let shape = LayerShape {
        width: WIDTH,
        mixer: Some(MixerShape::Attention(AttentionShape {
            heads: 2,
            kv_heads: 1,
            head_dim: HEAD_DIM,
        })),
        feed_forward: Some(FeedForwardShape::Gated { width: FFN_WIDTH }),
    };
    if let Some(architecture) = Architecture::named(architecture) {
        for layer in 0..layers {
            for (module, [outputs, inputs]) in architecture.modules(&shape) {
                add(&format!("blk.{layer}.{}.weight", module.gguf()), &[inputs, outputs]);
            }
            for (norm, length) in arch::norms(architecture).lengths(&shape) {
                add(&format!("blk.{layer}.{norm}.weight"), &[length]);
            }
        }
    }
    (metadata, tensors)
}

/// A GGUF file of these tensors with random values.
fn write(metadata: &Metadata, tensors: &[TensorHeader]) -> Vec<u8> {
    let mut writer = GgufWriter::begin(Vec::new(), metadata, tensors).expect("a header");
    for (number, tensor) in tensors.iter().enumerate() {
        let count = tensor.shape.iter().product::<u64>() as usize;
        let values = noise(number as u64 + 1, count);
        let bytes: Vec<u8> = match tensor.kind {
            TensorType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            TensorType::F16 => {
                let halves = values.iter().map(|&value| half::f16::from_f32(value));
                halves.flat_map(half::f16::to_le_bytes).collect()
            }
            // Q8_0 block: a scale, then 32 integers of 8 bits.
            TensorType::Q8_0 => values
                .chunks(32)
                .flat_map(|block| {
                    let scale = half::f16::from_f32(1.0 / 127.0).to_le_bytes();
                    scale
                        .into_iter()
                        .chain(block.iter().map(|value| (value * 100.0) as i8 as u8))
                })
                .collect(),
            // Q4_0 block: a scale, then 32 integers of 4 bits.
            TensorType::Q4_0 => values
                .chunks(32)
                .flat_map(|block| {
                    let scale = half::f16::from_f32(1.0 / 8.0).to_le_bytes();
                    let pairs = block[..16].iter().zip(&block[16..]);
                    let nibble = |value: f32| ((value * 7.0 + 8.0) as u8).min(15);
                    scale
                        .into_iter()
                        .chain(pairs.map(move |(&low, &high)| nibble(low) | nibble(high) << 4))
                })
                .collect(),
            kind => panic!("no seed is made in {}", kind.name()),
        };
        writer.tensor(&bytes).expect("a tensor");
    }
    writer.finish().expect("a file")
}

/// Prefixes `bytes` with their length, for an input of several parts.
pub fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes(), bytes].concat()
}

/// Splits off a length-prefixed part; all of the rest if the length exceeds it.
pub fn part(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.split_first_chunk::<2>() {
        Some((length, rest)) => rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len())),
        None => (bytes, &[]),
    }
}
