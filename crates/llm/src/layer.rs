//! A transformer layer of any architecture.

use crate::arch::{LayerSpec, NormName};
use crate::batch::Batch;
use crate::config::Config;
use crate::error::LoadError;
use crate::ops::{
    AttentionSpec, Gated, Linear, Linears, MatmulPrecision, Norm, OptionalNorm, attend, feed_forward, linear_add,
    norm_linears,
};
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
        let optional = |weights: &mut Weights, name: NormName| {
            if spec.norms.contains(&name) {
                norm(weights, name).map(|norm| OptionalNorm::Norm(norm.weight, norm.eps))
            } else {
                Ok(OptionalNorm::None)
            }
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

    /// Runs the layer, which has this index in its decoder, on the residual stream `[T, D]` of a
    /// batch. Returns the residual stream after it.
    pub fn forward(&self, x: Tensor<2>, index: usize, batch: &Arc<Batch>, precision: MatmulPrecision) -> Tensor<2> {
        let qkv = norm_linears(x.clone(), &self.attention_norm, &self.qkv, precision);
        let context = self.attend(qkv, index, batch);
        self.after_attention(x, context, precision)
    }

    /// [`Layer::forward`] for a batch with several adapters, which consists of consecutive parts:
    /// the rows of `x[i]` run in `layers[i]`. The layers differ in adapters only. Attention is one
    /// op over all rows.
    pub fn forward_parts(
        layers: &[&Self],
        x: Vec<Tensor<2>>,
        index: usize,
        batch: &Arc<Batch>,
        precision: MatmulPrecision,
    ) -> Vec<Tensor<2>> {
        let parts = layers.iter().zip(x);
        let (qkv, x): (Vec<_>, Vec<_>) = parts
            .map(|(layer, x)| (norm_linears(x.clone(), &layer.attention_norm, &layer.qkv, precision), x))
            .unzip();
        let Some(first) = layers.first() else { return x };
        let context = first.attend(Tensor::cat(qkv, 0), index, batch);
        let mut end = 0;
        let finish_part = |(layer, x): (&&Self, Tensor<2>)| {
            let rows = end..end + x.dims()[0];
            end = rows.end;
            layer.after_attention(x, context.clone().slice_dim(0, rows), precision)
        };
        layers.iter().zip(x).map(finish_part).collect()
    }

    fn attend(&self, qkv: Tensor<2>, index: usize, batch: &Arc<Batch>) -> Tensor<2> {
        attend(qkv, &self.q_norm, &self.k_norm, &self.attention, batch, index)
    }

    /// Runs the output linear of attention and the feed-forward. `context` is the result of
    /// attention.
    fn after_attention(&self, x: Tensor<2>, context: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let (output, norm) = (&self.attention_output, &self.after_attention_norm);
        let x = linear_add(x, context, output, norm, precision);
        feed_forward(x, &self.gated, &self.down, &self.after_ffn_norm, precision)
    }

    /// The linear layers in the order of execution, to change their adapters.
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
