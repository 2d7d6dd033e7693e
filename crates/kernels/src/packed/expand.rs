//! Whole tiles expanded at once: a vector holds sixteen rows of a column, or half the columns of a row.
//!
//! A weight is rounded as [`super::scalar`] rounds it: after each step, never fused.

use super::ROWS;
use super::shape::{Head, Shape, half_nibbles, half_scale, half_six_bits, nibble_scale, six_bits};
use crate::blocks::{GROUP, HALF_GROUP, LEVELS};
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

/// Words of a column's codes, four columns at a time.
const VECTORS: usize = GROUP / 4;

/// Sixteen f16 of a head times `scale`, times `factors`.
#[inline(always)]
fn halves<L: Lanes>(l: L, head: &[u8], at: usize, scale: f32, factors: &[f32; ROWS]) -> [f32; ROWS] {
    let mut bits = [0; ROWS];
    bytemuck::cast_slice_mut(&mut bits).copy_from_slice(&head[at..][..2 * ROWS]);
    let mut out = [0.0; ROWS];
    let halves = l.mul(l.load_half(&bits.map(u16::from_le)), l.splat(scale));
    l.store(l.mul(halves, l.load(factors)), &mut out);
    out
}

/// What the codes of sixteen rows of a tile are worth, times `scale`, in each half of the tile: a step, and what is added.
#[inline(always)]
fn worths<L: Lanes>(l: L, tile: &Tile, scale: f32) -> [[[f32; ROWS]; 2]; 2] {
    let (head, none) = (tile.head, [[0.0; ROWS]; 2]);
    let of_rows = |at: usize, of_row: &dyn Fn(usize) -> f32| halves(l, head, at, scale, &std::array::from_fn(of_row));
    let of_halves = |at: usize, of_row: &dyn Fn(usize, usize) -> f32| {
        [2 * tile.number, 2 * tile.number + 1].map(|half| of_rows(at, &|row| of_row(half, row)))
    };
    match tile.shape.head {
        Head::Scale => [[of_rows(0, &|_| 1.0); 2], none],
        Head::ScaleAndMinimum => [[of_rows(0, &|_| 1.0); 2], [of_rows(2 * ROWS, &|_| 1.0); 2]],
        Head::SixBits => {
            let both: [[u32; 2]; ROWS] = std::array::from_fn(|row| six_bits(head, tile.number, row));
            let minima = of_rows(2 * ROWS, &|row| -(both[row][1] as f32));
            [[of_rows(0, &|row| both[row][0] as f32); 2], [minima; 2]]
        }
        Head::Nibbles => [[of_rows(0, &|row| nibble_scale(head, tile.number, row)); 2], none],
        Head::Halves => [of_halves(0, &|half, row| half_scale(head, half, row)), none],
        Head::HalfNibblePairs => [
            of_halves(0, &|half, row| half_nibbles(head, half, row)[0]),
            of_halves(2 * ROWS, &|half, row| -half_nibbles(head, half, row)[1]),
        ],
        Head::HalfSixBits => [of_halves(0, &|half, row| half_six_bits(head, half, row)), none],
    }
}

/// Sixteen words of 64 bytes from `at` on.
#[inline(always)]
fn words(bytes: &[u8], at: usize) -> [u32; ROWS] {
    let mut words = [0; ROWS];
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(&bytes[at..][..4 * ROWS]);
    for word in &mut words {
        *word = u32::from_le(*word);
    }
    words
}

