//! The architectures, one file each.

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;

use crate::config::Config;
use crate::device;
use crate::error::LoadError;
use crate::ops::{
    CachedSequence, KeyValues, Linear, Linears, MatmulPrecision, Norm, OptionalNorm, Segments, cross_entropy, embed,
    norm_linears,
};
use crate::placement::{Place, Placement};
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A forward pass of some tokens.
#[derive(Debug, Clone)]
pub struct Pass {
    /// Precision of products with weights.
    pub precision: MatmulPrecision,
    /// Keys and values visible to the tokens.
    pub memory: Memory,
}

/// Keys and values visible to the tokens of a pass.
#[derive(Debug, Clone)]
pub enum Memory {
    /// The other tokens of the batch, within each segment.
    Batch(Arc<Segments>),
    /// A sequence in a KV pool, which the tokens continue.
    Pool(CachedSequence),
}

impl Pass {
    /// Keys and values of this layer's attention.
    pub fn key_values(&self, layer: usize) -> KeyValues {
        match &self.memory {
            Memory::Batch(segments) => KeyValues::Batch(segments.clone()),
            Memory::Pool(sequence) => KeyValues::Pool {
                sequence: sequence.clone(),
                layer,
            },
        }
    }
}

/// A transformer layer: residual stream `[T, D]` to residual stream.
pub trait Block: Send + Sync {
    /// Runs the layer.
    fn forward(&self, x: Tensor<2>, layer: usize, pass: &Pass) -> Tensor<2>;

    /// Its linears by their GGUF names (`attn_q`, `ffn_down`), for adapters.
    fn linears_mut(&mut self) -> Vec<(&'static str, &mut Linear<Dispatch>)>;

    /// A copy that shares the weights and may have other adapters.
    fn share(&self) -> Box<dyn Block>;
}

/// A decoder: token embedding, layers, output norm and output layer.
pub struct Decoder {
    embedding: Linear<Dispatch>,
    embedding_scale: f32,
    blocks: Vec<Box<dyn Block>>,
    output_norm: Norm<Dispatch>,
    output: Linear<Dispatch>,
    /// The device of each layer, and last that of the output layer.
    devices: Arc<[Device]>,
}

/// Moves the tensor to a device if needed; it stays on its autodiff tape.
fn on(x: Tensor<2>, device: &Device) -> Tensor<2> {
    let from = x.device();
    if from.clone().without_autodiff() == *device {
        return x;
    }
    match from.is_autodiff() {
        true => x.to_device(&device.clone().autodiff()),
        false => x.to_device(device),
    }
}

impl Decoder {
    /// The residual stream `[T, D]` before the first layer.
    pub fn embed(&self, ids: Arc<[u32]>) -> Tensor<2> {
        embed(&self.embedding, ids, self.embedding_scale)
    }

    /// Hidden states `[T, D]` of these tokens, before the output norm.
    pub fn hidden(&self, ids: Arc<[u32]>, pass: &Pass) -> Tensor<2> {
        (0..self.blocks.len()).fold(self.embed(ids), |x, layer| self.block(x, layer, pass))
    }

    /// [`Decoder::hidden`], cancelled if `on_layer`, which is called before each layer, breaks.
    pub fn hidden_while<B>(
        &self,
        ids: Arc<[u32]>,
        pass: &Pass,
        on_layer: &mut dyn FnMut(usize) -> ControlFlow<B>,
    ) -> ControlFlow<B, Tensor<2>> {
        (0..self.blocks.len()).try_fold(self.embed(ids), |x, layer| {
            on_layer(layer)?;
            ControlFlow::Continue(self.block(x, layer, pass))
        })
    }

    /// Runs one layer on the residual stream `[T, D]`.
    pub fn block(&self, x: Tensor<2>, layer: usize, pass: &Pass) -> Tensor<2> {
        self.blocks[layer].forward(on(x, &self.devices[layer]), layer, pass)
    }

    /// The device of a layer.
    pub fn device(&self, layer: usize) -> &Device {
        &self.devices[layer]
    }

    /// The device of the output layer.
    pub fn output_device(&self) -> &Device {
        &self.devices[self.blocks.len()]
    }

    /// Logits `[rows, vocab]` of hidden states `[rows, D]`.
    pub fn logits(&self, hidden: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let hidden = on(hidden, self.output_device());
        norm_linears(hidden, &self.output_norm, &Linears::One(self.output.clone()), precision)
    }

