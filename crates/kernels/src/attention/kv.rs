//! Keys and values in tiles of sixteen cells.

use super::heads::Heads;
use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes};
use crate::shape::{self, ShapeError};

/// How a key or a value is stored: as the bits of an f16 in a cache, as f32 where gradients are taken.
pub(super) trait KvElement: Copy + Default + Send + Sync {
    /// Sixteen numbers.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats;
    /// Stores the nearest sixteen numbers.
    fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [Self; WIDTH]);
}

impl KvElement for u16 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[u16; WIDTH]) -> L::Floats {
        l.load_half(x)
    }

    #[inline(always)]
    fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [u16; WIDTH]) {
        l.store_half(x, out);
    }
}

impl KvElement for f32 {
    #[inline(always)]
    fn load<L: Lanes>(l: L, x: &[f32; WIDTH]) -> L::Floats {
        l.load(x)
    }

    #[inline(always)]
    fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [f32; WIDTH]) {
        l.store(x, out);
    }
}

/// The cache of one layer: keys and values in f16, written and read by cell.
#[derive(Clone, Debug)]
pub struct KvLayer(pub(super) KvStore<u16>);

impl KvLayer {
    /// `cells` cells of `kv_heads` heads of width `head_dim`, all zero. The system gives the memory as cells are first used.
    pub fn new(cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self(KvStore::new(cells, kv_heads, head_dim))
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.0.cells
    }

    /// Bytes that a layer of this shape takes.
    pub fn bytes_for(cells: usize, kv_heads: usize, head_dim: usize) -> usize {
        let [keys, values] = KvStore::<u16>::lengths(cells, kv_heads, head_dim);
        (keys + values) * size_of::<u16>()
    }

    /// Writes the keys and values of rows of Q, K and V, one row a cell.
    ///
    /// # Errors
    /// Where the shape is another than the layer's, or a cell is not there.
    pub fn write(&mut self, heads: &Heads, cells: &[u32], qkv: &[f32]) -> Result<(), ShapeError> {
        let tokens = heads.tokens(qkv)?;
        self.0.check(heads)?;
        shape::length("the cells to write", cells.len(), Some(tokens))?;
        if let Some(cell) = cells.iter().find(|cell| **cell as usize >= self.0.cells) {
            return Err(ShapeError::Index {
                what: "a cell",
                index: *cell as usize,
                count: self.0.cells,
            });
        }
        for (row, cell) in qkv.chunks_exact(heads.qkv_width()).zip(cells) {
            let (keys, values) = row[heads.keys_at()..].split_at(heads.values_at() - heads.keys_at());
            self.0.put(*cell as usize, keys, values);
        }
        Ok(())
    }
}

/// Keys and values of one layer, by cell.
///
/// Sixteen cells are a tile. In it each head has its keys as `[head_dim][16]`, so that a vector holds one element of
/// sixteen keys, and its values as `[16][head_dim]`, with `head_dim` filled up with zeros to whole vectors.
#[derive(Clone, Debug)]
pub(super) struct KvStore<E> {
    keys: Vec<E>,
    values: Vec<E>,
    cells: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl<E: KvElement> KvStore<E> {
    /// How many elements keys and values have.
    fn lengths(cells: usize, kv_heads: usize, head_dim: usize) -> [usize; 2] {
        let heads = cells.next_multiple_of(WIDTH) * kv_heads;
        [heads * head_dim, heads * head_dim.next_multiple_of(WIDTH)]
    }

    pub fn new(cells: usize, kv_heads: usize, head_dim: usize) -> Self {
        let [keys, values] = Self::lengths(cells, kv_heads, head_dim);
        Self {
            keys: vec![E::default(); keys],
            values: vec![E::default(); values],
            cells,
            kv_heads,
            head_dim,
        }
    }

    /// The width of a value, filled up to whole vectors.
    pub(super) fn wide(&self) -> usize {
        self.head_dim.next_multiple_of(WIDTH)
    }

    /// The keys of a head in a tile, `[head_dim][16]`.
    #[inline(always)]
    pub(super) fn keys(&self, tile: usize, head: usize) -> &[E] {
        let size = self.head_dim * WIDTH;
        &self.keys[(tile * self.kv_heads + head) * size..][..size]
    }

    /// The values of a head in a tile, `[16][wide]`.
    #[inline(always)]
    pub(super) fn values(&self, tile: usize, head: usize) -> &[E] {
        let size = self.wide() * WIDTH;
        &self.values[(tile * self.kv_heads + head) * size..][..size]
    }

    /// Checks that a layer of this shape can use the store.
    pub(super) fn check(&self, heads: &Heads) -> Result<(), ShapeError> {
        shape::length("a head in the cache", self.head_dim, Some(heads.head_dim))?;
        shape::length("a row of heads in the cache", self.kv_heads, Some(heads.kv_heads))
    }

    /// Writes one cell: `keys` and `values` are `[kv_heads, head_dim]`.
    pub(super) fn put(&mut self, cell: usize, keys: &[f32], values: &[f32]) {
        let (dim, wide, isa) = (self.head_dim, self.wide(), Isa::best());
        let (tile, lane) = (cell / WIDTH, cell % WIDTH);
        for (head, (keys, values)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
            let at = (tile * self.kv_heads + head) * dim * WIDTH;
            let column = &mut self.keys[at..at + dim * WIDTH];
            for (keys, columns) in keys.chunks(WIDTH).zip(column.chunks_mut(WIDTH * WIDTH)) {
                let mut stored = [E::default(); WIDTH];
                store_padded::<E>(isa, keys, &mut stored);
                for (element, column) in stored.iter().zip(columns.chunks_exact_mut(WIDTH)) {
                    column[lane] = *element;
                }
            }
            let at = ((tile * self.kv_heads + head) * WIDTH + lane) * wide;
            let row = self.values[at..at + wide].as_chunks_mut::<WIDTH>().0;
            for (values, row) in values.chunks(WIDTH).zip(row) {
                store_padded::<E>(isa, values, row);
            }
        }
    }
}

on_lanes! {
    /// Stores up to sixteen floats, then zeros.
    fn store_padded<L>[E: KvElement][E](l; x: &[f32], out: &mut [E; WIDTH]) {
        let mut padded = [0.0; WIDTH];
        padded[..x.len()].copy_from_slice(x);
        E::store(l, l.load(&padded), out);
    }
}
