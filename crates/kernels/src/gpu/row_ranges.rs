//! Ranges of a weight's rows, since buffers may be larger than a device can bind at once.

use super::launch::buffer_arg;
use super::{GpuError, Weight};
use cubecl::prelude::BufferArg;

/// Alignment in bytes of offsets into a buffer that every device accepts.
const ALIGNMENT: u64 = 256;

/// Rows of a weight that one launch processes.
#[derive(Clone, Copy)]
pub(super) struct RowRange {
    pub first: usize,
    pub rows: usize,
}

/// Splits a weight into ranges of rows of at most `limit` bytes; each begins at a multiple of
/// [`ALIGNMENT`].
pub(super) fn row_ranges(weight: &Weight, limit: u64) -> Result<Vec<RowRange>, GpuError> {
    let Weight { quant, rows, cols, .. } = *weight;
    let row_bytes = quant.row_bytes(cols).ok_or(GpuError::Shape { quant, rows, cols })? as u64;
    let bytes = row_bytes
        .checked_mul(rows as u64)
        .ok_or(GpuError::Shape { quant, rows, cols })?;
    let found = weight.words.size_in_used();
    let needed = bytes.next_multiple_of(4);
    if found < needed {
        return Err(GpuError::Short {
            what: "weight of a linear",
            needed,
            found,
        });
    }
    let limit = limit.min(u64::from(u32::MAX));
    if bytes <= limit {
        return Ok(vec![RowRange { first: 0, rows }]);
    }
    // The smallest number of rows whose total size is aligned: the powers of two that the size of
    // one row lacks.
    let aligned_rows = ALIGNMENT >> row_bytes.trailing_zeros().min(ALIGNMENT.trailing_zeros());
    let max_rows = (limit / row_bytes / aligned_rows * aligned_rows) as usize;
    if max_rows == 0 {
        return Err(GpuError::Large {
            what: "smallest range of rows of a weight",
            needed: aligned_rows * row_bytes,
        });
    }
    let range = |first: usize| RowRange {
        first,
        rows: max_rows.min(rows - first),
    };
    Ok((0..rows).step_by(max_rows).map(range).collect())
}

/// The blocks of one of a weight's [`row_ranges`], as a kernel argument.
pub(super) fn words_of_range(weight: &Weight, range: RowRange) -> Result<BufferArg, GpuError> {
    let row_bytes = (weight.cols / weight.quant.block_elements() * weight.quant.block_bytes()) as u64;
    let start = range.first as u64 * row_bytes;
    let bytes = (range.rows as u64 * row_bytes).next_multiple_of(4);
    let size = weight.words.size_in_used();
    let words = weight
        .words
        .clone()
        .offset_start(start)
        .offset_end(size - start - bytes);
    buffer_arg(&words, "weight of a linear", (bytes / 4) as usize)
}
