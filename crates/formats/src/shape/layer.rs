//! The shape of a layer.

use super::LinearName;

/// The widths of a layer, from which the shapes of its linears follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// Width of the residual stream (hidden size).
    pub width: usize,
    /// The part that combines tokens. `None` means that the layer has a feed-forward only.
    pub mixer: Option<MixerShape>,
    /// The part that transforms each token. `None` means that the layer has a mixer only.
    pub feed_forward: Option<FeedForwardShape>,
}

/// The shape of the part of a layer that combines tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixerShape {
    /// Attention.
    Attention(AttentionShape),
}

/// The shape of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Head dimension.
    pub head_dim: usize,
}

/// The shape of the part of a layer that transforms each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForwardShape {
    /// `down(activation(gate(x)) * up(x))`.
    Gated {
        /// Intermediate size.
        width: usize,
    },
}

impl LayerShape {
    /// The attention; `None` if the layer has none.
    pub fn attention(&self) -> Option<AttentionShape> {
        let MixerShape::Attention(attention) = self.mixer?;
        Some(attention)
    }

    /// The intermediate size of the feed-forward; `None` if the layer has none.
    pub fn ffn_width(&self) -> Option<usize> {
        let FeedForwardShape::Gated { width } = self.feed_forward?;
        Some(width)
    }

    /// The numbers of outputs and inputs of a linear; `None` if the layer does not have it.
    pub fn linear(&self, name: LinearName) -> Option<[usize; 2]> {
        let width = self.width;
        Some(match name {
            LinearName::AttnQ => [self.attention()?.query_width(), width],
            LinearName::AttnK | LinearName::AttnV => [self.attention()?.kv_width(), width],
            LinearName::AttnOutput => [width, self.attention()?.query_width()],
            LinearName::FfnGate | LinearName::FfnUp => [self.ffn_width()?, width],
            LinearName::FfnDown => [width, self.ffn_width()?],
        })
    }

    /// The linears of the layer, in the order it applies them, with their numbers of outputs and
    /// inputs.
    pub fn linears(&self) -> impl Iterator<Item = (LinearName, [usize; 2])> {
        let linears = LinearName::ALL.iter().copied();
        linears.filter_map(|name| Some((name, self.linear(name)?)))
    }
}

impl AttentionShape {
    fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
