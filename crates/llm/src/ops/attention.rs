//! Inputs of attention: shape, RoPE, and the keys and values visible to each token.

use crate::error::CacheError;
use crate::kv::KvPool;
#[cfg(feature = "gpu")]
use crate::per_device::{BatchLists, PerDevice, RopeTable, SequenceLists};
use hearth_kernels::attention::{Heads, Spans};
use hearth_kernels::rope::Rope;
use std::sync::Arc;

/// The shape of one attention layer, and its RoPE.
#[derive(Debug, Clone)]
pub struct AttentionSpec {
    /// Heads, their width, the scale of scores and the window.
    pub heads: Heads,
    /// RoPE of Q and K.
    pub rope: SharedRope,
}

/// RoPE shared by layers, with its table cached per GPU.
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

/// The keys and values visible to the tokens of a batch.
#[derive(Debug, Clone)]
pub enum KeyValues {
    /// Only those of the batch itself: training and references.
    Batch(Arc<Segments>),
    /// Those of a sequence in a KV pool, to which the batch is appended.
    Pool {
        /// The sequence.
        sequence: CachedSequence,
        /// Which layer of its pool.
        layer: usize,
    },
}

impl KeyValues {
    /// Checks that these keys and values fit a batch of `tokens` tokens with these heads.
    ///
    /// # Errors
    /// If the number of positions or cells differs, the pool has no such layer, or its cells have
    /// other heads.
    pub fn check(&self, tokens: usize, heads: &Heads) -> Result<(), CacheError> {
        let (expected, cells) = match self {
            Self::Batch(segments) => (segments.positions.len(), None),
            Self::Pool { sequence, layer } => (sequence.view.cells.len(), Some((&sequence.pool, *layer))),
        };
        if tokens != expected {
            return Err(CacheError::Tokens {
                found: tokens,
                expected,
            });
        }
        let Some((pool, layer)) = cells else { return Ok(()) };
        let (found, expected) = ([heads.kv_heads, heads.head_dim], pool.shape());
        if layer >= pool.layers() {
            return Err(CacheError::NoSuchLayer {
                layer,
                layers: pool.layers(),
            });
        }
        match found == expected {
            true => Ok(()),
            false => Err(CacheError::Heads { found, expected }),
        }
    }
}

/// A sequence in a KV pool, with bounds checked on the host for every device. A GPU reports
/// nothing: it drops out-of-bounds writes, clamps reads, and takes a position beyond the RoPE table
/// for the last.
#[derive(Debug, Clone)]
pub struct CachedSequence {
    pool: Arc<KvPool>,
    view: Arc<SequenceView>,
}

impl CachedSequence {
    /// The sequence whose tokens are stored in the cells of `view`.
    ///
    /// # Errors
    /// If there are more tokens than cells, or a cell does not exist in the pool or is that of
    /// another token.
    pub fn new(pool: Arc<KvPool>, view: Arc<SequenceView>) -> Result<Self, CacheError> {
        let (tokens, cells) = (view.spans.len(), pool.cells());
        if tokens > cells {
            return Err(CacheError::Full { tokens, cells });
        }
        // In a contiguous view there are as many cells as tokens.
        let mut taken = vec![false; if view.scattered.is_some() { cells } else { 0 }];
        for &cell in view.scattered.iter().flatten() {
            match taken.get_mut(cell as usize) {
                None => return Err(CacheError::NoSuchCell { cell, cells }),
                Some(true) => return Err(CacheError::CellTwice { cell }),
                Some(free) => *free = true,
            }
        }
        Ok(Self { pool, view })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<KvPool> {
        &self.pool
    }

    /// The cells of its tokens.
    pub fn view(&self) -> &Arc<SequenceView> {
        &self.view
    }
}

/// A batch of concatenated sequences with a causal mask within each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segments {
    pub(super) positions: Vec<u32>,
    pub(super) starts: Vec<u32>,
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

    /// Position of each token in its sequence.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// For each token the index in the batch of its sequence's first.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }
}

/// The cells of a sequence's tokens in a pool, those of the batch last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceView {
    /// The cells of all tokens.
    pub(super) spans: Spans,
    /// Those of the batch.
    pub(super) cells: Vec<u32>,
    /// The cell of each token; `None` if cell = position for all.
    pub(super) scattered: Option<Vec<u32>>,
    #[cfg(feature = "gpu")]
    pub(super) lists: PerDevice<SequenceLists>,
}

