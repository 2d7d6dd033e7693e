//! The norms of a layer.

use hearth_formats::shape::LayerShape;

/// The names of a layer's norms in a GGUF, such as `attn_norm`, by position. `None` means that
/// there is no norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norms {
    /// Of the mixer's input.
    pub before_mixer: &'static str,
    /// Of each head of Q.
    pub queries: Option<&'static str>,
    /// Of each head of K.
    pub keys: Option<&'static str>,
    /// Of the mixer's output.
    pub after_mixer: Option<&'static str>,
    /// Of the feed-forward's input.
    pub before_feed_forward: &'static str,
    /// Of the feed-forward's output.
    pub after_feed_forward: Option<&'static str>,
}

impl Norms {
    /// The norms of Llama's layer.
    pub const PLAIN: Self = Self {
        before_mixer: "attn_norm",
        queries: None,
        keys: None,
        after_mixer: None,
        before_feed_forward: "ffn_norm",
        after_feed_forward: None,
    };

    /// The norms of a layer of this shape with the lengths of their weights, in the order of
    /// computation.
    pub fn lengths(&self, shape: &LayerShape) -> Vec<(&'static str, usize)> {
        let mut norms = Vec::new();
        if shape.mixer.is_some() {
            norms.push((Some(self.before_mixer), shape.width));
            if let Some(attention) = shape.attention() {
                norms.extend([self.queries, self.keys].map(|name| (name, attention.head_dim)));
            }
            norms.push((self.after_mixer, shape.width));
        }
        if shape.feed_forward.is_some() {
            let names = [Some(self.before_feed_forward), self.after_feed_forward];
            norms.extend(names.map(|name| (name, shape.width)));
        }
        norms
            .into_iter()
            .filter_map(|(name, length)| Some((name?, length)))
            .collect()
    }
}
