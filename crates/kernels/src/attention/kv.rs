//! The KV cache in tiles of sixteen cells.

use super::block::Scores;
use super::heads::Heads;
use super::spans::{PAGE, Span};
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
use crate::shape::{self, ShapeError};
use crate::team;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::f16;
use std::ops::Range;

/// Elements of a head that share a scale, in formats with scales; the last block of a head may be
/// shorter.
pub(crate) const BLOCK: usize = 32;
/// Minimum tokens whose cells are written by several threads: fewer take less than a dispatch.
const MIN_SHARED_TOKENS: usize = 16;
/// Maximum stored multiple of a scale.
pub(super) const I8_MAX: f32 = 127.0;

/// Element of a stored key or value: in the KV cache, the bits of an f16 or an integer multiple of
/// a scale; in training, an f32.
pub(super) trait KvElement: Copy + Default + Send + Sync {
    /// `true` if elements are multiples of a scale.
    const SCALED: bool = false;
    /// Number of neighboring summands that are stored contiguously: elements of a key, or the same
    /// element of the values of neighboring cells.
    const INTERLEAVE: usize = 1;
    /// Query rows, converted for [`KvElement::scores`].
    type Queries: Sync;

    /// Stores sixteen elements, rounded to nearest.
    fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [Self; WIDTH]);
    /// Converts rows of width `dim`, times `scale`, for a block of `block` rows.
    fn queries<'a>(
        isa: Isa,
        rows: impl Iterator<Item = &'a [f32]>,
        dim: usize,
        block: usize,
        scale: f32,
    ) -> Self::Queries;
    /// Computes `scores[r][lane]` for every lane of the span's tiles: a block of queries times the
    /// keys of a head.
    fn scores(
        isa: Isa,
        store: &KvStore<Self>,
        head: usize,
        span: &Span,
        queries: &Self::Queries,
        block: usize,
        scores: &mut Scores,
    );
    /// Adds the values of a head weighted by `weights[r]` to `sums[r]`, rows of
    /// [`KvStore::value_width`], over every lane of the span's tiles. Weights must not be negative.
    fn accumulate_values(
        isa: Isa,
        store: &KvStore<Self>,
        head: usize,
        span: &Span,
        weights: &Scores,
        block: usize,
        sums: &mut [f32],
    );
}

/// Storage format of the KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 16-bit floats.
    #[default]
    F16,
    /// 8-bit multiples of an f16 scale, which up to 32 neighboring elements of a head share. The
    /// largest magnitude is 127 times the scale.
    Q8_0,
}

impl KvFormat {
    /// 32-bit words that the keys of `cells` cells take on a GPU; their values take the same.
    pub fn gpu_words(self, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        let words = match self {
            Self::F16 => (kv_heads * head_dim).div_ceil(2),
            Self::Q8_0 => kv_heads * q8_0_gpu_words(head_dim),
        };
        cells.saturating_mul(words)
    }
}

/// Words of a head in 8 bits on a GPU: its elements, then one scale per block.
pub(crate) fn q8_0_gpu_words(head_dim: usize) -> usize {
    head_dim.div_ceil(4) + head_dim.div_ceil(BLOCK)
}

/// The KV cache of one layer, addressed by cell.
#[derive(Clone, Debug)]
pub struct KvLayer(pub(super) Stored);

/// The store in each format.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    F16(KvStore<u16>),
    Q8_0(KvStore<i8>),
}

/// Runs a body with the store of a layer, whatever its format.
macro_rules! with_store {
    ($layer:expr, $store:ident => $body:expr) => {
        match $layer {
            $crate::attention::kv::Stored::F16($store) => $body,
            $crate::attention::kv::Stored::Q8_0($store) => $body,
        }
    };
}
pub(super) use with_store;

impl KvLayer {
    /// Creates `cells` zeroed cells of `kv_heads` heads of width `head_dim`. The operating system
    /// commits the memory on first use.
    pub fn new(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self(match format {
            KvFormat::F16 => Stored::F16(KvStore::new(cells, kv_heads, head_dim)),
            KvFormat::Q8_0 => Stored::Q8_0(KvStore::new(cells, kv_heads, head_dim)),
        })
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        with_store!(&self.0, store => store.cells)
    }

