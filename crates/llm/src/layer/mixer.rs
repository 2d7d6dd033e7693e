//! The part of a layer that combines tokens.

use super::attention::Attention;
use super::weights::LayerWeights;
use crate::arch::MixerSpec;
use crate::batch::Batch;
use crate::error::LoadError;
use crate::ops::{Linear, MatmulPrecision};
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use hearth_formats::shape::LinearName;
use std::sync::Arc;

/// The weights of a mixer. It runs in three steps, of which only the second combines tokens: parts
/// of a batch with different adapters share it.
#[derive(Clone)]
pub(super) enum Mixer {
    Attention(Attention),
}

impl Mixer {
    pub fn load(spec: MixerSpec, weights: &mut LayerWeights) -> Result<Self, LoadError> {
        let MixerSpec::Attention {
            heads,
            rope,
            temperature,
        } = spec;
        Attention::load(heads, rope, temperature, weights).map(Self::Attention)
    }

    /// The norm and the first linear layers: `x [T, D]` to the inputs of [`Mixer::mix`].
    pub fn inputs(&self, x: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let Self::Attention(attention) = self;
        attention.inputs(x, precision)
    }

    /// Combines the tokens of each sequence.
    pub fn mix(&self, inputs: Tensor<2>, index: usize, batch: &Arc<Batch>) -> Tensor<2> {
        let Self::Attention(attention) = self;
        attention.mix(inputs, index, batch)
    }

    /// The output linear, added to the residual stream `x [T, D]`.
    pub fn add_output(&self, x: Tensor<2>, mixed: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let Self::Attention(attention) = self;
        attention.add_output(x, mixed, precision)
    }

    /// The linear layers in the order of execution.
    pub fn linears_mut(&mut self) -> Vec<(LinearName, &mut Linear<Dispatch>)> {
        let Self::Attention(attention) = self;
        attention.linears_mut()
    }
}
