//! Whole tiles expanded at once: a vector holds sixteen rows of a column, or half the columns of a row.
//!
//! A weight is rounded as [`super::scalar`] rounds it: after each step, never fused.

use super::{ROWS, Shape};
use crate::blocks::GROUP;
use crate::dot::Isa;
use crate::lanes::{Lanes, on_lanes};

/// Scales and minima of a tile's rows, times `scale`.
#[inline(always)]
fn heads<L: Lanes>(l: L, shape: Shape, tile: &[u8], scale: f32) -> [[f32; ROWS]; 2] {
    let halves = |at: usize| {
        let bits = std::array::from_fn(|row| u16::from_le_bytes([tile[at + 2 * row], tile[at + 2 * row + 1]]));
        let mut out = [0.0; ROWS];
        l.store(l.mul(l.load_half(&bits), l.splat(scale)), &mut out);
        out
    };
    let minima = if shape.minima {
        halves(shape.minima_at())
    } else {
        [0.0; ROWS]
    };
    [halves(0), minima]
}

/// Vectors of 64 bytes that codes of so many bits lie in; the fifth bits lie apart.
const fn vectors(bits: usize) -> usize {
    if bits == 8 { 8 } else { 4 }
}

/// The word of four columns' fifth bits; see [`super`].
#[inline(always)]
fn fifths(shape: Shape, tile: &[u8], word: usize) -> u64 {
    let at = shape.fifth_bits_at() + 8 * word;
    u64::from_le_bytes(std::array::from_fn(|i| tile[at + i]))
}

on_lanes! {
    fn columns_of<L>[const BITS: usize][BITS](l; shape: Shape, tile: &[u8], scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        let [scales, minima] = heads(l, shape, tile, scale);
        let (codes, zero) = (tile[shape.codes_at()..].as_chunks::<{ 4 * ROWS }>().0, i32::from(shape.zero));
        for (v, both) in codes.iter().enumerate().take(vectors(BITS)) {
            let lanes: [u32; ROWS] =
                std::array::from_fn(|row| u32::from_le_bytes(std::array::from_fn(|i| both[4 * row + i])));
            for (nibble, column) in [(0, 4 * v), (4, 16 + 4 * v)] {
                if BITS == 8 && nibble == 4 {
                    continue;
                }
                let fifths: [u32; ROWS] = match BITS {
                    5 => {
                        let word = fifths(shape, tile, column / 4);
                        std::array::from_fn(|row| (word >> (4 * row)) as u32)
                    }
                    _ => [0; ROWS],
                };
                for i in 0..4 {
                    for row in 0..ROWS {
                        let mut code = lanes[row] >> (8 * i + nibble) & if BITS == 8 { 0xff } else { 0x0f };
                        if BITS == 5 {
                            code |= (fifths[row] >> i & 1) << 4;
                        }
                        out[column + i][row] = scales[row] * (code as i32 - zero) as f32 + minima[row];
                    }
                }
            }
        }
    }
}

on_lanes! {
    fn rows_of<L>[const BITS: usize][BITS](l; shape: Shape, tile: &[u8], scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        let [scales, minima] = heads(l, shape, tile, scale);
        let (codes, zero) = (&tile[shape.codes_at()..], i32::from(shape.zero));
        for (row, out) in out.iter_mut().enumerate() {
            let mut bytes = [0; GROUP];
            for (v, bytes) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate().take(vectors(BITS)) {
                bytes.copy_from_slice(&codes[64 * v + 4 * row..][..4]);
            }
            let mut fifth_bits = 0_u32;
            if BITS == 5 {
                for word in 0..8 {
                    fifth_bits |= ((fifths(shape, tile, word) >> (4 * row) & 0x0f) << (4 * word)) as u32;
                }
            }
            for column in 0..GROUP {
                let mut code = match BITS {
                    8 => u32::from(bytes[column]),
                    _ => u32::from(bytes[column % 16]) >> (column / 16 * 4) & 0x0f,
                };
                if BITS == 5 {
                    code |= (fifth_bits >> column & 1) << 4;
                }
                out[column] = scales[row] * (code as i32 - zero) as f32 + minima[row];
            }
        }
    }
}

/// A tile, column after column, times `scale`.
pub(super) fn columns(isa: Isa, shape: Shape, tile: &[u8], scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
    match shape.bits {
        4 => columns_of::<4>(isa, shape, tile, scale, out),
        5 => columns_of::<5>(isa, shape, tile, scale, out),
        _ => columns_of::<8>(isa, shape, tile, scale, out),
    }
}

/// A tile, row after row, times `scale`.
pub(super) fn rows(isa: Isa, shape: Shape, tile: &[u8], scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
    match shape.bits {
        4 => rows_of::<4>(isa, shape, tile, scale, out),
        5 => rows_of::<5>(isa, shape, tile, scale, out),
        _ => rows_of::<8>(isa, shape, tile, scale, out),
    }
}
