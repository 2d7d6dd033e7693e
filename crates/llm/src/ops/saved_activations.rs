//! Saved activations of the CPU operations.

use super::inputs::{checked, floats};
use super::pooled::tensor;
use super::{Activation, MatmulPrecision};
use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use hearth_kernels::scratch::Scratch;
use hearth_kernels::{bf16, bf16_slices, glu};
use std::sync::Arc;

/// A saved matrix: in f32, or in bf16 if products round it to bf16 anyway.
#[derive(Clone)]
pub enum Saved {
    /// In f32.
    Whole(FlexTensor),
    /// In bf16, with its rows and columns.
    Half(Arc<Scratch<bf16>>, [usize; 2]),
}

/// Saved activations of attention.
#[derive(Clone)]
pub struct SavedAttention {
    /// Raw Q, K and V if the model has head norms, else after RoPE, which can be inverted.
    pub(super) qkv: FlexTensor,
    /// The output.
    pub(super) out: FlexTensor,
    /// Log-sum-exp of each row, `[T, heads]`.
    pub(super) lse: Arc<Vec<f32>>,
}

/// Saved activations of a feed-forward.
#[derive(Clone)]
pub struct SavedFeedForward {
    pub(super) x: Saved,
    /// `gate(norm(x))` and `up(norm(x))`.
    pub(super) gates: Saved,
    pub(super) ups: Saved,
}

impl SavedFeedForward {
    /// `activation(gate) * up`, recomputed: cheaper than the memory to save it.
    pub(super) fn h(&self, activation: Activation) -> FlexTensor {
        let size = self.gates.size();
        let mut h = Scratch::new(size[0] * size[1]);
        checked(match (&self.gates, &self.ups) {
            (Saved::Half(gates, _), Saved::Half(ups, _)) => glu::glu_from_saved(activation, [gates, ups], &mut h),
            (gates, ups) => {
                let [gates, ups] = [gates, ups].map(Saved::restore);
                glu::glu_from_saved(activation, [floats(&gates), floats(&ups)], &mut h)
            }
        });
        tensor(h, size)
    }
}

impl Saved {
    /// Rows and columns.
    pub(super) fn size(&self) -> [usize; 2] {
        match self {
            Self::Whole(x) => [x.shape()[0], x.shape()[1]],
            Self::Half(_, size) => *size,
        }
    }

    pub(super) fn new(x: &FlexTensor, precision: MatmulPrecision) -> Self {
        match precision {
            MatmulPrecision::Bf16 if x.is_contiguous() => {
                let mut half = Scratch::new(floats(x).len());
                checked(bf16_slices::to_bf16(floats(x), &mut half));
                let shape = x.shape();
                Self::Half(Arc::new(half), [shape[0], shape[1]])
            }
            _ => Self::Whole(x.clone()),
        }
    }

    pub(super) fn restore(&self) -> FlexTensor {
        match self {
            Self::Whole(x) => x.clone(),
            Self::Half(half, shape) => {
                let mut x = Scratch::new(half.len());
                checked(bf16_slices::to_f32(half, &mut x));
                tensor(x, *shape)
            }
        }
    }
}
