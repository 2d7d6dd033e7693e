//! What attention is told: its shape, its rotation, and which keys and values a token sees.

use crate::kv::KvPool;
#[cfg(feature = "gpu")]
use crate::ops::{
    cube::{BatchLists, RopeTable, SequenceLists},
    per_device::PerDevice,
};
use hearth_kernels::attention::{Heads, Spans};
use hearth_kernels::rope::Rope;
use std::sync::Arc;

/// The shape of one attention layer, and its rotation.
#[derive(Debug, Clone)]
pub struct AttentionSpec {
    /// Heads, their width, the scale of scores and the window.
    pub heads: Heads,
    /// The rotation of Q and K.
    pub rope: SharedRope,
}

/// A rotation that layers share, with its table on each GPU that asked for one.
#[derive(Debug, Clone)]
pub struct SharedRope {
    rope: Rope,
    #[cfg(feature = "gpu")]
    pub(super) tables: Arc<PerDevice<RopeTable>>,
}

impl From<Rope> for SharedRope {
    fn from(rope: Rope) -> Self {
        Self {
            rope,
            #[cfg(feature = "gpu")]
            tables: Arc::default(),
        }
    }
}

impl std::ops::Deref for SharedRope {
    type Target = Rope;

    fn deref(&self) -> &Rope {
        &self.rope
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segments {
    /// Position of each token in its sequence.
    pub positions: Vec<u32>,
    /// For each token the index in the batch of its sequence's first.
    pub starts: Vec<u32>,
    #[cfg(feature = "gpu")]
    pub(super) lists: PerDevice<BatchLists>,
}

impl Segments {
    /// Sequences of these lengths.
    pub fn of_lengths(lengths: &[usize]) -> Self {
        let mut segments = Self::default();
        for &length in lengths {
            let start = segments.starts.len() as u32;
            segments.positions.extend(0..length as u32);
            segments.starts.extend(std::iter::repeat_n(start, length));
        }
        segments
    }
}

/// Where a sequence's tokens lie in a pool, those of the batch at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceView {
    /// The cells of all tokens.
    pub spans: Spans,
    /// Those of the batch.
    pub cells: Vec<u32>,
    /// Those of all tokens one by one; none where each lies in the cell of its own number.
    pub(super) scattered: Option<Vec<u32>>,
    #[cfg(feature = "gpu")]
    pub(super) lists: PerDevice<SequenceLists>,
}

impl SequenceView {
    /// A sequence whose tokens lie in these cells, the last `batch` of which are new.
    pub fn new(cells: &[u32], batch: usize) -> Self {
        Self {
            spans: Spans::of(cells),
            cells: cells[cells.len().saturating_sub(batch)..].to_vec(),
            scattered: Some(cells.to_vec()),
            #[cfg(feature = "gpu")]
            lists: PerDevice::default(),
        }
    }

    /// A sequence of `length` tokens, each in the cell of its own number, the last `batch` of which are new.
    pub fn in_order(length: usize, batch: usize) -> Self {
        Self {
            spans: Spans::in_order(length),
            cells: (length.saturating_sub(batch) as u32..length as u32).collect(),
            scattered: None,
            #[cfg(feature = "gpu")]
            lists: PerDevice::default(),
        }
    }

    /// The number in the sequence of the batch's first token.
    pub fn first(&self) -> usize {
        self.spans.len() - self.cells.len()
    }

    /// Positions of the batch's tokens, which are their numbers in the sequence.
    pub fn positions(&self) -> Vec<u32> {
        (self.first() as u32..self.spans.len() as u32).collect()
    }
}