    /// Size in bytes of a layer of this shape.
    pub fn bytes_for(format: KvFormat, cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        match format {
            KvFormat::F16 => Lengths::new::<u16>(cells, kv_heads, head_dim).bytes::<u16>(),
            KvFormat::Q8_0 => Lengths::new::<i8>(cells, kv_heads, head_dim).bytes::<i8>(),
        }
    }

    /// Cells of a tile, the unit of [`KvLayer::tiles`].
    pub const TILE: usize = WIDTH;
    /// Version of the memory layout; incremented with each change, so that saved bytes of an older
    /// layout are not misread.
    pub const LAYOUT: u32 = 3;

    /// The stored bytes of these tiles, and of no other cell, as contiguous slices: keys, values,
    /// key scales, value scales, each head by head.
    ///
    /// # Errors
    /// Returns an error if the tiles are out of range.
    pub fn tiles(&self, tiles: Range<usize>) -> Result<Vec<&[u8]>, ShapeError> {
        with_store!(&self.0, store => store.tiles(tiles))
    }

    /// [`KvLayer::tiles`], mutable. Any bytes are valid elements.
    ///
    /// # Errors
    /// As [`KvLayer::tiles`].
    pub fn tiles_mut(&mut self, tiles: Range<usize>) -> Result<Vec<&mut [u8]>, ShapeError> {
        with_store!(&mut self.0, store => store.tiles_mut(tiles))
    }

    /// Copies the cells of page `from` to page `to`, each of [`PAGE`] cells.
    ///
    /// # Errors
    /// Returns an error if a page does not exist.
    pub fn copy_page(&mut self, from: u32, to: u32) -> Result<(), ShapeError> {
        with_store!(&mut self.0, store => store.copy_page(from, to))
    }

    /// Writes the keys and values of rows of Q, K and V, one row per cell.
    ///
    /// # Errors
    /// Returns an error if the shape differs from the layer's or a cell does not exist.
    pub fn write(&mut self, heads: &Heads, cells: &[u32], qkv: &[f32]) -> Result<(), ShapeError> {
        with_store!(&mut self.0, store => store.write(heads, cells, qkv))
    }
}

/// Number of elements and scales of a store.
struct Lengths {
    keys: usize,
    values: usize,
    /// Scales of the keys; the values have the same number.
    scales: usize,
}

impl Lengths {
    /// The lengths for this shape.
    fn new<E: KvElement>(cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        // Saturates, because sizes from a file are estimated before they are allocated.
        let heads = cells.div_ceil(WIDTH).saturating_mul(WIDTH).saturating_mul(kv_heads);
        Self {
            keys: heads.saturating_mul(key_width::<E>(head_dim)),
            values: heads.saturating_mul(head_dim.next_multiple_of(WIDTH)),
            scales: heads.saturating_mul(scale_blocks::<E>(head_dim)),
        }
    }

    /// Bytes of all elements and scales.
    fn bytes<E>(&self) -> usize {
        let elements = self.keys.saturating_add(self.values).saturating_mul(size_of::<E>());
        elements.saturating_add(self.scales.saturating_mul(2 * size_of::<u16>()))
    }
}

/// Width of a key, zero-padded to a multiple of [`KvElement::INTERLEAVE`].
fn key_width<E: KvElement>(head_dim: usize) -> usize {
    head_dim.next_multiple_of(E::INTERLEAVE)
}

/// Number of blocks of a head that have a scale; 0 in formats without scales.
fn scale_blocks<E: KvElement>(head_dim: usize) -> usize {
    if E::SCALED { head_dim.div_ceil(BLOCK) } else { 0 }
}

