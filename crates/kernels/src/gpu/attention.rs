//! Attention of a batch over itself, or over the KV cache.
//!
//! A cube computes a block of query rows (tokens, and within a token the heads that share a KV
//! head) over the keys that any of them sees, tile by tile: each unit scores one key against all
//! rows, the online softmax continues from the previous tile, and each unit accumulates its
//! elements of the values. Every key and value is read once for all rows. If there are too few
//! cubes to fill a device, several split the keys, and their partial results are merged.
//! <https://arxiv.org/abs/2205.14135>

use super::cache;
use super::exp::bounded_exp;
use super::f16::from_bits;
use super::launch::{argument, cubes, matrix, same};
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
    /// Whether several cubes split the keys.
    split: bool,
    /// Whether a token of a batch sees later ones, too.
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
    /// Rows of the batch before the sequence's.
    before: usize,
    /// Rows of the sequence in the batch.
    tokens: usize,
    kv_heads: usize,
    /// Query heads per KV head.
    group: usize,
    /// Tokens of the sequence before the batch.
    previous: usize,
    window: usize,
    n_cells: usize,
    /// The page of the sequence that the list begins with.
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
    // The first key that each token sees, and if it sees later ones the key after the last, or the
    // pages of the sequence.
    list: &[u32],
    out: &mut [f32],
    // Row maximum and sum of each partial result, if several cubes split the keys.
    parts: &mut [f32],
    sizes: Sizes,
    scale: f32,
    #[comptime] config: Config,
) {
    let dim = comptime!(config.head_dim);
    let rows = comptime!(config.rows);
    let each = comptime!(config.head_dim.div_ceil(TILE));
    // Units that share a row in the softmax reductions.
    let line = comptime!(TILE / config.rows);

    let all_rows = sizes.tokens * sizes.group;
    let row_blocks = all_rows.div_ceil(rows);
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
    let mut first_seen = Shared::<[u32]>::new_slice(rows);
    let mut last_seen = Shared::<[u32]>::new_slice(rows);
    let mut bounds = Shared::<[u32]>::new_slice(2usize);

    // Load the queries and the range of keys each row sees; rows beyond the last see none.
    for step in 0..comptime!((config.rows * config.query_size()).div_ceil(TILE)) {
        let i = step * TILE + unit;
        if i < comptime!(config.rows * config.query_size()) {
            let row = first_row + i / stride;
            let mut value = 0.0f32;
            if row < all_rows && i % stride < dim {
                let head = kv * sizes.group + row % sizes.group;
                value = scale * qkv[(sizes.before + row / sizes.group) * width + head * dim + i % stride];
            }
            queries[i] = value;
        }
    }
    if unit < rows {
        let row = first_row + unit;
        let mut first = u32::MAX.runtime();
        let mut last = 0u32;
        if row < all_rows {
            let token = row / sizes.group;
            let number = sizes.previous + token;
            let mut start = 0usize;
            if number >= sizes.window {
                start = number + 1 - sizes.window;
            }
            let mut end = number;
            if comptime!(config.both_ways) {
                let half = sizes.window / 2;
                start = number - min(number, half);
                end = max(min(list[sizes.tokens + token] as usize, sizes.tokens), number + 1) - 1;
                end = min(end, number + half);
            }
            if comptime!(config.source == Source::Batch) {
                start = max(start, min(list[token] as usize, number));
            }
            first = start as u32;
            last = end as u32;
        }
        first_seen[unit] = first;
        last_seen[unit] = last;
        row_max[unit] = MASKED;
        sum[unit] = 0.0f32;
    }
    sync_cube();
    if unit == 0 {
        let mut first = first_seen[0];
        let mut last = last_seen[0];
        for row in 1..rows {
            first = min(first, first_seen[row]);
            last = max(last, last_seen[row]);
        }
        bounds[0] = first;
        bounds[1] = last + 1;
    }
    let begin = workgroup_uniform_load(&bounds[0]) as usize;
    let end = workgroup_uniform_load(&bounds[1]) as usize;

    let mut sums = Array::<f32>::new(comptime!(config.rows * config.head_dim.div_ceil(TILE)));
    #[unroll]
    for i in 0..comptime!(config.rows * config.head_dim.div_ceil(TILE)) {
        sums[i] = 0.0f32;
    }

    let tiles = (end - begin).div_ceil(TILE);
    let tiles_each = tiles.div_ceil(sizes.splits);
    for tile in split * tiles_each..min((split + 1) * tiles_each, tiles) {
        let base = begin + tile * TILE;
        let key = base + unit;

        // Scores: one key per unit.
        let mut mine = Array::<f32>::new(rows);
        #[unroll]
        for row in 0..rows {
            mine[row] = 0.0f32;
        }
        if key < end {
            // Offset of the key's head; the value's head has the same offset among the values.
            let mut offset = key * width + (query_heads + kv) * dim;
            if comptime!(config.source != Source::Batch) {
                let last = sizes.n_cells - 1;
                let cell = list[key / PAGE - sizes.first_page] as usize * PAGE + key % PAGE;
                offset = (min(cell, last) * sizes.kv_heads + kv) * comptime!(config.head_size());
            }
            offsets[unit] = offset as u32;
            if comptime!(config.source == Source::Q8_0) {
                let words = comptime!(config.head_dim.div_ceil(4));
                for block in 0..comptime!(config.head_dim.div_ceil(BLOCK)) {
                    let scale = f32::reinterpret(keys[offset + words + block]);
                    for word in block * comptime!(BLOCK / 4)..min((block + 1) * comptime!(BLOCK / 4), words) {
                        let four = keys[offset + word];
                        #[unroll]
                        for i in 0..4usize {
                            let k = scale * signed_byte(four >> comptime!(8 * i as u32));
                            #[unroll]
                            for row in 0..rows {
                                mine[row] += queries[row * stride + 4 * word + i] * k;
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
                        let at = row * stride + 2 * pair;
                        mine[row] += queries[at] * low + queries[at + 1] * high;
                    }
                }
            } else {
                for i in 0..dim {
                    let k = element(keys, offset, i, config);
                    #[unroll]
                    for row in 0..rows {
                        mine[row] += queries[row * stride + i] * k;
                    }
                }
            }
        }
        #[unroll]
        for row in 0..rows {
            let seen = key as u32 >= first_seen[row] && key as u32 <= last_seen[row];
            scores[row * TILE + unit] = select(seen, mine[row], MASKED);
        }
        sync_cube();

        // Online softmax: each line of units reduces one row, first its running maximum,
        let row = unit / line;
        let lane = unit % line;
        let mut most = MASKED.runtime();
        #[unroll]
        for i in 0..rows {
            most = max(most, scores[row * TILE + i * line + lane]);
        }
        scratch[unit] = most;
        let mut half = comptime!(TILE / config.rows / 2).runtime();
        while half > 0 {
            sync_cube();
            if lane < half {
                scratch[unit] = max(scratch[unit], scratch[unit + half]);
            }
            half /= 2;
        }
        sync_cube();
        let previous = row_max[row];
        most = max(previous, scratch[row * line]);
        sync_cube();

        // then the sum of its exponentials.
        let mut part = 0.0f32;
        #[unroll]
        for i in 0..rows {
            let at = row * TILE + i * line + lane;
            let e = select(scores[at] > MASKED, bounded_exp(scores[at] - most), 0.0f32);
            scores[at] = e;
            part += e;
        }
        scratch[unit] = part;
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
            let less = bounded_exp(previous - most);
            rescale[row] = less;
            sum[row] = sum[row] * less + scratch[unit];
            row_max[row] = most;
        }
        sync_cube();

        // Values: each unit accumulates its elements.
        #[unroll]
        for i in 0..each {
            let offset = i * TILE + unit;
            if offset < dim {
                #[unroll]
                for row in 0..rows {
                    sums[row * each + i] *= rescale[row];
                }
                for j in 0..min(end - base, TILE) {
                    let mut head = offsets[j] as usize;
                    if comptime!(config.source == Source::Batch) {
                        head += sizes.kv_heads * dim;
                    }
                    let v = element(values, head, offset, config);
                    #[unroll]
                    for row in 0..rows {
                        sums[row * each + i] += scores[row * TILE + j] * v;
                    }
                }
            }
        }
        sync_cube();
    }

    #[unroll]
    for i in 0..each {
        let offset = i * TILE + unit;
        #[unroll]
        for row in 0..rows {
            let number = first_row + row;
            if offset < dim && number < all_rows {
                // Index among the query heads of the sequence's rows.
                let head = number / sizes.group * query_heads + kv * sizes.group + number % sizes.group;
                if comptime!(config.split) {
                    let part = split * sizes.tokens * query_heads + head;
                    out[part * dim + offset] = sums[row * each + i];
                    if offset == 0 {
                        parts[2 * part] = row_max[row];
                        parts[2 * part + 1] = sum[row];
                    }
                } else {
                    out[(sizes.before * query_heads + head) * dim + offset] = sums[row * each + i] / sum[row];
                }
            }
        }
    }
}

/// Merges the partial results of `splits` cubes for each of `heads` heads, and writes them behind
/// the first `before` heads.
#[cube(launch_unchecked)]
fn merge_splits(sums: &[f32], parts: &[f32], out: &mut [f32], before: usize, heads: usize, dim: usize, splits: usize) {
    if ABSOLUTE_POS >= heads * dim {
        terminate!();
    }
    let head = ABSOLUTE_POS / dim;
    let mut row_max = MASKED.runtime();
    for split in 0..splits {
        row_max = max(row_max, parts[2 * (split * heads + head)]);
    }
    let mut sum = 0.0f32;
    let mut value = 0.0f32;
    for split in 0..splits {
        let part = split * heads + head;
        let share = bounded_exp(parts[2 * part] - row_max);
        sum += share * parts[2 * part + 1];
        value += share * sums[part * dim + ABSOLUTE_POS % dim];
    }
    out[before * dim + ABSOLUTE_POS] = value / sum;
}

/// Consecutive rows of a batch that continue one sequence of a KV cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedRows<'a> {
    /// The number of rows, the last tokens of the sequence.
    pub rows: usize,
    /// Tokens of the sequence, the rows included.
    pub length: usize,
    /// The page of the sequence that `pages` begins with.
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
        .fold(0_usize, |sum, part| sum.saturating_add(part.rows));
    same("rows of a batch", rows, qkv.rows)?;
    let source = match format {
        KvFormat::F16 => Source::F16,
        KvFormat::Q8_0 => Source::Q8_0,
    };
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let mut before = 0;
    for part in sequences {
        let pages = pages(heads, n_cells, part)?;
        let lists = [
            argument(keys, "cached keys", words)?,
            argument(values, "cached values", words)?,
            argument(part.pages, "list of pages", pages)?,
        ];
        let rows = Rows {
            before,
            tokens: part.rows,
            length: part.length,
            first_page: part.first_page,
            n_cells,
        };
        run(client, qkv, heads, lists, source, rows, false, &out)?;
        before += part.rows;
    }
    Ok(out)
}

