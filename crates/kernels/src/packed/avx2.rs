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
        let vector = |at: usize, v: usize| load(array::<32>(tile, at + 64 * v + 32 * half));
        let lower = B::LAYOUT.upper_bytes();
        if B::LAYOUT.bits == 8 {
            return vector(lower, v);
        }
        let pairs = |v: usize| vector(B::LAYOUT.bit_bytes(), v / 4);
        let bits = |value: i8| spread(i32::from_le_bytes(*array(tile, 8 * v + 4 * half)), value);
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
                3 => _mm256_or_si256(codes, bits(4)),
                _ => codes,
            };
        }
        let low = _mm256_set1_epi8(0x0f);
        let both = vector(lower, v % 4);
        let nibbles = if v < 4 {
            _mm256_and_si256(both, low)
        } else {
            _mm256_and_si256(_mm256_srli_epi16::<4>(both), low)
        };
        if B::LAYOUT.codebook.is_some() {
            let values = _mm256_broadcastsi128_si256(load(&B::UNSIGNED_VALUES));
            return _mm256_shuffle_epi8(values, nibbles);
        }
        match B::LAYOUT.bits {
            5 => _mm256_or_si256(nibbles, bits(16)),
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
    fn spread(bits: i32, value: i8) -> __m256i {
        let byte_of_bit = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_bit);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(value))
    }
}

/// Vectors of codes of a format whose products, two added by `vpmaddubsw`, fit 16 bits when they
/// are added: a power of two, at most `most`.
const fn fitting<B: Packable>(most: usize) -> usize {
    let mut greatest: i32 = if restores_sign::<Avx2, B>() {
        128
    } else {
        (1 << B::LAYOUT.bits) - 1
    };
    if B::LAYOUT.codebook.is_some() && !restores_sign::<Avx2, B>() {
        let mut at = 0;
        greatest = 0;
        while at < B::UNSIGNED_VALUES.len() {
            let value = B::UNSIGNED_VALUES[at] as i32;
            greatest = if value > greatest { value } else { greatest };
            at += 1;
        }
    }
    let sum = 2 * greatest * MAX_CODE as i32;
    assert!(sum <= i16::MAX as i32);
    let mut fitting = most;
    while fitting as i32 * sum > i16::MAX as i32 {
        fitting /= 2;
    }
    fitting
}

avx2! {
    /// The codes of both halves of a tile's rows, signed if the format restores signs.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> [[__m256i; 2]; 8] {
        let mut all = [[_mm256_setzero_si256(); 2]; 8];
        for (v, all) in all.iter_mut().enumerate() {
            for (half, all) in all.iter_mut().enumerate() {
                let codes = codes::<B>(tile, v, half);
                *all = if restores_sign::<Avx2, B>() { _mm256_xor_si256(codes, _mm256_set1_epi8(-128)) } else { codes };
            }
        }
        all
    }
}

avx2! {
    /// Products of four columns of eight rows with four activations, in pairs, in 16 bits.
    #[inline]
    fn pairs<B: Packable>(codes: __m256i, values: __m256i) -> __m256i {
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
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [[__m256; 2]; K],
    ) {
        // A tile, or each half of it, is summed in integers.
        let parts = if B::LAYOUT.halves() { 2 } else { 1 };
        for which in 0..parts {
            let mut dots = [[_mm256_setzero_si256(); 2]; K];
            for (dots, chunk) in dots.iter_mut().zip(chunks) {
                *dots = [zero_point::<Avx2, B>(chunk, part, which); 2];
            }
            let fitting = const { fitting::<B>(if B::LAYOUT.halves() { 4 } else { 8 }) };
            for first in (8 / parts * which..8 / parts * (which + 1)).step_by(fitting) {
                let mut sums = [[_mm256_setzero_si256(); 2]; K];
                for (at, codes) in codes[first..][..fitting].iter().enumerate() {
                    for (sums, chunk) in sums.iter_mut().zip(chunks) {
                        let values = _mm256_set1_epi32(chunk.four(part, first + at));
                        for (sum, codes) in sums.iter_mut().zip(codes) {
                            *sum = _mm256_add_epi16(*sum, pairs::<B>(*codes, values));
                        }
                    }
                }
                for (dot, sum) in dots.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                    *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(*sum, _mm256_set1_epi16(1)));
                }
            }
            add_scaled!(B; dots, scales, chunks, [part, which], sums);
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

    fn group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self, group, out);
    }
}