/// The same byte four times.
const fn four(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// What the codes of a tile stand for, signed bytes: word `row` of vector `v` has columns `4 v..4 v + 4` of a row, the first lowest.
#[inline(always)]
fn codes<const BITS: usize>(tile: &Tile) -> [[u32; ROWS]; VECTORS] {
    let (single, rest) = tile.codes.split_at(tile.shape.bit_bytes());
    let (pairs, lower) = rest.split_at(tile.shape.pair_bytes());
    let mut codes = [[0; ROWS]; VECTORS];
    for (v, codes) in codes.iter_mut().enumerate() {
        if BITS == 8 {
            *codes = words(lower, 64 * v);
        } else if BITS >= 4 {
            let nibbles = words(lower, 64 * (v % 4));
            for (code, nibbles) in codes.iter_mut().zip(nibbles) {
                *code = nibbles >> (v / 4 * 4) & four(0x0f);
            }
        }
        if matches!(BITS, 3 | 5) {
            let bits = u64::from_le_bytes(std::array::from_fn(|i| single[8 * v + i]));
            for (row, code) in codes.iter_mut().enumerate() {
                // Four bits become the lowest of a byte each: none of the four copies meets another there.
                let bits = (bits >> (4 * row)) as u32 & 0x0f;
                *code |= (bits.wrapping_mul(0x0020_4081) & four(1)) << (BITS - 1);
            }
        }
        if matches!(BITS, 2 | 3 | 6) {
            let pairs = words(pairs, 64 * (v / 4));
            for (code, pairs) in codes.iter_mut().zip(pairs) {
                *code |= (pairs >> (v % 4 * 2) & four(3)) << (if BITS == 6 { 4 } else { 0 });
            }
        }
        for code in codes {
            *code = match tile.shape.levels {
                true => u32::from_le_bytes(code.to_le_bytes().map(|code| LEVELS[usize::from(code & 0x0f)] as u8)),
                // With what makes the zero 128 no byte runs over, and 128 less is the upper bit turned.
                false => code.wrapping_add(four(128 - tile.shape.zero)) ^ four(0x80),
            };
        }
    }
    codes
}

on_lanes! {
    fn columns_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
        let [scales, offsets] = worths(l, &tile, scale).map(|of_halves| of_halves.map(|of_rows| l.load(&of_rows)));
        for (v, (codes, out)) in codes::<BITS>(&tile).iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                let mut numbers = [0.0; ROWS];
                for (number, word) in numbers.iter_mut().zip(codes) {
                    *number = ((word << (24 - 8 * i)) as i32 >> 24) as f32;
                }
                l.store(l.add(l.mul(scales[v / 4], l.load(&numbers)), offsets[v / 4]), out);
            }
        }
    }
}

on_lanes! {
    fn rows_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        let [scales, offsets] = worths(l, &tile, scale);
        let codes = codes::<BITS>(&tile);
        let mut turned = [[0; VECTORS]; ROWS];
        for (row, turned) in turned.iter_mut().enumerate() {
            for (turned, codes) in turned.iter_mut().zip(&codes) {
                *turned = codes[row].to_le();
            }
        }
        for (row, (codes, out)) in turned.iter().zip(out).enumerate() {
            let codes: &[[i8; HALF_GROUP]; 2] = bytemuck::cast_ref(codes);
            for (half, (codes, out)) in codes.iter().zip(out.as_chunks_mut().0).enumerate() {
                l.store(l.add(l.mul(l.splat(scales[half][row]), l.load_bytes(codes)), l.splat(offsets[half][row])), out);
            }
        }
    }
}

/// A tile, column after column, times `scale`.
pub(super) fn columns(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; ROWS]; GROUP]) {
    match tile.shape.bits {
        2 => columns_of::<2>(isa, tile, scale, out),
        3 => columns_of::<3>(isa, tile, scale, out),
        4 => columns_of::<4>(isa, tile, scale, out),
        5 => columns_of::<5>(isa, tile, scale, out),
        6 => columns_of::<6>(isa, tile, scale, out),
        _ => columns_of::<8>(isa, tile, scale, out),
    }
}

/// A tile, row after row, times `scale`.
pub(super) fn rows(isa: Isa, tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
    match tile.shape.bits {
        2 => rows_of::<2>(isa, tile, scale, out),
        3 => rows_of::<3>(isa, tile, scale, out),
        4 => rows_of::<4>(isa, tile, scale, out),
        5 => rows_of::<5>(isa, tile, scale, out),
        6 => rows_of::<6>(isa, tile, scale, out),
        _ => rows_of::<8>(isa, tile, scale, out),
    }
}
