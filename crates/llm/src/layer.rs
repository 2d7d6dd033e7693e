//! A transformer layer of any architecture.

use crate::arch::{LayerSpec, NormName};
use crate::config::Config;
use crate::error::LoadError;
use crate::ops::{
    AttentionSpec, Gated, Linear, Linears, Norm, OptionalNorm, attend, feed_forward, linear_add, norm_linears,
};
use crate::pass::Pass;
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use hearth_formats::adapter::LinearName;
use std::sync::Arc;

/// A transformer layer. A clone shares the weights and may have other adapters.
#[derive(Clone)]
pub struct Layer {
    attention_norm: Norm<Dispatch>,
    qkv: Linears<Dispatch>,
    q_norm: OptionalNorm<Dispatch>,
    k_norm: OptionalNorm<Dispatch>,
    attention: Arc<AttentionSpec>,
    attention_output: Linear<Dispatch>,
    after_attention_norm: OptionalNorm<Dispatch>,
    gated: Gated<Dispatch>,
    down: Linear<Dispatch>,
    after_ffn_norm: OptionalNorm<Dispatch>,
}

impl Layer {
    /// Loads layer `index`.
    ///
    /// # Errors
    /// If weights do not fit the description.
    pub(crate) fn load(
        config: &Config,
        spec: &LayerSpec,
        weights: &mut Weights,
        index: usize,
    ) -> Result<Self, LoadError> {
        let linear = |weights: &mut Weights, name: LinearName| {
            let [outputs, inputs] = config.linear(name);
            weights.linear(&format!("blk.{index}.{name}"), outputs, inputs)
        };
        let norm = |weights: &mut Weights, name: NormName| {
            let length = name.length(config.width, config.head_dim);
            weights.norm(&format!("blk.{index}.{}", name.gguf()), length, config.norm_eps)
        };
        let optional = |weights: &mut Weights, name: NormName| match spec.norms.contains(&name) {
            true => norm(weights, name).map(|norm| OptionalNorm::Norm(norm.weight, norm.eps)),
            false => Ok(OptionalNorm::None),
        };
        Ok(Self {
            attention: Arc::new(AttentionSpec {
                heads: spec.heads,
                rope: weights.rope(spec.rope)?,
            }),
            attention_norm: norm(weights, NormName::Attention)?,
            qkv: Linears::Three(
                linear(weights, LinearName::AttnQ)?,
                linear(weights, LinearName::AttnK)?,
                linear(weights, LinearName::AttnV)?,
            ),
            q_norm: optional(weights, NormName::Q)?,
            k_norm: optional(weights, NormName::K)?,
            attention_output: linear(weights, LinearName::AttnOutput)?,
            after_attention_norm: optional(weights, NormName::AfterAttention)?,
            gated: Gated {
                norm: norm(weights, NormName::Ffn)?,
                gate: linear(weights, LinearName::FfnGate)?,
                up: linear(weights, LinearName::FfnUp)?,
                activation: spec.activation,
            },
            down: linear(weights, LinearName::FfnDown)?,
            after_ffn_norm: optional(weights, NormName::AfterFfn)?,
        })
    }

    /// Runs the layer, number `index` of its decoder: residual stream `[T, D]` to residual stream.
    pub fn forward(&self, x: Tensor<2>, index: usize, pass: &Pass) -> Tensor<2> {
        let precision = pass.precision;
        let qkv = norm_linears(x.clone(), &self.attention_norm, &self.qkv, precision);
        let key_values = pass.key_values(index);
        let context = attend(qkv, &self.q_norm, &self.k_norm, &self.attention, key_values);
        let x = linear_add(
            x,
            context,
            &self.attention_output,
            &self.after_attention_norm,
            precision,
        );
        feed_forward(x, &self.gated, &self.down, &self.after_ffn_norm, precision)
    }

    /// Its linears, in the order that it applies them, for adapters.
    pub fn linears_mut(&mut self) -> Vec<(LinearName, &mut Linear<Dispatch>)> {
        let mut linears = Vec::with_capacity(LinearName::ALL.len());
        if let Linears::Three(q, k, v) = &mut self.qkv {
            linears.extend([(LinearName::AttnQ, q), (LinearName::AttnK, k), (LinearName::AttnV, v)]);
        }
        linears.extend([
            (LinearName::AttnOutput, &mut self.attention_output),
            (LinearName::FfnGate, &mut self.gated.gate),
            (LinearName::FfnUp, &mut self.gated.up),
            (LinearName::FfnDown, &mut self.down),
        ]);
        linears
    }
}
