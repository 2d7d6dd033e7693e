//! Weights packed for this machine: sixteen rows interleaved, so that one vector (two on AVX2, four on NEON) holds the same columns of
//! all of them.
//!
//! A row of results then needs no sum across a vector, and one layout serves a single token (decoding, bound by memory)
//! and many (prefill, bound by arithmetic). It takes exactly the bytes of the file's blocks.
//!
//! Sixteen rows times 32 columns are one *tile*. The blocks of sixteen rows, one beside the other, become a *head* with their scales (see
//! [`shape::Head`]) and then their tiles: one, or eight in the K formats. In a tile lie, in this order:
//!
//! * the topmost bit of codes of three and five bits: a u64 for each four columns, bit `4 row + column`;
//! * two bits, all of codes of two, the lower ones of codes of three and the upper ones of codes of six: two vectors of 64 bytes, in byte
//!   `4 row + i` of vector `h` those of columns `16 h + i`, `+ 4`, `+ 8` and `+ 12`, lowest first;
//! * the (other) four bits of codes of four to six: four vectors, byte `4 row + i` of vector `v` has column `4 v + i` in its low nibble and column
//!   `16 + 4 v + i` in its high one. Codes of eight bits: eight vectors, byte `4 row + i` of vector `v` is column `4 v + i`.
//!
//! Codes have no sign: something is added where the format's own have one.
//!
//! The blocks of sixteen rows follow each other from left to right, and the groups of rows from top to bottom; rows that do not fill
//! a group stay as the file has them, at the end.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod expand;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod pack;
mod scalar;
mod shape;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod worth;

use crate::blocks::{GROUP, Quant};
use crate::dot::{ActivationChunk, Activations, Isa, Level};
use crate::shape::ShapeError;
use expand::Tile;
use shape::{Shape, with_packable};
use std::ops::Range;

/// Rows that are interleaved.
pub const ROWS: usize = 16;

/// Tokens that meet one group after the other: their activations stay in the nearest cache, and what is written of a token lies
/// side by side.
pub const TOGETHER: usize = 12;

/// Whether packing a matrix of this format helps on these instructions. Elsewhere the rows' own products are used.
pub fn pays(quant: Quant, isa: Isa) -> bool {
    Shape::of(quant).is_some() && matches!(isa.level(), Level::Avx2 | Level::Avx512 | Level::NeonDot)
}

/// Whether a matrix can be packed at all.
pub fn can_pack(quant: Quant, cols: usize) -> bool {
    Shape::of(quant).is_some() && cols.is_multiple_of(quant.block_elements())
}

/// Packs sixteen rows of a file's blocks into `packed`, which has as many bytes and is all zeros.
///
/// # Errors
/// A format or sizes that do not fit.
pub fn pack_group(quant: Quant, cols: usize, rows: &[u8], packed: &mut [u8]) -> Result<(), ShapeError> {
    let (_, row_bytes) = checked(quant, cols)?;
    crate::shape::length("sixteen rows of weights", rows.len(), row_bytes.checked_mul(ROWS))?;
    crate::shape::length("sixteen packed rows", packed.len(), row_bytes.checked_mul(ROWS))?;
    with_packable!(quant, B => Ok(pack::group::<B>(rows, packed)), else Err(ShapeError::Layout { quant }))
}

fn checked(quant: Quant, cols: usize) -> Result<(Shape, usize), ShapeError> {
    let shape = Shape::of(quant).ok_or(ShapeError::Layout { quant })?;
    let row_bytes = quant.row_bytes(cols).ok_or(ShapeError::Layout { quant })?;
    Ok((shape, row_bytes))
}