impl SequenceView {
    /// A sequence whose tokens are stored in these cells; the last `batch` are new.
    pub fn new(cells: &[u32], batch: usize) -> Self {
        Self {
            spans: Spans::of(cells),
            cells: cells[cells.len().saturating_sub(batch)..].to_vec(),
            scattered: Some(cells.to_vec()),
            #[cfg(feature = "gpu")]
            lists: PerDevice::default(),
        }
    }

    /// A sequence of `length` tokens with cell = position; the last `batch` are new.
    pub fn in_order(length: usize, batch: usize) -> Self {
        Self {
            spans: Spans::in_order(length),
            cells: (length.saturating_sub(batch) as u32..length as u32).collect(),
            scattered: None,
            #[cfg(feature = "gpu")]
            lists: PerDevice::default(),
        }
    }

    /// The position of the batch's first token.
    pub fn first(&self) -> usize {
        self.spans.len() - self.cells.len()
    }

    /// Positions of the batch's tokens in the sequence.
    pub fn positions(&self) -> Vec<u32> {
        (self.first() as u32..self.spans.len() as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_kernels::attention::KvFormat;

    fn pool(cells: usize) -> Arc<KvPool> {
        Arc::new(KvPool::new(KvFormat::F16, 2, cells, 2, 4))
    }

    fn refused(view: SequenceView) -> Option<CacheError> {
        CachedSequence::new(pool(8), Arc::new(view)).err()
    }

    #[test]
    fn a_cell_beyond_the_pool_is_refused() {
        for (cell, invalid) in [(7, false), (8, true), (u32::MAX, true)] {
            let expected = invalid.then_some(CacheError::NoSuchCell { cell, cells: 8 });
            // The cell of the batch, and one that is only read.
            assert_eq!(refused(SequenceView::new(&[0, cell], 1)), expected);
            assert_eq!(refused(SequenceView::new(&[cell, 0], 1)), expected);
        }
    }

    #[test]
    fn a_span_that_ends_beyond_the_pool_is_refused() {
        assert_eq!(refused(SequenceView::new(&[5, 6, 7], 3)), None);
        let expected = Some(CacheError::NoSuchCell { cell: 8, cells: 8 });
        assert_eq!(refused(SequenceView::new(&[6, 7, 8], 3)), expected);
    }

    #[test]
    fn a_position_beyond_the_pool_is_refused() {
        assert_eq!(refused(SequenceView::in_order(8, 1)), None);
        let expected = Some(CacheError::Full { tokens: 9, cells: 8 });
        assert_eq!(refused(SequenceView::in_order(9, 1)), expected);
        // In existing cells, but with more positions than cells.
        assert_eq!(refused(SequenceView::new(&[0; 9], 1)), expected);
    }

    #[test]
    fn a_cell_of_two_tokens_is_refused() {
        let expected = Some(CacheError::CellTwice { cell: 3 });
        assert_eq!(refused(SequenceView::new(&[3, 1, 3], 1)), expected);
    }

    #[test]
    fn attention_over_other_tokens_heads_or_layers_than_the_cache_has_is_refused() {
        let heads = Heads {
            heads: 4,
            kv_heads: 2,
            head_dim: 4,
            scale: 0.5,
            window: None,
        };
        let sequence = CachedSequence::new(pool(8), Arc::new(SequenceView::in_order(5, 3))).expect("cells enough");
        let cached = |layer| KeyValues::Pool {
            sequence: sequence.clone(),
            layer,
        };
        assert_eq!(cached(1).check(3, &heads), Ok(()));
        let expected = CacheError::Tokens { found: 2, expected: 3 };
        assert_eq!(cached(1).check(2, &heads), Err(expected));
        let expected = CacheError::NoSuchLayer { layer: 2, layers: 2 };
        assert_eq!(cached(2).check(3, &heads), Err(expected));
        let wide = Heads { head_dim: 8, ..heads };
        let expected = CacheError::Heads {
            found: [2, 8],
            expected: [2, 4],
        };
        assert_eq!(cached(0).check(3, &wide), Err(expected));
        let batch = KeyValues::Batch(Arc::new(Segments::of_lengths(&[2, 1])));
        assert_eq!(batch.check(3, &heads), Ok(()));
        let expected = CacheError::Tokens { found: 4, expected: 3 };
        assert_eq!(batch.check(4, &heads), Err(expected));
    }
}
