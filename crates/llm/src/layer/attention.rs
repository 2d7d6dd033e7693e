//! Attention.

use super::weights::LayerWeights;
use crate::arch::RopeSpec;
use crate::batch::Batch;
use crate::error::LoadError;
use crate::ops::{AttentionSpec, Linear, Linears, MatmulPrecision, OptionalNorm, attend, linear_add, norm_linears};
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use hearth_formats::shape::{AttentionShape, LinearName};
use hearth_kernels::attention::{Heads, QkNormWidth, Temperature};
use std::sync::Arc;

/// The weights of attention.
#[derive(Clone)]
pub(super) struct Attention {
    norm: OptionalNorm<Dispatch>,
    qkv: Linears<Dispatch>,
    q_norm: OptionalNorm<Dispatch>,
    k_norm: OptionalNorm<Dispatch>,
    spec: Arc<AttentionSpec>,
    output: Linear<Dispatch>,
    output_norm: OptionalNorm<Dispatch>,
    residual_scale: f32,
}

impl Attention {
    pub fn load(
        heads: Heads,
        rope: Option<RopeSpec>,
        temperature: Option<Temperature>,
        weights: &mut LayerWeights,
    ) -> Result<Self, LoadError> {
        let (norms, width) = (weights.spec.norms, weights.spec.shape.width);
        let [q_norm_length, k_norm_length] = norms.head_norm_lengths(AttentionShape {
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            head_dim: heads.head_dim,
        });
        Ok(Self {
            spec: Arc::new(AttentionSpec {
                heads,
                norm_width: if norms.over_heads {
                    QkNormWidth::AllHeads
                } else {
                    QkNormWidth::Head
                },
                rope: rope.map(|rope| weights.rope(rope)).transpose()?,
                temperature,
            }),
            norm: weights.optional_norm(norms.before_mixer, width)?,
            qkv: Linears::Three(
                weights.linear(LinearName::AttnQ)?,
                weights.linear(LinearName::AttnK)?,
                weights.linear(LinearName::AttnV)?,
            ),
            q_norm: weights.optional_norm(norms.queries, q_norm_length)?,
            k_norm: weights.optional_norm(norms.keys, k_norm_length)?,
            output: weights.linear(LinearName::AttnOutput)?,
            output_norm: weights.optional_norm(norms.after_mixer, width)?,
            residual_scale: weights.spec.residual_scale,
        })
    }

    /// Q, K and V of `x [T, D]`, concatenated per row.
    pub fn inputs(&self, x: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        norm_linears(x, &self.norm, &self.qkv, precision)
    }

    pub fn mix(&self, qkv: Tensor<2>, index: usize, batch: &Arc<Batch>) -> Tensor<2> {
        attend(qkv, &self.q_norm, &self.k_norm, &self.spec, batch, index)
    }

    pub fn add_output(&self, x: Tensor<2>, context: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let (linear, norm, scale) = (&self.output, &self.output_norm, self.residual_scale);
        linear_add(x, context, linear, norm, scale, precision)
    }

    pub fn linears_mut(&mut self) -> Vec<(LinearName, &mut Linear<Dispatch>)> {
        let mut linears = Vec::new();
        if let Linears::Three(q, k, v) = &mut self.qkv {
            linears.extend([(LinearName::AttnQ, q), (LinearName::AttnK, k), (LinearName::AttnV, v)]);
        }
        linears.push((LinearName::AttnOutput, &mut self.output));
        linears
    }
}
