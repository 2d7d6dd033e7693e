//! The rows of one step: their positions, and the keys and values that they attend to.

use crate::cache::{Cache, LayerCells, Sequence};
use crate::error::CacheError;
#[cfg(feature = "gpu")]
use crate::per_device::{BatchIndices, CacheIndices, PerDevice};
use hearth_kernels::attention::{CachedRows, Heads, Spans};
use std::sync::Arc;

/// The rows of one step through a model. Rows of one sequence are consecutive. The mask is causal,
/// except in a [`Batch::bidirectional`] one.
#[derive(Debug)]
pub struct Batch {
    positions: Vec<u32>,
    keys: Keys,
    #[cfg(feature = "gpu")]
    pub(crate) indices: PerDevice<BatchIndices>,
}

/// The keys and values that the rows attend to.
#[derive(Debug)]
enum Keys {
    /// Keys and values of the batch itself, for training, reference results and embeddings.
    /// `starts` has the first row of each row's sequence. `ends` has the row after the last one,
    /// and is `None` with a causal mask.
    Batch { starts: Vec<u32>, ends: Option<Vec<u32>> },
    /// The keys of sequences in a cache, which the rows continue.
    Cache { cache: Arc<Cache>, groups: Vec<GroupRows> },
}

/// The cells of the rows and of their sequences in a group of layers.
#[derive(Debug)]
pub(crate) struct GroupRows {
    /// The cell of each row.
    pub cells: Vec<u32>,
    /// The rows of each sequence, and its cells.
    pub sequences: Vec<SequenceRows>,
    #[cfg(feature = "gpu")]
    pub indices: PerDevice<CacheIndices>,
}

/// Rows that continue one sequence.
#[derive(Debug)]
pub(crate) struct SequenceRows {
    /// The number of rows.
    pub rows: usize,
    /// The cells of the sequence, these rows included.
    pub spans: Spans,
    /// The index of the first page among the pages of the sequence.
    #[cfg(feature = "gpu")]
    pub first_page: usize,
    /// The pages that were not released, in order.
    #[cfg(feature = "gpu")]
    pub pages: Vec<u32>,
}

/// The keys and values of one layer.
pub(crate) enum LayerKeys<'a> {
    /// Keys and values of the batch, with a causal mask: for each row, the first row of its
    /// sequence.
    Batch(&'a [u32]),
    /// Keys and values of the batch, with a bidirectional mask: for each row, the first row of its
    /// sequence, and the row after the last one.
    Bidirectional(&'a [u32], &'a [u32]),
    /// The layer's cells, and the cells of the rows.
    Cache(&'a LayerCells, &'a GroupRows),
}

impl Batch {
    /// Whole sequences of these lengths without a KV cache. The mask is causal.
    pub fn of_lengths(lengths: &[usize]) -> Self {
        let (mut positions, mut starts) = (Vec::new(), Vec::new());
        for &length in lengths {
            let start = starts.len() as u32;
            positions.extend(0..length as u32);
            starts.extend(std::iter::repeat_n(start, length));
        }
        Self {
            positions,
            keys: Keys::Batch { starts, ends: None },
            #[cfg(feature = "gpu")]
            indices: PerDevice::default(),
        }
    }

    /// Whole sequences of these lengths without a KV cache. The mask is bidirectional: a row
    /// attends to all rows of its sequence, and a sliding window is centered on it. There is no
    /// backward.
    pub fn bidirectional(lengths: &[usize]) -> Self {
        let mut batch = Self::of_lengths(lengths);
        let mut end = 0;
        let mut row_ends = Vec::new();
        for &length in lengths {
            end += length as u32;
            row_ends.extend(std::iter::repeat_n(end, length));
        }
        if let Keys::Batch { ends, .. } = &mut batch.keys {
            *ends = Some(row_ends);
        }
        batch
    }

    /// The last tokens of sequences in one KV cache: each sequence with its number of rows.
    ///
    /// # Errors
    /// If the sequences have different caches, one has fewer tokens than rows, or there are none.
    pub fn of_sequences(sequences: &[(&Sequence, usize)]) -> Result<Self, CacheError> {
        let (first, _) = sequences.first().ok_or(CacheError::Tokens { found: 0, expected: 1 })?;
        let cache = first.cache().clone();
        let mut positions = Vec::new();
        for &(sequence, rows) in sequences {
            if !Arc::ptr_eq(sequence.cache(), &cache) {
                return Err(CacheError::OtherCache);
            }
            let tokens = sequence.len();
            let first = tokens.checked_sub(rows).ok_or(CacheError::Tokens {
                found: tokens,
                expected: rows,
            })?;
            positions.extend(first as u32..tokens as u32);
        }
        let groups = (0..cache.groups().len()).map(|group| GroupRows::new(sequences, group));
        Ok(Self {
            positions,
            keys: Keys::Cache {
                groups: groups.collect(),
                cache,
            },
            #[cfg(feature = "gpu")]
            indices: PerDevice::default(),
        })
    }

    /// The position of each row in its sequence.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// For each row, the first row of its sequence. Empty for rows of cached sequences.
    pub fn starts(&self) -> &[u32] {
        match &self.keys {
            Keys::Batch { starts, .. } => starts,
            Keys::Cache { .. } => &[],
        }
    }

    /// For each row, the row after the last one of its sequence. `None` with a causal mask.
    pub(crate) fn ends(&self) -> Option<&[u32]> {
        match &self.keys {
            Keys::Batch { ends, .. } => ends.as_deref(),
            Keys::Cache { .. } => None,
        }
    }

