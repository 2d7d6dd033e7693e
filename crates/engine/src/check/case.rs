//! A case of the device check: one op on synthetic inputs, the same on every machine.

use hearth_kernels::Quant;
use hearth_kernels::attention::{Heads, KvFormat};
use hearth_kernels::reference::noise;
use hearth_kernels::rope::Pairing;
use hearth_llm::ops::{Activation, MatmulPrecision, NOT_TRAINED};
use std::error::Error;
use std::fmt;

/// LoRA ranks: one above a tile of 32, a common one, and one below any tile.
pub const RANKS: [usize; 3] = [37, 16, 5];
/// Scale of the adapters.
pub const LORA_SCALE: f32 = 1.5;
/// Epsilon of the norms.
pub const EPS: f32 = 1e-5;
/// Distinct random rows of a weight; later rows repeat them. A prime, so that no tile size divides
/// it.
const RANDOM_ROWS: usize = 61;

/// An executor of cases: a device, or in tests one with a fault.
pub trait Executor {
    /// Returns the outputs of a case, in the same order for every executor.
    ///
    /// # Errors
    /// The device failed.
    fn run(&self, case: &Case) -> Result<Vec<Output>, Box<dyn Error>>;
}

/// An output of an executor: a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// For example `the output` or `the gradient of x`.
    pub name: String,
    /// Columns.
    pub cols: usize,
    /// Row-major values.
    pub values: Vec<f32>,
}

/// One op with its batch size, precision and pass.
#[derive(Debug, Clone)]
pub struct Case {
    /// The op.
    pub op: Op,
    /// Tokens of the batch; for [`Op::Attend`], of all passes.
    pub tokens: usize,
    /// Precision of GEMMs with weights.
    pub precision: MatmulPrecision,
    /// Whether the gradients of inputs and adapters are computed.
    pub backward: bool,
    /// Whether the residual has another owner, so that it must not be overwritten.
    pub shared: bool,
}

/// The ops of [`hearth_llm::ops::Ops`].
#[derive(Debug, Clone)]
pub enum Op {
    /// Linear layers on one normalized input.
    NormLinears(Vec<LinearShape>),
    /// A linear layer with an optional norm, added to the residual.
    LinearAdd {
        /// The linear layer.
        linear: LinearShape,
        /// Whether a norm follows it.
        norm: bool,
        /// Factor of what is added.
        scale: f32,
    },
    /// A gated feed-forward with an optional norm, added to the residual.
    FeedForward {
        /// Gate and up.
        gated: [LinearShape; 2],
        /// Down.
        down: LinearShape,
        /// Activation of the gate.
        activation: Activation,
        /// Whether a norm follows down.
        norm: bool,
        /// Factor of what is added.
        scale: f32,
    },
    /// Attention.
    Attend {
        /// Number and size of the heads.
        heads: Heads,
        /// Pairing of RoPE.
        pairing: Pairing,
        /// Whether each head of Q and K is normalized.
        norms: bool,
        /// Source of keys and values.
        source: Source,
    },
    /// Cross-entropy through the output layer.
    CrossEntropy {
        /// The output layer.
        output: LinearShape,
        /// Softcap of the logits.
        softcap: Option<f32>,
    },
    /// The argmax of each row.
    Argmax {
        /// Columns.
        vocab: usize,
    },
}

/// Source of keys and values.
#[derive(Debug, Clone)]
pub enum Source {
    /// A KV cache that is filled pass by pass.
    Cache {
        /// Its element type.
        format: KvFormat,
        /// Tokens of each pass.
        passes: Vec<usize>,
        /// Whether the sequence's cells are in another order than its tokens.
        scattered: bool,
    },
    /// The batch itself, in sequences of these lengths.
    Batch(Vec<usize>),
}

/// Shape and format of a linear layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearShape {
    /// The weight's format.
    pub quant: Quant,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Rank of its adapter, if any.
    pub rank: Option<usize>,
    /// Whether it has a bias, and a scale of its weight other than 1.
    pub bias: bool,
}

impl LinearShape {
    /// A linear layer without adapter and bias.
    pub fn new(quant: Quant, rows: usize, cols: usize) -> Self {
        Self {
            quant,
            rows,
            cols,
            rank: None,
            bias: false,
        }
    }

    /// Adds an adapter of this rank.
    pub fn adapted(self, rank: usize) -> Self {
        Self {
            rank: Some(rank),
            ..self
        }
    }

    /// Scale of the weight.
    pub fn scale(&self) -> f32 {
        if self.bias { 0.5 } else { 1.0 }
    }

