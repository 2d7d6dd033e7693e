//! What attention is told: its shape, its rotation, and which keys and values a token sees.

use crate::kv::KvPool;
use hearth_kernels::rope::Rope;
use std::sync::Arc;

/// The shape of one attention layer.
#[derive(Debug, Clone)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores; usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// How many tokens back a token sees, itself included; none: all.
    pub window: Option<usize>,
    /// The rotation of Q and K.
    pub rope: Rope,
}

impl AttentionSpec {
    /// Width of Q, K and V side by side.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
}

/// Which keys and values the tokens of a batch see.
#[derive(Debug, Clone)]
pub enum KeyValues {
    /// Only those of the batch itself: training and references.
    Batch(Arc<Segments>),
    /// Those of a sequence in a pool, which the batch is written to.
    Pool {
        /// The cells.
        pool: Arc<KvPool>,
        /// Which layer of the pool.
        layer: usize,
        /// Where the sequence's tokens lie.
        view: Arc<SequenceView>,
    },
}

/// A batch made of sequences one behind the other; a token sees those before it in its own.
#[derive(Debug, Clone)]
pub struct Segments {
    /// Position of each token in its sequence.
    pub positions: Vec<u32>,
    /// For each token the index in the batch of its sequence's first.
    pub starts: Vec<u32>,
}

impl Segments {
    /// Sequences of these lengths.
    pub fn of_lengths(lengths: &[usize]) -> Self {
        let mut segments = Self { positions: Vec::new(), starts: Vec::new() };
        for &length in lengths {
            let start = segments.starts.len() as u32;
            for position in 0..length as u32 {
                segments.positions.push(position);
                segments.starts.push(start);
            }
        }
        segments
    }
}

/// Where a sequence's tokens lie in a pool, those of the batch at the end.
#[derive(Debug, Clone)]
pub struct SequenceView {
    /// The cell of each position from 0.
    pub cells: Vec<u32>,
    /// The position of the batch's first token.
    pub first: usize,
}
