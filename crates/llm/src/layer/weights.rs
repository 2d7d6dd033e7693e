//! Loads the weights of one layer by their names in it.

use crate::arch::{Config, LayerSpec, RopeSpec};
use crate::error::LoadError;
use crate::ops::{Linear, OptionalNorm, SharedRope};
use crate::weights::Weights;
use burn::backend::Dispatch;
use hearth_formats::Architecture;
use hearth_formats::shape::LinearName;

/// The weights of a layer.
pub(super) struct LayerWeights<'a, 'file> {
    weights: &'a mut Weights<'file>,
    pub spec: &'a LayerSpec,
    index: usize,
    architecture: Architecture,
    norm_eps: f32,
}

impl<'a, 'file> LayerWeights<'a, 'file> {
    /// The weights of layer `index`.
    pub fn new(weights: &'a mut Weights<'file>, spec: &'a LayerSpec, index: usize, config: &Config) -> Self {
        Self {
            weights,
            spec,
            index,
            architecture: config.architecture,
            norm_eps: config.norm_eps,
        }
    }

    fn name(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.index)
    }

    /// A linear layer, from its own weight or its rows of a fused one. An error if its shape is not
    /// described.
    pub fn linear(&mut self, linear: LinearName) -> Result<Linear<Dispatch>, LoadError> {
        let name = self.name(linear.gguf());
        let shape = &self.spec.shape;
        let Some([outputs, inputs]) = shape.linear(linear) else {
            return Err(LoadError::missing(self.weights.gguf(), &name));
        };
        let fused = self.architecture.fused_in(self.weights.gguf(), self.index, linear);
        let rows = fused.and_then(|fused| Some((fused, fused.rows(shape, linear)?, fused.shape(shape)?)));
        match rows {
            None => self.weights.linear(&name, outputs, inputs),
            Some((fused, rows, size)) => self.weights.rows_of(&self.name(fused.gguf()), &name, rows, size),
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
