//! AVX2: `vpmaddubsw` on eight rows at a time, widened to 32 bits with `vpmaddwd`.

use super::{ROWS, Shape};
use crate::blocks::{CHUNK, GROUP, Quant};
use crate::dot::ActivationChunk;
use std::arch::x86_64::*;

/// The format, as numbers known when compiling: see the AVX-512 twin.
struct Format<const BITS: usize, const MINIMA: bool, const ZERO: u8>;

impl<const BITS: usize, const MINIMA: bool, const ZERO: u8> Format<BITS, MINIMA, ZERO> {
    const SHAPE: Shape = Shape {
        minima: MINIMA,
        bits: BITS,
        zero: ZERO,
    };

    /// Codes of four columns of eight rows, from vector `v` of the tile; `half` says which eight rows.
    ///
    /// # Safety
    /// `at` is the beginning of a whole tile.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn codes(at: *const u8, v: usize, half: usize) -> __m256i {
        // SAFETY: all that is read lies within a tile, which the caller vouches for; loads need no alignment.
        unsafe {
            let vector = |v: usize| _mm256_loadu_si256(at.add(Self::SHAPE.codes_at() + 64 * v + 32 * half).cast());
            if BITS == 8 {
                return vector(v);
            }
            let low = _mm256_set1_epi8(0x0f);
            let both = vector(v % 4);
            let nibbles = match v < 4 {
                true => _mm256_and_si256(both, low),
                false => _mm256_and_si256(_mm256_srli_epi16::<4>(both), low),
            };
            if BITS == 4 {
                return nibbles;
            }
            let fifths = at
                .add(Self::SHAPE.fifth_bits_at() + 8 * v + 4 * half)
                .cast::<i32>()
                .read_unaligned();
            _mm256_or_si256(nibbles, spread(fifths))
        }
    }

    /// Products of four columns of eight rows with four activations, in 32 bits. Codes of 8 bits get their sign back here, because two
    /// products of a byte without sign would not fit 16 bits.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn multiply(codes: __m256i, values: __m256i) -> __m256i {
        let pairs = if BITS == 8 {
            let signed = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
            _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(values, signed))
        } else {
            _mm256_maddubs_epi16(codes, values)
        };
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }

    /// Eight rows against `N` tokens from `first` on; their results go to `out`, from place `8 half` on.
    ///
    /// # Safety
    /// `tiles` are whole tiles, and every token has `chunks` chunks that cover them.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn tokens<const N: usize>(
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        half: usize,
        out: &mut [[f32; ROWS]; N],
    ) {
        let mut sums = [_mm256_setzero_ps(); N];
        let zero = _mm256_set1_ps(f32::from(ZERO));
        for at in 0..tiles.len() / Self::SHAPE.bytes() {
            // SAFETY: `at` counts whole tiles, and the chunk of a tile is one of the token's `chunks`.
            unsafe {
                let tile = tiles.as_ptr().add(at * Self::SHAPE.bytes());
                let (chunk, part) = (at * GROUP / CHUNK, at % (CHUNK / GROUP));
                let mut dots = [_mm256_setzero_si256(); N];
                for v in 0..8 {
                    let codes = Self::codes(tile, v, half);
                    for (token, dot) in dots.iter_mut().enumerate() {
                        let chunk = activations.get_unchecked((first + token) * chunks + chunk);
                        let values = chunk
                            .values
                            .as_ptr()
                            .add(GROUP * part)
                            .cast::<i32>()
                            .add(v)
                            .read_unaligned();
                        *dot = _mm256_add_epi32(*dot, Self::multiply(codes, _mm256_set1_epi32(values)));
                    }
                }
                let scales = _mm256_cvtph_ps(_mm_loadu_si128(tile.add(16 * half).cast()));
                for (token, sum) in sums.iter_mut().enumerate() {
                    let chunk = activations.get_unchecked((first + token) * chunks + chunk);
                    let scale = _mm256_set1_ps(*chunk.scales.get_unchecked(part));
                    let all = _mm256_set1_ps(*chunk.sums.get_unchecked(part));
                    let mut dot = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[token]), scale);
                    if ZERO != 0 && BITS != 8 {
                        dot = _mm256_fnmadd_ps(zero, all, dot);
                    }
                    *sum = _mm256_fmadd_ps(scales, dot, *sum);
                    if MINIMA {
                        let minima = tile.add(Self::SHAPE.minima_at() + 16 * half);
                        *sum = _mm256_fmadd_ps(_mm256_cvtph_ps(_mm_loadu_si128(minima.cast())), all, *sum);
                    }
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(&sums) {
            // SAFETY: eight floats from place 0 or 8 of sixteen are one vector.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(8 * half), *sum) };
        }
    }

    /// Sixteen rows against `N` tokens.
    ///
    /// # Safety
    /// As [`Self::tokens`].
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn both_halves<const N: usize>(
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) -> usize {
        let mut out = [[0.0; ROWS]; N];
        for half in 0..2 {
            // SAFETY: the caller's word.
            unsafe { Self::tokens::<N>(tiles, activations, chunks, first, half, &mut out) };
        }
        for (token, out) in out.iter().enumerate() {
            sink(first + token, out);
        }
        N
    }

    /// Sixteen rows against every token.
    ///
    /// # Safety
    /// As [`Self::tokens`].
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn group(
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        tokens: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let mut first = 0;
        while first < tokens {
            // SAFETY: the caller's word, and never more tokens than are left. Four at once fit sixteen registers.
            first += unsafe {
                match tokens - first {
                    4.. => Self::both_halves::<4>(tiles, activations, chunks, first, sink),
                    _ => Self::both_halves::<1>(tiles, activations, chunks, first, sink),
                }
            };
        }
    }
}

/// Sixteen in every byte whose bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(bits: i32) -> __m256i {
    let byte_of_bit = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_bit);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
    _mm256_and_si256(set, _mm256_set1_epi8(16))
}

/// Sixteen rows against every token: `sink(token, results)`.
///
/// # Safety
/// The machine has AVX2, FMA and F16C; `tiles` are whole tiles of `quant`, which can be packed, and every token has `chunks` chunks that
/// cover them.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn group(
    quant: Quant,
    tiles: &[u8],
    activations: &[ActivationChunk],
    chunks: usize,
    tokens: usize,
    sink: &mut dyn FnMut(usize, &[f32; ROWS]),
) {
    // SAFETY: the caller's word.
    unsafe {
        match quant {
            Quant::Q4_0 => Format::<4, false, 8>::group(tiles, activations, chunks, tokens, sink),
            Quant::Q4_1 => Format::<4, true, 0>::group(tiles, activations, chunks, tokens, sink),
            Quant::Q5_0 => Format::<5, false, 16>::group(tiles, activations, chunks, tokens, sink),
            Quant::Q5_1 => Format::<5, true, 0>::group(tiles, activations, chunks, tokens, sink),
            _ => Format::<8, false, 128>::group(tiles, activations, chunks, tokens, sink),
        }
    }
}
