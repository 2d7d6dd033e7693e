//! Whole tiles expanded at once: a vector holds sixteen rows of a column, or half the columns of a row.
//!
//! A weight is rounded as [`super::scalar`] rounds it: after each step, never fused.

use super::ROWS;
use super::shape::{Head, Shape, half_scale, nibble_scale, six_bits};
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

/// What the codes of sixteen rows of a tile are worth, times `scale`: a step in each half of the tile, and what is added.
#[inline(always)]
fn worths<L: Lanes>(l: L, tile: &Tile, scale: f32) -> ([[f32; ROWS]; 2], [f32; ROWS]) {
    let head = tile.head;
    match tile.shape.head {
        Head::Scale => ([halves(l, head, 0, scale, &[1.0; ROWS]); 2], [0.0; ROWS]),
        Head::ScaleAndMinimum => (
            [halves(l, head, 0, scale, &[1.0; ROWS]); 2],
            halves(l, head, 2 * ROWS, scale, &[1.0; ROWS]),
        ),
        Head::SixBits => {
            let both: [[u32; 2]; ROWS] = std::array::from_fn(|row| six_bits(head, tile.number, row));
            let scales = halves(l, head, 0, scale, &both.map(|[scale, _]| scale as f32));
            let minima = both.map(|[_, minimum]| -(minimum as f32));
            ([scales; 2], halves(l, head, 2 * ROWS, scale, &minima))
        }
        Head::Nibbles => {
            let scales = std::array::from_fn(|row| nibble_scale(head, tile.number, row));
            ([halves(l, head, 0, scale, &scales); 2], [0.0; ROWS])
        }
        Head::Halves => {
            let scales = [0, 1].map(|half| std::array::from_fn(|row| half_scale(head, 2 * tile.number + half, row)));
            (scales.map(|scales| halves(l, head, 0, scale, &scales)), [0.0; ROWS])
        }
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
    let (upper, lower) = tile.codes.split_at(tile.shape.upper_bytes());
    let mut codes = [[0; ROWS]; VECTORS];
    for (v, codes) in codes.iter_mut().enumerate() {
        if BITS == 8 {
            *codes = words(lower, 64 * v);
        } else {
            let nibbles = words(lower, 64 * (v % 4));
            for (code, nibbles) in codes.iter_mut().zip(nibbles) {
                *code = nibbles >> (v / 4 * 4) & four(0x0f);
            }
        }
        if BITS == 5 {
            let fifths = u64::from_le_bytes(std::array::from_fn(|i| upper[8 * v + i]));
            for (row, code) in codes.iter_mut().enumerate() {
                // Four bits become the lowest of a byte each: none of the four copies meets another there.
                let bits = (fifths >> (4 * row)) as u32 & 0x0f;
                *code |= (bits.wrapping_mul(0x0020_4081) & four(1)) << 4;
            }
        }
        if BITS == 6 {
            let pairs = words(upper, 64 * (v / 4));
            for (code, pairs) in codes.iter_mut().zip(pairs) {
                *code |= (pairs >> (v % 4 * 2) & four(3)) << 4;
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
        let (scales, offsets) = worths(l, &tile, scale);
        let (scales, offsets) = (scales.map(|scales| l.load(&scales)), l.load(&offsets));
        for (v, (codes, out)) in codes::<BITS>(&tile).iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                let mut numbers = [0.0; ROWS];
                for (number, word) in numbers.iter_mut().zip(codes) {
                    *number = ((word << (24 - 8 * i)) as i32 >> 24) as f32;
                }
                l.store(l.add(l.mul(scales[v / 4], l.load(&numbers)), offsets), out);
            }
        }
    }
}

on_lanes! {
    fn rows_of<L>[const BITS: usize][BITS](l; tile: Tile, scale: f32, out: &mut [[f32; GROUP]; ROWS]) {
        let (scales, offsets) = worths(l, &tile, scale);
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
                l.store(l.add(l.mul(l.splat(scales[half][row]), l.load_bytes(codes)), l.splat(offsets[row])), out);
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