    /// The weight's blocks, scaled so that outputs are about as large as inputs.
    pub fn blocks(&self, seed: u64) -> Result<Vec<u8>, Box<dyn Error>> {
        let row_bytes = self
            .quant
            .row_bytes(self.cols)
            .ok_or("rows that are not whole blocks")?;
        let random_rows = self.rows.min(RANDOM_ROWS);
        let mut bytes = vec![0; row_bytes * random_rows];
        let values = scaled((3.0 / self.cols as f32).sqrt(), noise(seed, random_rows * self.cols));
        for (row, quantized) in values.chunks_exact(self.cols).zip(bytes.chunks_exact_mut(row_bytes)) {
            self.quant.quantize_row(row, quantized)?;
        }
        Ok(bytes.iter().copied().cycle().take(row_bytes * self.rows).collect())
    }

    /// The dequantized weight, row-major.
    pub fn values(&self, seed: u64) -> Result<Vec<f32>, Box<dyn Error>> {
        let mut values = vec![0.0; self.rows * self.cols];
        self.quant.dequantize_row(&self.blocks(seed)?, &mut values)?;
        Ok(values)
    }

    /// The bias.
    pub fn bias(&self, seed: u64) -> Option<Vec<f32>> {
        self.bias.then(|| noise(seed + 1, self.rows))
    }
}

/// A leaf of the tape: an input, or a factor of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// For example `x`, `the residual` or `a of linear 2`.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Row-major values.
    pub values: Vec<f32>,
}

impl Leaf {
    fn input(name: &str, rows: usize, cols: usize, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            rows,
            cols,
            values: noise(seed, rows * cols),
        }
    }

    /// Both factors of the adapter of the linear layer with this index.
    fn adapter(linear: &LinearShape, rank: usize, index: usize) -> [Self; 2] {
        let seed = 1000 + 10 * index as u64;
        let bound = (3.0 / linear.cols as f32).sqrt();
        [
            Self {
                name: format!("a of linear {}", index + 1),
                rows: rank,
                cols: linear.cols,
                values: scaled(bound, noise(seed, rank * linear.cols)),
            },
            Self {
                name: format!("b of linear {}", index + 1),
                rows: linear.rows,
                cols: rank,
                values: scaled((3.0 / rank as f32).sqrt(), noise(seed + 1, linear.rows * rank)),
            },
        ]
    }
}

impl Op {
    /// The op's name in [`hearth_llm::ops`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::NormLinears(_) => "norm_linears",
            Self::LinearAdd { .. } => "linear_add",
            Self::FeedForward { .. } => "feed_forward",
            Self::Attend { .. } => "attend",
            Self::CrossEntropy { .. } => "cross_entropy",
            Self::Argmax { .. } => "argmax",
        }
    }

    /// The op with this factor of what it adds to the residual.
    pub fn scaled(mut self, factor: f32) -> Self {
        if let Self::LinearAdd { scale, .. } | Self::FeedForward { scale, .. } = &mut self {
            *scale = factor;
        }
        self
    }

    /// The factor of what it adds to the residual.
    fn scale(&self) -> f32 {
        match self {
            Self::LinearAdd { scale, .. } | Self::FeedForward { scale, .. } => *scale,
            Self::NormLinears(_) | Self::Attend { .. } | Self::CrossEntropy { .. } | Self::Argmax { .. } => 1.0,
        }
    }

    /// The linear layers, in order.
    pub fn linears(&self) -> Vec<LinearShape> {
        match self {
            Self::NormLinears(linears) => linears.clone(),
            Self::LinearAdd { linear, .. } | Self::CrossEntropy { output: linear, .. } => vec![*linear],
            Self::FeedForward { gated, down, .. } => vec![gated[0], gated[1], *down],
            Self::Attend { .. } | Self::Argmax { .. } => Vec::new(),
        }
    }

    /// Changes each linear layer, to simulate a fault.
    #[cfg(test)]
    pub fn map_linears(&mut self, change: impl Fn(&mut LinearShape)) {
        match self {
            Self::NormLinears(linears) => linears.iter_mut().for_each(change),
            Self::LinearAdd { linear, .. } | Self::CrossEntropy { output: linear, .. } => change(linear),
            Self::FeedForward { gated, down, .. } => gated.iter_mut().chain([down]).for_each(change),
            Self::Attend { .. } | Self::Argmax { .. } => {}
        }
    }
}

impl Case {
    /// A forward case in f32.
    pub fn new(op: Op, tokens: usize) -> Self {
        Self {
            op,
            tokens,
            precision: MatmulPrecision::F32,
            backward: false,
            shared: false,
        }
    }

    /// Adds the backward pass. The tape is another owner of every input.
    pub fn backward(self) -> Self {
        Self {
            backward: true,
            shared: true,
            ..self
        }
    }

    /// Returns a copy that computes in f32.
    pub fn exact(&self) -> Self {
        Self {
            precision: MatmulPrecision::F32,
            ..self.clone()
        }
    }

