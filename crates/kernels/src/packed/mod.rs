//! Weights packed for this machine: sixteen rows interleaved, so that one vector holds the same columns of all of them.
//!
//! A row of results then needs no sum across a vector, and one layout serves a single token (decoding, bound by memory)
//! and many (prefill, bound by arithmetic). It takes exactly the bytes of the file's blocks.
//!
//! Sixteen rows times 32 columns are one *tile*. In it lie, in this order:
//!
//! * the sixteen scales as f16 (32 bytes);
//! * the sixteen minima as f16, for Q4_1 and Q5_1;
//! * the fifth bits of the codes, for Q5_0 and Q5_1: a u64 for each four columns, bit `4 row + column`;
//! * the codes. For 4 and 5 bits, four vectors of 64 bytes: byte `4 row + i` of vector `v` has column `4 v + i` in its low
//!   nibble and column `16 + 4 v + i` in its high one. For 8 bits, eight vectors: byte `4 row + i` of vector `v` is column
//!   `4 v + i`, with 128 added so that it has no sign.
//!
//! The tiles of sixteen rows follow each other from left to right, and the groups of rows from top to bottom; rows that do not fill
//! a group stay as the file has them, at the end.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod expand;
mod scalar;

use crate::blocks::{GROUP, Half, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Quant};
use crate::dot::{ActivationChunk, Activations, Isa, Level};
use crate::shape::ShapeError;
use std::ops::Range;

/// Rows that are interleaved.
pub const ROWS: usize = 16;

/// What a format's tile looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Whether there are minima.
    minima: bool,
    /// Bits of a code.
    bits: usize,
    /// What was added to a code so that it has no sign.
    zero: u8,
}

impl Shape {
    const fn of(quant: Quant) -> Option<Self> {
        match quant {
            Quant::Q4_0 => Some(Self {
                minima: false,
                bits: 4,
                zero: 8,
            }),
            Quant::Q4_1 => Some(Self {
                minima: true,
                bits: 4,
                zero: 0,
            }),
            Quant::Q5_0 => Some(Self {
                minima: false,
                bits: 5,
                zero: 16,
            }),
            Quant::Q5_1 => Some(Self {
                minima: true,
                bits: 5,
                zero: 0,
            }),
            Quant::Q8_0 => Some(Self {
                minima: false,
                bits: 8,
                zero: 128,
            }),
            _ => None,
        }
    }

    const fn minima_at(self) -> usize {
        2 * ROWS
    }

    const fn fifth_bits_at(self) -> usize {
        self.minima_at() + if self.minima { 2 * ROWS } else { 0 }
    }

    const fn codes_at(self) -> usize {
        self.fifth_bits_at() + if self.bits == 5 { 8 * GROUP / 4 } else { 0 }
    }

    const fn bytes(self) -> usize {
        self.codes_at() + if self.bits == 8 { ROWS * GROUP } else { ROWS * GROUP / 2 }
    }
}

/// Whether packing a matrix of this format helps on these instructions. Elsewhere the rows' own products are used.
pub fn pays(quant: Quant, isa: Isa) -> bool {
    Shape::of(quant).is_some() && matches!(isa.level(), Level::Avx2 | Level::Avx512)
}

/// Whether a matrix can be packed at all.
pub fn can_pack(quant: Quant, cols: usize) -> bool {
    Shape::of(quant).is_some() && cols.is_multiple_of(GROUP)
}

/// Packs sixteen rows of a file's blocks into `packed`, which has as many bytes.
///
/// # Errors
/// A format or sizes that do not fit.
pub fn pack_group(quant: Quant, cols: usize, rows: &[u8], packed: &mut [u8]) -> Result<(), ShapeError> {
    let (shape, row_bytes) = checked(quant, cols)?;
    crate::shape::length("sixteen rows of weights", rows.len(), row_bytes.checked_mul(ROWS))?;
    crate::shape::length("sixteen packed rows", packed.len(), row_bytes.checked_mul(ROWS))?;
    for row in 0..ROWS {
        let blocks = &rows[row * row_bytes..][..row_bytes];
        let tiles = packed.chunks_exact_mut(shape.bytes());
        for (block, tile) in blocks.chunks_exact(row_bytes / (cols / GROUP).max(1)).zip(tiles) {
            put(shape, tile, row, read(quant, block));
        }
    }
    Ok(())
}

/// A block of any of the formats: its scale, minimum, codes without sign.
struct Block {
    scale: Half,
    minimum: Half,
    codes: [u8; GROUP],
}

