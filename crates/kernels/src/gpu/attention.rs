//! Attention of a batch over itself, or over the cells of a cache.
//!
//! A cube takes a few rows of queries (tokens, and within a token the heads that share a key head) and goes through the keys
//! that any of them sees, a tile at a time: each unit scores one key against all rows, the rows' softmax goes on from where the
//! last tile left it, and each unit sums its elements of the values. Every key and value is read once for all rows. Where there
//! are too few cubes to fill a device, several share the keys, and their parts are joined. <https://arxiv.org/abs/2205.14135>

use super::cache;
use super::exp::bounded_exp;
use super::f16::from_bits;
use super::launch::{argument, cubes, matrix};
use super::{Floats, GpuError, heads};
use crate::attention::{BLOCK, Heads, KvFormat, q8_0_gpu_words};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// Units of a cube, and keys of a tile.
const TILE: usize = 64;
/// Rows of queries that a cube takes at most.
const ROWS: usize = 16;
/// Elements of queries that a cube keeps in shared memory at most, 8 KiB.
const QUERIES: usize = 2048;
/// Cubes that fill a large device.
const ENOUGH: usize = 512;
/// Tiles of keys for which another cube is worth it.
const TILES_A_CUBE: usize = 4;
/// The score of a key that a row does not see.
const UNSEEN: f32 = -3.0e38;

/// Where the keys and values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// In the rows of the batch itself, f32.
    Batch,
    /// In the cells of a cache, two f16 to a word.
    Halves,
    /// In the cells of a cache, four numbers of 8 bits to a word, then their scales.
    Bytes,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    source: Source,
    head_dim: usize,
    /// Rows of queries a cube, a power of two.
    rows: usize,
    /// Whether several cubes share the keys.
    split: bool,
}

impl Plan {
    /// How far apart the heads of a cell begin: in elements, or in words where there are scales between them.
    fn head_size(&self) -> usize {
        match self.source {
            Source::Batch | Source::Halves => self.head_dim,
            Source::Bytes => q8_0_gpu_words(self.head_dim),
        }
    }

    /// How far apart rows of queries begin, filled up with zeros to whole words of keys.
    fn query_size(&self) -> usize {
        self.head_dim.next_multiple_of(4)
    }
}

/// Sizes that a kernel is told.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    /// Tokens of the batch.
    tokens: usize,
    kv_heads: usize,
    /// Query heads that share a key head.
    group: usize,
    /// Tokens before the batch.
    before: usize,
    window: usize,
    n_cells: usize,
    /// Cubes that share the keys.
    splits: usize,
}

/// The number in the lowest byte of a word.
#[cube]
fn multiple(word: u32) -> f32 {
    f32::cast_from(word & 0xffu32) - 128.0f32
}

/// Element `i` of the head that begins at `head` in `words`.
#[cube]
fn element(words: &[u32], head: usize, i: usize, #[comptime] plan: Plan) -> f32 {
    match plan.source {
        Source::Batch => f32::reinterpret(words[head + i]),
        Source::Halves => from_bits((words[(head + i) / 2] >> (16u32 * ((head + i) % 2) as u32)) & 0xffffu32),
        Source::Bytes => {
            let scale = f32::reinterpret(words[head + comptime!(plan.head_dim.div_ceil(4)) + i / BLOCK]);
            scale * multiple(words[head + i / 4] >> (8u32 * (i % 4) as u32))
        }
    }
}

