//! Saved activations of the CPU operations.

use super::inputs::{checked, floats};
use super::pooled::tensor;
use super::{Activation, MatmulPrecision};
use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use hearth_kernels::scratch::Scratch;
use hearth_kernels::{bf16, bf16_slices, glu};
use std::sync::Arc;

/// A saved matrix. It is saved in bf16 if GEMMs round it to bf16 anyway.
#[derive(Clone)]
pub enum SavedTensor {
    /// In f32.
    F32(FlexTensor),
    /// In bf16, with its rows and columns.
    Bf16(Arc<Scratch<bf16>>, [usize; 2]),
}

/// Saved activations of attention.
#[derive(Clone)]
pub struct SavedAttention {
    /// Q, K and V: before norms, RoPE and temperature if Q or K has a norm, otherwise after them,
    /// since only the backward of a norm needs its input.
    pub(super) qkv: FlexTensor,
    /// The output.
    pub(super) out: FlexTensor,
    /// Log-sum-exp of the scores, `[T, heads]`.
    pub(super) lse: Arc<Vec<f32>>,
}

/// Saved activations of a feed-forward.
#[derive(Clone)]
pub struct SavedFeedForward {
    pub(super) x: SavedTensor,
    /// `gate(norm(x))`.
    pub(super) gate: SavedTensor,
    /// `up(norm(x))`.
    pub(super) up: SavedTensor,
}

impl SavedFeedForward {
    /// `activation(gate) * up`. It is recomputed, since that is cheaper than saving it.
    pub(super) fn h(&self, activation: Activation) -> FlexTensor {
        let size = self.gate.size();
        let mut h = Scratch::new(size[0] * size[1]);
        checked(match (&self.gate, &self.up) {
            (SavedTensor::Bf16(gate, _), SavedTensor::Bf16(up, _)) => {
                glu::glu_from_saved(activation, [gate, up], &mut h)
            }
            (gate, up) => {
                let [gate, up] = [gate, up].map(SavedTensor::restore);
                glu::glu_from_saved(activation, [floats(&gate), floats(&up)], &mut h)
            }
        });
        tensor(h, size)
    }
}

impl SavedTensor {
    /// Rows and columns.
    pub(super) fn size(&self) -> [usize; 2] {
        match self {
            Self::F32(x) => [x.shape()[0], x.shape()[1]],
            Self::Bf16(_, size) => *size,
        }
    }

    /// Saves a matrix for the backward of a GEMM in this precision.
    pub(super) fn new(x: &FlexTensor, precision: MatmulPrecision) -> Self {
        match precision {
            MatmulPrecision::Bf16 if x.is_contiguous() => {
                let mut values = Scratch::new(floats(x).len());
                checked(bf16_slices::to_bf16(floats(x), &mut values));
                let shape = x.shape();
                Self::Bf16(Arc::new(values), [shape[0], shape[1]])
            }
            _ => Self::F32(x.clone()),
        }
    }

    /// The matrix in f32.
    pub(super) fn restore(&self) -> FlexTensor {
        match self {
            Self::F32(x) => x.clone(),
            Self::Bf16(values, size) => {
                let mut x = Scratch::new(values.len());
                checked(bf16_slices::to_f32(values, &mut x));
                tensor(x, *size)
            }
        }
    }
}
