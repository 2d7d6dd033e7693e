//! Dequantization of whole tiles: a vector holds sixteen rows of a column, or half the columns of a
//! row.
//!
//! Rounds like [`super::scalar`]: after each operation, without FMA.

use super::ROWS;
use super::layout::{Minimum, PackedLayout, Unit};
use super::tile_scales::{part_minima, part_scales, unit};
use crate::blocks::{GROUP, HALF_GROUP};
use crate::isa::Isa;
use crate::lanes::{Lanes, on_lanes};

/// A tile and its header.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub layout: &'a PackedLayout,
    pub header: &'a [u8],
    /// Index of the tile in its block.
    pub index: usize,
    pub codes: &'a [u8],
}

/// Vectors of codes in a tile, four columns each.
const VECTORS: usize = GROUP / 4;

/// Loads sixteen f16 from byte `at` of a header on.
#[inline(always)]
fn load_f16<L: Lanes>(l: L, header: &[u8], offset: usize) -> [f32; ROWS] {
    let mut bits = [0; ROWS];
    bytemuck::cast_slice_mut(&mut bits).copy_from_slice(&header[offset..][..2 * ROWS]);
    let mut out = [0.0; ROWS];
    l.store(l.load_f16(&bits.map(u16::from_le)), &mut out);
    out
}

/// `units` times `scale` times `factors`, for each half of every row.
#[inline(always)]
fn multiply<L: Lanes>(l: L, units: &[f32; ROWS], scale: f32, factors: &[[f32; 2]; ROWS]) -> [[f32; ROWS]; 2] {
    let units = l.mul(l.load(units), l.splat(scale));
    let mut out = [[0.0; ROWS]; 2];
    for (half, out) in out.iter_mut().enumerate() {
        let factors = std::array::from_fn(|row| factors[row][half]);
        l.store(l.mul(units, l.load(&factors)), out);
    }
    out
}

/// Scales and offsets of sixteen rows of a tile, times `scale`, for each half of the tile.
#[inline(always)]
fn row_scales<L: Lanes>(l: L, tile: &Tile, scale: f32) -> [[[f32; ROWS]; 2]; 2] {
    let (header, layout) = (tile.header, &tile.layout.scales);
    let units = match layout.unit {
        Unit::F16(_) => load_f16(l, header, 0),
        _ => std::array::from_fn(|row| unit(layout, header, row)),
    };
    let factors = std::array::from_fn(|row| part_scales(layout, header, tile.index, row));
    let minima = match layout.minimum {
        Minimum::None => None,
        Minimum::Added(_) => Some([[1.0; 2]; ROWS]),
        Minimum::Subtracted(_) => Some(std::array::from_fn(|row| {
            let [first, second] = part_minima(layout, header, tile.index, row);
            [-first, -second]
        })),
    };
    let offsets = match minima {
        None => [[0.0; ROWS]; 2],
        Some(minima) => multiply(l, &load_f16(l, header, layout.minima_offset()), scale, &minima),
    };
    [multiply(l, &units, scale, &factors), offsets]
}

/// Loads one vector per half.
#[inline(always)]
fn load_halves<L: Lanes>(l: L, [first, second]: &[[f32; ROWS]; 2]) -> [L::Floats; 2] {
    [l.load(first), l.load(second)]
}

/// Sixteen little-endian u32 from byte `at` on.
#[inline(always)]
fn load_u32(bytes: &[u8], offset: usize) -> [u32; ROWS] {
    let mut words = [0; ROWS];
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(&bytes[offset..][..4 * ROWS]);
    for word in &mut words {
        *word = u32::from_le(*word);
    }
    words
}

