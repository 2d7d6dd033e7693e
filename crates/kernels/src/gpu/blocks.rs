//! Decodes one weight of a block, for every format: the counterpart of `Block::group`, on words
//! instead of bytes.
//!
//! A file's blocks are contiguous, and most have a size that is not a multiple of four (18, 22, 34,
//! 110, 210 bytes), so a block may begin in the middle of a word. Everything is therefore addressed
//! by its byte offset in the buffer. Every block has an even size and its f16 fields have even
//! offsets, so none crosses a word boundary.

use super::f16::from_bits;
use crate::blocks::{LEVELS, Quant};
use cubecl::prelude::*;

/// The byte at `at`.
#[cube]
fn byte(words: &[u32], at: usize) -> u32 {
    (words[at / 4] >> (8u32 * (at % 4) as u32)) & 0xffu32
}

/// The byte at `at` as an i8 (two's complement).
#[cube]
pub(super) fn signed(words: &[u32], at: usize) -> i32 {
    (byte(words, at) ^ 0x80u32) as i32 - 128i32
}

/// The 16 bits at `at`, which is even.
#[cube]
fn short(words: &[u32], at: usize) -> u32 {
    (words[at / 4] >> (8u32 * (at % 4) as u32)) & 0xffffu32
}

/// The f16 at `at`.
#[cube]
pub(super) fn half(words: &[u32], at: usize) -> f32 {
    from_bits(short(words, at))
}

/// Nibble `i` of 16 bytes at `at` with weights 0 to 15 in the low nibbles and 16 to 31 in the high
/// ones.
#[cube]
fn nibble(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + i % 16) >> (4u32 * (i / 16) as u32)) & 15u32
}

/// Bit `i` of the bytes at `at`.
#[cube]
fn bit(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + i / 8) >> (i % 8) as u32) & 1u32
}

/// The low four bits of weight `i` of a K block: 32 bytes hold an even group in low nibbles, the
/// next in high ones.
#[cube]
fn paired_nibble(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + 32 * (i / 64) + i % 32) >> (4u32 * ((i / 32) % 2) as u32)) & 15u32
}

/// The low two bits of weight `i` of a K block: 32 bytes hold four groups, a group to each pair of
/// bits.
#[cube]
fn two_bits(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + 32 * (i / 128) + i % 32) >> (2u32 * ((i / 32) % 4) as u32)) & 3u32
}

/// The six bits of group `g` in the four bytes at `at` (groups 0 to 3) or, for groups 4 to 7, in
/// nibbles at `nibbles`, low or high by `shift`, below the top two bits of the byte at `at`.
#[cube]
pub(super) fn six_bits(words: &[u32], at: usize, nibbles: usize, g: usize, shift: u32) -> u32 {
    let first = byte(words, at + g % 4);
    let later = ((byte(words, nibbles + g % 4) >> shift) & 15u32) | ((first >> 6u32) << 4u32);
    select(g < 4, first & 63u32, later)
}

/// Weight `i` of a block of Q4_K or Q5_K at `at`, whose code is `q`: `d * s * q - dmin * m`.
#[cube]
fn with_six_bits(words: &[u32], at: usize, i: usize, q: u32) -> f32 {
    let g = i / 32;
    let scale = half(words, at) * f32::cast_from(six_bits(words, at + 4, at + 12, g, 0u32));
    let minimum = half(words, at + 2) * f32::cast_from(six_bits(words, at + 8, at + 12, g, 4u32));
    scale * f32::cast_from(q) - minimum
}

/// The 6-bit scale of half-group `j` of Q3_K, in twelve bytes at `at`.
#[cube]
fn q3_scale(words: &[u32], at: usize, j: usize) -> i32 {
    let low = (byte(words, at + j % 8) >> (4u32 * (j / 8) as u32)) & 15u32;
    let high = (byte(words, at + 8 + j % 4) >> (2u32 * (j / 4) as u32)) & 3u32;
    (low | (high << 4u32)) as i32 - 32i32
}

/// Four entries of the codebook of IQ4_XS and IQ4_NL in a word, offset by 128 so that none is
/// negative.
const fn four_levels(first: usize) -> u32 {
    let mut bytes = [0; 4];
    let mut i = 0;
    while i < 4 {
        bytes[i] = (LEVELS[first + i] as u8) ^ 0x80;
        i += 1;
    }
    u32::from_le_bytes(bytes)
}

