//! Synthetic models for the device check.

use hearth_formats::Architecture;
use hearth_formats::gguf::{Gguf, GgufError, GgufWriter, Metadata, TensorHeader, TensorType, Value};
use hearth_formats::shape::{AttentionShape, FeedForwardShape, LayerShape, MixerShape};
use hearth_kernels::Quant;
use hearth_llm::arch;

/// Distinct random rows of a matrix; later rows repeat them. A prime, so that no tile size divides
/// it.
const RANDOM_ROWS: usize = 61;

/// Sizes and formats of a model. Widths are multiples of 32. If a row is not whole blocks of a
/// format, another format replaces it.
pub struct Sample {
    pub architecture: Architecture,
    /// The layers, with a common width and head dimension.
    pub layers: Vec<LayerShape>,
    pub vocab: usize,
    /// Quantization of the matrices, in rotation.
    pub formats: &'static [Quant],
}

/// A layer of attention and a gated feed-forward.
pub fn layer_shape(width: usize, ffn_width: usize, heads: usize, kv_heads: usize) -> LayerShape {
    let attention = AttentionShape {
        heads,
        kv_heads,
        head_dim: width / heads,
    };
    LayerShape {
        width,
        mixer: Some(MixerShape::Attention(attention)),
        feed_forward: Some(FeedForwardShape::Gated { width: ffn_width }),
    }
}

impl Sample {
    /// A Llama model for benchmarks.
    pub fn llama(layers: usize, width: usize, ffn_width: usize, formats: &'static [Quant]) -> Self {
        Self {
            architecture: Architecture::Llama,
            layers: vec![layer_shape(width, ffn_width, width / 64, (width / 128).max(1)); layers],
            vocab: 256,
            formats,
        }
    }

    /// The model's file in memory, the same on every machine.
    ///
    /// # Errors
    /// The sizes are invalid.
    pub fn gguf(&self) -> Result<Gguf, GgufError> {
        let tensors = self.tensors();
        let headers: Vec<_> = tensors.iter().map(RandomTensor::header).collect();
        let mut writer = GgufWriter::begin(Vec::new(), &self.metadata(), &headers)?;
        let mut random = Random(1);
        for tensor in &tensors {
            writer.tensor(&tensor.bytes(&mut random))?;
        }
        Gguf::from_bytes(writer.finish()?)
    }

    fn width(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.width)
    }

    fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", Value::Str(self.architecture.to_string()));
        let sizes = |size: fn(&LayerShape) -> Option<usize>| per_layer(self.layers.iter().filter_map(size).collect());
        let mut values = vec![
            ("block_count", Value::U32(self.layers.len() as u32)),
            ("context_length", Value::U32(4096)),
            ("embedding_length", Value::U32(self.width() as u32)),
            ("feed_forward_length", sizes(LayerShape::ffn_width)),
            ("attention.head_count", sizes(|layer| Some(layer.attention()?.heads))),
            (
                "attention.head_count_kv",
                sizes(|layer| Some(layer.attention()?.kv_heads)),
            ),
        ];
        values.extend(own_values(self.architecture));
        for (key, value) in values {
            metadata.insert(format!("{}.{key}", self.architecture), value);
        }
        metadata
    }

    fn tensors(&self) -> Vec<RandomTensor> {
        let width = self.width();
        let mut tensors = vec![
            RandomTensor::matrix("token_embd", width, self.vocab, Quant::F16),
            RandomTensor::norm("output_norm", width),
            RandomTensor::matrix("output", width, self.vocab, self.formats[0].for_rows_of(width as u64)),
        ];
        let mut formats = self.formats.iter().copied().cycle();
        for (index, layer) in self.layers.iter().enumerate() {
            let name = |part: &str| format!("blk.{index}.{part}");
            for (module, [rows, cols]) in self.architecture.modules(layer) {
                let format = formats.next().unwrap_or(Quant::F32).for_rows_of(cols as u64);
                tensors.push(RandomTensor::matrix(&name(module.gguf()), cols, rows, format));
            }
            for (norm, length) in arch::norms(self.architecture).lengths(layer) {
                tensors.push(RandomTensor::norm(&name(norm), length));
            }
        }
        tensors
    }
}

