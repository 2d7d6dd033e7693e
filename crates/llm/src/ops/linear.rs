//! Linear layers: a frozen weight with an optional scale, adapter and bias.

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
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The weight's own scale, applied after the product; 1 if the file has none.
    pub scale: f32,
}

/// RMSNorm: `x * weight / sqrt(mean(x^2) + eps)`. <https://arxiv.org/abs/1910.07467>
#[derive(Debug, Clone, ExtensionType)]
pub struct Norm<B: Backend> {
    /// `[D]`; frozen.
    pub weight: FloatTensor<B>,
    /// Added under the root to avoid a division by zero.
    pub eps: f32,
}

/// An optional norm.
#[derive(Debug, Clone, ExtensionType)]
pub enum OptionalNorm<B: Backend> {
    /// No norm.
    None,
    /// A norm with this weight and epsilon.
    Norm(FloatTensor<B>, f32),
}

impl<B: Backend> From<Norm<B>> for OptionalNorm<B> {
    fn from(norm: Norm<B>) -> Self {
        Self::Norm(norm.weight, norm.eps)
    }
}

/// LoRA: adds `scale * (x a^T) b^T`. <https://arxiv.org/abs/2106.09685>
///
/// Several adapters are one adapter of the sum of their ranks, with their scales folded into `b`.
#[derive(Debug, Clone, ExtensionType)]
pub enum Adapter<B: Backend> {
    /// No adapter.
    None,
    /// An adapter.
    Lora {
        /// `[rank, in]`.
        a: FloatTensor<B>,
        /// `[out, rank]`.
        b: FloatTensor<B>,
        /// `alpha / rank`, or `alpha / sqrt(rank)` for rsLoRA.
        scale: f32,
        /// Dropout of the adapter's input, in training only.
        dropout: Option<Dropout>,
    },
}

/// An optional bias.
#[derive(Debug, Clone, ExtensionType)]
pub enum Bias<B: Backend> {
    /// No bias.
    None,
    /// `[out]`; frozen.
    Add(FloatTensor<B>),
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Debug, Clone, ExtensionType)]
pub struct Linear<B: Backend> {
    /// The blocks: as bytes (u8) on a CPU, as 32-bit words (u32) on a GPU.
    pub weight: IntTensor<B>,
    /// The format and shape of the weight.
    pub spec: MatrixSpec,
    /// The LoRA adapter.
    #[extension_type]
    pub adapter: Adapter<B>,
    /// The bias of the file.
    #[extension_type]
    pub bias: Bias<B>,
}

/// The first half of a feed-forward: `activation(gate(norm(x))) * up(norm(x))`, or of `x` itself.
#[derive(Debug, Clone, ExtensionType)]
pub struct Gated<B: Backend> {
    /// The norm of the input.
    #[extension_type]
    pub norm: OptionalNorm<B>,
    /// Its output is the input of the activation.
    #[extension_type]
    pub gate: Linear<B>,
    /// Its output is multiplied with the activation.
    #[extension_type]
    pub up: Linear<B>,
    /// The activation.
    pub activation: Activation,
}

/// One to three linear layers with a common input.
#[derive(Debug, Clone, ExtensionType)]
pub enum Linears<B: Backend> {
    /// One, such as the output layer.
    One(#[extension_type] Linear<B>),
    /// Two, such as gate and up.
    Two(#[extension_type] Linear<B>, #[extension_type] Linear<B>),
    /// Q, K and V.
    Three(
        #[extension_type] Linear<B>,
        #[extension_type] Linear<B>,
        #[extension_type] Linear<B>,
    ),
}

impl<B: Backend> Linears<B> {
    /// The linear layers, in order.
    pub fn into_vec(self) -> Vec<Linear<B>> {
        match self {
            Self::One(first) => vec![first],
            Self::Two(first, second) => vec![first, second],
            Self::Three(first, second, third) => vec![first, second, third],
        }
    }

    /// The linear layers, each replaced, in order.
    pub(super) fn map<T: Backend>(self, mut replace: impl FnMut(Linear<B>) -> Linear<T>) -> Linears<T> {
        match self {
            Self::One(first) => Linears::One(replace(first)),
            Self::Two(first, second) => Linears::Two(replace(first), replace(second)),
            Self::Three(first, second, third) => Linears::Three(replace(first), replace(second), replace(third)),
        }
    }

    /// The number of output features of all of them.
    pub fn out_features(&self) -> usize {
        match self {
            Self::One(first) => first.spec.rows,
            Self::Two(first, second) => first.spec.rows + second.spec.rows,
            Self::Three(first, second, third) => first.spec.rows + second.spec.rows + third.spec.rows,
        }
    }
}
