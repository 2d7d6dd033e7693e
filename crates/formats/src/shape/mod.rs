//! The shape of a model, from the metadata of its file. Loading, plans and adapters use it, so that
//! a file has the same shape for all of them.

mod fused;
mod keys;
mod layer;
mod linear_name;
mod module;

pub use fused::FusedLinear;
pub use layer::{AttentionShape, FeedForwardShape, LayerShape, MixerShape};
pub use linear_name::{LayerPart, LinearName};
pub use module::Module;

use crate::Architecture;
use crate::gguf::{GgufError, GgufHeader};
use keys::Keys;

/// Maximum layers of a model; the largest known ones have 126. A higher number means a corrupt
/// file.
pub const MAX_LAYERS: usize = 4096;
/// Maximum widths and head counts. A higher number means a corrupt file. The product of two does
/// not overflow.
const MAX_WIDTH: u32 = 1 << 20;

/// The shape of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelShape {
    /// Width of the residual stream (hidden size).
    pub width: usize,
    /// Vocabulary size, which is the number of rows of the embedding; 0 if the file has none.
    pub vocab: usize,
    /// The transformer layers, then the layers for multi-token prediction.
    pub layers: Vec<LayerShape>,
    /// The number of layers for multi-token prediction.
    pub prediction_layers: usize,
}

impl ModelShape {
    /// Reads the shape of a model of this architecture, from the keys documented by ggml
    /// (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>). The numbers of heads and the
    /// intermediate size may be arrays with a value for each layer, as in llama.cpp.
    ///
    /// # Errors
    /// If a key is missing, has another type or is out of range, or an array has not one value for
    /// each layer.
    pub fn from_gguf(gguf: &GgufHeader, architecture: Architecture) -> Result<Self, GgufError> {
        let keys = Keys { gguf, architecture };
        let count = keys.required("block_count", MAX_LAYERS as u32)?;
        let width = keys.required("embedding_length", MAX_WIDTH)?;
        let attention = attention_of_layers(&keys, count, width)?;
        let ffn_widths = keys.per_layer("feed_forward_length", count, MAX_WIDTH)?;
        let layer = |(attention, width_of_ffn)| LayerShape {
            width,
            mixer: Some(MixerShape::Attention(attention)),
            feed_forward: Some(FeedForwardShape::Gated { width: width_of_ffn }),
        };
        Ok(Self {
            width,
            vocab: vocab(gguf),
            layers: attention.into_iter().zip(ffn_widths).map(layer).collect(),
            prediction_layers: prediction_layers(&keys, count)?,
        })
    }
}

/// The attention of each layer.
fn attention_of_layers(keys: &Keys, layers: usize, width: usize) -> Result<Vec<AttentionShape>, GgufError> {
    const HEADS: &str = "attention.head_count";
    const KV_HEADS: &str = "attention.head_count_kv";
    const HEAD_DIM: &str = "attention.key_length";
    let heads = keys.per_layer(HEADS, layers, MAX_WIDTH)?;
    let kv_heads = keys.optional_per_layer(KV_HEADS, layers, MAX_WIDTH)?;
    let kv_heads = kv_heads.unwrap_or_else(|| heads.clone());
    let (head_dim, source) = match keys.optional(HEAD_DIM, MAX_WIDTH)? {
        Some(head_dim) => (head_dim, HEAD_DIM),
        // As in llama.cpp, the first layer decides.
        None => (width / heads[0], HEADS),
    };
    if head_dim == 0 || head_dim % 2 != 0 {
        let why = format!("its heads have a width of {head_dim}, which must be even and at least 2");
        return Err(keys.invalid(source, why));
    }
    let attention = |(layer, (heads, kv_heads)): (usize, (usize, usize))| {
        if heads % kv_heads != 0 {
            let why = format!("layer {layer} has {kv_heads} KV heads, which do not divide its {heads} query heads");
            return Err(keys.invalid(KV_HEADS, why));
        }
        Ok(AttentionShape {
            heads,
            kv_heads,
            head_dim,
        })
    };
    heads.into_iter().zip(kv_heads).enumerate().map(attention).collect()
}

/// The number of layers for multi-token prediction among all `layers`.
fn prediction_layers(keys: &Keys, layers: usize) -> Result<usize, GgufError> {
    const KEY: &str = "nextn_predict_layers";
    let count = keys.count(KEY)?;
    if count > layers {
        return Err(keys.invalid(KEY, format!("its value is {count}, but the model has {layers} layers")));
    }
    Ok(count)
}

/// The number of rows of the embedding.
fn vocab(gguf: &GgufHeader) -> usize {
    let rows = gguf.info("token_embd.weight").and_then(|table| table.shape.get(1));
    rows.and_then(|rows| usize::try_from(*rows).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