/// Checks that the rows of a sequence see no key before its first page; returns the number of its
/// pages.
fn pages(heads: &Heads, n_cells: usize, part: &CachedRows) -> Result<usize, GpuError> {
    if part.length < part.rows || n_cells == 0 {
        return Err(GpuError::Size {
            what: "number of cached tokens",
            found: part.length.min(n_cells),
            expected: part.rows.max(1),
        });
    }
    let first = (part.length - part.rows + 1).saturating_sub(heads.window.unwrap_or(usize::MAX));
    if part.rows > 0 && first / PAGE < part.first_page {
        return Err(GpuError::Size {
            what: "first page of a sequence",
            found: part.first_page,
            expected: first / PAGE,
        });
    }
    Ok(part.length.div_ceil(PAGE).saturating_sub(part.first_page))
}

/// Attention of a batch over itself: `[T, heads * head_dim]`. `starts` has the first key that each
/// token sees, one word per token, clamped to the token.
///
/// # Errors
/// Returns an error if the shapes do not match.
pub fn attend_batch(client: &Client, qkv: &Floats, heads: &Heads, starts: &Handle) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let starts = argument(starts, "list of first keys", qkv.rows)?;
    let (keys, values) = (matrix(qkv, "Q, K and V")?, matrix(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::of_batch(qkv.rows);
    run(
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
    let bounds = argument(bounds, "list of first and last keys", 2 * qkv.rows)?;
    let (keys, values) = (matrix(qkv, "Q, K and V")?, matrix(qkv, "Q, K and V")?);
    let out = Floats::empty(client, qkv.rows, heads.out_width());
    let rows = Rows::of_batch(qkv.rows);
    run(
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
    before: usize,
    tokens: usize,
    length: usize,
    first_page: usize,
    n_cells: usize,
}

impl Rows {
    /// A batch without a cache.
    fn of_batch(tokens: usize) -> Self {
        Self {
            before: 0,
            tokens,
            length: tokens,
            first_page: 0,
            n_cells: 0,
        }
    }
}

fn run(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    [keys, values, list]: [BufferArg; 3],
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
    let fitting = 1 << (MAX_QUERY_ELEMENTS / head_dim.next_multiple_of(4)).ilog2();
    let cube_rows = (tokens * group).next_power_of_two().min(ROWS).min(fitting);
    let alone = heads.kv_heads * (tokens * group).div_ceil(cube_rows);
    let seen = heads
        .window
        .map_or(length, |window| length.min(window.saturating_add(tokens)));
    let splits = (FULL_DEVICE_CUBES / alone)
        .min(seen.div_ceil(TILE * MIN_TILES_PER_CUBE))
        .max(1);
    let config = Config {
        source,
        head_dim,
        rows: cube_rows,
        split: splits > 1,
        both_ways,
    };
    let sizes = SizesLaunch::new(
        rows.before,
        tokens,
        heads.kv_heads,
        group,
        length - tokens,
        heads::window(heads),
        rows.n_cells,
        rows.first_page,
        splits,
    );
    let all_heads = tokens * heads.heads;
    let sums = if splits > 1 {
        Floats::empty(client, splits * all_heads, head_dim)
    } else {
        out.clone()
    };
    let parts = Floats::empty(client, if splits > 1 { splits * all_heads } else { 1 }, 2);
    let input = matrix(qkv, "Q, K and V")?;
    let count = cubes(client, alone * splits)?;
    let (dim, scale) = (CubeDim::new_1d(TILE as u32), heads.scale);
    let results = (
        matrix(&sums, "output of attention")?,
        matrix(&parts, "partial results of attention")?,
    );
    // SAFETY: the kernel stays in the rows of `qkv`, in cells below `n_cells` and in a list of all
    // pages that the rows see, all of which were checked; the results were allocated for it.
    unsafe {
        attend::launch_unchecked(
            client, count, dim, input, keys, values, list, results.0, results.1, sizes, scale, config,
        );
    }
    if splits > 1 {
        let (sums, parts) = (
            matrix(&sums, "output of attention")?,
            matrix(&parts, "partial results of attention")?,
        );
        let result = matrix(out, "output of attention")?;
        let count = cubes(client, (all_heads * head_dim).div_ceil(256))?;
        // SAFETY: the three buffers were allocated for the kernel.
        unsafe {
            merge_splits::launch_unchecked(
                client,
                count,
                CubeDim::new_1d(256),
                sums,
                parts,
                result,
                rows.before * heads.heads,
                all_heads,
                head_dim,
                splits,
            );
        }
    }
    Ok(())
}