#[cube(launch_unchecked)]
fn attend(
    qkv: &[f32],
    keys: &[u32],
    values: &[u32],
    // The first key that each token sees, or the cell of each token.
    list: &[u32],
    out: &mut [f32],
    // The greatest score and the sum of each part, where several cubes share the keys.
    parts: &mut [f32],
    sizes: Sizes,
    scale: f32,
    #[comptime] plan: Plan,
) {
    let dim = comptime!(plan.head_dim);
    let rows = comptime!(plan.rows);
    let each = comptime!(plan.head_dim.div_ceil(TILE));
    // Units that share a row when its scores are summed up.
    let line = comptime!(TILE / plan.rows);

    let all_rows = sizes.tokens * sizes.group;
    let down = all_rows.div_ceil(rows);
    if CUBE_POS >= sizes.kv_heads * down * sizes.splits {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let split = CUBE_POS % sizes.splits;
    let kv = CUBE_POS / sizes.splits / down;
    let first_row = CUBE_POS / sizes.splits % down * rows;
    let query_heads = sizes.kv_heads * sizes.group;
    let width = (query_heads + 2 * sizes.kv_heads) * dim;

    let stride = comptime!(plan.query_size());
    let mut queries = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.query_size()));
    let mut scores = Shared::<[f32]>::new_slice(comptime!(plan.rows * TILE));
    let mut scratch = Shared::<[f32]>::new_slice(TILE);
    let mut places = Shared::<[u32]>::new_slice(TILE);
    let mut greatest = Shared::<[f32]>::new_slice(rows);
    let mut sum = Shared::<[f32]>::new_slice(rows);
    let mut shrink = Shared::<[f32]>::new_slice(rows);
    let mut first_seen = Shared::<[u32]>::new_slice(rows);
    let mut last_seen = Shared::<[u32]>::new_slice(rows);
    let mut bounds = Shared::<[u32]>::new_slice(2usize);

    // The queries, and which keys each row sees; rows that are not there see none.
    for step in 0..comptime!((plan.rows * plan.query_size()).div_ceil(TILE)) {
        let i = step * TILE + unit;
        if i < comptime!(plan.rows * plan.query_size()) {
            let row = first_row + i / stride;
            let mut value = 0.0f32;
            if row < all_rows && i % stride < dim {
                let head = kv * sizes.group + row % sizes.group;
                value = scale * qkv[row / sizes.group * width + head * dim + i % stride];
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
            let number = sizes.before + token;
            let mut start = 0usize;
            if number >= sizes.window {
                start = number + 1 - sizes.window;
            }
            if comptime!(plan.source == Source::Batch) {
                start = max(start, min(list[token] as usize, number));
            }
            first = start as u32;
            last = number as u32;
        }
        first_seen[unit] = first;
        last_seen[unit] = last;
        greatest[unit] = UNSEEN;
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

    let mut sums = Array::<f32>::new(comptime!(plan.rows * plan.head_dim.div_ceil(TILE)));
    #[unroll]
    for i in 0..comptime!(plan.rows * plan.head_dim.div_ceil(TILE)) {
        sums[i] = 0.0f32;
    }

    let tiles = (end - begin).div_ceil(TILE);
    let tiles_each = tiles.div_ceil(sizes.splits);
    for tile in split * tiles_each..min((split + 1) * tiles_each, tiles) {
        let base = begin + tile * TILE;
        let key = base + unit;

        // Each unit scores its key.
        let mut mine = Array::<f32>::new(rows);
        #[unroll]
        for row in 0..rows {
            mine[row] = 0.0f32;
        }
        if key < end {
            // Where the key's head begins, and in the same place among the values its value.
            let mut place = key * width + (query_heads + kv) * dim;
            if comptime!(plan.source != Source::Batch) {
                let last = sizes.n_cells - 1;
                place = (min(list[key] as usize, last) * sizes.kv_heads + kv) * comptime!(plan.head_size());
            }
            places[unit] = place as u32;
            if comptime!(plan.source == Source::Bytes) {
                let words = comptime!(plan.head_dim.div_ceil(4));
                for block in 0..comptime!(plan.head_dim.div_ceil(BLOCK)) {
                    let scale = f32::reinterpret(keys[place + words + block]);
                    for word in block * comptime!(BLOCK / 4)..min((block + 1) * comptime!(BLOCK / 4), words) {
                        let four = keys[place + word];
                        #[unroll]
                        for i in 0..4usize {
                            let k = scale * multiple(four >> comptime!(8 * i as u32));
                            #[unroll]
                            for row in 0..rows {
                                mine[row] += queries[row * stride + 4 * word + i] * k;
                            }
                        }
                    }
                }
            } else if comptime!(plan.source == Source::Halves) {
                for pair in 0..comptime!(plan.head_dim / 2) {
                    let word = keys[place / 2 + pair];
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
                    let k = element(keys, place, i, plan);
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
            scores[row * TILE + unit] = select(seen, mine[row], UNSEEN);
        }
        sync_cube();

        // Each line of units takes a row: its greatest score so far,
        let row = unit / line;
        let lane = unit % line;
        let mut most = UNSEEN.runtime();
        #[unroll]
        for i in 0..rows {
            most = max(most, scores[row * TILE + i * line + lane]);
        }
        scratch[unit] = most;
        let mut half = comptime!(TILE / plan.rows / 2).runtime();
        while half > 0 {
            sync_cube();
            if lane < half {
                scratch[unit] = max(scratch[unit], scratch[unit + half]);
            }
            half /= 2;
        }
        sync_cube();
        let before = greatest[row];
        most = max(before, scratch[row * line]);
        sync_cube();

        // and the sum of its exponentials.
        let mut part = 0.0f32;
        #[unroll]
        for i in 0..rows {
            let at = row * TILE + i * line + lane;
            let e = select(scores[at] > UNSEEN, bounded_exp(scores[at] - most), 0.0f32);
            scores[at] = e;
            part += e;
        }
        scratch[unit] = part;
        let mut half = comptime!(TILE / plan.rows / 2).runtime();
        while half > 0 {
            sync_cube();
            if lane < half {
                scratch[unit] += scratch[unit + half];
            }
            half /= 2;
        }
        if lane == 0 {
            // What was summed before had another exponent.
            let less = bounded_exp(before - most);
            shrink[row] = less;
            sum[row] = sum[row] * less + scratch[unit];
            greatest[row] = most;
        }
        sync_cube();

        // Each unit sums its elements of the values.
        #[unroll]
        for i in 0..each {
            let place = i * TILE + unit;
            if place < dim {
                #[unroll]
                for row in 0..rows {
                    sums[row * each + i] *= shrink[row];
                }
                for j in 0..min(end - base, TILE) {
                    let mut head = places[j] as usize;
                    if comptime!(plan.source == Source::Batch) {
                        head += sizes.kv_heads * dim;
                    }
                    let v = element(values, head, place, plan);
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
        let place = i * TILE + unit;
        #[unroll]
        for row in 0..rows {
            let number = first_row + row;
            if place < dim && number < all_rows {
                // Among the query heads of all tokens.
                let head = number / sizes.group * query_heads + kv * sizes.group + number % sizes.group;
                if comptime!(plan.split) {
                    let part = split * sizes.tokens * query_heads + head;
                    out[part * dim + place] = sums[row * each + i];
                    if place == 0 {
                        parts[2 * part] = greatest[row];
                        parts[2 * part + 1] = sum[row];
                    }
                } else {
                    out[head * dim + place] = sums[row * each + i] / sum[row];
                }
            }
        }
    }
}

/// Joins what `splits` cubes made of the keys of each of `heads` heads.
#[cube(launch_unchecked)]
fn join(sums: &[f32], parts: &[f32], out: &mut [f32], heads: usize, dim: usize, splits: usize) {
    if ABSOLUTE_POS >= heads * dim {
        terminate!();
    }
    let head = ABSOLUTE_POS / dim;
    let mut greatest = UNSEEN.runtime();
    for split in 0..splits {
        greatest = max(greatest, parts[2 * (split * heads + head)]);
    }
    let mut sum = 0.0f32;
    let mut value = 0.0f32;
    for split in 0..splits {
        let part = split * heads + head;
        let share = bounded_exp(parts[2 * part] - greatest);
        sum += share * parts[2 * part + 1];
        value += share * sums[part * dim + ABSOLUTE_POS % dim];
    }
    out[ABSOLUTE_POS] = value / sum;
}

/// Attention over the cells of a cache: `[T, heads * head_dim]`.
///
/// `qkv` has the prepared rows of the batch, whose keys and values are in their cells already (see
/// [`kv_write`](super::kv_write)); `cells` has the cell of each token of the sequence, `length` words, those of the batch last.
/// A cell that is too large is taken for the last.
///
/// # Errors
/// Where the shapes do not fit, or the width of a head is odd in f16.
pub fn attend_cells(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    keys: &Handle,
    values: &Handle,
    n_cells: usize,
    cells: &Handle,
    length: usize,
    format: KvFormat,
) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let words = cache::words(heads, n_cells, format)?;
    if length < qkv.rows || n_cells == 0 {
        return Err(GpuError::Size {
            what: "number of cached tokens",
            found: length.min(n_cells),
            expected: qkv.rows.max(1),
        });
    }
    let keys = argument(keys, "cached keys", words)?;
    let values = argument(values, "cached values", words)?;
    let cells = argument(cells, "list of cells", length)?;
    let source = match format {
        KvFormat::F16 => Source::Halves,
        KvFormat::Q8_0 => Source::Bytes,
    };
    run(client, qkv, heads, [keys, values, cells], source, length, n_cells)
}

/// Attention of a batch over itself: `[T, heads * head_dim]`. `starts` has the first key that each token sees, a word each; one
/// beyond the token is taken for the token.
///
/// # Errors
/// Where the shapes do not fit.
pub fn attend_batch(client: &Client, qkv: &Floats, heads: &Heads, starts: &Handle) -> Result<Floats, GpuError> {
    heads::check(heads, qkv)?;
    let starts = argument(starts, "list of first keys", qkv.rows)?;
    let (keys, values) = (matrix(qkv, "Q, K and V")?, matrix(qkv, "Q, K and V")?);
    run(client, qkv, heads, [keys, values, starts], Source::Batch, qkv.rows, 0)
}

fn run(
    client: &Client,
    qkv: &Floats,
    heads: &Heads,
    [keys, values, list]: [BufferArg; 3],
    source: Source,
    length: usize,
    n_cells: usize,
) -> Result<Floats, GpuError> {
    let (tokens, head_dim, group) = (qkv.rows, heads.head_dim, heads.heads / heads.kv_heads);
    if head_dim > QUERIES {
        return Err(GpuError::Size {
            what: "width of a head",
            found: head_dim,
            expected: QUERIES,
        });
    }
    let out = Floats::empty(client, tokens, heads.out_width());
    if tokens * group == 0 {
        return Ok(out);
    }
    let fitting = 1 << (QUERIES / head_dim.next_multiple_of(4)).ilog2();
    let rows = (tokens * group).next_power_of_two().min(ROWS).min(fitting);
    let alone = heads.kv_heads * (tokens * group).div_ceil(rows);
    let seen = heads
        .window
        .map_or(length, |window| length.min(window.saturating_add(tokens)));
    let splits = (ENOUGH / alone).min(seen.div_ceil(TILE * TILES_A_CUBE)).max(1);
    let plan = Plan {
        source,
        head_dim,
        rows,
        split: splits > 1,
    };
    let sizes = SizesLaunch::new(
        tokens,
        heads.kv_heads,
        group,
        length - tokens,
        heads::window(heads),
        n_cells,
        splits,
    );
    let all_heads = tokens * heads.heads;
    let sums = match splits > 1 {
        true => Floats::empty(client, splits * all_heads, head_dim),
        false => out.clone(),
    };
    let parts = Floats::empty(client, if splits > 1 { splits * all_heads } else { 1 }, 2);
    let input = matrix(qkv, "Q, K and V")?;
    let count = cubes(client, alone * splits)?;
    let (dim, scale) = (CubeDim::new_1d(TILE as u32), heads.scale);
    let results = (
        matrix(&sums, "output of attention")?,
        matrix(&parts, "parts of attention")?,
    );
    // SAFETY: the kernel stays in the rows of `qkv`, in cells below `n_cells` and in a list as long as the keys, all of which
    // were measured; the results were made for it.
    unsafe {
        attend::launch_unchecked(
            client, count, dim, input, keys, values, list, results.0, results.1, sizes, scale, plan,
        );
    }
    if splits > 1 {
        let (sums, parts) = (
            matrix(&sums, "output of attention")?,
            matrix(&parts, "parts of attention")?,
        );
        let result = matrix(&out, "output of attention")?;
        let count = cubes(client, (all_heads * head_dim).div_ceil(256))?;
        // SAFETY: the three were made for the kernel.
        unsafe {
            join::launch_unchecked(
                client,
                count,
                CubeDim::new_1d(256),
                sums,
                parts,
                result,
                all_heads,
                head_dim,
                splits,
            );
        }
    }
    Ok(out)
}
