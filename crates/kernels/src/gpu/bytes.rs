//! Loads from a file's blocks, which kernels take as 32-bit words.
//!
//! Blocks are contiguous, and most have a size that is not a multiple of four (17, 18, 22, 34, 110,
//! 210 bytes), so a block may begin in the middle of a word. Everything is therefore addressed by
//! its byte offset in the buffer. The blocks of formats with f16 fields have even sizes and these
//! fields even offsets, so none crosses a word boundary.

use super::f16::from_bits;
use cubecl::prelude::*;

/// Weights of a segment; see [`decode`](super::decode).
pub(crate) const SEGMENT: usize = 8;

/// The byte at `offset`.
#[cube]
pub(crate) fn load_u8(words: &[u32], offset: usize) -> u32 {
    (words[offset / 4] >> (8u32 * (offset % 4) as u32)) & 0xffu32
}

/// The byte at `offset` as an i8 (two's complement).
#[cube]
pub(crate) fn load_i8(words: &[u32], offset: usize) -> i32 {
    (load_u8(words, offset) ^ 0x80u32) as i32 - 128i32
}

/// The u16 at `offset`, which is even.
#[cube]
pub(crate) fn load_u16(words: &[u32], offset: usize) -> u32 {
    (words[offset / 4] >> (8u32 * (offset % 4) as u32)) & 0xffffu32
}

/// The f16 at `offset`, which is even.
#[cube]
pub(crate) fn load_f16(words: &[u32], offset: usize) -> f32 {
    from_bits(load_u16(words, offset))
}

/// The u32 at `offset`, which is even.
#[cube]
pub(crate) fn load_u32_even(words: &[u32], offset: usize) -> u32 {
    let mut word = words[offset / 4];
    if offset % 4 == 2 {
        word = (word >> 16u32) | (words[offset / 4 + 1] << 16u32);
    }
    word
}

/// The u32 at `offset`.
#[cube]
pub(crate) fn load_u32(words: &[u32], offset: usize) -> u32 {
    let mut word = words[offset / 4];
    let shift = 8u32 * (offset % 4) as u32;
    if shift > 0u32 {
        word = (word >> shift) | (words[offset / 4 + 1] << (32u32 - shift));
    }
    word
}

/// Nibble `i` of the 16 bytes at `offset`, which have weights 0 to 15 in the low nibbles and 16 to
/// 31 in the high ones.
#[cube]
pub(crate) fn load_nibble(words: &[u32], offset: usize, i: usize) -> u32 {
    (load_u8(words, offset + i % 16) >> (4u32 * (i / 16) as u32)) & 15u32
}

/// Bit `i` of the bytes at `offset`.
#[cube]
pub(crate) fn load_bit(words: &[u32], offset: usize, i: usize) -> u32 {
    (load_u8(words, offset + i / 8) >> (i % 8) as u32) & 1u32
}

/// The value of a four-bit code in a codebook; see [`codebook_words`].
#[cube]
pub(crate) fn look_up(code: u32, #[comptime] values: [u32; 4]) -> f32 {
    let low = select(
        code < 4u32,
        comptime!(values[0]).runtime(),
        comptime!(values[1]).runtime(),
    );
    let high = select(
        code < 12u32,
        comptime!(values[2]).runtime(),
        comptime!(values[3]).runtime(),
    );
    let word = select(code < 8u32, low, high);
    f32::cast_from(((word >> (8u32 * (code % 4u32))) & 0xffu32) as i32 - 128i32)
}

/// A codebook for [`look_up`]: four values to a word, offset by 128 so that none is negative.
pub(crate) const fn codebook_words(codebook: &[i8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    let mut i = 0;
    while i < 16 {
        words[i / 4] |= ((codebook[i] as u8 ^ 0x80) as u32) << (8 * (i % 4));
        i += 1;
    }
    words
}
