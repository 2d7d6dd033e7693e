//! The computation of a decoder's layers, described as data. An architecture that needs more gets a
//! field or a variant here, which `Layer` reads.

use super::norms::Norms;
use crate::config::Config;
use hearth_formats::shape::{AttentionShape, LayerShape};
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

/// The computation of a layer: a mixer, then a feed-forward. Each has a norm before it and is added
/// to the residual stream. Biases and scales of weights are applied if the file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// The widths, from which the shapes of the linear layers follow.
    pub shape: LayerShape,
    /// The mixer; `None` if the shape has none.
    pub mixer: Option<MixerSpec>,
    /// The feed-forward; `None` if the shape has none.
    pub feed_forward: Option<FeedForwardSpec>,
    /// The norms.
    pub norms: Norms,
}

/// The computation of the part of a layer that combines tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MixerSpec {
    /// Attention.
    Attention {
        /// Heads, their width, the scale of scores and the window.
        heads: Heads,
        /// RoPE of Q and K.
        rope: RopeSpec,
    },
}

/// The computation of the part of a layer that transforms each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForwardSpec {
    /// `down(activation(gate(x)) * up(x))`.
    Gated {
        /// The activation.
        activation: Activation,
    },
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
    /// A decoder with unscaled embeddings, whose layers differ in their shapes only.
    pub(super) fn uniform(config: &Config, layer: impl Fn(LayerShape) -> LayerSpec) -> Self {
        Self {
            embedding_scale: 1.0,
            layers: config.layer_shapes.iter().copied().map(layer).collect(),
        }
    }

    /// The distinct RoPEs.
    pub fn ropes(&self) -> Vec<RopeSpec> {
        let mut distinct: Vec<RopeSpec> = Vec::new();
        for rope in self.layers.iter().filter_map(LayerSpec::rope) {
            if !distinct.contains(&rope) {
                distinct.push(rope);
            }
        }
        distinct
    }
}

impl LayerSpec {
    /// Llama's layer: norms before attention and feed-forward only, full attention and SwiGLU.
    pub(super) fn plain(shape: LayerShape, rope: RopeSpec) -> Self {
        let attention = |attention| MixerSpec::Attention {
            heads: full_attention(attention),
            rope,
        };
        Self {
            shape,
            mixer: shape.attention().map(attention),
            feed_forward: FeedForwardSpec::gated(&shape, Activation::Silu),
            norms: Norms::PLAIN,
        }
    }

    /// The heads of the attention; `None` if the layer has none.
    pub fn heads(&self) -> Option<&Heads> {
        let MixerSpec::Attention { heads, .. } = self.mixer.as_ref()?;
        Some(heads)
    }

    /// RoPE of Q and K; `None` if the layer has no attention.
    pub fn rope(&self) -> Option<RopeSpec> {
        let MixerSpec::Attention { rope, .. } = self.mixer?;
        Some(rope)
    }
}

impl FeedForwardSpec {
    /// A gated feed-forward, if the shape has one.
    pub(super) fn gated(shape: &LayerShape, activation: Activation) -> Option<Self> {
        shape.ffn_width().map(|_| Self::Gated { activation })
    }
}

impl RopeSpec {
    /// RoPE with the model's base and scaling, and without factors.
    pub(super) fn new(config: &Config, pairing: Pairing) -> Self {
        Self {
            pairing,
            dims: config.rope_dims,
            base: config.rope_base,
            scale: config.rope_scale,
            has_factors: false,
        }
    }
}

/// Full attention with scores scaled by `1 / sqrt(head_dim)`.
pub(super) fn full_attention(shape: AttentionShape) -> Heads {
    Heads {
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        scale: (shape.head_dim as f32).sqrt().recip(),
        window: None,
    }
}
