//! Ranges of a weight's rows: buffers may be larger than a device can bind at once.

use super::launch::argument;
use super::{GpuError, Weight};
use cubecl::prelude::BufferArg;

/// Alignment of offsets into a buffer that suits every device.
const ALIGNMENT: u64 = 256;

/// Rows of a weight that one launch processes.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub first: usize,
    pub rows: usize,
}

/// Splits a weight into ranges of rows of at most `limit` bytes; each begins at a multiple of
/// [`ALIGNMENT`].
pub(super) fn ranges(weight: &Weight, limit: u64) -> Result<Vec<Range>, GpuError> {
    let Weight { quant, rows, cols, .. } = *weight;
    let row = quant.row_bytes(cols).ok_or(GpuError::Shape { quant, rows, cols })? as u64;
    let bytes = row
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
        return Ok(vec![Range { first: 0, rows }]);
    }
    // Rows whose total size is aligned: the power of two that one row lacks.
    let together = ALIGNMENT >> row.trailing_zeros().min(ALIGNMENT.trailing_zeros());
    let most = (limit / row / together * together) as usize;
    if most == 0 {
        return Err(GpuError::Large {
            what: "smallest range of rows of a weight",
            needed: together * row,
        });
    }
    let range = |first: usize| Range {
        first,
        rows: most.min(rows - first),
    };
    Ok((0..rows).step_by(most).map(range).collect())
}

/// The blocks of one of a weight's [`ranges`], as a kernel argument.
pub(super) fn words_of(weight: &Weight, range: Range) -> Result<BufferArg, GpuError> {
    let row_bytes = (weight.cols / weight.quant.block_elements() * weight.quant.block_bytes()) as u64;
    let begin = range.first as u64 * row_bytes;
    let bytes = (range.rows as u64 * row_bytes).next_multiple_of(4);
    let used = weight.words.size_in_used();
    let words = weight
        .words
        .clone()
        .offset_start(begin)
        .offset_end(used - begin - bytes);
    argument(&words, "weight of a linear", (bytes / 4) as usize)
}
