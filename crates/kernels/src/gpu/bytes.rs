//! Reads of a file's blocks, which kernels take as words.
//!
//! Blocks are contiguous, and most have a size that is not a multiple of four (17, 18, 22, 34, 110,
//! 210 bytes), so a block may begin in the middle of a word. Everything is therefore addressed by
//! its byte offset in the buffer. The blocks of formats with f16 fields have even sizes and these
//! fields even offsets, so none crosses a word boundary.

use super::f16::from_bits;
use cubecl::prelude::*;

/// Weights of a segment; see [`decode`](super::decode).
pub(crate) const SEGMENT: usize = 8;

/// The byte at `at`.
#[cube]
pub(crate) fn byte(words: &[u32], at: usize) -> u32 {
    (words[at / 4] >> (8u32 * (at % 4) as u32)) & 0xffu32
}

/// The byte at `at` as an i8 (two's complement).
#[cube]
pub(crate) fn signed(words: &[u32], at: usize) -> i32 {
    (byte(words, at) ^ 0x80u32) as i32 - 128i32
}

/// The 16 bits at `at`, which is even.
#[cube]
pub(crate) fn short(words: &[u32], at: usize) -> u32 {
    (words[at / 4] >> (8u32 * (at % 4) as u32)) & 0xffffu32
}

/// The f16 at `at`, which is even.
#[cube]
pub(crate) fn half(words: &[u32], at: usize) -> f32 {
    from_bits(short(words, at))
}

/// The four bytes at `at`, which is even.
#[cube]
pub(crate) fn word(words: &[u32], at: usize) -> u32 {
    let mut word = words[at / 4];
    if at % 4 == 2 {
        word = (word >> 16u32) | (words[at / 4 + 1] << 16u32);
    }
    word
}

/// The four bytes at `at`.
#[cube]
pub(crate) fn any_word(words: &[u32], at: usize) -> u32 {
    let mut word = words[at / 4];
    let shift = 8u32 * (at % 4) as u32;
    if shift > 0u32 {
        word = (word >> shift) | (words[at / 4 + 1] << (32u32 - shift));
    }
    word
}

/// Nibble `i` of 16 bytes at `at` with weights 0 to 15 in the low nibbles and 16 to 31 in the high
/// ones.
#[cube]
pub(crate) fn nibble(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + i % 16) >> (4u32 * (i / 16) as u32)) & 15u32
}

/// Bit `i` of the bytes at `at`.
#[cube]
pub(crate) fn bit(words: &[u32], at: usize, i: usize) -> u32 {
    (byte(words, at + i / 8) >> (i % 8) as u32) & 1u32
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
    let four = select(code < 8u32, low, high);
    f32::cast_from(((four >> (8u32 * (code % 4u32))) & 0xffu32) as i32 - 128i32)
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
