//! The computation of a decoder's layers, described as data. An architecture that needs more gets a
//! field or a variant here, which `Layer` reads.

use super::config::Config;
use super::norms::Norms;
use hearth_formats::shape::{AttentionShape, LayerShape};
use hearth_kernels::attention::{Heads, Temperature};
use hearth_kernels::glu::Activation;
use hearth_kernels::rope::Pairing;

/// The computation of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// Factor of the token embeddings.
    pub embedding_scale: f32,
    /// Factor of the logits.
    pub logit_scale: f32,
    /// Softcap of the scaled logits: `cap * tanh(logit / cap)`.
    pub logit_softcap: Option<f32>,
    /// The transformer layers.
    pub layers: Vec<LayerSpec>,
}

/// The computation of a layer: a mixer, then a feed-forward. Each may have a norm before and after
/// it, and is added to the residual stream, times `residual_scale`. Biases and scales of weights
/// are applied if the file has them.
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
    /// Factor of the outputs of mixer and feed-forward (after their norms and biases), which are
    /// added to the residual stream.
    pub residual_scale: f32,
}

/// The computation of the part of a layer that combines tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MixerSpec {
    /// Attention.
    Attention {
        /// Heads, their width, the scale and softcap of scores, and the window.
        heads: Heads,
        /// RoPE of Q and K; `None` if they have no positions (NoPE).
        rope: Option<RopeSpec>,
        /// The temperature of Q by position.
        temperature: Option<Temperature>,
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
    /// The change of the frequencies for a longer context than in the first training.
    pub scaling: RopeScaling,
    /// The divisors of the frequencies, which are tensors of the file.
    pub factors: RopeFactors,
    /// Factor of sines and cosines, so of Q and K, besides the factor in [`RopeScaling`].
    pub magnitude: f32,
}

/// A change of RoPE's frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Positions are divided by this factor; 1 means no scaling.
    Linear(f32),
    /// YaRN. <https://arxiv.org/abs/2309.00071>
    Yarn(Yarn),
}

/// The parameters of YaRN: it divides low frequencies, retains high ones, and interpolates between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// Divisor of the low frequencies.
    pub factor: f32,
    /// Context length before the extension, in tokens.
    pub original_context: u32,
    /// Rotations in the original context, above which a frequency is retained.
    pub beta_fast: f32,
    /// Rotations in the original context, below which a frequency is divided.
    pub beta_slow: f32,
    /// Factor of sines and cosines.
    pub magnitude: f32,
}

/// Tensors that divide RoPE's frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeFactors {
    /// None, even if the file has them.
    None,
    /// `rope_freqs.weight` if the file has it, as Llama 3.1.
    Optional,
    /// LongRoPE: `rope_factors_short.weight` for a context up to this number of tokens, otherwise
    /// `rope_factors_long.weight`, if the file has them.
    Long {
        /// Context length before the extension, in tokens.
        original_context: u32,
    },
}

impl DecoderSpec {
    /// A decoder with unscaled embeddings, whose layers differ in their shapes only.
    pub(super) fn uniform(config: &Config, layer: impl Fn(LayerShape) -> LayerSpec) -> Self {
        Self {
            embedding_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: None,
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
            rope: Some(rope),
            temperature: None,
        };
        Self {
            shape,
            mixer: shape.attention().map(attention),
            feed_forward: FeedForwardSpec::gated(&shape, Activation::Silu),
            norms: Norms::PLAIN,
            residual_scale: 1.0,
        }
    }

    /// The heads of the attention; `None` if the layer has none.
    pub fn heads(&self) -> Option<&Heads> {
        let MixerSpec::Attention { heads, .. } = self.mixer.as_ref()?;
        Some(heads)
    }

    /// RoPE of Q and K; `None` if the layer has none.
    pub fn rope(&self) -> Option<RopeSpec> {
        let MixerSpec::Attention { rope, .. } = self.mixer?;
        rope
    }
}

impl FeedForwardSpec {
    /// A gated feed-forward, if the shape has one.
    pub(super) fn gated(shape: &LayerShape, activation: Activation) -> Option<Self> {
        shape.ffn_width().map(|_| Self::Gated { activation })
    }
}

impl RopeSpec {
    /// RoPE with the model's base, scaling and magnitude, and without factors.
    pub(super) fn new(config: &Config, pairing: Pairing) -> Self {
        Self {
            pairing,
            dims: config.rope_dims,
            base: config.rope_base,
            scaling: config.rope_scaling,
            factors: RopeFactors::None,
            magnitude: config.rope_magnitude,
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
        softcap: None,
        window: None,
    }
}