/// Whole groups of sixteen packed rows.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// The format for which there may be code: on some machines there is none.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    quant: Quant,
    shape: Shape,
    cols: usize,
    /// Bytes of one group.
    group_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// `bytes` as groups of sixteen rows of `cols` weights.
    ///
    /// # Errors
    /// A format that cannot be packed, or bytes that are not whole groups.
    pub fn new(quant: Quant, cols: usize, bytes: &'a [u8]) -> Result<Self, ShapeError> {
        let (shape, row_bytes) = checked(quant, cols)?;
        let group_bytes = row_bytes.checked_mul(ROWS).ok_or(ShapeError::TooLarge {
            what: "a row of weights",
        })?;
        crate::shape::multiple("the length of a packed matrix", bytes.len(), group_bytes)?;
        Ok(Self {
            quant,
            shape,
            cols,
            group_bytes,
            bytes,
        })
    }

    /// How many groups of sixteen rows there are.
    pub fn groups(&self) -> usize {
        self.bytes.len().checked_div(self.group_bytes).unwrap_or(0)
    }

    /// Row `row` (of all groups) in f32.
    ///
    /// # Errors
    /// There is no such row, or `to` has not the length of one.
    pub fn dequantize_row(&self, row: usize, to: &mut [f32]) -> Result<(), ShapeError> {
        crate::shape::length("a row in f32", to.len(), Some(self.cols))?;
        let count = self.groups() * ROWS;
        if row >= count {
            return Err(ShapeError::Index {
                what: "a packed row",
                index: row,
                count,
            });
        }
        let group = &self.bytes[row / ROWS * self.group_bytes..][..self.group_bytes];
        let width = self.shape.head.tiles() * GROUP;
        for (blocks, to) in group.chunks_exact(self.shape.bytes()).zip(to.chunks_exact_mut(width)) {
            scalar::dequantize(self.shape, blocks, row % ROWS, to);
        }
        Ok(())
    }

    /// The columns of tile `tile` of a group, times `scale`; both must be there.
    pub(crate) fn tile_columns(&self, isa: Isa, [group, tile]: [usize; 2], scale: f32, to: &mut [[f32; ROWS]; GROUP]) {
        expand::columns(isa, self.tile(group, tile), scale, to);
    }

    /// The rows of tile `tile` of a group, times `scale`; both must be there.
    pub(crate) fn tile_rows(&self, isa: Isa, [group, tile]: [usize; 2], scale: f32, to: &mut [[f32; GROUP]; ROWS]) {
        expand::rows(isa, self.tile(group, tile), scale, to);
    }

    fn tile(&self, group: usize, tile: usize) -> Tile<'a> {
        let (shape, tiles) = (self.shape, self.shape.head.tiles());
        let blocks = &self.bytes[group * self.group_bytes + tile / tiles * shape.bytes()..][..shape.bytes()];
        Tile {
            shape,
            head: &blocks[..shape.head.bytes()],
            number: tile % tiles,
            codes: &blocks[shape.tile_at(tile % tiles)..][..shape.tile_bytes()],
        }
    }

    /// The products of the rows of `groups` with `tokens` rows of quantised activations: `sink(token, first row, sixteen results)`.
    /// Rows are counted from the first of all groups.
    ///
    /// # Errors
    /// Activations of another size, or groups that are not there.
    pub fn product(
        &self,
        isa: Isa,
        groups: Range<usize>,
        activations: &[ActivationChunk],
        tokens: usize,
        mut sink: impl FnMut(usize, usize, &[f32; ROWS]),
    ) -> Result<(), ShapeError> {
        let chunks = Activations::chunks_for(self.cols);
        crate::shape::length("quantised activations", activations.len(), chunks.checked_mul(tokens))?;
        if groups.end > self.groups() {
            return Err(ShapeError::Index {
                what: "a group of rows",
                index: groups.end,
                count: self.groups(),
            });
        }
        for first in (0..tokens).step_by(TOGETHER) {
            let together = TOGETHER.min(tokens - first);
            let activations = &activations[first * chunks..(first + together) * chunks];
            for group in groups.clone() {
                let tiles = &self.bytes[group * self.group_bytes..][..self.group_bytes];
                let mut sink = |token: usize, sums: &[f32; ROWS]| sink(first + token, group * ROWS, sums);
                self.group(isa, tiles, activations, chunks, together, &mut sink);
            }
        }
        Ok(())
    }

    /// The tiles of one group against every token, whose activations are `chunks` chunks each.
    fn group(
        &self,
        isa: Isa,
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        tokens: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        match isa.level() {
            // SAFETY: an `Isa` exists only for instructions that this machine has.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::group(self.quant, tiles, activations, chunks, tokens, sink) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::group(self.quant, tiles, activations, chunks, tokens, sink) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Level::NeonDot => unsafe { neon::group(self.quant, tiles, activations, chunks, tokens, sink) },
            _ => scalar::group(self.shape, tiles, activations, chunks, tokens, sink),
        }
    }
}

#[cfg(test)]
mod tests;