    /// `scale` times the summed cross-entropy of hidden states `[T, D]` against their target
    /// tokens, `[1]`. Logits are computed a few rows at a time; rows with the target
    /// [`NOT_TRAINED`](crate::ops::NOT_TRAINED) are skipped.
    pub fn loss(&self, hidden: Tensor<2>, targets: Arc<[u32]>, scale: f32, precision: MatmulPrecision) -> Tensor<1> {
        let hidden = on(hidden, self.output_device());
        cross_entropy(hidden, &self.output_norm, &self.output, targets, scale, precision)
    }

    /// The layers.
    pub fn blocks(&self) -> &[Box<dyn Block>] {
        &self.blocks
    }

    /// The layers, mutable, for adapters and tests.
    pub fn blocks_mut(&mut self) -> &mut [Box<dyn Block>] {
        &mut self.blocks
    }
}

/// A decoder over the same weights.
impl Clone for Decoder {
    fn clone(&self) -> Self {
        Self {
            embedding: self.embedding.clone(),
            embedding_scale: self.embedding_scale,
            blocks: self.blocks.iter().map(|block| block.share()).collect(),
            output_norm: self.output_norm.clone(),
            output: self.output.clone(),
            devices: self.devices.clone(),
        }
    }
}

/// Builds the model that the file describes, with its layers on the devices of `placement`.
///
/// # Errors
/// If the architecture is unknown, weights do not fit it, or a device cannot be used.
pub(crate) fn build(config: &Config, placement: &Placement, weights: &mut Weights) -> Result<Decoder, LoadError> {
    type Build = fn(&Config, &mut Weights, usize) -> Result<Box<dyn Block>, LoadError>;
    let (block, embedding_scale): (Build, f32) = match config.architecture.as_str() {
        "llama" => (llama::block, 1.0),
        "qwen2" => (qwen2::block, 1.0),
        "qwen3" => (qwen3::block, 1.0),
        "gemma3" => (gemma3::block, gemma3::embedding_scale(config)),
        other => {
            let what = format!("Hearth does not support the architecture '{other}' yet");
            return Err(LoadError::unsupported(weights.gguf(), &what));
        }
    };
    let embedding = weights.linear("token_embd", config.vocab, config.width)?;
    let of_blocks = (0..config.n_layers).map(|layer| device::open(placement.of(layer)));
    let output_device = std::iter::once(device::open(placement.output()));
    let devices = of_blocks.chain(output_device).collect::<Result<Arc<[Device]>, _>>()?;
    let mut blocks = Vec::with_capacity(config.n_layers);
    for layer in 0..config.n_layers {
        weights.set_device(&devices[layer]);
        blocks.push(block(config, weights, layer)?);
    }
    weights.set_device(&devices[config.n_layers]);
    let output_norm = weights.norm("output_norm", config.width, config.norm_eps)?;
    // A model without an output layer ties it to the embedding: the same tensor, or on a GPU a
    // copy.
    let output = match weights.gguf().tensor("output.weight") {
        Some(_) => weights.linear("output", config.vocab, config.width)?,
        None if placement.output() == Place::Cpu => embedding.clone(),
        None => weights.linear("token_embd", config.vocab, config.width)?,
    };
    Ok(Decoder {
        embedding,
        embedding_scale,
        blocks,
        output_norm,
        output,
        devices,
    })
}

/// Q, K and V of a layer.
fn qkv(config: &Config, weights: &mut Weights, layer: usize) -> Result<Linears<Dispatch>, LoadError> {
    let mut linear = |part: &str, heads: usize| {
        weights.linear(&format!("blk.{layer}.{part}"), heads * config.head_dim, config.width)
    };
    Ok(Linears::Three(
        linear("attn_q", config.heads)?,
        linear("attn_k", config.kv_heads)?,
        linear("attn_v", config.kv_heads)?,
    ))
}

fn qkv_mut(linears: &mut Linears<Dispatch>) -> Vec<(&'static str, &mut Linear<Dispatch>)> {
    match linears {
        Linears::Three(q, k, v) => vec![("attn_q", q), ("attn_k", k), ("attn_v", v)],
        Linears::One(_) | Linears::Two(..) => Vec::new(),
    }
}

/// The norm of each head of Q or K.
fn head_norm(
    config: &Config,
    weights: &mut Weights,
    layer: usize,
    part: &str,
) -> Result<OptionalNorm<Dispatch>, LoadError> {
    let norm = weights.norm(&format!("blk.{layer}.{part}"), config.head_dim, config.norm_eps)?;
    Ok(OptionalNorm::Norm(norm.weight, norm.eps))
}
