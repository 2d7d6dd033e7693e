//! The architectures: one file each, which reads like its paper.

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;

use crate::config::Config;
use crate::error::LoadError;
use crate::kv::KvPool;
use crate::ops::{
    KeyValues, Linear, Linears, Norm, OptionalNorm, Product, Segments, SequenceView, embed, norm_linears,
};
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use std::sync::Arc;

/// One pass of some tokens through a model.
#[derive(Debug, Clone)]
pub struct Pass {
    /// How products with weights are made.
    pub product: Product,
    /// What the tokens see.
    pub memory: Memory,
}

/// What the tokens of a pass see.
#[derive(Debug, Clone)]
pub enum Memory {
    /// Each other, as far as they are of one segment.
    Batch(Arc<Segments>),
    /// A sequence in a pool, which they continue.
    Pool(Arc<KvPool>, Arc<SequenceView>),
}

impl Pass {
    /// What attention in this layer sees.
    pub fn key_values(&self, layer: usize) -> KeyValues {
        match &self.memory {
            Memory::Batch(segments) => KeyValues::Batch(segments.clone()),
            Memory::Pool(pool, view) => KeyValues::Pool {
                pool: pool.clone(),
                layer,
                view: view.clone(),
            },
        }
    }
}

/// A block: from the residual stream `[T, D]` to the residual stream.
pub trait Block: Send + Sync {
    /// Runs it.
    fn forward(&self, x: Tensor<2>, layer: usize, pass: &Pass) -> Tensor<2>;

    /// Its linears under the names that the file gives them (`attn_q`, `ffn_down`), for adapters.
    fn linears_mut(&mut self) -> Vec<(&'static str, &mut Linear<Dispatch>)>;
}

/// A decoder: token embedding, blocks, output norm and output layer.
pub struct Decoder {
    embedding: Linear<Dispatch>,
    embedding_scale: f32,
    blocks: Vec<Box<dyn Block>>,
    output_norm: Norm<Dispatch>,
    output: Linears<Dispatch>,
}

impl Decoder {
    /// Hidden states `[T, D]` of these tokens, before the output norm.
    pub fn hidden(&self, ids: Arc<[u32]>, pass: &Pass) -> Tensor<2> {
        let x = embed(&self.embedding, ids, self.embedding_scale);
        self.blocks
            .iter()
            .enumerate()
            .fold(x, |x, (layer, block)| block.forward(x, layer, pass))
    }

    /// Logits `[rows, vocab]` of hidden states `[rows, D]`.
    pub fn logits(&self, hidden: Tensor<2>, product: Product) -> Tensor<2> {
        norm_linears(hidden, &self.output_norm, &self.output, product)
    }

    /// The blocks, for adapters and for tests of one layer.
    pub fn blocks_mut(&mut self) -> &mut [Box<dyn Block>] {
        &mut self.blocks
    }
}

/// What the chosen architecture adds around the blocks.
struct Outline {
    embedding_scale: f32,
}

/// Builds the model that the file describes.
///
/// # Errors
/// An architecture that is not known, or weights that do not fit it.
pub(crate) fn build(config: &Config, weights: &mut Weights) -> Result<Decoder, LoadError> {
    type Build = fn(&Config, &mut Weights, usize) -> Result<Box<dyn Block>, LoadError>;
    let plain = Outline { embedding_scale: 1.0 };
    let (block, outline): (Build, Outline) = match config.architecture.as_str() {
        "llama" => (llama::block, plain),
        "qwen2" => (qwen2::block, plain),
        "qwen3" => (qwen3::block, plain),
        "gemma3" => (
            gemma3::block,
            Outline {
                embedding_scale: gemma3::embedding_scale(config),
            },
        ),
        other => {
            let what = format!("Hearth does not know the architecture '{other}' yet");
            return Err(LoadError::unsupported(weights.gguf(), &what));
        }
    };
    let embedding = weights.linear("token_embd", config.vocab, config.width)?;
    let blocks = (0..config.n_layers)
        .map(|layer| block(config, weights, layer))
        .collect::<Result<_, _>>()?;
    let output_norm = weights.norm("output_norm", config.width, config.norm_eps)?;
    // Without an output layer of its own a model uses its embedding again.
    let output = match weights.gguf().tensor("output.weight") {
        Some(_) => weights.linear("output", config.vocab, config.width)?,
        None => embedding.clone(),
    };
    Ok(Decoder {
        embedding,
        embedding_scale: outline.embedding_scale,
        blocks,
        output_norm,
        output: Linears::One(output),
    })
}

/// Q, K and V of a block.
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

/// The norm that each head of Q or K goes through.
fn head_norm(
    config: &Config,
    weights: &mut Weights,
    layer: usize,
    part: &str,
) -> Result<OptionalNorm<Dispatch>, LoadError> {
    let norm = weights.norm(&format!("blk.{layer}.{part}"), config.head_dim, config.norm_eps)?;
    Ok(OptionalNorm::Norm(norm.weight, norm.eps))
}
