//! Weights packed for the CPU: sixteen rows interleaved, so that one vector (two on AVX2, four on
//! NEON) holds the same columns of all of them.
//!
//! Results then need no horizontal sum, and one layout suits one token (decode, bound by memory)
//! and many tokens (prefill, bound by arithmetic). The packed size is exactly the size of the rows
//! in the file.
//!
//! Sixteen rows by 32 columns are a *tile*. One block of each of sixteen rows becomes a *header*
//! with their scales (see [`layout::ScaleLayout`]), followed by their tiles: one, two in NVFP4, or
//! eight in the K formats. A tile contains, in this order:
//!
//! * the top bit of 3-bit and 5-bit codes: a u64 per four columns, bit `4 row + column`;
//! * two bits (all of 2-bit codes, the lower ones of 3-bit codes, the upper ones of 6-bit codes):
//!   two vectors of 64 bytes; byte `4 row + i` of vector `h` has the bits of columns `16 h + i`,
//!   `+ 4`, `+ 8` and `+ 12`, lowest first;
//! * the (remaining) four bits of 4-bit to 6-bit codes: four vectors; byte `4 row + i` of vector
//!   `v` has column `4 v + i` in its low nibble and column `16 + 4 v + i` in its high one. 8-bit
//!   codes: eight vectors; byte `4 row + i` of vector `v` is column `4 v + i`.
//!
//! Packed codes are unsigned: signed codes have the zero point added.
//!
//! Unquantized weights have neither headers nor tiles: a group is `[column][row]`; see
//! [`PackedFloats`].
//!
//! Within a group of sixteen rows, blocks are stored from left to right; groups are stored from top
//! to bottom. Rows that do not fill a group are stored at the end, in the file's layout.

#[cfg(target_arch = "x86_64")]
mod activation_part;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
mod expand;
mod floats;
pub(crate) mod layout;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon_i8mm;
mod pack;
mod scalar;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod scales;
#[cfg(target_arch = "x86_64")]
mod sixteen_rows;
mod tile_scales;
mod token_tiles;

use crate::blocks::{GROUP, HALF_GROUP, QK_K, Quant, with_format};
use crate::gemv::Activations;
use crate::isa::{Isa, on_set};
use crate::lanes::{Plain, Token};
use crate::prefetch::Prefetch;
use crate::shape::ShapeError;
use expand::Tile;
pub(crate) use floats::PackedFloats;
use layout::PackedLayout;
use std::cell::Cell;
use std::ops::Range;
use token_tiles::TokenTile;
pub use token_tiles::TokenTiles;

/// Rows interleaved in a group.
pub const ROWS: usize = 16;

/// Tokens multiplied with all groups before the next tokens: their activations stay in L1, and the
/// results of a token are written contiguously.
pub const TOKEN_TILE: usize = 12;

/// Returns `true` if packing a matrix of this format makes products faster with this instruction
/// set. If not, rows are multiplied in the file's layout.
pub fn suits(isa: Isa, quant: Quant) -> bool {
    match quant {
        Quant::F32 => !isa.is_scalar(),
        // In bf16, rows are multiplied as stored.
        Quant::F16 | Quant::BF16 => !isa.is_scalar() && !isa.prefers_bf16(),
        _ => on_set!(isa, token => is_faster(token)),
    }
}

fn is_faster<T: PackedProduct>(_: T) -> bool {
    T::FASTER
}

/// One group of sixteen packed rows, and the tokens with which it is multiplied.
///
/// `blocks` are whole blocks of `quant` in `layout`; the activations of every token cover them.
pub(crate) struct Group<'a> {
    /// Selects the SIMD code; unused on machines that have none.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    quant: Quant,
    layout: &'a PackedLayout,
    blocks: &'a [u8],
    activations: TokenTile<'a>,
    /// See [`PackedProduct::append_starts`]. Read on x86-64 only.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    starts: &'a [Starts],
    /// Software prefetch of the following tiles. Used on x86-64 only.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    prefetch: Prefetch,
}

/// Initial values of the accumulators of products with an
/// [`ActivationChunk`](crate::gemv::ActivationChunk), for each half of a part. Formats without half
/// scales use the first of two.
type Starts = [i32; QK_K / HALF_GROUP];

thread_local! {
    /// Buffer for [`Starts`], reused by later products.
    static STARTS: Cell<Vec<Starts>> = const { Cell::new(Vec::new()) };
}

/// Products of packed rows on an instruction set. The default is scalar code.
pub(crate) trait PackedProduct: Token {
    /// `true` if the products are faster than GEMV over blocks in the file's layout.
    const FASTER: bool = false;

    /// `true` if codes that use all eight bits are converted to signed codes before multiplication,
    /// so that no zero point is subtracted afterwards.
    const SIGNS: bool = false;

