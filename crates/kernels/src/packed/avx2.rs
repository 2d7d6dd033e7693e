//! AVX2: `vpmaddubsw` multiplies four columns of eight rows with four broadcast activations, and
//! adds pairs. As many of its sums as 16 bits hold are added before `vpmaddwd` widens them to 32
//! bits: all eight of a tile of linear 4-bit codes, one of 8-bit codes.

use super::layout::Packable;
use super::scales::{RowScales, restores_sign, row_scales};
use super::sixteen_rows::{add_scaled, sixteen_rows, zero_point};
use super::{Group, PackedProduct, ROWS, array, each_tile, locate};
use crate::blocks::with_format;
use crate::gemv::{ActivationChunk, MAX_CODE};
use crate::lanes::{Avx2, avx2, load, methods, store};
use std::arch::x86_64::*;

avx2! {
    /// Codes of four columns of eight rows: vector `v` of a tile, row half `half`.
    #[inline]
    pub(super) fn codes<B: Packable>(tile: &[u8], v: usize, half: usize) -> __m256i {
        let vector = |offset: usize, v: usize| load(array::<32>(tile, offset + 64 * v + 32 * half));
        let lower = B::LAYOUT.upper_bytes();
        if B::LAYOUT.bits == 8 {
            return vector(lower, v);
        }
        let pairs = |v: usize| vector(B::LAYOUT.bit_bytes(), v / 4);
        let top_bits = |value: i8| expand_bits(i32::from_le_bytes(*array(tile, 8 * v + 4 * half)), value);
        if B::LAYOUT.bits < 4 {
            let pairs = pairs(v);
            let pairs = match v % 4 {
                0 => pairs,
                1 => _mm256_srli_epi16::<2>(pairs),
                2 => _mm256_srli_epi16::<4>(pairs),
                _ => _mm256_srli_epi16::<6>(pairs),
            };
            let codes = _mm256_and_si256(pairs, _mm256_set1_epi8(3));
            return match B::LAYOUT.bits {
                3 => _mm256_or_si256(codes, top_bits(4)),
                _ => codes,
            };
        }
        let low_nibble = _mm256_set1_epi8(0x0f);
        let bytes = vector(lower, v % 4);
        let nibbles = if v < 4 {
            _mm256_and_si256(bytes, low_nibble)
        } else {
            _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_nibble)
        };
        if B::LAYOUT.codebook.is_some() {
            let values = _mm256_broadcastsi128_si256(load(&B::UNSIGNED_VALUES));
            return _mm256_shuffle_epi8(values, nibbles);
        }
        match B::LAYOUT.bits {
            5 => _mm256_or_si256(nibbles, top_bits(16)),
            6 => {
                let upper = pairs(v);
                let upper = match v % 4 {
                    0 => _mm256_slli_epi16::<4>(upper),
                    1 => _mm256_slli_epi16::<2>(upper),
                    2 => upper,
                    _ => _mm256_srli_epi16::<2>(upper),
                };
                _mm256_or_si256(nibbles, _mm256_and_si256(upper, _mm256_set1_epi8(0x30)))
            }
            _ => nibbles,
        }
    }
}

avx2! {
    /// `value` in every byte whose bit is set, zero elsewhere.
    #[inline]
    fn expand_bits(bits: i32, value: i8) -> __m256i {
        let byte_of_bit = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_bit);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let mask = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_and_si256(mask, _mm256_set1_epi8(value))
    }
}

/// Number of vectors of codes of a format whose products, of which `vpmaddubsw` adds two, can be
/// added in 16 bits: a power of two, at most `limit`.
const fn vectors_per_i16_sum<B: Packable>(limit: usize) -> usize {
    let mut max_code: i32 = if restores_sign::<Avx2, B>() {
        128
    } else {
        (1 << B::LAYOUT.bits) - 1
    };
    if B::LAYOUT.codebook.is_some() && !restores_sign::<Avx2, B>() {
        let mut i = 0;
        max_code = 0;
        while i < B::UNSIGNED_VALUES.len() {
            let value = B::UNSIGNED_VALUES[i] as i32;
            max_code = if value > max_code { value } else { max_code };
            i += 1;
        }
    }
    let sum_of_two = 2 * max_code * MAX_CODE as i32;
    assert!(sum_of_two <= i16::MAX as i32);
    let mut vectors = limit;
    while vectors as i32 * sum_of_two > i16::MAX as i32 {
        vectors /= 2;
    }
    vectors
}

avx2! {
    /// The codes of a tile: for each vector, both halves of the rows. They are signed if
    /// [`restores_sign`].
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> [[__m256i; 2]; 8] {
        let mut out_codes = [[_mm256_setzero_si256(); 2]; 8];
        for (v, halves) in out_codes.iter_mut().enumerate() {
            for (half, out) in halves.iter_mut().enumerate() {
                let codes = codes::<B>(tile, v, half);
                *out = if restores_sign::<Avx2, B>() { _mm256_xor_si256(codes, _mm256_set1_epi8(-128)) } else { codes };
            }
        }
        out_codes
    }
}

avx2! {
    /// Dot products of pairs of columns with pairs of activations, in 16 bits.
    #[inline]
    fn dot_pairs<B: Packable>(codes: __m256i, values: __m256i) -> __m256i {
        if restores_sign::<Avx2, B>() {
            _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(values, codes))
        } else {
            _mm256_maddubs_epi16(codes, values)
        }
    }
}

avx2! {
    /// Accumulates the products of a tile's rows with part `part` of the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const K: usize>(
        codes: &[[__m256i; 2]; 8],
        scales: &RowScales<[__m256; 2]>,
        activations: [&ActivationChunk; K],
        part: usize,
        sums: &mut [[__m256; 2]; K],
    ) {
        // Each half of the columns, or all of them if halves have no scales, is summed in integers.
        let halves = if B::LAYOUT.halves() { 2 } else { 1 };
        for half in 0..halves {
            let mut dots = [[_mm256_setzero_si256(); 2]; K];
            for (dots, activations) in dots.iter_mut().zip(activations) {
                *dots = [zero_point::<Avx2, B>(activations, part, half); 2];
            }
            let vectors = const { vectors_per_i16_sum::<B>(if B::LAYOUT.halves() { 4 } else { 8 }) };
            for first in (8 / halves * half..8 / halves * (half + 1)).step_by(vectors) {
                let mut sums = [[_mm256_setzero_si256(); 2]; K];
                for (i, codes) in codes[first..][..vectors].iter().enumerate() {
                    for (sums, activations) in sums.iter_mut().zip(activations) {
                        let values = _mm256_set1_epi32(activations.four_codes(part, first + i));
                        for (sum, codes) in sums.iter_mut().zip(codes) {
                            *sum = _mm256_add_epi16(*sum, dot_pairs::<B>(*codes, values));
                        }
                    }
                }
                for (dot, sum) in dots.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                    *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(*sum, _mm256_set1_epi16(1)));
                }
            }
            add_scaled!(B; dots, scales, activations, [part, half], sums);
        }
    }
}

sixteen_rows!(avx2: 2 | 4.. => 2 x 6, 3 => 3 x 1, _ => 1 x 1);

impl Avx2 {
    methods! { avx2;
        fn product(l: Avx2, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }
    }
}

impl PackedProduct for Avx2 {
    const FASTER: bool = true;
    /// The sum of two products of a full unsigned byte with a signed one could overflow 16 bits.
    const SIGNS: bool = true;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self, group, out);
    }
}
