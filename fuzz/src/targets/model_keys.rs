//! Arbitrary changes of a small model's keys and tensors: shapes, RoPE, scales, softcaps, windows,
//! fused tensors. The input is a list of changes, not a file, so that mutations reach the checks of
//! values and the layers behind them.

use super::model;
use crate::seeds::{self, Seed};
use hearth_engine::plan::ModelBytes;
use hearth_formats::Architecture;
use hearth_formats::adapter::BaseShape;
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType, Value};
use hearth_kernels::attention::KvFormat;
use hearth_kernels::reference::noise;
use hearth_llm::{Config, LoadOptions, Model};
use std::ops::ControlFlow;

const LAYERS: usize = 2;

/// Keys that determine what the layers compute, without `ARCHITECTURE.`.
const KEYS: [&str; 36] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "nextn_predict_layers",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.temperature_scale",
    "attention.temperature_length",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "attention.rope_pattern",
    "attention.key_length_swa",
    "rope.dimension_count_swa",
    "expert_count",
];

/// Vectors that a file may have in addition.
const VECTORS: [&str; 12] = [
    "rope_freqs.weight",
    "rope_factors_short.weight",
    "rope_factors_long.weight",
    "blk.0.attn_q.bias",
    "blk.1.attn_k.bias",
    "blk.0.attn_qkv.bias",
    "blk.1.attn_qkv.scale",
    "blk.0.attn_output.bias",
    "blk.0.ffn_up.bias",
    "blk.1.ffn_down.bias",
    "output.bias",
    "blk.0.attn_q_norm.weight",
];

const TEXTS: [&str; 6] = ["none", "linear", "yarn", "longrope", "dynamic", ""];

/// Numbers at the limits of what is valid, and beyond.
const NUMBERS: [f32; 16] = [
    1.0,
    0.0,
    -0.0,
    -1.0,
    0.5,
    4.0,
    32.0,
    10_000.0,
    1e-40,
    1e-30,
    1e30,
    f32::MAX,
    f32::MIN_POSITIVE,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
];

/// A change: what, two choices, a count, and a number.
#[derive(Clone, Copy)]
struct Change {
    what: u8,
    choices: [u8; 2],
    count: u8,
    number: u16,
}

/// Bytes of a change.
const CHANGE_BYTES: usize = 6;

impl Change {
    fn from_bytes(bytes: [u8; CHANGE_BYTES]) -> Self {
        let [what, first, second, count, low, high] = bytes;
        Self {
            what,
            choices: [first, second],
            count,
            number: u16::from_le_bytes([low, high]),
        }
    }

    fn to_bytes(self) -> [u8; CHANGE_BYTES] {
        let ([first, second], [low, high]) = (self.choices, self.number.to_le_bytes());
        [self.what, first, second, self.count, low, high]
    }

    /// One of `values`.
    fn chosen<T: Copy>(values: &[T], choice: impl Into<usize>) -> T {
        values[choice.into() % values.len()]
    }

    fn float(self) -> f32 {
        Self::chosen(&NUMBERS, self.number)
    }

    /// The value of a key; `None` means that the key is removed.
    fn value(self) -> Option<Value> {
        let (number, count) = (u32::from(self.number), usize::from(self.count) % 6);
        let digit = |index: usize| (self.number >> (3 * index)) & 7;
        Some(match self.choices[1] % 12 {
            0 => Value::U32(number % 80),
            1 => Value::F32(self.float()),
            2 => Self::chosen(&TEXTS, self.number).into(),
            3 => Value::Bool(number % 2 == 1),
            4 => (0..count)
                .map(|index| u32::from(digit(index)))
                .collect::<Vec<_>>()
                .into(),
            5 => (0..count).map(|index| digit(index) % 2 == 1).collect::<Vec<_>>().into(),
            6 => (0..count)
                .map(|index| Self::chosen(&NUMBERS, digit(index).wrapping_add(self.number)))
                .collect::<Vec<_>>()
                .into(),
            7 => Value::I32(i32::from(self.number.cast_signed())),
            8 => Value::U64(1 << (number % 64)),
            9 => Value::U32(u32::MAX >> (number % 32)),
            10 => vec![number % 3; 4097].into(),
            _ => return None,
        })
    }
}

/// A model, and the values of some of its vectors.
struct Description {
    architecture: Architecture,
    metadata: Metadata,
    tensors: Vec<TensorHeader>,
    /// Values in place of elements of tensors, by the tensor's name and the element's index.
    values: Vec<(String, usize, f32)>,
}

