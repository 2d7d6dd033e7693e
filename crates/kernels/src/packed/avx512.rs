//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four activations, broadcast.

use super::{ROWS, Shape};
use crate::blocks::{CHUNK, GROUP, Quant};
use crate::dot::ActivationChunk;
use std::arch::x86_64::*;

/// A tile in registers.
struct Tile {
    /// Four columns of sixteen rows each, without sign.
    codes: [__m512i; 8],
    scales: __m512,
    minima: __m512,
}

/// The format, as numbers known when compiling: `BITS` of a code, whether there are `MINIMA`, and the code of `ZERO`.
struct Format<const BITS: usize, const MINIMA: bool, const ZERO: u8>;

impl<const BITS: usize, const MINIMA: bool, const ZERO: u8> Format<BITS, MINIMA, ZERO> {
    const SHAPE: Shape = Shape {
        minima: MINIMA,
        bits: BITS,
        zero: ZERO,
    };

    /// # Safety
    /// `at` is the beginning of a whole tile.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn load(at: *const u8) -> Tile {
        // SAFETY: all that is read lies within a tile, which the caller vouches for; loads need no alignment.
        unsafe {
            let scales = _mm512_cvtph_ps(_mm256_loadu_si256(at.cast()));
            let minima = match MINIMA {
                true => _mm512_cvtph_ps(_mm256_loadu_si256(at.add(Self::SHAPE.minima_at()).cast())),
                false => _mm512_setzero_ps(),
            };
            let vector = |v: usize| _mm512_loadu_si512(at.add(Self::SHAPE.codes_at() + 64 * v).cast());
            let mut codes = [_mm512_setzero_si512(); 8];
            if BITS == 8 {
                for (v, codes) in codes.iter_mut().enumerate() {
                    *codes = vector(v);
                }
            } else {
                let low = _mm512_set1_epi8(0x0f);
                for v in 0..4 {
                    let both = vector(v);
                    codes[v] = _mm512_and_si512(both, low);
                    codes[v + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
                }
            }
            if BITS == 5 {
                let fifths = at.add(Self::SHAPE.fifth_bits_at()).cast::<u64>();
                let sixteen = _mm512_set1_epi8(16);
                for (v, codes) in codes.iter_mut().enumerate() {
                    *codes = add_where(*codes, fifths.add(v).read_unaligned(), sixteen);
                }
            }
            Tile { codes, scales, minima }
        }
    }

    /// A tile's products with one token's activations, of which they meet `part`, added to `sum`.
    ///
    /// # Safety
    /// `part` is below 8.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn add(tile: &Tile, chunk: &ActivationChunk, part: usize, sum: __m512) -> __m512 {
        // SAFETY: a chunk has eight parts of 32 activations.
        let (values, scale, all) = unsafe {
            let values = chunk.values.as_ptr().add(GROUP * part).cast::<i32>();
            (
                values,
                *chunk.scales.get_unchecked(part),
                *chunk.sums.get_unchecked(part),
            )
        };
        let (scale, all) = (_mm512_set1_ps(scale), _mm512_set1_ps(all));
        let mut dot = _mm512_setzero_si512();
        for (v, codes) in tile.codes.iter().enumerate() {
            // SAFETY: 32 activations are eight times four.
            dot = _mm512_dpbusd_epi32(
                dot,
                *codes,
                _mm512_set1_epi32(unsafe { values.add(v).read_unaligned() }),
            );
        }
        let mut dot = _mm512_mul_ps(_mm512_cvtepi32_ps(dot), scale);
        if ZERO != 0 {
            // What was added to every code comes off again.
            dot = _mm512_fnmadd_ps(_mm512_set1_ps(f32::from(ZERO)), all, dot);
        }
        let sum = _mm512_fmadd_ps(tile.scales, dot, sum);
        match MINIMA {
            true => _mm512_fmadd_ps(tile.minima, all, sum),
            false => sum,
        }
    }

    /// Sixteen rows against `N` tokens from `first` on; `N` is at most 12.
    ///
    /// # Safety
    /// `tiles` are whole tiles, and every token has `chunks` chunks that cover them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn tokens<const N: usize>(
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let count = tiles.len() / Self::SHAPE.bytes();
        let mut sums = [_mm512_setzero_ps(); N];
        for at in 0..count {
            // SAFETY: `at` counts whole tiles, and the chunk of a tile is one of the token's `chunks`.
            unsafe {
                let tile = Self::load(tiles.as_ptr().add(at * Self::SHAPE.bytes()));
                let (chunk, part) = (at * GROUP / CHUNK, at % (CHUNK / GROUP));
                // Written out, so that the sums stay in registers: a loop this long is not unrolled.
                macro_rules! each {
                    ($($token:literal)*) => {$(
                        if $token < N {
                            let chunk = activations.get_unchecked((first + $token) * chunks + chunk);
                            sums[$token] = Self::add(&tile, chunk, part, sums[$token]);
                        }
                    )*};
                }
                each!(0 1 2 3 4 5 6 7 8 9 10 11);
            }
        }
        for (token, sum) in sums.iter().enumerate() {
            let mut out = [0.0; ROWS];
            // SAFETY: sixteen floats are one vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *sum) };
            sink(first + token, &out);
        }
    }

    /// Sixteen rows against every token. Twelve at once leave room for the tile in 32 registers.
    ///
    /// # Safety
    /// As [`Self::tokens`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn group(
        tiles: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        tokens: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let mut first = 0;
        while first < tokens {
            // SAFETY: the caller's word, and never more tokens than are left.
            unsafe {
                first += match tokens - first {
                    12.. => {
                        Self::tokens::<12>(tiles, activations, chunks, first, sink);
                        12
                    }
                    6.. => {
                        Self::tokens::<6>(tiles, activations, chunks, first, sink);
                        6
                    }
                    3.. => {
                        Self::tokens::<3>(tiles, activations, chunks, first, sink);
                        3
                    }
                    _ => {
                        Self::tokens::<1>(tiles, activations, chunks, first, sink);
                        1
                    }
                };
            }
        }
    }
}

/// Adds `what` to the bytes whose bit is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_where(codes: __m512i, bits: u64, what: __m512i) -> __m512i {
    _mm512_mask_add_epi8(codes, bits, codes, what)
}

/// Sixteen rows against every token: `sink(token, results)`.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ, VL and VNNI; `tiles` are whole tiles of `quant`, which can be packed, and every token has
/// `chunks` chunks that cover them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
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
