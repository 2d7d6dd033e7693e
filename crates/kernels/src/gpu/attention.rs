//! Attention of a batch over itself, or over the KV cache.
//!
//! A cube computes a block of query rows (tokens, and within a token the heads that share a KV
//! head) over the keys that any of them sees, tile by tile: each unit scores one key against all
//! rows, the online softmax continues from the previous tile, and each unit accumulates its
//! elements of the values. Every key and value is read once for all rows. If there are too few
//! cubes to fill a device, several cubes split the keys, and a second kernel merges their partial
//! results.
//! <https://arxiv.org/abs/2205.14135>

use super::cache;
use super::exp::bounded_exp;
use super::f16::from_bits;
use super::launch::{buffer_arg, check_equal, cube_count, matrix_arg};
use super::{Floats, GpuError, heads};
use crate::attention::{BLOCK, Heads, KvFormat, PAGE, q8_0_gpu_words};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units of a cube, and keys of a tile.
const TILE: usize = 64;
/// Maximum query rows of a cube.
const ROWS: usize = 16;
/// Maximum query elements of a cube in shared memory, 8 KiB.
const MAX_QUERY_ELEMENTS: usize = 2048;
/// Cubes that fill a large device.
const FULL_DEVICE_CUBES: usize = 512;
/// Minimum tiles of keys per cube when the keys are split.
const MIN_TILES_PER_CUBE: usize = 4;
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

/// The lowest byte of a word, minus 128.
#[cube]
fn signed_byte(word: u32) -> f32 {
    f32::cast_from(word & 0xffu32) - 128.0f32
}

/// Element `i` of the head that begins at `head` in `words`.
#[cube]
fn element(words: &[u32], head: usize, i: usize, #[comptime] config: Config) -> f32 {
    match config.source {
        Source::Batch => f32::reinterpret(words[head + i]),
        Source::F16 => from_bits((words[(head + i) / 2] >> (16u32 * ((head + i) % 2) as u32)) & 0xffffu32),
        Source::Q8_0 => {
            let scale = f32::reinterpret(words[head + comptime!(config.head_dim.div_ceil(4)) + i / BLOCK]);
            scale * signed_byte(words[head + i / 4] >> (8u32 * (i % 4) as u32))
        }
    }
}

