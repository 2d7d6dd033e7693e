//! Attention over the KV cache.

use super::Source;
use super::run::{Rows, run};
use crate::attention::{Heads, KvFormat, PAGE};
use crate::gpu::launch::{buffer_arg, check_equal};
use crate::gpu::{Floats, GpuError, cache, heads};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Consecutive rows of a batch that continue one sequence of a KV cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedRows<'a> {
    /// The number of rows, the last tokens of the sequence.
    pub rows: usize,
    /// Tokens of the sequence, the rows included.
    pub length: usize,
    /// The page of the sequence with which `pages` begins.
    pub first_page: usize,
    /// The pages of the sequence, one word each.
    pub pages: &'a Handle,
}

/// Attention over the KV cache: `[T, heads * head_dim]`, one launch per sequence.
///
/// `qkv` has the normalized and rotated rows of the batch, whose keys and values are already in
/// their cells (see [`kv_write`](crate::gpu::kv_write)); `sequences` divides the rows among the
/// sequences that they continue, in order. Page `p` has the cells `p * PAGE..(p + 1) * PAGE` (see
/// [`PAGE`]); an out-of-range cell is clamped to the last.
///
/// # Errors
/// Returns an error if the shapes do not match, a row sees a key before its sequence's first page,
/// or the width of a head is odd in f16.
pub fn attend_cached(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    [keys, values]: [&Handle; 2],
    n_cells: usize,
    sequences: &[CachedRows],
    format: KvFormat,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let words = cache::words(heads, n_cells, format)?;
    let rows = sequences
        .iter()
        .fold(0_usize, |sum, sequence| sum.saturating_add(sequence.rows));
    check_equal("rows of a batch", rows, qkv.rows)?;
    let source = match format {
        KvFormat::F16 => Source::F16,
        KvFormat::Q8_0 => Source::Q8_0,
    };
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let mut rows_before = 0;
    for sequence in sequences {
        let page_count = page_count(heads, n_cells, sequence)?;
        let cache_args = [
            buffer_arg(keys, "cached keys", words)?,
            buffer_arg(values, "cached values", words)?,
            buffer_arg(sequence.pages, "list of pages", page_count)?,
        ];
        let rows = Rows {
            rows_before,
            tokens: sequence.rows,
            length: sequence.length,
            first_page: sequence.first_page,
            n_cells,
        };
        run(client, qkv, heads, cache_args, source, rows, false, &out)?;
        rows_before += sequence.rows;
    }
    Ok(out)
}

/// The number of pages of a sequence, after checking that its rows see no key before the first
/// page.
fn page_count(heads: &Heads, n_cells: usize, sequence: &CachedRows) -> Result<usize, GpuError> {
    if sequence.length < sequence.rows || n_cells == 0 {
        return Err(GpuError::Size {
            what: "number of cached tokens",
            found: sequence.length.min(n_cells),
            expected: sequence.rows.max(1),
        });
    }
    let first = (sequence.length - sequence.rows + 1).saturating_sub(heads.window.unwrap_or(usize::MAX));
    if sequence.rows > 0 && first / PAGE < sequence.first_page {
        return Err(GpuError::Size {
            what: "first page of a sequence",
            found: sequence.first_page,
            expected: first / PAGE,
        });
    }
    Ok(sequence.length.div_ceil(PAGE).saturating_sub(sequence.first_page))
}
