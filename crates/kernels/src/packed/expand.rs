//! Whole tiles expanded at once: a vector holds sixteen rows of a column, or half the columns of a row.
//!
//! A weight is rounded as [`super::scalar`] rounds it: after each step, never fused.

use super::ROWS;
use super::shape::{Head, Shape, half_scale, nibble_scale, six_bits};
use crate::blocks::{GROUP, HALF_GROUP};
use crate::dot::Isa;
use crate::lanes::{Lanes, on_lanes};

/// A tile under its head.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub shape: Shape,
    pub head: &'a [u8],
    /// Its number under the head.
    pub number: usize,
    pub codes: &'a [u8],
}

/// What the codes of sixteen rows of a tile are worth, times `scale`: a step in each half of the tile, and what is added.
#[inline(always)]
fn worths<L: Lanes>(l: L, tile: &Tile, scale: f32) -> ([[f32; ROWS]; 2], [f32; ROWS]) {
    let head = tile.head;
    let times = |at: usize, factors: [f32; ROWS]| {
        let bits = std::array::from_fn(|row| u16::from_le_bytes([head[at + 2 * row], head[at + 2 * row + 1]]));
        let mut out = [0.0; ROWS];
        let halves = l.mul(l.load_half(&bits), l.splat(scale));
        l.store(l.mul(halves, l.load(&factors)), &mut out);
        out
    };
    match tile.shape.head {
        Head::Scale => ([times(0, [1.0; ROWS]); 2], [0.0; ROWS]),
        Head::ScaleAndMinimum => ([times(0, [1.0; ROWS]); 2], times(2 * ROWS, [1.0; ROWS])),
        Head::SixBits => {
            let both: [[u32; 2]; ROWS] = std::array::from_fn(|row| six_bits(head, tile.number, row));
            let scales = times(0, both.map(|[scale, _]| scale as f32));
            ([scales; 2], times(2 * ROWS, both.map(|[_, minimum]| -(minimum as f32))))
        }
        Head::Nibbles => {
            let scales = std::array::from_fn(|row| nibble_scale(head, tile.number, row));
            ([times(0, scales); 2], [0.0; ROWS])
        }
        Head::Halves => {
            let scales = |half| std::array::from_fn(|row| half_scale(head, 2 * tile.number + half, row));
            ([times(0, scales(0)), times(0, scales(1))], [0.0; ROWS])
        }
    }
}

/// Vectors of 64 bytes that the codes, or their lower four bits, lie in.
const fn vectors(bits: usize) -> usize {
    if bits == 8 { 8 } else { 4 }
}

/// The word of four columns' fifth bits; see [`super`].
#[inline(always)]
fn fifths(upper: &[u8], word: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| upper[8 * word + i]))
}

/// Four codes of a row, from vector `v` of a tile.
#[inline(always)]
fn word(codes: &[u8], v: usize, row: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| codes[64 * v + 4 * row + i]))
}

on_lanes! {
    fn columns_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        let (scales, offsets) = worths(l, &tile, scale);
        let (upper, lower) = tile.codes.split_at(tile.shape.upper_bytes());
        for v in 0..vectors(BITS) {
            let lanes: [u32; ROWS] = std::array::from_fn(|row| word(lower, v, row));
            for (nibble, vector) in [(0, v), (4, 4 + v)] {
                if BITS == 8 && nibble == 4 {
                    continue;
                }
                let rest: [u32; ROWS] = match BITS {
                    5 => {
                        let word = fifths(upper, vector);
                        std::array::from_fn(|row| (word >> (4 * row)) as u32)
                    }
                    6 => std::array::from_fn(|row| word(upper, vector / 4, row) >> (2 * (vector % 4))),
                    _ => [0; ROWS],
                };
                for i in 0..4 {
                    let column = 4 * vector + i;
                    for row in 0..ROWS {
                        let mut code = lanes[row] >> (8 * i + nibble) & if BITS == 8 { 0xff } else { 0x0f };
                        code |= match BITS {
                            5 => (rest[row] >> i & 1) << 4,
                            6 => (rest[row] >> (8 * i) & 3) << 4,
                            _ => 0,
                        };
                        out[column][row] = scales[column / HALF_GROUP][row] * tile.shape.centred(code as u8) as f32 + offsets[row];
                    }
                }
            }
        }
    }
}

on_lanes! {
    fn rows_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        let (scales, offsets) = worths(l, &tile, scale);
        let (upper, lower) = tile.codes.split_at(tile.shape.upper_bytes());
        for (row, out) in out.iter_mut().enumerate() {
            let mut bytes = [0; GROUP];
            for v in 0..vectors(BITS) {
                bytes[4 * v..][..4].copy_from_slice(&word(lower, v, row).to_le_bytes());
            }
            let mut fifth_bits = 0_u32;
            let mut pairs = [0; HALF_GROUP / 2];
            match BITS {
                5 => {
                    for word in 0..8 {
                        fifth_bits |= ((fifths(upper, word) >> (4 * row) & 0x0f) << (4 * word)) as u32;
                    }
                }
                6 => {
                    for h in 0..2 {
                        pairs[4 * h..][..4].copy_from_slice(&word(upper, h, row).to_le_bytes());
                    }
                }
                _ => {}
            }
            for column in 0..GROUP {
                let mut code = match BITS {
                    8 => u32::from(bytes[column]),
                    _ => u32::from(bytes[column % 16]) >> (column / 16 * 4) & 0x0f,
                };
                code |= match BITS {
                    5 => (fifth_bits >> column & 1) << 4,
                    6 => (u32::from(pairs[4 * (column / 16) + column % 4]) >> (column / 4 % 4 * 2) & 3) << 4,
                    _ => 0,
                };
                out[column] = scales[column / HALF_GROUP][row] * tile.shape.centred(code as u8) as f32 + offsets[row];
            }
        }
    }
}

/// A tile, column after column, times `scale`.
pub(super) fn columns(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
    match tile.shape.bits {
        4 => columns_of::<4>(isa, tile, scale, out),
        5 => columns_of::<5>(isa, tile, scale, out),
        6 => columns_of::<6>(isa, tile, scale, out),
        _ => columns_of::<8>(isa, tile, scale, out),
    }
}

/// A tile, row after row, times `scale`.
pub(super) fn rows(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
    match tile.shape.bits {
        4 => rows_of::<4>(isa, tile, scale, out),
        5 => rows_of::<5>(isa, tile, scale, out),
        6 => rows_of::<6>(isa, tile, scale, out),
        _ => rows_of::<8>(isa, tile, scale, out),
    }
}
