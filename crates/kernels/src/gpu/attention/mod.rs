//! Attention of a batch over itself, or over the KV cache.
//!
//! A cube computes a block of query rows (tokens, and within a token the heads that share a KV
//! head) over the keys that any of them sees, tile by tile: each unit scores one key against all
//! rows, the online softmax continues from the previous tile, and each unit accumulates its
//! elements of the values. Every key and value is read once for all rows. If there are too few
//! cubes to fill a device, several cubes split the keys, and a second kernel merges their partial
//! results.
//! <https://arxiv.org/abs/2205.14135>

mod batch;
mod cached;
mod elements;
mod kernel;
mod merge;
mod online_softmax;
mod queries;
mod run;
mod scores;
mod values;

pub use batch::{attend_batch, attend_batch_both_ways};
pub use cached::{CachedRows, attend_cached};

use crate::attention::q8_0_gpu_words;
use cubecl::prelude::*;

/// Units of a cube, and keys of a tile.
const TILE: usize = 64;
/// Score of a masked key.
const MASKED: f32 = -3.0e38;

/// Source of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The rows of the batch itself, f32.
    Batch,
    /// The KV cache in f16, two elements per word.
    F16,
    /// The KV cache in 8 bits, four elements per word, then their scales.
    Q8_0,
}

/// Compile-time configuration of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    source: Source,
    head_dim: usize,
    /// Query rows of a cube, a power of two.
    rows: usize,
    /// `true` if several cubes split the keys.
    split: bool,
    /// `true` if tokens of a batch also see later tokens.
    both_ways: bool,
    /// `true` if scores have a softcap.
    capped: bool,
}

impl Config {
    /// Stride between the heads of a cell: in elements, or in words in formats with scales.
    fn head_size(&self) -> usize {
        match self.source {
            Source::Batch | Source::F16 => self.head_dim,
            Source::Q8_0 => q8_0_gpu_words(self.head_dim),
        }
    }

    /// Stride between query rows, zero-padded to whole words of keys.
    fn query_size(&self) -> usize {
        self.head_dim.next_multiple_of(4)
    }
}

/// Runtime sizes of a kernel.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    /// Rows of the batch before the rows of the sequence.
    rows_before: usize,
    /// Rows of the sequence in the batch.
    tokens: usize,
    kv_heads: usize,
    /// Query heads per KV head.
    group: usize,
    /// Tokens of the sequence before the batch.
    past_tokens: usize,
    window: usize,
    n_cells: usize,
    /// The page of the sequence with which the list begins.
    first_page: usize,
    /// Cubes that split the keys.
    splits: usize,
}