/// Keys and values of one layer, by cell.
///
/// Sixteen cells form a tile. In a tile, the keys of a head are `[head_dim][16]`, so that a vector
/// holds one element of sixteen keys, and its values are `[16][head_dim]`, with `head_dim`
/// zero-padded to whole vectors. Bytes are stored in pairs, keys as `[head_dim / 2][16][2]` and
/// values as `[8][head_dim][2]`: neighboring summands, multiplied and added by one instruction. All
/// tiles of a head are contiguous, and so are the heads, so that attention reads long streams.
/// Scales of keys and of values are f16, `[blocks][16]`: one vector has the scales of sixteen
/// cells. Increment [`KvLayer::LAYOUT`] when this layout changes.
#[derive(Clone, Debug)]
pub(super) struct KvStore<E> {
    keys: Vec<E>,
    values: Vec<E>,
    key_scales: Vec<u16>,
    value_scales: Vec<u16>,
    cells: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl<E: KvElement> KvStore<E> {
    /// Creates zeroed cells.
    pub fn new(cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        let lengths = Lengths::new::<E>(cells, kv_heads, head_dim);
        Self {
            keys: vec![E::default(); lengths.keys],
            values: vec![E::default(); lengths.values],
            key_scales: vec![0; lengths.scales],
            value_scales: vec![0; lengths.scales],
            cells,
            kv_heads,
            head_dim,
        }
    }

    /// Lengths of one head: of all its tiles, of the tiles before the start of the range, and of
    /// those before its end.
    fn lengths(&self, tiles: Range<usize>) -> Result<[Lengths; 3], ShapeError> {
        match self.tile_count() {
            count if tiles.start > tiles.end || tiles.end > count => Err(ShapeError::Index {
                what: "the last tile",
                index: tiles.end,
                count,
            }),
            count => {
                Ok([count, tiles.start, tiles.end].map(|tiles| Lengths::new::<E>(tiles * WIDTH, 1, self.head_dim)))
            }
        }
    }

    /// See [`KvLayer::tiles`].
    fn tiles(&self, tiles: Range<usize>) -> Result<Vec<&[u8]>, ShapeError>
    where
        E: Pod,
    {
        fn per_head<T: Pod>(elements: &[T], head_len: usize, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
            elements
                .chunks_exact(head_len.max(1))
                .map(move |head| cast_slice(&head[range.clone()]))
        }
        let [head, start, end] = self.lengths(tiles)?;
        let keys = per_head(&self.keys, head.keys, start.keys..end.keys);
        let elements = keys.chain(per_head(&self.values, head.values, start.values..end.values));
        let scales = [&self.key_scales, &self.value_scales];
        let scales = scales
            .into_iter()
            .flat_map(|scales| per_head(scales, head.scales, start.scales..end.scales));
        Ok(elements.chain(scales).collect())
    }

    /// See [`KvLayer::tiles_mut`].
    fn tiles_mut(&mut self, tiles: Range<usize>) -> Result<Vec<&mut [u8]>, ShapeError>
    where
        E: Pod,
    {
        fn per_head<T: Pod>(
            elements: &mut [T],
            head_len: usize,
            range: Range<usize>,
        ) -> impl Iterator<Item = &mut [u8]> {
            elements
                .chunks_exact_mut(head_len.max(1))
                .map(move |head| cast_slice_mut(&mut head[range.clone()]))
        }
        let [head, start, end] = self.lengths(tiles)?;
        let keys = per_head(&mut self.keys, head.keys, start.keys..end.keys);
        let elements = keys.chain(per_head(&mut self.values, head.values, start.values..end.values));
        let scales = [&mut self.key_scales, &mut self.value_scales];
        let scales = scales
            .into_iter()
            .flat_map(|scales| per_head(scales, head.scales, start.scales..end.scales));
        Ok(elements.chain(scales).collect())
    }

    /// See [`KvLayer::copy_page`].
    fn copy_page(&mut self, from: u32, to: u32) -> Result<(), ShapeError> {
        fn per_head<T: Copy>(elements: &mut [T], head_len: usize, from: Range<usize>, to: usize) {
            for head in elements.chunks_exact_mut(head_len.max(1)) {
                head.copy_within(from.clone(), to);
            }
        }
        let tiles = |page: u32| {
            let first = page as usize * (PAGE / WIDTH);
            first..first + PAGE / WIDTH
        };
        let [head, start, end] = self.lengths(tiles(from))?;
        let [_, to, _] = self.lengths(tiles(to))?;
        per_head(&mut self.keys, head.keys, start.keys..end.keys, to.keys);
        per_head(&mut self.values, head.values, start.values..end.values, to.values);
        for scales in [&mut self.key_scales, &mut self.value_scales] {
            per_head(scales, head.scales, start.scales..end.scales, to.scales);
        }
        Ok(())
    }

    /// Number of tiles of a head.
    fn tile_count(&self) -> usize {
        self.cells.div_ceil(WIDTH)
    }

    /// Index of a head's tile among all tiles.
    #[inline(always)]
    fn tile_index(&self, tile: usize, head: usize) -> usize {
        head * self.tile_count() + tile
    }

    /// Width of a value, padded to whole vectors.
    pub(super) fn value_width(&self) -> usize {
        self.head_dim.next_multiple_of(WIDTH)
    }

    /// The keys of a head in a tile, `[head_dim / INTERLEAVE][16][INTERLEAVE]`.
    #[inline(always)]
    pub(super) fn keys(&self, tile: usize, head: usize) -> &[E] {
        let size = key_width::<E>(self.head_dim) * WIDTH;
        &self.keys[self.tile_index(tile, head) * size..][..size]
    }

    /// The values of a head in a tile, `[16 / INTERLEAVE][value_width][INTERLEAVE]`.
    #[inline(always)]
    pub(super) fn values(&self, tile: usize, head: usize) -> &[E] {
        let size = self.value_width() * WIDTH;
        &self.values[self.tile_index(tile, head) * size..][..size]
    }

    /// Scales of a head's keys in a tile, one vector per block.
    #[inline(always)]
    pub(super) fn key_scales(&self, tile: usize, head: usize) -> &[[u16; WIDTH]] {
        let blocks = scale_blocks::<E>(self.head_dim);
        &self.key_scales.as_chunks().0[self.tile_index(tile, head) * blocks..][..blocks]
    }

    /// Scales of a head's values in a tile, one vector per block.
    #[inline(always)]
    pub(super) fn value_scales(&self, tile: usize, head: usize) -> &[[u16; WIDTH]] {
        let blocks = scale_blocks::<E>(self.head_dim);
        &self.value_scales.as_chunks().0[self.tile_index(tile, head) * blocks..][..blocks]
    }

    /// Checks that the store has this shape.
    pub(super) fn check(&self, heads: &Heads) -> Result<(), ShapeError> {
        shape::length("a head in the cache", self.head_dim, Some(heads.head_dim))?;
        shape::length("a row of heads in the cache", self.kv_heads, Some(heads.kv_heads))
    }

    /// See [`KvLayer::write`].
    fn write(&mut self, heads: &Heads, cells: &[u32], qkv: &[f32]) -> Result<(), ShapeError> {
        let tokens = heads.tokens(qkv)?;
        self.check(heads)?;
        shape::length("the cells to write", cells.len(), Some(tokens))?;
        if let Some(cell) = cells.iter().find(|cell| **cell as usize >= self.cells) {
            return Err(ShapeError::Index {
                what: "a cell",
                index: *cell as usize,
                count: self.cells,
            });
        }
        let (isa, dim, width, tiles) = (Isa::best(), self.head_dim, heads.qkv_width(), self.tile_count());
        let lengths = Lengths::new::<E>(tiles * WIDTH, 1, dim);
        let (keys, values) = (
            team::Scattered::new(&mut self.keys),
            team::Scattered::new(&mut self.values),
        );
        let scales = [&mut self.key_scales, &mut self.value_scales].map(|scales| team::Scattered::new(scales));
        // Values of masked cells are multiplied by 0, and 0 times NaN is NaN. So a cell with a NaN
        // in its key or value is stored with a NaN key and a zero value: only rows that see the
        // cell become NaN. Batches without a cache are not protected: they occur in training, where
        // a NaN ends the run.
        let (nans, zeros) = (vec![f32::NAN; dim], vec![0.0; dim]);
        // The keys of a head are a region (part 0), and so are its values (part 1). A work chunk
        // writes one region.
        let write_region = |work_chunk: usize| {
            let (head, part) = (work_chunk / 2, work_chunk % 2);
            // SAFETY: each region belongs to one work chunk.
            let scales = unsafe { scales[part].slice(head * lengths.scales, lengths.scales) };
            let rows = qkv.chunks_exact(width).map(|row| {
                let [key, value] =
                    [heads.keys_offset(), heads.values_offset()].map(|at| &row[at + head * dim..][..dim]);
                let has_nan = [key, value]
                    .iter()
                    .any(|row| row.iter().fold(false, |has_nan, x| has_nan | x.is_nan()));
                if has_nan { (&nans[..], &zeros[..]) } else { (key, value) }
            });
            let rows = rows.zip(cells.iter().map(|cell| *cell as usize));
            if part == 0 {
                // SAFETY: as above.
                let keys = unsafe { keys.slice(head * lengths.keys, lengths.keys) };
                rows.for_each(|((key, _), cell)| write_key::<E>(isa, key, cell, keys, scales));
            } else {
                // SAFETY: as above.
                let values = unsafe { values.slice(head * lengths.values, lengths.values) };
                rows.for_each(|((_, value), cell)| write_value::<E>(isa, value, cell, values, scales));
            }
        };
        if tokens < MIN_SHARED_TOKENS {
            (0..2 * self.kv_heads).for_each(write_region)
        } else {
            team::run(2 * self.kv_heads, &write_region)
        }
        Ok(())
    }
}

/// Writes the key of a cell to the keys and scales of its head.
fn write_key<E: KvElement>(isa: Isa, key: &[f32], cell: usize, keys: &mut [E], scales: &mut [u16]) {
    let (tile, lane, size) = (cell / WIDTH, cell % WIDTH, key_width::<E>(key.len()) * WIDTH);
    let tile_scales = scale_blocks::<E>(key.len()) * WIDTH;
    let scales = &mut scales[tile * tile_scales..][..tile_scales];
    let columns = keys[tile * size..][..size].chunks_mut(BLOCK * WIDTH);
    for (block, (key, columns)) in key.chunks(BLOCK).zip(columns).enumerate() {
        let mut stored = [E::default(); BLOCK];
        let scale = store_block::<E>(isa, key, &mut stored);
        let groups = columns.chunks_exact_mut(E::INTERLEAVE * WIDTH);
        for (elements, group) in stored.chunks_exact(E::INTERLEAVE).zip(groups) {
            group[lane * E::INTERLEAVE..][..E::INTERLEAVE].copy_from_slice(elements);
        }
        if E::SCALED {
            scales[block * WIDTH + lane] = scale;
        }
    }
}

/// Writes the value of a cell to the values and scales of its head.
fn write_value<E: KvElement>(isa: Isa, value: &[f32], cell: usize, values: &mut [E], scales: &mut [u16]) {
    let (tile, lane, width) = (cell / WIDTH, cell % WIDTH, value.len().next_multiple_of(WIDTH));
    let tile_scales = scale_blocks::<E>(value.len()) * WIDTH;
    let scales = &mut scales[tile * tile_scales..][..tile_scales];
    let rows = &mut values[tile * WIDTH * width..][..WIDTH * width];
    if lane == 0 {
        // Clears the tile: lanes that are not written yet are multiplied by 0, and they may contain
        // a NaN of the page's previous owner.
        rows.fill(E::default());
        scales.fill(0);
    }
    let rows = &mut rows[lane / E::INTERLEAVE * E::INTERLEAVE * width..][..E::INTERLEAVE * width];
    let row_blocks = rows.chunks_mut(E::INTERLEAVE * BLOCK);
    for (block, (value, rows)) in value.chunks(BLOCK).zip(row_blocks).enumerate() {
        let mut stored = [E::default(); BLOCK];
        let scale = store_block::<E>(isa, value, &mut stored);
        let row = rows.iter_mut().skip(lane % E::INTERLEAVE).step_by(E::INTERLEAVE);
        row.zip(stored).for_each(|(out, element)| *out = element);
        if E::SCALED {
            scales[block * WIDTH + lane] = scale;
        }
    }
}

impl KvStore<f32> {
    /// Keys and values of a batch; `offsets` are the offsets of both in a row of Q, K and V.
    pub(super) fn from_batch(heads: &Heads, qkv: &[f32], offsets: [usize; 2]) -> Self {
        let (width, dim) = (heads.qkv_width(), heads.head_dim);
        let tokens = qkv.len() / width;
        let mut store = Self::new(tokens, heads.kv_heads, dim);
        let (value_width, tiles) = (store.value_width(), store.tile_count());
        let values = team::Scattered::new(&mut store.values);
        team::run_over(&mut store.keys, dim * WIDTH, &|tile_index, keys| {
            let (head, tile) = (tile_index / tiles, tile_index % tiles);
            // SAFETY: each tile belongs to one work chunk.
            let values = unsafe { values.slice(tile_index * value_width * WIDTH, value_width * WIDTH) };
            let rows = qkv[tile * WIDTH * width..].chunks_exact(width).take(WIDTH);
            for (lane, (row, value)) in rows.zip(values.chunks_exact_mut(value_width)).enumerate() {
                let [row_keys, row_values] = offsets.map(|at| &row[at + head * dim..][..dim]);
                value[..dim].copy_from_slice(row_values);
                for (key, column) in row_keys.iter().zip(keys.chunks_exact_mut(WIDTH)) {
                    column[lane] = *key;
                }
            }
        });
        store
    }
}

/// Up to sixteen floats, zero-padded.
#[inline(always)]
fn padded(x: &[f32]) -> [f32; WIDTH] {
    let mut padded = [0.0; WIDTH];
    padded[..x.len()].copy_from_slice(x);
    padded
}

on_lanes! {
    /// Stores a block, zero-padded to whole vectors, and returns the bits of its scale, 0 in
    /// formats without scales. Either all elements are NaN or none is.
    fn store_block<L>[E: KvElement][E](l; x: &[f32], out: &mut [E]) -> u16 {
        let (mut factor, mut scale) = (1.0, f16::ZERO);
        if E::SCALED {
            let mut max = l.splat(0.0);
            for x in x.chunks(WIDTH) {
                let x = l.load(&padded(x));
                max = l.max(max, l.max(x, l.sub(l.splat(0.0), x)));
            }
            // Avoids infinity; see `tiles::clamp_to_f16`.
            scale = match l.reduce_max(max) / I8_MAX {
                _ if x[0].is_nan() => f16::NAN,
                large if large > f16::MAX.to_f32() => f16::MAX,
                scale => f16::from_f32(scale),
            };
            factor = if scale == f16::ZERO { 0.0 } else { 1.0 / scale.to_f32() };
        }
        for (x, out) in x.chunks(WIDTH).zip(out.as_chunks_mut().0) {
            E::store(l, l.mul(l.load(&padded(x)), l.splat(factor)), out);
        }
        scale.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_is_the_size_of_a_layer() {
        for (cells, kv_heads, head_dim) in [(0, 1, 8), (1, 1, 6), (17, 3, 80), (64, 2, 128)] {
            for format in [KvFormat::F16, KvFormat::Q8_0] {
                let layer = KvLayer::new(format, cells, kv_heads, head_dim);
                let bytes = with_store!(&layer.0, store => {
                    let scales = [&store.key_scales, &store.value_scales].map(|scales| size_of_val(&scales[..]));
                    let elements = [&store.keys, &store.values].map(|elements| size_of_val(&elements[..]));
                    scales.iter().chain(&elements).sum::<usize>()
                });
                assert_eq!(KvLayer::bytes_for(format, cells, kv_heads, head_dim), bytes);
            }
        }
    }
}