/// `byte` in each byte of a u32.
const fn splat_byte(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// Signed codes of a tile, as bytes: word `row` of vector `v` has columns `4 v..4 v + 4`, the first
/// in the lowest byte.
#[inline(always)]
fn codes<const BITS: usize>(tile: &Tile) -> [[u32; ROWS]; VECTORS] {
    let (top_bits, rest) = tile.codes.split_at(tile.layout.bit_bytes());
    let (pairs, lower) = rest.split_at(tile.layout.pair_bytes());
    let mut codes = [[0; ROWS]; VECTORS];
    for (v, codes) in codes.iter_mut().enumerate() {
        if BITS == 8 {
            *codes = load_u32(lower, 64 * v);
        } else if BITS >= 4 {
            let nibbles = load_u32(lower, 64 * (v % 4));
            for (code, nibbles) in codes.iter_mut().zip(nibbles) {
                *code = nibbles >> (v / 4 * 4) & splat_byte(0x0f);
            }
        }
        if matches!(BITS, 3 | 5) {
            let bits = u64::from_le_bytes(std::array::from_fn(|i| top_bits[8 * v + i]));
            for (row, code) in codes.iter_mut().enumerate() {
                // The multiplication copies the four bits to four positions, so that bit `i` is
                // the lowest bit of byte `i`; copies do not overlap there.
                let bits = (bits >> (4 * row)) as u32 & 0x0f;
                *code |= (bits.wrapping_mul(0x0020_4081) & splat_byte(1)) << (BITS - 1);
            }
        }
        if matches!(BITS, 2 | 3 | 6) {
            let pairs = load_u32(pairs, 64 * (v / 4));
            for (code, pairs) in codes.iter_mut().zip(pairs) {
                *code |= (pairs >> (v % 4 * 2) & splat_byte(3)) << (if BITS == 6 { 4 } else { 0 });
            }
        }
        for code in codes {
            *code = match tile.layout.codebook {
                Some(values) => {
                    u32::from_le_bytes(code.to_le_bytes().map(|code| values[usize::from(code & 0x0f)] as u8))
                }
                // Moves the zero point to 128, which overflows no byte; flipping the top bit then
                // subtracts 128.
                None => code.wrapping_add(splat_byte(128 - tile.layout.zero_point)) ^ splat_byte(0x80),
            };
        }
    }
    codes
}

on_lanes! {
    fn columns_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        let [scales, offsets] = row_scales(l, &tile, scale);
        let (scales, offsets) = (load_halves(l, &scales), load_halves(l, &offsets));
        for (v, (codes, out)) in codes::<BITS>(&tile).iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                let mut values = [0.0; ROWS];
                for (value, word) in values.iter_mut().zip(codes) {
                    *value = ((word << (24 - 8 * i)) as i32 >> 24) as f32;
                }
                l.store(l.add(l.mul(scales[v / 4], l.load(&values)), offsets[v / 4]), out);
            }
        }
    }
}

on_lanes! {
    fn rows_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        let [scales, offsets] = row_scales(l, &tile, scale);
        let codes = codes::<BITS>(&tile);
        let mut transposed = [[0; VECTORS]; ROWS];
        for (row, transposed) in transposed.iter_mut().enumerate() {
            for (transposed, codes) in transposed.iter_mut().zip(&codes) {
                *transposed = codes[row].to_le();
            }
        }
        for (row, (codes, out)) in transposed.iter().zip(out).enumerate() {
            let codes: &[[i8; HALF_GROUP]; 2] = bytemuck::cast_ref(codes);
            for (half, (codes, out)) in codes.iter().zip(out.as_chunks_mut().0).enumerate() {
                let scaled = l.mul(l.splat(scales[half][row]), l.load_i8(codes));
                l.store(l.add(scaled, l.splat(offsets[half][row])), out);
            }
        }
    }
}

/// Dequantizes a tile by columns, times `scale`.
pub(super) fn columns(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
    match tile.layout.bits {
        2 => columns_of::<2>(isa, tile, scale, out),
        3 => columns_of::<3>(isa, tile, scale, out),
        4 => columns_of::<4>(isa, tile, scale, out),
        5 => columns_of::<5>(isa, tile, scale, out),
        6 => columns_of::<6>(isa, tile, scale, out),
        _ => columns_of::<8>(isa, tile, scale, out),
    }
}

/// Dequantizes a tile by rows, times `scale`.
pub(super) fn rows(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
    match tile.layout.bits {
        2 => rows_of::<2>(isa, tile, scale, out),
        3 => rows_of::<3>(isa, tile, scale, out),
        4 => rows_of::<4>(isa, tile, scale, out),
        5 => rows_of::<5>(isa, tile, scale, out),
        6 => rows_of::<6>(isa, tile, scale, out),
        _ => rows_of::<8>(isa, tile, scale, out),
    }
}