    /// Multiplies the sixteen rows of a group with every token of its activations, and writes
    /// `out[token][row]`. `out` has one element per token.
    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        scalar::multiply_group(group, out);
    }

    /// Appends the initial values of the accumulators of each token, for each of `chunks`
    /// activation chunks, if the instruction set computes them once for all groups.
    fn append_starts(self, _layout: &PackedLayout, _activations: &TokenTile, _chunks: usize, _out: &mut Vec<Starts>) {}
}

impl PackedProduct for Plain {}

/// Runs a body for each tile of a block of format `$B`, with its index `$tile_index`. If
/// `$unrolled`, the loop over the eight tiles of a K format is unrolled, so that the positions of
/// their scales are constants: looking them up takes as many instructions as the products of one
/// token.
#[cfg(target_arch = "x86_64")]
macro_rules! each_tile {
    ($B:ident, unrolled if $unrolled:expr, $tile_index:ident => $body:block) => {
        if $unrolled && $B::LAYOUT.scales.tiles == 8 {
            $crate::packed::each_tile!($tile_index $body: 0 1 2 3 4 5 6 7);
        } else {
            for $tile_index in 0..$B::LAYOUT.scales.tiles $body
        }
    };
    ($tile_index:ident $body:block: $($index:literal)*) => {
        $({
            let $tile_index = $index;
            $body
        })*
    };
}
#[cfg(target_arch = "x86_64")]
use each_tile;

/// For tile `tile_index` of block `block_index` of a group: the indices of the activation chunk and
/// of its part with which the tile is multiplied, and the codes of the tile.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[inline(always)]
fn locate<B: layout::Packable>(block: &[u8], block_index: usize, tile_index: usize) -> (usize, usize, &[u8]) {
    let group = block_index * B::LAYOUT.scales.tiles + tile_index;
    let codes = &block[B::LAYOUT.tile_offset(tile_index)..][..B::LAYOUT.tile_bytes()];
    (group * GROUP / QK_K, group % (QK_K / GROUP), codes)
}

/// The `N` bytes from `offset` on.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[inline(always)]
fn array<const N: usize>(bytes: &[u8], offset: usize) -> &[u8; N] {
    &bytes[offset..].as_chunks().0[0]
}

/// Returns `true` if rows of `cols` weights can be packed: whole blocks, and a multiple of 32
/// columns.
pub fn can_pack(quant: Quant, cols: usize) -> bool {
    cols.is_multiple_of(GROUP) && cols.is_multiple_of(quant.block_elements())
}

/// Packs sixteen rows in the file's layout into `packed`, which has the same length and is zeroed.
///
/// # Errors
/// If rows of `cols` weights cannot be packed or a size does not match.
pub fn pack_group(quant: Quant, cols: usize, rows: &[u8], packed: &mut [u8]) -> Result<(), ShapeError> {
    let row_bytes = quant.row_bytes(cols).filter(|_| can_pack(quant, cols));
    let row_bytes = row_bytes.ok_or(ShapeError::Layout { quant })?;
    crate::shape::length("sixteen rows of weights", rows.len(), row_bytes.checked_mul(ROWS))?;
    crate::shape::length("sixteen packed rows", packed.len(), row_bytes.checked_mul(ROWS))?;
    with_format!(quant,
        float F => floats::pack::<F>(rows, packed),
        block B => pack::pack_rows::<B>(rows, packed)
    );
    Ok(())
}

/// Dequantization of packed rows, which are counted over all groups.
pub(crate) trait PackedRows {
    /// Dequantizes a row.
    ///
    /// # Errors
    /// If there is no such row, or `out` has a different length.
    fn dequantize_row(&self, row: usize, out: &mut [f32]) -> Result<(), ShapeError>;

    /// Dequantizes a tile of a group, sixteen rows by 32 columns, times `scale`, by columns. Panics
    /// if either index is out of range.
    fn tile_columns(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; ROWS]; GROUP]);

    /// [`PackedRows::tile_columns`] by rows.
    fn tile_rows(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; GROUP]; ROWS]);
}