impl Description {
    fn new(architecture: Architecture) -> Self {
        let (metadata, tensors) = seeds::description(architecture.name(), LAYERS, TensorType::F32);
        Self {
            architecture,
            metadata,
            tensors,
            values: Vec::new(),
        }
    }

    fn apply(&mut self, change: Change) {
        let tensor = usize::from(change.choices[0]) % self.tensors.len();
        match change.what % 8 {
            0..=3 => {
                let key = format!("{}.{}", self.architecture, Change::chosen(&KEYS, change.choices[0]));
                let others = self.metadata.iter().filter(|(other, _)| *other != key);
                let mut metadata: Metadata = others.map(|(key, value)| (key.to_owned(), value.clone())).collect();
                if let Some(value) = change.value() {
                    metadata.insert(key, value);
                }
                self.metadata = metadata;
            }
            4 => self.add_vector(Change::chosen(&VECTORS, change.choices[0]), change),
            5 => self.reshape(tensor, change),
            6 => self.set(tensor, change.count, change),
            _ => self.fuse(usize::from(change.choices[0]) % LAYERS),
        }
    }

    /// Adds a vector of ones, but for one value.
    fn add_vector(&mut self, name: &str, change: Change) {
        if self.tensors.iter().any(|tensor| tensor.name == name) {
            return;
        }
        self.tensors.push(TensorHeader {
            name: name.to_owned(),
            shape: vec![u64::from(change.count)],
            kind: TensorType::F32,
        });
        self.set(self.tensors.len() - 1, change.choices[1], change);
    }

    /// Sets an element of a tensor.
    fn set(&mut self, tensor: usize, element: u8, change: Change) {
        let name = self.tensors[tensor].name.clone();
        self.values.push((name, usize::from(element), change.float()));
    }

    fn reshape(&mut self, tensor: usize, change: Change) {
        let TensorHeader { shape, .. } = &mut self.tensors[tensor];
        let dimension = usize::from(change.count) % shape.len();
        match change.choices[1] % 5 {
            0 => shape.reverse(),
            1 => shape[dimension] += 1,
            2 => shape[dimension] = shape[dimension].saturating_sub(1),
            3 => shape[dimension] = u64::from(change.number % 200),
            _ => shape.push(1),
        }
    }

    /// Replaces queries, keys and values of a layer by a fused tensor.
    fn fuse(&mut self, layer: usize) {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let parts = ["attn_q", "attn_k", "attn_v"].map(name);
        let rows = |name: &String| {
            let tensor = self.tensors.iter().find(|tensor| tensor.name == *name)?;
            tensor.shape.get(1).copied()
        };
        let Some(rows) = parts.iter().map(rows).sum::<Option<u64>>() else {
            return;
        };
        for tensor in &mut self.tensors {
            if tensor.name == parts[0] {
                tensor.name = name("attn_qkv");
                tensor.shape[1] = rows;
            }
        }
        self.tensors.retain(|tensor| !parts[1..].contains(&tensor.name));
    }

    /// The file; `None` if no file has these tensors.
    fn file(&self) -> Option<Vec<u8>> {
        let mut writer = GgufWriter::begin(Vec::new(), &self.metadata, &self.tensors).ok()?;
        for (index, tensor) in self.tensors.iter().enumerate() {
            let count = tensor.shape.iter().product::<u64>() as usize;
            let mut values = match tensor.shape.len() {
                1 => vec![1.0; count],
                _ => noise(index as u64 + 1, count),
            };
            for (_, element, value) in self.values.iter().filter(|(name, ..)| *name == tensor.name) {
                if let Some(out) = values.get_mut(*element) {
                    *out = *value;
                }
            }
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(&bytes).ok()?;
        }
        writer.finish().ok()
    }
}

/// The input: the architecture, the planned context, then changes.
pub fn run(bytes: &[u8]) -> bool {
    let [architecture, context, changes @ ..] = bytes else {
        return false;
    };
    let mut description = Description::new(Change::chosen(Architecture::ALL, *architecture));
    for change in changes.as_chunks().0 {
        description.apply(Change::from_bytes(*change));
    }
    let Some(gguf) = description.file().and_then(|file| Gguf::from_bytes(file).ok()) else {
        return false;
    };
    let _ = BaseShape::from_gguf(&gguf);
    plan(&gguf);
    let options = LoadOptions {
        context: Some(usize::from(*context)),
        ..LoadOptions::default()
    };
    match Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(())) {
        Ok(model) => {
            model::generate(model);
            true
        }
        Err(_) => false,
    }
}

