//! The norms of a layer.

use hearth_formats::shape::{AttentionShape, LayerShape};

/// The names of a layer's norms in a GGUF, such as `attn_norm`, by position. `None` means that
/// there is no norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norms {
    /// Of the mixer's input.
    pub before_mixer: Option<&'static str>,
    /// Of Q.
    pub queries: Option<&'static str>,
    /// Of K.
    pub keys: Option<&'static str>,
    /// Whether the norms of Q and K are over all heads of a token, not over each head.
    pub over_heads: bool,
    /// Of the mixer's output.
    pub after_mixer: Option<&'static str>,
    /// Of the feed-forward's input.
    pub before_feed_forward: Option<&'static str>,
    /// Of the feed-forward's output.
    pub after_feed_forward: Option<&'static str>,
}

impl Norms {
    /// The norms of Llama's layer.
    pub const PLAIN: Self = Self {
        before_mixer: Some("attn_norm"),
        queries: None,
        keys: None,
        over_heads: false,
        after_mixer: None,
        before_feed_forward: Some("ffn_norm"),
        after_feed_forward: None,
    };

    /// The lengths of the weights of the norms of Q and of K.
    pub fn head_norm_lengths(&self, attention: AttentionShape) -> [usize; 2] {
        if self.over_heads {
            [attention.heads, attention.kv_heads].map(|heads| heads * attention.head_dim)
        } else {
            [attention.head_dim; 2]
        }
    }

    /// The norms of a layer of this shape with the lengths of their weights, in the order of
    /// computation.
    pub fn lengths(&self, shape: &LayerShape) -> Vec<(&'static str, usize)> {
        let mut norms = Vec::new();
        if shape.mixer.is_some() {
            norms.push((self.before_mixer, shape.width));
            if let Some(attention) = shape.attention() {
                let [queries, keys] = self.head_norm_lengths(attention);
                norms.extend([(self.queries, queries), (self.keys, keys)]);
            }
            norms.push((self.after_mixer, shape.width));
        }
        if shape.feed_forward.is_some() {
            let names = [self.before_feed_forward, self.after_feed_forward];
            norms.extend(names.map(|name| (name, shape.width)));
        }
        norms
            .into_iter()
            .filter_map(|(name, length)| Some((name?, length)))
            .collect()
    }
}
