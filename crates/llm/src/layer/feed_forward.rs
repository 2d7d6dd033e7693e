//! The part of a layer that transforms each token.

use super::weights::LayerWeights;
use crate::arch::FeedForwardSpec;
use crate::error::LoadError;
use crate::ops::{Gated, Linear, MatmulPrecision, OptionalNorm, feed_forward};
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use hearth_formats::shape::LinearName;

/// The weights of a feed-forward.
#[derive(Clone)]
pub(super) enum FeedForward {
    Gated {
        gated: Gated<Dispatch>,
        down: Linear<Dispatch>,
        output_norm: OptionalNorm<Dispatch>,
        residual_scale: f32,
    },
}

impl FeedForward {
    pub fn load(spec: FeedForwardSpec, weights: &mut LayerWeights) -> Result<Self, LoadError> {
        let FeedForwardSpec::Gated { activation } = spec;
        let (norms, width) = (weights.spec.norms, weights.spec.shape.width);
        Ok(Self::Gated {
            gated: Gated {
                norm: weights.optional_norm(norms.before_feed_forward, width)?,
                gate: weights.linear(LinearName::FfnGate)?,
                up: weights.linear(LinearName::FfnUp)?,
                activation,
            },
            down: weights.linear(LinearName::FfnDown)?,
            output_norm: weights.optional_norm(norms.after_feed_forward, width)?,
            residual_scale: weights.spec.residual_scale,
        })
    }

    /// The residual stream `[T, D]` after it.
    pub fn forward(&self, x: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let Self::Gated {
            gated,
            down,
            output_norm,
            residual_scale,
        } = self;
        feed_forward(x, gated, down, output_norm, *residual_scale, precision)
    }

    /// The linear layers in the order of execution.
    pub fn linears_mut(&mut self) -> Vec<(LinearName, &mut Linear<Dispatch>)> {
        let Self::Gated { gated, down, .. } = self;
        vec![
            (LinearName::FfnGate, &mut gated.gate),
            (LinearName::FfnUp, &mut gated.up),
            (LinearName::FfnDown, down),
        ]
    }
}
