//! AVX2: `vpmaddubsw` on eight rows at a time, widened to 32 bits by `vpmaddwd`.

use super::layout::Packable;
use super::scales::{RowLanes, restores_sign, row_scales, zero_point_shift};
use super::{Group, PackedProduct, ROWS};
use crate::blocks::{CHUNK, GROUP, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx2, avx2};
use std::arch::x86_64::*;

/// Eight rows.
struct Eight;

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "guaranteed by the caller, for every method"
)]
impl RowLanes for Eight {
    type Floats = __m256;
    type Words = __m256i;

    const COUNT: usize = 8;
    /// The sum of two products of a full unsigned byte with a signed one could overflow 16 bits.
    const SIGNS: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8) -> __m256i {
        unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())) }
    }

    #[inline(always)]
    unsafe fn shift_left(words: __m256i, shift: usize) -> __m256i {
        unsafe { _mm256_sll_epi32(words, _mm_cvtsi32_si128(shift as i32)) }
    }

    #[inline(always)]
    unsafe fn offset(words: __m256i, by: i32) -> __m256i {
        unsafe { _mm256_add_epi32(words, _mm256_set1_epi32(by)) }
    }

    #[inline(always)]
    unsafe fn from_bits(words: __m256i) -> __m256 {
        unsafe { _mm256_castsi256_ps(words) }
    }

    #[inline(always)]
    unsafe fn bits(words: __m256i, shift: usize, mask: i32) -> __m256i {
        unsafe {
            _mm256_and_si256(
                _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32)),
                _mm256_set1_epi32(mask),
            )
        }
    }

    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn floats(words: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(words) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
}