/// Whole groups of sixteen packed rows.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    quant: Quant,
    layout: &'static PackedLayout,
    cols: usize,
    /// Bytes of one group.
    group_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// `bytes` as groups of sixteen rows of `cols` weights.
    ///
    /// # Errors
    /// If the format cannot be packed, or `bytes` are not whole groups.
    pub fn new(quant: Quant, cols: usize, bytes: &'a [u8]) -> Result<Self, ShapeError> {
        let layout = PackedLayout::for_quant(quant).ok_or(ShapeError::Layout { quant })?;
        let row_bytes = quant.row_bytes(cols).ok_or(ShapeError::Layout { quant })?;
        let group_bytes = row_bytes.checked_mul(ROWS).ok_or(ShapeError::TooLarge {
            what: "a row of weights",
        })?;
        crate::shape::multiple("the length of a packed matrix", bytes.len(), group_bytes)?;
        Ok(Self {
            quant,
            layout,
            cols,
            group_bytes,
            bytes,
        })
    }

    /// Number of groups of sixteen rows.
    pub fn groups(&self) -> usize {
        self.bytes.len().checked_div(self.group_bytes).unwrap_or(0)
    }

    /// The blocks of a group. Panics if it is out of range.
    fn blocks(&self, group: usize) -> &'a [u8] {
        &self.bytes[group * self.group_bytes..][..self.group_bytes]
    }

    /// A tile of a group, with its header. Panics if either index is out of range.
    fn tile(&self, [group, tile]: [usize; 2]) -> Tile<'a> {
        let (layout, tiles) = (self.layout, self.layout.scales.tiles);
        let blocks = &self.blocks(group)[tile / tiles * layout.bytes()..][..layout.bytes()];
        Tile {
            layout,
            header: &blocks[..layout.scales.bytes()],
            index: tile % tiles,
            codes: &blocks[layout.tile_offset(tile % tiles)..][..layout.tile_bytes()],
        }
    }

    /// Multiplies the rows of `groups` with the activations of `tokens`. Calls
    /// `sink(token, first row, sixteen results)`; rows are counted over all groups.
    ///
    /// # Errors
    /// If the activations have a different size, or a group or token is out of range.
    pub fn product(
        &self,
        isa: Isa,
        groups: Range<usize>,
        activations: TokenTiles,
        tokens: Range<usize>,
        sink: impl FnMut(usize, usize, &[f32; ROWS]),
    ) -> Result<(), ShapeError> {
        let chunks = Activations::chunks_for(self.cols);
        crate::shape::length("a row of quantized activations", activations.per_token(), Some(chunks))?;
        if tokens.end > activations.tokens() {
            return Err(ShapeError::Index {
                what: "a token",
                index: tokens.end,
                count: activations.tokens(),
            });
        }
        if groups.end > self.groups() {
            return Err(ShapeError::Index {
                what: "a group of rows",
                index: groups.end,
                count: self.groups(),
            });
        }
        match (groups.is_empty(), tokens.len()) {
            (true, _) => (),
            // A short buffer, since decoding a token makes thousands of calls.
            (_, 1) => self.multiply::<1>(isa, groups, activations, tokens, sink),
            _ => self.multiply::<TOKEN_TILE>(isa, groups, activations, tokens, sink),
        }
        Ok(())
    }

    /// [`Packed::product`] in tiles of at most `N` tokens, after the checks of sizes.
    fn multiply<const N: usize>(
        &self,
        isa: Isa,
        groups: Range<usize>,
        activations: TokenTiles,
        tokens: Range<usize>,
        mut sink: impl FnMut(usize, usize, &[f32; ROWS]),
    ) {
        let chunks = activations.per_token();
        let prefetch = Prefetch::for_format(self.quant);
        let has_starts = self.layout.zero_point != 0;
        let mut starts = if has_starts { STARTS.take() } else { Vec::new() };
        let mut buffer = [[0.0; ROWS]; N];
        let mut first = tokens.start;
        while first < tokens.end {
            let activations = activations.tile(first..tokens.end);
            starts.clear();
            on_set!(isa, token => token.append_starts(self.layout, &activations, chunks, &mut starts));
            debug_assert!(starts.is_empty() || starts.len() == chunks * activations.tokens);
            let out = &mut buffer[..activations.tokens];
            for index in groups.clone() {
                let group = Group {
                    quant: self.quant,
                    layout: self.layout,
                    blocks: self.blocks(index),
                    activations,
                    starts: &starts,
                    prefetch,
                };
                on_set!(isa, token => token.multiply_group(&group, out));
                for (token, results) in out.iter().enumerate() {
                    sink(first + token, index * ROWS, results);
                }
            }
            first += activations.tokens;
        }
        if has_starts {
            STARTS.set(starts);
        }
    }
}

/// Checks that there is a packed row `index`.
fn check_row(index: usize, count: usize) -> Result<(), ShapeError> {
    let what = "a packed row";
    if index < count {
        Ok(())
    } else {
        Err(ShapeError::Index { what, index, count })
    }
}

impl PackedRows for Packed<'_> {
    fn dequantize_row(&self, row: usize, out: &mut [f32]) -> Result<(), ShapeError> {
        crate::shape::length("a row in f32", out.len(), Some(self.cols))?;
        check_row(row, self.groups() * ROWS)?;
        let width = self.layout.scales.tiles * GROUP;
        let blocks = self.blocks(row / ROWS).chunks_exact(self.layout.bytes());
        for (blocks, out) in blocks.zip(out.chunks_exact_mut(width)) {
            scalar::dequantize(self.layout, blocks, row % ROWS, out);
        }
        Ok(())
    }

    fn tile_columns(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        expand::columns(isa, self.tile(group_and_tile), scale, out);
    }

    fn tile_rows(&self, isa: Isa, group_and_tile: [usize; 2], scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        expand::rows(isa, self.tile(group_and_tile), scale, out);
    }
}

#[cfg(test)]
mod tests;
