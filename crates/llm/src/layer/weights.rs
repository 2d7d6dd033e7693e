//! Loads the weights of one layer by their names in it.

use crate::arch::{LayerSpec, RopeSpec};
use crate::error::LoadError;
use crate::ops::{Linear, OptionalNorm, SharedRope};
use crate::weights::Weights;
use burn::backend::Dispatch;
use hearth_formats::shape::LinearName;

/// The weights of a layer.
pub(super) struct LayerWeights<'a, 'file> {
    weights: &'a mut Weights<'file>,
    pub spec: &'a LayerSpec,
    index: usize,
    norm_eps: f32,
}

impl<'a, 'file> LayerWeights<'a, 'file> {
    /// The weights of layer `index`.
    pub fn new(weights: &'a mut Weights<'file>, spec: &'a LayerSpec, index: usize, norm_eps: f32) -> Self {
        Self {
            weights,
            spec,
            index,
            norm_eps,
        }
    }

    fn name(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.index)
    }

    /// A linear layer. An error if its shape is not described.
    pub fn linear(&mut self, linear: LinearName) -> Result<Linear<Dispatch>, LoadError> {
        let name = self.name(linear.gguf());
        match self.spec.shape.linear(linear) {
            Some([outputs, inputs]) => self.weights.linear(&name, outputs, inputs),
            None => Err(LoadError::missing(self.weights.gguf(), &name)),
        }
    }

    /// A norm with a weight of this length, if the layer has it.
    pub fn optional_norm(&mut self, name: Option<&str>, length: usize) -> Result<OptionalNorm<Dispatch>, LoadError> {
        let Some(name) = name else {
            return Ok(OptionalNorm::None);
        };
        let norm = self.weights.norm(&self.name(name), length, self.norm_eps);
        norm.map(OptionalNorm::from)
    }

    /// A RoPE, which layers share.
    pub fn rope(&mut self, rope: RopeSpec) -> Result<SharedRope, LoadError> {
        self.weights.rope(rope)
    }
}