avx2! {
    /// Codes of four columns of eight rows: vector `v` of the tile at `at`, row half `half`.
    ///
    /// # Safety
    /// `at` points to a tile, and `v` is below 8.
    #[inline]
    unsafe fn codes<B: Packable>(at: *const u8, v: usize, half: usize) -> __m256i {
        // SAFETY: all reads are within the tile, as the caller guarantees; loads need no alignment.
        unsafe {
            let vector = |at: *const u8, v: usize| _mm256_loadu_si256(at.add(64 * v + 32 * half).cast());
            let lower = at.add(B::LAYOUT.upper_bytes());
            if B::LAYOUT.bits == 8 {
                return vector(lower, v);
            }
            let pairs = |v: usize| vector(at.add(B::LAYOUT.bit_bytes()), v / 4);
            let bits = |value: i8| spread(at.add(8 * v + 4 * half).cast::<i32>().read_unaligned(), value);
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
            let nibbles = match v < 4 {
                true => _mm256_and_si256(both, low),
                false => _mm256_and_si256(_mm256_srli_epi16::<4>(both), low),
            };
            if B::LAYOUT.codebook.is_some() {
                let values = _mm256_broadcastsi128_si256(_mm_loadu_si128(B::UNSIGNED_VALUES.as_ptr().cast()));
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

avx2! {
    /// Dot products of four columns of eight rows with four activations, in 32 bits.
    #[inline]
    fn multiply<B: Packable>(codes: __m256i, values: __m256i) -> __m256i {
        let pairs = if restores_sign::<Eight, B>() {
            let signed = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
            _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(values, signed))
        } else {
            _mm256_maddubs_epi16(codes, values)
        };
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

avx2! {
    /// Multiplies eight rows with `N` tokens starting at `first`; writes results to `out` from `8
    /// half` on.
    ///
    /// # Safety
    /// `blocks` are whole packed blocks, and every token has `chunks` chunks that cover them.
    #[inline]
    unsafe fn tokens<B: Packable, const N: usize>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        half: usize,
        out: &mut [[f32; ROWS]; N],
    ) {
        let tiles = B::LAYOUT.scales.tiles;
        // A tile, or each half of it, is summed in integers.
        let parts = if B::LAYOUT.halves() { 2 } else { 1 };
        let mut sums = [_mm256_setzero_ps(); N];
        for (index, block) in blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..tiles {
                let group = index * tiles + at;
                let (chunk, part) = (group * GROUP / CHUNK, group % (CHUNK / GROUP));
                // SAFETY: `at` counts the tiles of a whole block, and the chunk of a tile is one of
                // the token's `chunks`.
                unsafe {
                    let chunk_of = |token: usize| activations.get_unchecked((first + token) * chunks + chunk);
                    let codes_at = block.as_ptr().add(B::LAYOUT.tile_at(at));
                    let scales = row_scales::<Eight, B>(block.as_ptr(), at, half);
                    for which in 0..parts {
                        let mut dots = std::array::from_fn::<_, N, _>(|token| {
                            let Some(shift) = zero_point_shift::<Eight, B>() else {
                                return _mm256_setzero_si256();
                            };
                            let minus = match parts {
                                1 => *chunk_of(token).minus_sums.get_unchecked(part),
                                _ => *chunk_of(token).minus_half_sums.get_unchecked(2 * part + which),
                            };
                            _mm256_set1_epi32(minus << shift)
                        });
                        for v in 8 / parts * which..8 / parts * (which + 1) {
                            let codes = codes::<B>(codes_at, v, half);
                            for (token, dot) in dots.iter_mut().enumerate() {
                                let values = chunk_of(token).values.as_ptr().add(GROUP * part + 4 * v);
                                let values = _mm256_set1_epi32(values.cast::<i32>().read_unaligned());
                                *dot = _mm256_add_epi32(*dot, multiply::<B>(codes, values));
                            }
                        }
                        for (token, sum) in sums.iter_mut().enumerate() {
                            let chunk = chunk_of(token);
                            let scale = _mm256_set1_ps(*chunk.scales.get_unchecked(part));
                            let products = _mm256_mul_ps(scales.scale[which], _mm256_cvtepi32_ps(dots[token]));
                            *sum = _mm256_fmadd_ps(products, scale, *sum);
                            if B::LAYOUT.has_minimum() {
                                let all = match parts {
                                    1 => *chunk.sums.get_unchecked(part),
                                    _ => *chunk.half_sums.get_unchecked(2 * part + which),
                                };
                                *sum = _mm256_fmadd_ps(scales.minimum[which], _mm256_set1_ps(all), *sum);
                            }
                        }
                    }
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(&sums) {
            // SAFETY: eight floats from index 0 or 8 of sixteen are one vector.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(8 * half), *sum) };
        }
    }
}

avx2! {
    /// Multiplies sixteen rows with `N` tokens. Returns `N`.
    ///
    /// # Safety
    /// See [`tokens`].
    #[inline]
    unsafe fn both_halves<B: Packable, const N: usize>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) -> usize {
        let mut out = [[0.0; ROWS]; N];
        for half in 0..2 {
            // SAFETY: guaranteed by the caller.
            unsafe { tokens::<B, N>(blocks, activations, chunks, first, half, &mut out) };
        }
        for (token, out) in out.iter().enumerate() {
            sink(first + token, out);
        }
        N
    }
}

avx2! {
    /// Multiplies sixteen rows with every token.
    ///
    /// # Safety
    /// See [`tokens`].
    unsafe fn all_tokens<B: Packable>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        count: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let mut first = 0;
        while first < count {
            // SAFETY: guaranteed by the caller; never more tokens than remain. Four at once fit
            // sixteen registers.
            first += unsafe {
                match count - first {
                    4.. => both_halves::<B, 4>(blocks, activations, chunks, first, sink),
                    _ => both_halves::<B, 1>(blocks, activations, chunks, first, sink),
                }
            };
        }
    }
}

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the macro drops the comment: the token proves the instructions, and `Group` its sizes"
)]
impl PackedProduct for Avx2 {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        with_format!(group.quant, float _F => (), block B => unsafe { all_tokens::<B>(group.blocks, group.activations, group.chunks, group.tokens, sink) });
    }
}
