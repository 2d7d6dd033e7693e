//! Synthetic models for the device check.

use hearth_formats::Architecture;
use hearth_formats::adapter::{BaseShape, LinearName};
use hearth_formats::gguf::{Gguf, GgufError, GgufWriter, Metadata, TensorHeader, TensorType, Value};
use hearth_kernels::Quant;
use hearth_llm::arch;

/// Distinct random rows of a matrix; later rows repeat them. A prime, so that no tile size divides
/// it.
const RANDOM_ROWS: usize = 61;

/// Sizes and formats of a model. Widths are multiples of 32. If a row is not whole blocks of a
/// format, another format replaces it.
pub struct Sample {
    pub architecture: Architecture,
    pub layers: usize,
    pub width: usize,
    pub ffn_width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub vocab: usize,
    /// Quantization of the matrices, in rotation.
    pub formats: &'static [Quant],
}

impl Sample {
    /// A Llama model for benchmarks.
    pub fn llama(layers: usize, width: usize, formats: &'static [Quant]) -> Self {
        Self {
            architecture: Architecture::Llama,
            layers,
            width,
            ffn_width: 4 * width,
            heads: width / 64,
            kv_heads: (width / 128).max(1),
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

    /// The sizes that adapters depend on.
    pub fn shape(&self) -> BaseShape {
        BaseShape {
            architecture: self.architecture.to_string(),
            layers: self.layers,
            width: self.width,
            ffn_width: self.ffn_width,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.width / self.heads,
            vocab: self.vocab,
        }
    }

    fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.insert("general.architecture", Value::Str(self.architecture.to_string()));
        let numbers = [
            ("block_count", self.layers),
            ("context_length", 4096),
            ("embedding_length", self.width),
            ("feed_forward_length", self.ffn_width),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
        ];
        // Only Gemma has a sliding window.
        let window = (self.architecture == Architecture::Gemma3).then_some(("attention.sliding_window", 270));
        for (key, value) in numbers.into_iter().chain(window) {
            metadata.insert(format!("{}.{key}", self.architecture), Value::U32(value as u32));
        }
        metadata
    }

    fn tensors(&self) -> Vec<RandomTensor> {
        let (width, shape) = (self.width, self.shape());
        let mut tensors = vec![
            RandomTensor::matrix("token_embd", width, self.vocab, Quant::F16),
            RandomTensor::norm("output_norm", width),
            RandomTensor::matrix("output", width, self.vocab, self.formats[0].for_rows_of(width as u64)),
        ];
        let mut formats = self.formats.iter().copied().cycle();
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            for linear in LinearName::ALL {
                let (rows, cols) = shape.linear(*linear);
                let format = formats.next().unwrap_or(Quant::F32).for_rows_of(cols as u64);
                tensors.push(RandomTensor::matrix(&name(linear.gguf()), cols, rows, format));
            }
            for norm in arch::norms(self.architecture) {
                let length = norm.length(width, shape.head_dim);
                tensors.push(RandomTensor::norm(&name(norm.gguf()), length));
            }
        }
        tensors
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
