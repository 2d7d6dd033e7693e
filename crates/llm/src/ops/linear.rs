//! Parts of a linear: a frozen weight and its optional scale, adapter and bias.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};
use hearth_kernels::{Layout, Quant};

pub use hearth_kernels::Dropout;
pub use hearth_kernels::MatmulPrecision;
pub use hearth_kernels::glu::Activation;

/// Shape and storage format of a weight `[rows, cols]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixSpec {
    /// The quantization format.
    pub quant: Quant,
    /// The layout of the blocks: plain, or packed for this CPU.
    pub layout: Layout,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// The weight's own scale, applied after the product; 1 if it has none.
    pub scale: f32,
}

/// RMSNorm: `x * weight / sqrt(mean(x^2) + eps)`. <https://arxiv.org/abs/1910.07467>
#[derive(Debug, Clone, ExtensionType)]
pub struct Norm<B: Backend> {
    /// `[D]`; frozen.
    pub weight: FloatTensor<B>,
    /// Added under the root; avoids division by zero.
    pub eps: f32,
}

/// An optional norm.
#[derive(Debug, Clone, ExtensionType)]
pub enum OptionalNorm<B: Backend> {
    /// None here.
    None,
    /// A norm with this weight and epsilon.
    Norm(FloatTensor<B>, f32),
}

/// LoRA: adds `scale * (x a^T) b^T`. <https://arxiv.org/abs/2106.09685>
///
/// Stacked adapters are one adapter of the sum of their ranks, with their scales folded into `b`.
#[derive(Debug, Clone, ExtensionType)]
pub enum Adapter<B: Backend> {
    /// No adapter.
    None,
    /// An adapter of some rank.
    Lora {
        /// `[rank, in]`.
        a: FloatTensor<B>,
        /// `[out, rank]`.
        b: FloatTensor<B>,
        /// alpha / rank, or alpha / sqrt(rank) for rsLoRA.
        scale: f32,
        /// Dropout of its input; training only.
        dropout: Option<Dropout>,
    },
}

/// An optional bias.
#[derive(Debug, Clone, ExtensionType)]
pub enum Bias<B: Backend> {
    /// None here.
    None,
    /// `[out]`; frozen.
    Add(FloatTensor<B>),
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Debug, Clone, ExtensionType)]
pub struct Linear<B: Backend> {
    /// The bytes of the blocks (u8 on a CPU, u32 words on a GPU).
    pub weight: IntTensor<B>,
    /// Their format and shape.
    pub spec: MatrixSpec,
    /// LoRA adapter.
    #[extension_type]
    pub adapter: Adapter<B>,
    /// Bias from the file.
    #[extension_type]
    pub bias: Bias<B>,
}

/// The first half of a feed-forward: `activation(gate(norm(x))) * up(norm(x))`.
#[derive(Debug, Clone, ExtensionType)]
pub struct Gated<B: Backend> {
    /// The norm before both linears.
    #[extension_type]
    pub norm: Norm<B>,
    /// Input of the activation.
    #[extension_type]
    pub gate: Linear<B>,
    /// Multiplied with the activation.
    #[extension_type]
    pub up: Linear<B>,
    /// Activation of the gate.
    pub activation: Activation,
}

/// One to three linears over the same input.
#[derive(Debug, Clone, ExtensionType)]
pub enum Linears<B: Backend> {
    /// One, such as the output layer.
    One(#[extension_type] Linear<B>),
    /// Two of them.
    Two(#[extension_type] Linear<B>, #[extension_type] Linear<B>),
    /// Q, K and V.
    Three(
        #[extension_type] Linear<B>,
        #[extension_type] Linear<B>,
        #[extension_type] Linear<B>,
    ),
}

impl<B: Backend> Linears<B> {
    /// The linears, in order.
    pub fn into_vec(self) -> Vec<Linear<B>> {
        match self {
            Self::One(a) => vec![a],
            Self::Two(a, b) => vec![a, b],
            Self::Three(a, b, c) => vec![a, b, c],
        }
    }

    /// The width of their concatenated outputs.
    pub fn out_features(&self) -> usize {
        match self {
            Self::One(a) => a.spec.rows,
            Self::Two(a, b) => a.spec.rows + b.spec.rows,
            Self::Three(a, b, c) => a.spec.rows + b.spec.rows + c.spec.rows,
        }
    }
}
