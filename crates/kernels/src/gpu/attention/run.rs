//! The launch of the kernels of attention.

use super::kernel::attend;
use super::merge::merge_splits;
use super::{Config, SizesLaunch, Source, TILE};
use crate::attention::Heads;
use crate::gpu::launch::{cube_count, matrix_arg};
use crate::gpu::{Floats, GpuError, heads};
use cubecl::prelude::*;

/// Maximum query rows of a cube.
const ROWS: usize = 16;
/// Maximum query elements of a cube in shared memory, 8 KiB.
const MAX_QUERY_ELEMENTS: usize = 2048;
/// Cubes that fill a large device.
const FULL_DEVICE_CUBES: usize = 512;
/// Minimum tiles of keys per cube when the keys are split.
const MIN_TILES_PER_CUBE: usize = 4;
/// Units of a cube that merges partial results.
const MERGE_UNITS: usize = 256;

/// The rows of a launch: see [`super::Sizes`].
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub rows_before: usize,
    pub tokens: usize,
    pub length: usize,
    pub first_page: usize,
    pub n_cells: usize,
}

impl Rows {
    /// A batch without a cache.
    pub fn from_batch(tokens: usize) -> Self {
        Self {
            rows_before: 0,
            tokens,
            length: tokens,
            first_page: 0,
            n_cells: 0,
        }
    }
}

/// The division of rows and keys among cubes.
struct Division {
    /// Query rows of a cube, a power of two.
    rows: usize,
    /// Cubes for all rows.
    cubes: usize,
    /// Cubes that split the keys of each block of rows.
    splits: usize,
}

impl Division {
    /// Divides `tokens` of a sequence of `length`; neither is zero.
    fn new(heads: &Heads, tokens: usize, length: usize) -> Self {
        let group = heads.heads / heads.kv_heads;
        let max_rows = 1 << (MAX_QUERY_ELEMENTS / heads.head_dim.next_multiple_of(4)).ilog2();
        let rows = (tokens * group).next_power_of_two().min(ROWS).min(max_rows);
        let cubes = heads.kv_heads * (tokens * group).div_ceil(rows);
        let visible_keys = heads
            .window
            .map_or(length, |window| length.min(window.saturating_add(tokens)));
        let splits = (FULL_DEVICE_CUBES / cubes)
            .min(visible_keys.div_ceil(TILE * MIN_TILES_PER_CUBE))
            .max(1);
        Self { rows, cubes, splits }
    }
}

/// Launches the kernel, and if several cubes split the keys the kernel that merges their results.
pub(super) fn run(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    [keys, values, bounds_or_pages]: [BufferArg; 3],
    source: Source,
    rows: Rows,
    both_ways: bool,
    out: &Floats,
) -> Result<(), GpuError> {
    let Rows { tokens, length, .. } = rows;
    let (head_dim, group) = (heads.head_dim, heads.heads / heads.kv_heads);
    if head_dim > MAX_QUERY_ELEMENTS {
        return Err(GpuError::Size {
            what: "width of a head",
            found: head_dim,
            expected: MAX_QUERY_ELEMENTS,
        });
    }
    if tokens * group == 0 {
        return Ok(());
    }
    let division = Division::new(heads, tokens, length);
    let splits = division.splits;
    let config = Config {
        source,
        head_dim,
        rows: division.rows,
        split: splits > 1,
        both_ways,
        capped: heads.softcap.is_some(),
    };
    let sizes = SizesLaunch::new(
        rows.rows_before,
        tokens,
        heads.kv_heads,
        group,
        length - tokens,
        heads::window(heads),
        rows.n_cells,
        rows.first_page,
        splits,
    );
    let total_heads = tokens * heads.heads;
    let sums = if splits > 1 {
        Floats::empty(client, splits * total_heads, head_dim)
    } else {
        out.clone()
    };
    let partial_stats = Floats::empty(client, if splits > 1 { splits * total_heads } else { 1 }, 2);
    let input = matrix_arg(qkv, "Q, K and V")?;
    let count = cube_count(client, division.cubes * splits)?;
    let (sums_arg, stats_arg) = (
        matrix_arg(&sums, "output of attention")?,
        matrix_arg(&partial_stats, "partial results of attention")?,
    );
    // SAFETY: the kernel stays in the rows of `qkv`, in cells below `n_cells` and in a list of all
    // pages that the rows see, all of which were checked; the outputs were allocated for it.
    unsafe {
        attend::launch_unchecked(
            client,
            count,
            CubeDim::new_1d(TILE as u32),
            input,
            keys,
            values,
            bounds_or_pages,
            sums_arg,
            stats_arg,
            sizes,
            heads.scale,
            heads::softcap(heads),
            config,
        );
    }
    if splits > 1 {
        let heads_before = rows.rows_before * heads.heads;
        merge(client, &sums, &partial_stats, out, heads_before, total_heads, splits)?;
    }
    Ok(())
}

/// Merges the partial results of each of `heads` heads, and writes them after the first
/// `heads_before` heads of `out`.
fn merge(
    client: &Client,
    sums: &Floats,
    partial_stats: &Floats,
    out: &Floats,
    heads_before: usize,
    heads: usize,
    splits: usize,
) -> Result<(), GpuError> {
    let head_dim = sums.cols;
    let (sums, partial_stats) = (
        matrix_arg(sums, "output of attention")?,
        matrix_arg(partial_stats, "partial results of attention")?,
    );
    let result = matrix_arg(out, "output of attention")?;
    let count = cube_count(client, (heads * head_dim).div_ceil(MERGE_UNITS))?;
    // SAFETY: the three buffers were allocated for the kernel.
    unsafe {
        merge_splits::launch_unchecked(
            client,
            count,
            CubeDim::new_1d(MERGE_UNITS as u32),
            sums,
            partial_stats,
            result,
            heads_before,
            heads,
            head_dim,
            splits,
        );
    }
    Ok(())
}
