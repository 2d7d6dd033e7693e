//! Linear layers over a frozen weight: product, then the weight's own scale, then LoRA, then bias.
//!
//! [`MatmulPrecision`] selects the product: `F32` dequantizes the weight in tiles and sums in f32;
//! `Bf16` does the same with both factors rounded to bf16; `Int8Activations` quantizes the
//! activations to int8. Gradients use `F32` or `Bf16`.

mod backward;
mod bf16_dot;
mod epilogue;
mod f32_dot;
mod float_groups;
mod float_weights;
mod input;
mod strips;
mod tiled;

pub(crate) use backward::{add, add_times, backward};
pub(crate) use bf16_dot::takes_bf16;
pub(crate) use input::Input;
pub(crate) use strips::{Strips, WorkSplit, multiply_strips};
pub(crate) use tiled::{LhsPanels, forward};

use crate::dropout::Dropout;
use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::shape::{self, ShapeError};

/// Up to this many tokens are prepared without waking the team, because waking it would take longer
/// than the work.
const FEW_TOKENS: usize = 4;

/// Arithmetic of a product with a frozen weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulPrecision {
    /// For chat: activations quantized to int8 in groups of 32. For 16-bit weights, activations are
    /// bf16 if [`bf16_is_fast`](crate::bf16_is_fast), else f32; for 32-bit weights, f32. On one
    /// machine, the bits of a token's results do not depend on the number of tokens.
    Int8Activations,
    /// The weight dequantized in tiles, products and sums in f32: for training, references and
    /// gradients.
    F32,
    /// The weight dequantized in tiles, both factors rounded to bf16 (nearest, ties to even), sums
    /// in f32: for training if [`bf16_is_fast`](crate::bf16_is_fast).
    Bf16,
}

/// Version of the arithmetic. Increment when the bits of [`MatmulPrecision::Int8Activations`] or of
/// attention change on the same machine.
const ARITHMETIC_VERSION: u32 = 4;

/// Identifier of the arithmetic that a model's outputs depend on: this machine's instruction set
/// and the version of the kernels. Cached KV cells computed with a different value are not
/// restored.
pub fn arithmetic_id() -> String {
    // The arithmetic of 16-bit weights.
    let floats = if crate::bf16_is_fast() { "bf16" } else { "f32" };
    format!("{}-{floats}-{ARITHMETIC_VERSION}", Isa::best().name())
}

/// A LoRA adapter: adds `scale * (dropout(x) a^T) b^T`. <https://arxiv.org/abs/2106.09685>
#[derive(Clone, Copy, Debug)]
pub struct Lora<'a> {
    /// `[rank, in]`.
    pub a: &'a [f32],
    /// `[out, rank]`.
    pub b: &'a [f32],
    /// Rows of `a`.
    pub rank: usize,
    /// Scale of the adapter's output.
    pub scale: f32,
    /// Dropout of the adapter's input, in training only.
    pub dropout: Option<Dropout>,
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// `[out, in]`, frozen.
    pub weight: Matrix<'a>,
    /// Scale of the whole weight; 1 if it has none.
    pub scale: f32,
    /// LoRA adapter.
    pub lora: Option<Lora<'a>>,
    /// Bias from the model file, `[out]`.
    pub bias: Option<&'a [f32]>,
}

impl<'a> Linear<'a> {
    /// A weight without scale, adapter or bias.
    pub fn plain(weight: Matrix<'a>) -> Self {
        Self {
            weight,
            scale: 1.0,
            lora: None,
            bias: None,
        }
    }

    /// A linear whose gradients are `factor` times the gradients of this one: they are proportional
    /// to the scales of weight and adapter. The bias has no gradient.
    pub(crate) fn with_gradients_times(self, factor: f32) -> Self {
        Self {
            scale: self.scale * factor,
            lora: self.lora.map(|lora| Lora {
                scale: lora.scale * factor,
                ..lora
            }),
            ..self
        }
    }

    /// Checks the sizes of adapter and bias, and the dropout rate.
    pub(crate) fn check(&self) -> Result<(), ShapeError> {
        if let Some(lora) = &self.lora {
            lora.dropout.map_or(Ok(()), Dropout::check)?;
            shape::length(
                "an adapter's a",
                lora.a.len(),
                lora.rank.checked_mul(self.weight.cols()),
            )?;
            shape::length(
                "an adapter's b",
                lora.b.len(),
                lora.rank.checked_mul(self.weight.rows()),
            )?;
        }
        match self.bias {
            Some(bias) => shape::length("a bias", bias.len(), Some(self.weight.rows())),
            None => Ok(()),
        }
    }
}

/// RMSNorm before or after a linear layer; see [`crate::norm::rms_norm`].
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// One weight per column.
    pub weight: &'a [f32],
    /// Added to the mean square before the root.
    pub eps: f32,
}

/// Gradients of a LoRA adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraGradient {
    /// `[rank, in]`.
    pub a: Vec<f32>,
    /// `[out, rank]`.
    pub b: Vec<f32>,
}