fn read(quant: Quant, bytes: &[u8]) -> Block {
    let nibbles = |qs: &[u8; GROUP / 2], fifths: u32| {
        std::array::from_fn(|i| {
            let nibble = if i < GROUP / 2 {
                qs[i] & 0x0f
            } else {
                qs[i - GROUP / 2] >> 4
            };
            nibble | ((fifths >> i & 1) as u8) << 4
        })
    };
    let none = Half::default();
    match quant {
        Quant::Q4_0 => {
            let block: Q4_0 = bytemuck::pod_read_unaligned(bytes);
            Block {
                scale: block.d,
                minimum: none,
                codes: nibbles(&block.qs, 0),
            }
        }
        Quant::Q4_1 => {
            let block: Q4_1 = bytemuck::pod_read_unaligned(bytes);
            Block {
                scale: block.d,
                minimum: block.m,
                codes: nibbles(&block.qs, 0),
            }
        }
        Quant::Q5_0 => {
            let block: Q5_0 = bytemuck::pod_read_unaligned(bytes);
            Block {
                scale: block.d,
                minimum: none,
                codes: nibbles(&block.qs, u32::from_le_bytes(block.qh)),
            }
        }
        Quant::Q5_1 => {
            let block: Q5_1 = bytemuck::pod_read_unaligned(bytes);
            Block {
                scale: block.d,
                minimum: block.m,
                codes: nibbles(&block.qs, u32::from_le_bytes(block.qh)),
            }
        }
        _ => {
            let block: Q8_0 = bytemuck::pod_read_unaligned(bytes);
            Block {
                scale: block.d,
                minimum: none,
                codes: block.qs.map(|code| code as u8 ^ 0x80),
            }
        }
    }
}

fn put(shape: Shape, tile: &mut [u8], row: usize, block: Block) {
    tile[2 * row..][..2].copy_from_slice(&block.scale.bits().to_le_bytes());
    if shape.minima {
        tile[shape.minima_at() + 2 * row..][..2].copy_from_slice(&block.minimum.bits().to_le_bytes());
    }
    for (column, code) in block.codes.into_iter().enumerate() {
        let (vector, byte) = (column / 4, 4 * row + column % 4);
        if shape.bits == 8 {
            tile[shape.codes_at() + 64 * vector + byte] = code;
            continue;
        }
        let (vector, shift) = (vector % 4, 4 * (vector / 4));
        tile[shape.codes_at() + 64 * vector + byte] |= (code & 0x0f) << shift;
        if shape.bits == 5 {
            tile[shape.fifth_bits_at() + 8 * (column / 4) + byte / 8] |= (code >> 4) << (byte % 8);
        }
    }
}

fn checked(quant: Quant, cols: usize) -> Result<(Shape, usize), ShapeError> {
    let shape = Shape::of(quant).ok_or(ShapeError::Layout { quant })?;
    let row_bytes = quant.row_bytes(cols).ok_or(ShapeError::Layout { quant })?;
    Ok((shape, row_bytes))
}

/// Whole groups of sixteen packed rows.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// Which code there is for a format is a question on x86 only.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
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
        for (tile, to) in group.chunks_exact(self.shape.bytes()).zip(to.chunks_exact_mut(GROUP)) {
            scalar::dequantize(self.shape, tile, row % ROWS, to);
        }
        Ok(())
    }

    /// The columns of tile `tile` of a group, times `scale`; both must be there.
    pub(crate) fn tile_columns(&self, isa: Isa, [group, tile]: [usize; 2], scale: f32, to: &mut [[f32; ROWS]; GROUP]) {
        expand::columns(isa, self.shape, self.tile(group, tile), scale, to);
    }

    /// The rows of tile `tile` of a group, times `scale`; both must be there.
    pub(crate) fn tile_rows(&self, isa: Isa, [group, tile]: [usize; 2], scale: f32, to: &mut [[f32; GROUP]; ROWS]) {
        expand::rows(isa, self.shape, self.tile(group, tile), scale, to);
    }

    fn tile(&self, group: usize, tile: usize) -> &[u8] {
        &self.bytes[group * self.group_bytes + tile * self.shape.bytes()..][..self.shape.bytes()]
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
        for group in groups {
            let tiles = &self.bytes[group * self.group_bytes..][..self.group_bytes];
            let mut sink = |token: usize, sums: &[f32; ROWS]| sink(token, group * ROWS, sums);
            match isa.level() {
                // SAFETY: an `Isa` exists only for instructions that this machine has.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe { avx512::group(self.quant, tiles, activations, chunks, tokens, &mut sink) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2::group(self.quant, tiles, activations, chunks, tokens, &mut sink) },
                _ => scalar::group(self.shape, tiles, activations, chunks, tokens, &mut sink),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
