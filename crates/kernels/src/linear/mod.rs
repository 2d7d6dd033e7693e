//! A linear over a frozen weight: product, then the weight's own scale, then the adapter, then the bias.
//!
//! There are three products. `Exact` expands the weight in tiles and sums in f32; `Bf16` does so with both factors rounded to bf16;
//! `Fast` quantises the activations to int8. A gradient is that of `Exact` or of `Bf16`.

mod backward;
mod dot_block;
mod floats;
mod gemm;
mod input;
mod pairs;
mod strips;
mod tail;
mod tiled;

pub(crate) use backward::{add, backward};
pub(crate) use input::Input;
pub(crate) use strips::{Cut, Strips, fast};
pub(crate) use tiled::{Talls, forward};

use crate::dot::Isa;
use crate::dropout::Dropout;
use crate::matrix::Matrix;
use crate::shape::{self, ShapeError};

/// Tokens up to which preparing them is not worth waking the team.
const FEW: usize = 4;

/// How a product with a quantised weight is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Chat. Activations are quantised to int8 in blocks of 32. Weights of 16 bits meet them in bf16 if
    /// [`bf16_is_fast`](crate::bf16_is_fast), else in f32, and weights of 32 bits in f32. On one machine the bits of a token's products do not
    /// depend on how many tokens there are.
    Fast,
    /// The weight expanded in tiles, all sums in f32: training, references, gradients.
    Exact,
    /// The weight expanded in tiles, both factors rounded to bf16 (nearest, ties to even), all sums in f32: training where
    /// [`bf16_is_fast`](crate::bf16_is_fast).
    Bf16,
}

/// Increases whenever the bits of [`Product::Fast`] or of attention change on a machine that stays the same.
const ARITHMETIC_VERSION: u32 = 1;

/// What the bits of a model's outputs depend on besides the model and its inputs: this machine's instructions and the version of the kernels.
/// Cells of a KV cache that were made with another value are not taken up.
pub fn arithmetic() -> String {
    let isa = Isa::best();
    let bf16 = if isa.multiplies_bf16() { "-bf16" } else { "" };
    format!("{}{bf16}-{ARITHMETIC_VERSION}", isa.level().name())
}

/// An adapter: adds `scale * (drop(x) a^T) b^T`. <https://arxiv.org/abs/2106.09685>
#[derive(Clone, Copy, Debug)]
pub struct Lora<'a> {
    /// `[rank, in]`.
    pub a: &'a [f32],
    /// `[out, rank]`.
    pub b: &'a [f32],
    /// Rows of `a`.
    pub rank: usize,
    /// What the adapter counts for.
    pub scale: f32,
    /// What is dropped of its input while it is trained.
    pub dropout: Option<Dropout>,
}

/// `y = scale * (x W^T) + lora(x) + bias`, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// `[out, in]`, frozen.
    pub weight: Matrix<'a>,
    /// The weight's own scale; 1 where it has none.
    pub scale: f32,
    /// What training adds.
    pub lora: Option<Lora<'a>>,
    /// What the file adds, `[out]`.
    pub bias: Option<&'a [f32]>,
}

impl<'a> Linear<'a> {
    /// A weight and nothing else.
    pub fn plain(weight: Matrix<'a>) -> Self {
        Self {
            weight,
            scale: 1.0,
            lora: None,
            bias: None,
        }
    }

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

/// RMSNorm before or after a linear; see [`crate::norm::rms_norm`].
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// As wide as a row.
    pub weight: &'a [f32],
    /// Keeps the root away from zero.
    pub eps: f32,
}

/// The gradient of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraGradient {
    /// `[rank, in]`.
    pub a: Vec<f32>,
    /// `[out, rank]`.
    pub b: Vec<f32>,
}