    /// Adds another owner of the residual.
    pub fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    /// The inputs, then both factors of each adapter.
    pub fn leaves(&self) -> Vec<Leaf> {
        let linears = self.op.linears();
        let mut leaves = match &self.op {
            Op::NormLinears(linears) => vec![Leaf::input("x", self.tokens, linears[0].cols, 1)],
            Op::LinearAdd { linear, .. } => vec![
                Leaf::input("the residual", self.tokens, linear.rows, 2),
                Leaf::input("h", self.tokens, linear.cols, 1),
            ],
            Op::FeedForward { gated, .. } => vec![Leaf::input("x", self.tokens, gated[0].cols, 1)],
            Op::Attend { heads, .. } => vec![queries_keys_values(heads, self.tokens)],
            Op::CrossEntropy { output, .. } => vec![Leaf::input("x", self.tokens, output.cols, 1)],
            Op::Argmax { vocab } => vec![logits(self.tokens, *vocab)],
        };
        for (index, linear) in linears.iter().enumerate() {
            let factors = linear.rank.map(|rank| Leaf::adapter(linear, rank, index));
            leaves.extend(factors.into_iter().flatten());
        }
        leaves
    }

    /// Target of each token. Every seventh token is masked.
    pub fn targets(&self, vocab: usize) -> Vec<u32> {
        let target = |token: usize| match token % 7 {
            3 => NOT_TRAINED,
            _ => ((token * 37 + 5) % vocab) as u32,
        };
        (0..self.tokens).map(target).collect()
    }

    /// The name without the op: sizes, formats, precision and pass.
    pub fn arrangement(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for linear in self.op.linears() {
            let adapter = linear.rank.map(|rank| format!(" with an adapter of rank {rank}"));
            let adapter = adapter.unwrap_or_default();
            parts.push(format!("{} {}x{}{adapter}", linear.quant, linear.rows, linear.cols));
        }
        if let Op::Attend { heads, source, .. } = &self.op {
            let (q_heads, kv_heads, head_dim) = (heads.heads, heads.kv_heads, heads.head_dim);
            parts.push(format!("{q_heads} heads of {head_dim} over {kv_heads}"));
            parts.extend(heads.window.map(|window| format!("a window of {window}")));
            parts.extend(heads.softcap.map(|cap| format!("a softcap of {cap}")));
            if let Source::Cache { format, .. } = source {
                parts.push(format!("a cache in {format:?}"));
            }
        }
        if self.op.scale() != 1.0 {
            parts.push(format!("added {} times", self.op.scale()));
        }
        if let Op::CrossEntropy { softcap: Some(cap), .. } = self.op {
            parts.push(format!("a softcap of {cap}"));
        }
        parts.push(format!("{} tokens", self.tokens));
        if self.precision != MatmulPrecision::F32 {
            parts.push(format!("{:?} product", self.precision));
        }
        match (self.backward, self.shared) {
            (true, _) => parts.push("on the tape".to_owned()),
            (false, true) => parts.push("residual shared".to_owned()),
            (false, false) => {}
        }
        parts.join(", ")
    }
}

/// Q, K and V. The elements of V are exact in every KV cache type: multiples of 1/64 with a maximum
/// of 127/64 in each block of 32. So q8_0 does not turn a difference in the last bit of f32 into
/// one in the last of its 8 bits.
fn queries_keys_values(heads: &Heads, tokens: usize) -> Leaf {
    let mut leaf = Leaf::input("Q, K and V", tokens, heads.qkv_width(), 1);
    let first_value = (heads.heads + heads.kv_heads) * heads.head_dim;
    for row in leaf.values.chunks_exact_mut(heads.qkv_width()) {
        for (index, value) in row[first_value..].iter_mut().enumerate() {
            let integer = if index % 32 == 0 {
                127.0
            } else {
                (*value * 127.0).round()
            };
            *value = integer / 64.0;
        }
    }
    leaf
}

/// Rows whose argmax is the first column, the last, or one of two equal ones.
fn logits(rows: usize, vocab: usize) -> Leaf {
    let mut leaf = Leaf::input("logits", rows, vocab, 1);
    for (index, row) in leaf.values.chunks_exact_mut(vocab).enumerate() {
        match index % 3 {
            0 => row[vocab - 1] = 2.0,
            1 => row[0] = 2.0,
            _ => (row[vocab / 2], row[vocab / 2 + 1]) = (2.0, 2.0),
        }
    }
    leaf
}

/// Weights of a norm, near one.
pub fn norm_weight(width: usize, seed: u64) -> Vec<f32> {
    noise(seed, width).into_iter().map(|x| 1.0 + 0.25 * x).collect()
}

fn scaled(factor: f32, values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| factor * value).collect()
}

/// The name in reports and in the log.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.op.name(), self.arrangement())
    }
}