/// Plans any context, if the file describes a model. Its tensors may have other shapes.
fn plan(gguf: &Gguf) {
    let bytes = Config::from_gguf(gguf).and_then(|config| ModelBytes::from_header(gguf, &config));
    let Ok(bytes) = bytes else { return };
    for context in [1, u32::MAX] {
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            for on_gpu in [false, true] {
                bytes.total(context, format, on_gpu);
            }
        }
    }
}

/// A change of a key's value.
fn key(name: &str, kind: u8, count: u8, number: u16) -> Change {
    let index = KEYS.iter().position(|key| *key == name).expect("a key") as u8;
    Change {
        what: 0,
        choices: [index, kind],
        count,
        number,
    }
}

fn float(name: &str, value: f32) -> Change {
    let index = NUMBERS.iter().position(|number| *number == value).expect("a number");
    key(name, 1, 0, index as u16)
}

fn text(name: &str, value: &str) -> Change {
    let index = TEXTS.iter().position(|text| *text == value).expect("a text");
    key(name, 2, 0, index as u16)
}

fn vector(name: &str, count: u8) -> Change {
    let index = VECTORS.iter().position(|vector| *vector == name).expect("a vector") as u8;
    Change {
        what: 4,
        choices: [index, 0],
        count,
        number: 0,
    }
}

/// Fuses queries, keys and values of a layer.
fn fuse(layer: u8) -> Change {
    Change {
        what: 7,
        choices: [layer, 0],
        count: 0,
        number: 0,
    }
}

/// Changes that are accepted: the settings of the architectures.
fn accepted() -> Vec<(Architecture, Vec<Change>)> {
    use Architecture::{Gemma2, Gemma3, Granite, Llama, Mistral3, Olmo2, Phi3, Qwen2, SmolLm3};
    let yarn = [
        text("rope.scaling.type", "yarn"),
        float("rope.scaling.factor", 4.0),
        key("rope.scaling.original_context_length", 0, 0, 8),
    ];
    let longrope = [
        key("rope.scaling.original_context_length", 0, 0, 8),
        vector("rope_factors_short.weight", 8),
        vector("rope_factors_long.weight", 8),
    ];
    let heads_of_layers = [
        key("attention.head_count", 4, 2, 0o22),
        key("attention.head_count_kv", 4, 2, 0o11),
    ];
    let window = [
        key("attention.sliding_window", 0, 0, 2),
        key("attention.sliding_window_pattern", 5, 2, 0o10),
    ];
    let mut inputs: Vec<(Architecture, Vec<Change>)> = Architecture::ALL.iter().map(|all| (*all, vec![])).collect();
    inputs.extend([
        (Llama, vec![fuse(0), vector("rope_freqs.weight", 8)]),
        (
            Llama,
            [&[text("rope.scaling.type", "longrope")][..], &longrope].concat(),
        ),
        (Qwen2, vec![fuse(1), vector("blk.0.attn_qkv.bias", 64), fuse(0)]),
        (Qwen2, heads_of_layers.to_vec()),
        (Gemma3, window.to_vec()),
        (Olmo2, [&window[..], &yarn].concat()),
        (SmolLm3, yarn.to_vec()),
        (
            Phi3,
            [&longrope[..], &[float("rope.scaling.attn_factor", 0.5)]].concat(),
        ),
        (Phi3, vec![key("rope.dimension_count", 0, 0, 6), window[0]]),
        (
            Mistral3,
            [&yarn[..], &[float("attention.temperature_scale", 0.5)]].concat(),
        ),
        (
            Granite,
            vec![
                float("attention.scale", 0.5),
                float("embedding_scale", 4.0),
                float("residual_scale", 0.5),
                float("logit_scale", 4.0),
                key("rope.scaling.finetuned", 3, 0, 0),
            ],
        ),
        (
            Gemma2,
            vec![
                float("attn_logit_softcapping", 4.0),
                float("final_logit_softcapping", 32.0),
                float("rope.freq_base_swa", 10_000.0),
                window[0],
            ],
        ),
    ]);
    inputs
}

/// An input for each of [`accepted`], below and above the original context of LongRoPE.
pub fn seeds() -> Vec<Seed> {
    let bytes = |(architecture, changes): &(Architecture, Vec<Change>), context: u8| {
        let index = Architecture::ALL.iter().position(|other| other == architecture);
        let changes = changes.iter().flat_map(|change| change.to_bytes());
        [index.expect("one of all") as u8, context]
            .into_iter()
            .chain(changes)
            .collect::<Vec<u8>>()
    };
    let seed = |(number, input): (usize, &(Architecture, Vec<Change>))| {
        [8, 9].map(|context| {
            Seed::new(
                format!("{} {number}, context {context}", input.0),
                bytes(input, context),
            )
        })
    };
    accepted().iter().enumerate().flat_map(seed).collect()
}
