//! The computation of a decoder's layers, described as data. An architecture that needs more gets a
//! field here, which `Layer` reads.

use crate::config::Config;
use hearth_kernels::attention::Heads;
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// The computation of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// Factor of the token embeddings.
    pub embedding_scale: f32,
    /// The transformer layers.
    pub layers: Vec<LayerSpec>,
}

/// The computation of a layer: attention, then a gated feed-forward. Each has a norm before it and
/// is added to the residual stream. Biases and scales of weights are applied if the file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Heads, their width, the scale of scores and the window.
    pub heads: Heads,
    /// RoPE of Q and K.
    pub rope: RopeSpec,
    /// The norms.
    pub norms: &'static [NormName],
    /// Activation of the feed-forward.
    pub activation: Activation,
}

/// RoPE of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeSpec {
    /// The elements of a head that are rotated as a pair: neighbors, or halves.
    pub pairing: Pairing,
    /// Elements of a head that are rotated.
    pub dims: usize,
    /// Base frequency (theta).
    pub base: f32,
    /// Linear scaling: positions are divided by this.
    pub scale: f32,
    /// Whether the frequencies are divided by the file's `rope_freqs.weight`, if it has them.
    pub has_factors: bool,
}

impl DecoderSpec {
    /// A decoder with identical layers and unscaled embeddings.
    pub(super) fn uniform(config: &Config, layer: LayerSpec) -> Self {
        Self {
            embedding_scale: 1.0,
            layers: vec![layer; config.n_layers],
        }
    }

    /// The number of distinct RoPE tables.
    pub fn ropes(&self) -> usize {
        let mut distinct: Vec<RopeSpec> = Vec::new();
        for layer in &self.layers {
            if !distinct.contains(&layer.rope) {
                distinct.push(layer.rope);
            }
        }
        distinct.len()
    }
}

impl LayerSpec {
    /// Llama's layer: norms before attention and feed-forward only, full attention with scores
    /// scaled by `1 / sqrt(head_dim)`, and SwiGLU.
    pub(super) fn plain(config: &Config, pairing: Pairing) -> Self {
        Self {
            heads: Heads {
                heads: config.heads,
                kv_heads: config.kv_heads,
                head_dim: config.head_dim,
                scale: (config.head_dim as f32).sqrt().recip(),
                window: None,
            },
            rope: RopeSpec {
                pairing,
                dims: config.rope_dims,
                base: config.rope_base,
                scale: config.rope_scale,
                has_factors: false,
            },
            norms: NormName::PLAIN,
            activation: Activation::Silu,
        }
    }
}

/// A norm of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormName {
    /// Before attention.
    Attention,
    /// Before the feed-forward.
    Ffn,
    /// Of each head of Q.
    Q,
    /// Of each head of K.
    K,
    /// Of the output of attention.
    AfterAttention,
    /// Of the output of the feed-forward.
    AfterFfn,
}

impl NormName {
    /// All norms.
    pub const ALL: [Self; 6] = [
        Self::Attention,
        Self::Ffn,
        Self::Q,
        Self::K,
        Self::AfterAttention,
        Self::AfterFfn,
    ];

    /// The norms of Llama's layer.
    pub const PLAIN: &[Self] = &[Self::Attention, Self::Ffn];

    /// The name in a GGUF, such as `attn_norm`.
    pub const fn gguf(self) -> &'static str {
        match self {
            Self::Attention => "attn_norm",
            Self::Ffn => "ffn_norm",
            Self::Q => "attn_q_norm",
            Self::K => "attn_k_norm",
            Self::AfterAttention => "post_attention_norm",
            Self::AfterFfn => "post_ffw_norm",
        }
    }

    /// The length of its weight: the width of a head or of the residual stream.
    pub const fn length(self, width: usize, head_dim: usize) -> usize {
        match self {
            Self::Q | Self::K => head_dim,
            Self::Attention | Self::Ffn | Self::AfterAttention | Self::AfterFfn => width,
        }
    }
}