    /// Whether the rows continue cached sequences.
    pub fn is_cached(&self) -> bool {
        matches!(self.keys, Keys::Cache { .. })
    }

    /// The context length of the cache; `None` without a cache.
    #[cfg(feature = "gpu")]
    pub(crate) fn context(&self) -> Option<usize> {
        match &self.keys {
            Keys::Batch { .. } => None,
            Keys::Cache { cache, .. } => Some(cache.context()),
        }
    }

    /// Checks that attention of a layer with these heads over `rows` rows fits the batch. This is
    /// checked on the host for all devices, because a GPU reports no error: it drops out-of-bounds
    /// writes and clamps reads.
    ///
    /// # Errors
    /// If the number of rows differs, the cache has no such layer, or its cells have other heads.
    pub fn check(&self, layer: usize, rows: usize, heads: &Heads) -> Result<(), CacheError> {
        let expected = self.positions.len();
        if rows != expected {
            return Err(CacheError::Tokens { found: rows, expected });
        }
        let LayerKeys::Cache(cells, _) = self.keys(layer)? else {
            return Ok(());
        };
        let (found, expected) = ([heads.kv_heads, heads.head_dim], cells.shape());
        if found == expected {
            Ok(())
        } else {
            Err(CacheError::Heads { found, expected })
        }
    }

    /// The keys and values of a layer.
    pub(crate) fn keys(&self, layer: usize) -> Result<LayerKeys<'_>, CacheError> {
        Ok(match &self.keys {
            Keys::Batch { starts, ends: None } => LayerKeys::Batch(starts),
            Keys::Batch {
                starts,
                ends: Some(ends),
            } => LayerKeys::Bidirectional(starts, ends),
            Keys::Cache { cache, groups } => LayerKeys::Cache(cache.cells(layer)?, &groups[cache.group_of(layer)?]),
        })
    }
}

impl GroupRows {
    fn new(sequences: &[(&Sequence, usize)], group: usize) -> Self {
        let mut cells = Vec::new();
        let sequence_rows = |&(sequence, rows): &(&Sequence, usize)| {
            cells.extend(sequence.cells(group, sequence.len() - rows..sequence.len()));
            #[cfg(feature = "gpu")]
            let (first_page, pages) = sequence.pages(group);
            SequenceRows {
                rows,
                spans: sequence.spans(group),
                #[cfg(feature = "gpu")]
                first_page,
                #[cfg(feature = "gpu")]
                pages: pages.to_vec(),
            }
        };
        Self {
            sequences: sequences.iter().map(sequence_rows).collect(),
            cells,
            #[cfg(feature = "gpu")]
            indices: PerDevice::default(),
        }
    }

    /// The rows in the form that the CPU's attention kernel takes.
    pub fn kernel_rows(&self) -> Vec<CachedRows<'_>> {
        self.sequences
            .iter()
            .map(|SequenceRows { rows, spans, .. }| CachedRows { rows: *rows, spans })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{CacheSize, LayerGroup};
    use hearth_kernels::attention::KvFormat;

    fn cache() -> Arc<Cache> {
        let group = LayerGroup {
            layers: vec![0, 1],
            kv_heads: 2,
            head_dim: 4,
            window: None,
        };
        let size = CacheSize::chat(8, std::slice::from_ref(&group));
        Cache::new(&[group], KvFormat::F16, size)
    }

    #[test]
    fn attention_over_other_rows_heads_or_layers_than_the_batch_has_is_refused() {
        let heads = Heads {
            heads: 4,
            kv_heads: 2,
            head_dim: 4,
            scale: 0.5,
            softcap: None,
            window: None,
        };
        let mut sequence = Sequence::new(&cache());
        sequence.append(&[1; 5]).expect("a context of 8");
        let cached = Batch::of_sequences(&[(&sequence, 3)]).expect("a batch");
        assert_eq!(cached.positions(), [2, 3, 4]);
        assert_eq!(cached.check(1, 3, &heads), Ok(()));
        let expected = CacheError::Tokens { found: 2, expected: 3 };
        assert_eq!(cached.check(1, 2, &heads), Err(expected));
        let expected = CacheError::NoSuchLayer { layer: 2, layers: 2 };
        assert_eq!(cached.check(2, 3, &heads), Err(expected));
        let wide = Heads { head_dim: 8, ..heads };
        let expected = CacheError::Heads {
            found: [2, 8],
            expected: [2, 4],
        };
        assert_eq!(cached.check(0, 3, &wide), Err(expected));
        let batch = Batch::of_lengths(&[2, 1]);
        assert_eq!(batch.check(0, 3, &heads), Ok(()));
        let expected = CacheError::Tokens { found: 4, expected: 3 };
        assert_eq!(batch.check(0, 4, &heads), Err(expected));
    }

    #[test]
    fn sequences_of_other_caches_or_too_short_are_refused() {
        let [mut first, mut second] = [Sequence::new(&cache()), Sequence::new(&cache())];
        first.append(&[1; 2]).expect("a context of 8");
        second.append(&[1; 2]).expect("a context of 8");
        let positions = |sequences: &[(&Sequence, usize)]| Batch::of_sequences(sequences).map(|batch| batch.positions);
        assert_eq!(positions(&[(&first, 1), (&second, 1)]), Err(CacheError::OtherCache));
        let expected = CacheError::Tokens { found: 2, expected: 3 };
        assert_eq!(positions(&[(&first, 3)]), Err(expected));
        assert!(positions(&[]).is_err());
        assert_eq!(positions(&[(&first, 1)]), Ok(vec![1]));
    }
}