/// The codebook entry of a 4-bit code.
#[cube]
pub(super) fn level(code: u32) -> f32 {
    let low = select(
        code < 4u32,
        comptime!(four_levels(0)).runtime(),
        comptime!(four_levels(4)).runtime(),
    );
    let high = select(
        code < 12u32,
        comptime!(four_levels(8)).runtime(),
        comptime!(four_levels(12)).runtime(),
    );
    let four = select(code < 8u32, low, high);
    f32::cast_from(((four >> (8u32 * (code % 4u32))) & 0xffu32) as i32 - 128i32)
}

/// The scale of group `g` of a block of IQ4_XS at `at`.
#[cube]
pub(super) fn xs_scale(words: &[u32], at: usize, g: usize) -> f32 {
    let low = (byte(words, at + 4 + g / 2) >> (4u32 * (g % 2) as u32)) & 15u32;
    let high = (short(words, at + 2) >> (2u32 * g as u32)) & 3u32;
    half(words, at) * f32::cast_from((low | (high << 4u32)) as i32 - 32i32)
}

/// Weight `i` of the block whose first byte is `at`.
#[cube]
pub(super) fn weight(words: &[u32], at: usize, i: usize, #[comptime] quant: Quant) -> f32 {
    match quant {
        Quant::F32 => f32::reinterpret(words[at / 4]),
        Quant::F16 => half(words, at),
        Quant::BF16 => f32::reinterpret(short(words, at) << 16u32),
        Quant::Q4_0 => half(words, at) * f32::cast_from(nibble(words, at + 2, i) as i32 - 8i32),
        Quant::Q4_1 => half(words, at) * f32::cast_from(nibble(words, at + 4, i)) + half(words, at + 2),
        Quant::Q5_0 => {
            let q = nibble(words, at + 6, i) | (bit(words, at + 2, i) << 4u32);
            half(words, at) * f32::cast_from(q as i32 - 16i32)
        }
        Quant::Q5_1 => {
            let q = nibble(words, at + 8, i) | (bit(words, at + 4, i) << 4u32);
            half(words, at) * f32::cast_from(q) + half(words, at + 2)
        }
        Quant::Q8_0 => half(words, at) * f32::cast_from(signed(words, at + 2 + i)),
        Quant::Q2_K => {
            let scales = byte(words, at + i / 16);
            let scale = half(words, at + 80) * f32::cast_from(scales & 15u32);
            let minimum = half(words, at + 82) * f32::cast_from(scales >> 4u32);
            scale * f32::cast_from(two_bits(words, at + 16, i)) - minimum
        }
        Quant::Q3_K => {
            let third = (byte(words, at + i % 32) >> (i / 32) as u32) & 1u32;
            let q = two_bits(words, at + 32, i) | (third << 2u32);
            let scale = half(words, at + 108) * f32::cast_from(q3_scale(words, at + 96, i / 16));
            scale * f32::cast_from(q as i32 - 4i32)
        }
        Quant::Q4_K => with_six_bits(words, at, i, paired_nibble(words, at + 16, i)),
        Quant::Q5_K => {
            let fifth = (byte(words, at + 16 + i % 32) >> (i / 32) as u32) & 1u32;
            with_six_bits(words, at, i, paired_nibble(words, at + 48, i) | (fifth << 4u32))
        }
        Quant::Q6_K => {
            // 128 weights take 64 bytes of low bits and 32 of high bits; g is the group among their
            // four.
            let part = i / 128;
            let g = (i / 32) % 4;
            let l = i % 32;
            let low = (byte(words, at + 64 * part + 32 * (g % 2) + l) >> (4u32 * (g / 2) as u32)) & 15u32;
            let high = (byte(words, at + 128 + 32 * part + l) >> (2u32 * g as u32)) & 3u32;
            let scale = half(words, at + 208) * f32::cast_from(signed(words, at + 192 + i / 16));
            scale * f32::cast_from((low | (high << 4u32)) as i32 - 32i32)
        }
        Quant::IQ4_XS => {
            let g = i / 32;
            xs_scale(words, at, g) * level(nibble(words, at + 8 + 16 * g, i % 32))
        }
        Quant::IQ4_NL => half(words, at) * level(nibble(words, at + 2, i)),
    }
}