/// The values of an architecture's further keys: sliding windows that some tokens pass, and scales
/// that change the result.
fn own_values(architecture: Architecture) -> Vec<(&'static str, Value)> {
    const WINDOW: (&str, Value) = ("attention.sliding_window", Value::U32(270));
    match architecture {
        // A softcap near the size of the logits.
        Architecture::Gemma3 => vec![WINDOW, ("final_logit_softcapping", Value::F32(2.0))],
        Architecture::Gemma2 => vec![
            WINDOW,
            ("attn_logit_softcapping", Value::F32(5.0)),
            ("final_logit_softcapping", Value::F32(5.0)),
        ],
        Architecture::Granite => vec![
            ("embedding_scale", Value::F32(12.0)),
            ("residual_scale", Value::F32(0.25)),
            ("logit_scale", Value::F32(2.0)),
        ],
        Architecture::Mistral3 => vec![
            ("rope.scaling.original_context_length", Value::U32(64)),
            ("attention.temperature_scale", Value::F32(0.1)),
        ],
        Architecture::Llama
        | Architecture::Qwen2
        | Architecture::Qwen3
        | Architecture::Phi3
        | Architecture::SmolLm3
        | Architecture::Olmo2 => Vec::new(),
    }
}

/// A value of a model whose layers have these sizes: one number if all are equal.
fn per_layer(sizes: Vec<usize>) -> Value {
    let sizes: Vec<u32> = sizes.into_iter().map(|size| size as u32).collect();
    match *sizes {
        [first, ..] if sizes.iter().all(|size| *size == first) => Value::U32(first),
        _ => sizes.into(),
    }
}

/// A random tensor.
struct RandomTensor {
    name: String,
    cols: usize,
    /// `None` means a vector of weights near one.
    rows: Option<usize>,
    quant: Quant,
}

impl RandomTensor {
    fn matrix(name: &str, cols: usize, rows: usize, quant: Quant) -> Self {
        Self {
            name: format!("{name}.weight"),
            cols,
            rows: Some(rows),
            quant,
        }
    }

    fn norm(name: &str, len: usize) -> Self {
        Self {
            name: format!("{name}.weight"),
            cols: len,
            rows: None,
            quant: Quant::F32,
        }
    }

    fn header(&self) -> TensorHeader {
        let kind = TensorType::ALL.iter().find(|kind| kind.name() == self.quant.name());
        TensorHeader {
            name: self.name.clone(),
            shape: std::iter::once(self.cols).chain(self.rows).map(|n| n as u64).collect(),
            kind: kind.copied().unwrap_or(TensorType::F32),
        }
    }

    fn bytes(&self, random: &mut Random) -> Vec<u8> {
        let row_bytes = self.quant.row_bytes(self.cols).unwrap_or(0);
        let rows = self.rows.unwrap_or(1);
        let mut bytes = vec![0; row_bytes * rows.min(RANDOM_ROWS)];
        // Outputs are about as large as inputs.
        let (mean, bound) = match self.rows {
            Some(_) => (0.0, (3.0 / self.cols as f32).sqrt()),
            None => (1.0, 0.25),
        };
        for row in bytes.chunks_exact_mut(row_bytes.max(1)) {
            let floats: Vec<f32> = (0..self.cols).map(|_| mean + bound * random.next()).collect();
            // Values of this size can be stored in every format.
            let _ = self.quant.quantize_row(&floats, row);
        }
        bytes.iter().copied().cycle().take(row_bytes * rows).collect()
    }
}

/// Knuth's generator for MMIX, the same on every machine.
pub struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as u32
    }

    /// A random number from -1 to 1.
    fn next(&mut self) -> f32 {
        self.bits() as f32 / (1 << 23) as f32 - 1.0
    }

    /// A random token.
    pub fn token(&mut self, vocab: usize) -> u32 {
        self.bits() % vocab as u32
    }
}