#[allow(
    clippy::too_many_lines,
    reason = "one GPU kernel, whose phases share tiles, row state and positions"
)]
#[cube(launch_unchecked)]
fn attend(
    qkv: &[f32],
    keys: &[u32],
    values: &[u32],
    // In a batch, the first key that each token sees and, without a causal mask, the key after the
    // last; with a cache, the pages of the sequence.
    bounds_or_pages: &[u32],
    out: &mut [f32],
    // Row maximum and sum of each partial result, if several cubes split the keys.
    partial_stats: &mut [f32],
    sizes: Sizes,
    scale: f32,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.head_dim);
    let rows = comptime!(config.rows);
    let elements_per_unit = comptime!(config.head_dim.div_ceil(TILE));
    // Units that share a row in the softmax reductions.
    let line = comptime!(TILE / config.rows);

    let total_rows = sizes.tokens * sizes.group;
    let row_blocks = total_rows.div_ceil(rows);
    if CUBE_POS >= sizes.kv_heads * row_blocks * sizes.splits {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let split = CUBE_POS % sizes.splits;
    let kv = CUBE_POS / sizes.splits / row_blocks;
    let first_row = CUBE_POS / sizes.splits % row_blocks * rows;
    let query_heads = sizes.kv_heads * sizes.group;
    let width = (query_heads + 2 * sizes.kv_heads) * dim;

    let stride = comptime!(config.query_size());
    let mut queries = Shared::<[f32]>::new_slice(comptime!(config.rows * config.query_size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!(config.rows * TILE));
    let mut scratch = Shared::<[f32]>::new_slice(TILE);
    let mut offsets = Shared::<[u32]>::new_slice(TILE);
    let mut row_max = Shared::<[f32]>::new_slice(rows);
    let mut sum = Shared::<[f32]>::new_slice(rows);
    let mut rescale = Shared::<[f32]>::new_slice(rows);
    let mut first_visible = Shared::<[u32]>::new_slice(rows);
    let mut last_visible = Shared::<[u32]>::new_slice(rows);
    let mut bounds = Shared::<[u32]>::new_slice(2usize);

    // Load the queries and the range of keys that each row sees; rows beyond the last see none.
    for step in 0..comptime!((config.rows * config.query_size()).div_ceil(TILE)) {
        let i = step * TILE + unit;
        if i < comptime!(config.rows * config.query_size()) {
            let row = first_row + i / stride;
            let mut value = 0.0f32;
            if row < total_rows && i % stride < dim {
                let head = kv * sizes.group + row % sizes.group;
                value = scale * qkv[(sizes.rows_before + row / sizes.group) * width + head * dim + i % stride];
            }
            queries[i] = value;
        }
    }
    if unit < rows {
        let row = first_row + unit;
        let mut first = u32::MAX.runtime();
        let mut last = 0u32;
        if row < total_rows {
            let token = row / sizes.group;
            let position = sizes.past_tokens + token;
            let mut first_key = 0usize;
            if position >= sizes.window {
                first_key = position + 1 - sizes.window;
            }
            let mut last_key = position;
            if comptime!(config.both_ways) {
                let half = sizes.window / 2;
                first_key = position - min(position, half);
                last_key = max(
                    min(bounds_or_pages[sizes.tokens + token] as usize, sizes.tokens),
                    position + 1,
                ) - 1;
                last_key = min(last_key, position + half);
            }
            if comptime!(config.source == Source::Batch) {
                first_key = max(first_key, min(bounds_or_pages[token] as usize, position));
            }
            first = first_key as u32;
            last = last_key as u32;
        }
        first_visible[unit] = first;
        last_visible[unit] = last;
        row_max[unit] = MASKED;
        sum[unit] = 0.0f32;
    }
    sync_cube();
    if unit == 0 {
        let mut first = first_visible[0];
        let mut last = last_visible[0];
        for row in 1..rows {
            first = min(first, first_visible[row]);
            last = max(last, last_visible[row]);
        }
        bounds[0] = first;
        bounds[1] = last + 1;
    }
    let start = workgroup_uniform_load(&bounds[0]) as usize;
    let end = workgroup_uniform_load(&bounds[1]) as usize;

    let mut sums = Array::<f32>::new(comptime!(config.rows * config.head_dim.div_ceil(TILE)));
    #[unroll]
    for i in 0..comptime!(config.rows * config.head_dim.div_ceil(TILE)) {
        sums[i] = 0.0f32;
    }

    let tiles = (end - start).div_ceil(TILE);
    let tiles_per_split = tiles.div_ceil(sizes.splits);
    for tile in split * tiles_per_split..min((split + 1) * tiles_per_split, tiles) {
        let base = start + tile * TILE;
        let key = base + unit;

        // Scores: one key per unit.
        let mut key_scores = Array::<f32>::new(rows);
        #[unroll]
        for row in 0..rows {
            key_scores[row] = 0.0f32;
        }
        if key < end {
            // Offset of the key's head; the value's head has the same offset among the values.
            let mut offset = key * width + (query_heads + kv) * dim;
            if comptime!(config.source != Source::Batch) {
                let last_cell = sizes.n_cells - 1;
                let cell = bounds_or_pages[key / PAGE - sizes.first_page] as usize * PAGE + key % PAGE;
                offset = (min(cell, last_cell) * sizes.kv_heads + kv) * comptime!(config.head_size());
            }
            offsets[unit] = offset as u32;
            if comptime!(config.source == Source::Q8_0) {
                let words = comptime!(config.head_dim.div_ceil(4));
                for block in 0..comptime!(config.head_dim.div_ceil(BLOCK)) {
                    let scale = f32::reinterpret(keys[offset + words + block]);
                    for word in block * comptime!(BLOCK / 4)..min((block + 1) * comptime!(BLOCK / 4), words) {
                        let packed = keys[offset + word];
                        #[unroll]
                        for i in 0..4usize {
                            let k = scale * signed_byte(packed >> comptime!(8 * i as u32));
                            #[unroll]
                            for row in 0..rows {
                                key_scores[row] += queries[row * stride + 4 * word + i] * k;
                            }
                        }
                    }
                }
            } else if comptime!(config.source == Source::F16) {
                for pair in 0..comptime!(config.head_dim / 2) {
                    let word = keys[offset / 2 + pair];
                    let low = from_bits(word & 0xffffu32);
                    let high = from_bits(word >> 16u32);
                    #[unroll]
                    for row in 0..rows {
                        let index = row * stride + 2 * pair;
                        key_scores[row] += queries[index] * low + queries[index + 1] * high;
                    }
                }
            } else {
                for i in 0..dim {
                    let k = element(keys, offset, i, config);
                    #[unroll]
                    for row in 0..rows {
                        key_scores[row] += queries[row * stride + i] * k;
                    }
                }
            }
        }
        #[unroll]
        for row in 0..rows {
            let is_visible = key as u32 >= first_visible[row] && key as u32 <= last_visible[row];
            scores[row * TILE + unit] = select(is_visible, key_scores[row], MASKED);
        }
        sync_cube();

        // Online softmax: each line of units reduces one row, first its running maximum,
        let row = unit / line;
        let lane = unit % line;
        let mut new_max = MASKED.runtime();
        #[unroll]
        for i in 0..rows {
            new_max = max(new_max, scores[row * TILE + i * line + lane]);
        }
        scratch[unit] = new_max;
        let mut half = comptime!(TILE / config.rows / 2).runtime();
        while half > 0 {
            sync_cube();
            if lane < half {
                scratch[unit] = max(scratch[unit], scratch[unit + half]);
            }
            half /= 2;
        }
        sync_cube();
        let old_max = row_max[row];
        new_max = max(old_max, scratch[row * line]);
        sync_cube();

        // then the sum of its exponentials.
        let mut partial_sum = 0.0f32;
        #[unroll]
        for i in 0..rows {
            let index = row * TILE + i * line + lane;
            let e = select(scores[index] > MASKED, bounded_exp(scores[index] - new_max), 0.0f32);
            scores[index] = e;
            partial_sum += e;
        }
        scratch[unit] = partial_sum;
        let mut half = comptime!(TILE / config.rows / 2).runtime();
        while half > 0 {
            sync_cube();
            if lane < half {
                scratch[unit] += scratch[unit + half];
            }
            half /= 2;
        }
        if lane == 0 {
            // Rescale the previous sum to the new maximum.
            let factor = bounded_exp(old_max - new_max);
            rescale[row] = factor;
            sum[row] = sum[row] * factor + scratch[unit];
            row_max[row] = new_max;
        }
        sync_cube();

        // Values: each unit accumulates its elements.
        #[unroll]
        for i in 0..elements_per_unit {
            let offset = i * TILE + unit;
            if offset < dim {
                #[unroll]
                for row in 0..rows {
                    sums[row * elements_per_unit + i] *= rescale[row];
                }
                for j in 0..min(end - base, TILE) {
                    let mut head = offsets[j] as usize;
                    if comptime!(config.source == Source::Batch) {
                        head += sizes.kv_heads * dim;
                    }
                    let v = element(values, head, offset, config);
                    #[unroll]
                    for row in 0..rows {
                        sums[row * elements_per_unit + i] += scores[row * TILE + j] * v;
                    }
                }
            }
        }
        sync_cube();
    }

    #[unroll]
    for i in 0..elements_per_unit {
        let offset = i * TILE + unit;
        #[unroll]
        for row in 0..rows {
            let query_row = first_row + row;
            if offset < dim && query_row < total_rows {
                // Index among the query heads of the sequence's rows.
                let head = query_row / sizes.group * query_heads + kv * sizes.group + query_row % sizes.group;
                if comptime!(config.split) {
                    let partial = split * sizes.tokens * query_heads + head;
                    out[partial * dim + offset] = sums[row * elements_per_unit + i];
                    if offset == 0 {
                        partial_stats[2 * partial] = row_max[row];
                        partial_stats[2 * partial + 1] = sum[row];
                    }
                } else {
                    out[(sizes.rows_before * query_heads + head) * dim + offset] =
                        sums[row * elements_per_unit + i] / sum[row];
                }
            }
        }
    }
}

/// Merges the partial results of `splits` cubes for each of `heads` heads, and writes the results
/// after the first `heads_before` heads of `out`.
#[cube(launch_unchecked)]
fn merge_splits(
    sums: &[f32],
    partial_stats: &[f32],
    out: &mut [f32],
    heads_before: usize,
    heads: usize,
    dim: usize,
    splits: usize,
) {
    if ABSOLUTE_POS >= heads * dim {
        terminate!();
    }
    let head = ABSOLUTE_POS / dim;
    let mut row_max = MASKED.runtime();
    for split in 0..splits {
        row_max = max(row_max, partial_stats[2 * (split * heads + head)]);
    }
    let mut sum = 0.0f32;
    let mut value = 0.0f32;
    for split in 0..splits {
        let partial = split * heads + head;
        let factor = bounded_exp(partial_stats[2 * partial] - row_max);
        sum += factor * partial_stats[2 * partial + 1];
        value += factor * sums[partial * dim + ABSOLUTE_POS % dim];
    }
    out[heads_before * dim + ABSOLUTE_POS] = value / sum;
}

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
/// their cells (see [`kv_write`](super::kv_write)); `sequences` divides the rows among the
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
        launch(client, qkv, heads, cache_args, source, rows, false, &out)?;
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

/// Attention of a batch over itself: `[T, heads * head_dim]`. `starts` has the first key that each
/// token sees, one word per token, clamped to the token.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn attend_batch(client: &Client, qkv: &Floats, heads: &Heads, starts: &Handle) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let starts = buffer_arg(starts, "list of first keys", qkv.rows)?;
    let (keys, values) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::from_batch(qkv.rows);
    launch(
        client,
        qkv,
        heads,
        [keys, values, starts],
        Source::Batch,
        rows,
        false,
        &out,
    )?;
    Ok(out)
}

