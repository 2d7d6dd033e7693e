//! The shape of an attention layer.

use crate::shape::{self, ShapeError};
use std::ops::Range;

/// Shape, scale, softcap and window of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores; usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Softcap of the scaled scores, before the mask: `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Sliding window in tokens, the token itself included; `None` means full causal attention.
    pub window: Option<usize>,
}

/// The temperature of attention by position: Q at position `p` is multiplied by
/// `1 + scale * ln(1 + floor(p / length))` after RoPE. It is 1 before `length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Factor of the logarithm.
    pub scale: f32,
    /// Positions per step; at least 1.
    pub length: u32,
}

impl Temperature {
    /// The factor of Q at a position.
    pub fn at(self, position: u32) -> f32 {
        let steps = position / self.length.max(1);
        1.0 + self.scale * (1.0 + steps as f32).ln()
    }
}

impl Heads {
    /// Width of Q, K and V side by side.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of the output.
    pub fn out_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Query heads per KV head.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Offset of the keys in a row of Q, K and V.
    pub(super) fn keys_offset(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Offset of the values in a row of Q, K and V.
    pub(super) fn values_offset(&self) -> usize {
        (self.heads + self.kv_heads) * self.head_dim
    }

    /// Causal mask with a sliding window: the keys visible to the token at `index` in a sequence
    /// that begins at `start`.
    pub(super) fn visible_keys(&self, start: usize, index: usize) -> Range<usize> {
        let first = self.window.map_or(0, |window| (index + 1).saturating_sub(window));
        start.max(first)..index + 1
    }

    /// The keys visible to the token at `index` in a sequence `tokens` without a causal mask: all
    /// keys, or with a window those at most half a window away.
    pub(super) fn visible_keys_both_ways(&self, tokens: Range<usize>, index: usize) -> Range<usize> {
        let half = self.window.map_or(usize::MAX, |window| window / 2);
        let end = index.saturating_add(half).saturating_add(1);
        tokens.start.max(index.saturating_sub(half))..tokens.end.min(end)
    }

    /// Checks the shape and the rows of Q, K and V, and returns the number of tokens.
    pub(super) fn tokens(&self, qkv: &[f32]) -> Result<usize, ShapeError> {
        if self.kv_heads == 0 || self.head_dim == 0 {
            return Err(ShapeError::Index {
                what: "the first head",
                index: 0,
                count: 0,
            });
        }
        shape::multiple("the number of query heads", self.heads, self.kv_heads)?;
        shape::rows("a row of Q, K and V", qkv.len(), self.qkv_width())
    }
}