/// [`attend_batch`] without a causal mask: a token sees its whole sequence, or half a window on
/// either side. `bounds` has the first token of each token's sequence, one word per token, then the
/// token after the last; they are clamped so that a token sees itself.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn attend_batch_both_ways(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    bounds: &Handle,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let bounds = buffer_arg(bounds, "list of first and last keys", 2 * qkv.rows)?;
    let (keys, values) = (matrix_arg(qkv, "Q, K and V")?, matrix_arg(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::from_batch(qkv.rows);
    launch(
        client,
        qkv,
        heads,
        [keys, values, bounds],
        Source::Batch,
        rows,
        true,
        &out,
    )?;
    Ok(out)
}

/// The rows of a launch: see [`Sizes`].
#[derive(Clone, Copy)]
struct Rows {
    rows_before: usize,
    tokens: usize,
    length: usize,
    first_page: usize,
    n_cells: usize,
}

impl Rows {
    /// A batch without a cache.
    fn from_batch(tokens: usize) -> Self {
        Self {
            rows_before: 0,
            tokens,
            length: tokens,
            first_page: 0,
            n_cells: 0,
        }
    }
}

/// Launches the kernel, and if several cubes split the keys the kernel that merges their results.
fn launch(
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
    let max_rows = 1 << (MAX_QUERY_ELEMENTS / head_dim.next_multiple_of(4)).ilog2();
    let cube_rows = (tokens * group).next_power_of_two().min(ROWS).min(max_rows);
    let unsplit_cubes = heads.kv_heads * (tokens * group).div_ceil(cube_rows);
    let visible_keys = heads
        .window
        .map_or(length, |window| length.min(window.saturating_add(tokens)));
    let splits = (FULL_DEVICE_CUBES / unsplit_cubes)
        .min(visible_keys.div_ceil(TILE * MIN_TILES_PER_CUBE))
        .max(1);
    let config = Config {
        source,
        head_dim,
        rows: cube_rows,
        split: splits > 1,
        both_ways,
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
    let count = cube_count(client, unsplit_cubes * splits)?;
    let (dim, scale) = (CubeDim::new_1d(TILE as u32), heads.scale);
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
            dim,
            input,
            keys,
            values,
            bounds_or_pages,
            sums_arg,
            stats_arg,
            sizes,
            scale,
            config,
        );
    }
    if splits > 1 {
        let (sums, partial_stats) = (
            matrix_arg(&sums, "output of attention")?,
            matrix_arg(&partial_stats, "partial results of attention")?,
        );
        let result = matrix_arg(out, "output of attention")?;
        let count = cube_count(client, (total_heads * head_dim).div_ceil(256))?;
        // SAFETY: the three buffers were allocated for the kernel.
        unsafe {
            merge_splits::launch_unchecked(
                client,
                count,
                CubeDim::new_1d(256),
                sums,
                partial_stats,
                result,
                rows.rows_before * heads.heads,
                total_heads,
                head_dim,
                splits,
            );
        }
    }
    Ok(())
}
