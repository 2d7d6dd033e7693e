//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four broadcast
//! activations, which it loads itself: a broadcast of its own would be one more operation for each
//! product.
//!
//! What runs for each tile has loops in place of closures with intrinsics, which the compiler does
//! not always inline into functions of the standard library that lack the instructions.

use super::layout::{Packable, Unit};
use super::scales::{RowScales, row_scales, zero_point};
use super::{Group, PackedProduct, ROWS, array, locate, prefetch_after};
use crate::blocks::{CHUNK, GROUP, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx512, Avx512Bf16, Token, avx512, load, methods, store};
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::offset_of;

/// Vectors of codes of a tile, four columns each.
const VECTORS: usize = 8;

avx512! {
    /// Unsigned codes of columns `4 v..4 v + 4` of a tile.
    #[inline]
    fn codes<B: Packable>(tile: &[u8], v: usize) -> __m512i {
        let vector = |v: usize| load(array::<64>(tile, B::LAYOUT.upper_bytes() + 64 * v));
        if B::LAYOUT.bits == 8 {
            return vector(v);
        }
        // Both bits of columns `16 h + i`, `+ 4`, `+ 8` and `+ 12`, lowest first.
        let pairs = || load(array::<64>(tile, B::LAYOUT.bit_bytes() + 64 * (v / 4)));
        if B::LAYOUT.bits < 4 {
            let shifted = match v % 4 {
                0 => pairs(),
                1 => _mm512_srli_epi16::<2>(pairs()),
                2 => _mm512_srli_epi16::<4>(pairs()),
                _ => _mm512_srli_epi16::<6>(pairs()),
            };
            let codes = _mm512_and_si512(shifted, _mm512_set1_epi8(3));
            return if B::LAYOUT.bits == 3 { add_bit(tile, v, codes, 4) } else { codes };
        }
        let both = vector(v % 4);
        let shifted = if v < 4 { both } else { _mm512_srli_epi16::<4>(both) };
        let codes = _mm512_and_si512(shifted, _mm512_set1_epi8(0x0f));
        if B::LAYOUT.codebook.is_some() {
            let values = _mm512_broadcast_i32x4(load(&B::UNSIGNED_VALUES));
            return _mm512_shuffle_epi8(values, codes);
        }
        match B::LAYOUT.bits {
            5 => add_bit(tile, v, codes, 16),
            6 => {
                let shifted = match v % 4 {
                    0 => _mm512_slli_epi16::<4>(pairs()),
                    1 => _mm512_slli_epi16::<2>(pairs()),
                    2 => pairs(),
                    _ => _mm512_srli_epi16::<2>(pairs()),
                };
                _mm512_or_si512(codes, _mm512_and_si512(shifted, _mm512_set1_epi8(0x30)))
            }
            _ => codes,
        }
    }
}

avx512! {
    /// Adds `value` to each of the codes of vector `v` whose bit in the first 64 bytes is set.
    #[inline]
    fn add_bit(tile: &[u8], v: usize, codes: __m512i, value: i8) -> __m512i {
        let set = u64::from_le_bytes(*array(tile, 8 * v));
        _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(value))
    }
}

/// One part of the activations of `K` tokens.
///
/// A tile reads some hundred values of them, at constant distances from three addresses. Each is in
/// a register of its own, because Intel's CPUs split a product that loads from the sum of two
/// registers into two operations, and the kernel is bound by their number.
struct Part<'a, const K: usize> {
    codes: *const u8,
    /// The first of the values of 32 bits.
    words: *const u8,
    /// The first of the values of 32 bits of half groups.
    half_words: *const u8,
    activations: PhantomData<&'a [ActivationChunk; K]>,
}

impl<'a, const K: usize> Part<'a, K> {
    /// Part `part` of the chunks of `K` tokens.
    #[inline(always)]
    fn new(chunks: &'a [ActivationChunk; K], part: usize) -> Self {
        assert!(part < CHUNK / GROUP, "a chunk has {} parts", CHUNK / GROUP);
        let at = |bytes: usize| in_register(chunks.as_ptr().cast::<u8>().wrapping_add(bytes));
        Self {
            codes: at(offset_of!(ActivationChunk, values) + GROUP * part),
            words: at(size_of::<i32>() * part),
            half_words: at(2 * size_of::<i32>() * part),
            activations: PhantomData,
        }
    }

    /// The 32 bits of a token that are `offset` bytes after `from`.
    ///
    /// # Safety
    /// They must be part of the token's chunk.
    #[inline(always)]
    unsafe fn word(from: *const u8, token: usize, offset: usize) -> i32 {
        assert!(token < K);
        // SAFETY: the caller ensures that they are within a chunk, and `token` that it exists.
        unsafe {
            from.add(token * size_of::<ActivationChunk>() + offset)
                .cast::<i32>()
                .read()
        }
    }

    /// The codes of columns `4 v..4 v + 4`.
    #[inline(always)]
    fn four(&self, token: usize, v: usize) -> i32 {
        assert!(v < VECTORS);
        // SAFETY: a part has eight times four codes.
        unsafe { Self::word(self.codes, token, 4 * v) }
    }

    #[inline(always)]
    fn scale(&self, token: usize) -> i32 {
        // SAFETY: `words` is at the part's number of words.
        unsafe { Self::word(self.words, token, offset_of!(ActivationChunk, scales)) }
    }

    /// [`activation_sum`](super::scales::activation_sum).
    #[inline(always)]
    fn sum<B: Packable>(&self, token: usize, half: usize) -> i32 {
        assert!(half < 2);
        // SAFETY: as above; `half_words` is at twice the part's number of words.
        unsafe {
            match B::LAYOUT.halves() {
                false => Self::word(self.words, token, offset_of!(ActivationChunk, sums)),
                true => Self::word(
                    self.half_words,
                    token,
                    offset_of!(ActivationChunk, half_sums) + 4 * half,
                ),
            }
        }
    }

    /// [`minus_codes`](super::scales::minus_codes).
    #[inline(always)]
    fn minus_codes<B: Packable>(&self, token: usize, half: usize) -> i32 {
        assert!(half < 2);
        // SAFETY: as above.
        unsafe {
            match B::LAYOUT.halves() {
                false => Self::word(self.words, token, offset_of!(ActivationChunk, minus_sums)),
                true => Self::word(
                    self.half_words,
                    token,
                    offset_of!(ActivationChunk, minus_half_sums) + 4 * half,
                ),
            }
        }
    }
}

/// The same address; the compiler does not know of what it is the sum.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written through the address"
)]
fn in_register(address: *const u8) -> *const u8 {
    let mut same = address;
    // SAFETY: no instruction.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) same, options(pure, nomem, nostack, preserves_flags)) };
    same
}

/// Sums of products that start with the bits of this number, 1.5 * 2^23, end as the bits of it plus
/// the sum, because they are below 2^22: a conversion to floats without an instruction.
const MAGIC: f32 = 12_582_912.0;

/// Whether [`MAGIC`] is used. Its product with a scale must be exact and finite: scales have at
/// most 21 bits, but may be up to 2^127 in MXFP4.
const fn uses_magic<B: Packable>() -> bool {
    !matches!(B::LAYOUT.scales.unit, Unit::HalfE8m0(_))
}

avx512! {
    /// Products of a tile with a part of the activations of `K` tokens, added in integers, plus the
    /// bits of [`MAGIC`] if it is used; those of half `half` of the columns if the format has half
    /// scales.
    #[inline]
    fn dots<B: Packable, const K: usize>(tile: &[u8], part: &Part<K>, half: usize) -> [__m512i; K] {
        let start = if const { uses_magic::<B>() } { MAGIC.to_bits().cast_signed() } else { 0 };
        let mut dots = [_mm512_set1_epi32(start); K];
        let zero_point = const { zero_point::<Avx512, B>() };
        if zero_point != 0 {
            for (token, dot) in dots.iter_mut().enumerate() {
                let minus = _mm512_set1_epi32(part.minus_codes::<B>(token, half));
                // Both fit 16 bits; the upper half of the sum meets zero.
                *dot = _mm512_dpwssd_epi32(*dot, _mm512_set1_epi32(zero_point), minus);
            }
        }
        for i in 0..if B::LAYOUT.halves() { VECTORS / 2 } else { VECTORS } {
            // Vectors `v` and `v + 4` are made of the same bytes.
            let v = if B::LAYOUT.halves() { 4 * half + i } else { i % 2 * 4 + i / 2 };
            let codes = codes::<B>(tile, v);
            for (token, dot) in dots.iter_mut().enumerate() {
                *dot = _mm512_dpbusd_epi32(*dot, codes, _mm512_set1_epi32(part.four(token, v)));
            }
        }
        dots
    }
}

avx512! {
    /// Accumulates the products of a tile, or of half `half` of its columns if the format has half
    /// scales, with a part of the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const K: usize>(
        tile: &[u8],
        rows: &RowScales<__m512>,
        part: &Part<K>,
        half: usize,
        sums: &mut [__m512; K],
    ) {
        let scale = rows.scale[half];
        let magic = _mm512_mul_ps(scale, _mm512_set1_ps(MAGIC));
        let dots = dots::<B, K>(tile, part, half);
        for (token, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
            let products = match const { uses_magic::<B>() } {
                true => _mm512_fmsub_ps(scale, _mm512_castsi512_ps(dot), magic),
                false => _mm512_mul_ps(scale, _mm512_cvtepi32_ps(dot)),
            };
            *sum = _mm512_fmadd_ps(products, broadcast(part.scale(token)), *sum);
            if B::LAYOUT.has_minimum() {
                let activations = broadcast(part.sum::<B>(token, half));
                *sum = _mm512_fmadd_ps(rows.minimum[half], activations, *sum);
            }
        }
    }
}

avx512! {
    /// The bits of a float in every lane. From an integer, or the compiler broadcasts it in a
    /// register.
    #[inline]
    fn broadcast(bits: i32) -> __m512 {
        _mm512_castsi512_ps(_mm512_set1_epi32(bits))
    }
}

avx512! {
    /// Multiplies a group of sixteen rows with `K` tokens from `first` on, and returns `K`.
    #[inline]
    fn tokens<B: Packable, const K: usize>(
        l: Avx512,
        group: &Group,
        first: usize,
        out: &mut [[f32; ROWS]],
    ) -> usize {
        let mut sums = [_mm512_setzero_ps(); K];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, tile) = locate::<B>(block, index, at);
                prefetch_after(tile);
                let rows = row_scales::<_, B>(l, block, at);
                let part = Part::new(group.activations.chunks::<K>(first, chunk), part);
                add::<B, K>(tile, &rows, &part, 0, &mut sums);
                if B::LAYOUT.halves() {
                    add::<B, K>(tile, &rows, &part, 1, &mut sums);
                }
            }
        }
        for (sum, out) in sums.into_iter().zip(&mut out[first..]) {
            store(sum, out);
        }
        K
    }
}

avx512! {
    /// Multiplies a group of sixteen rows with every token.
    fn all_tokens<B: Packable>(l: Avx512, group: &Group, out: &mut [[f32; ROWS]]) {
        let mut first = 0;
        while first < group.activations.tokens {
            // Twelve sums hide the latency of `vpdpbusd`, which is five cycles, at two per cycle.
            first += match group.activations.tokens - first {
                12.. => tokens::<B, 12>(l, group, first, out),
                8.. => tokens::<B, 8>(l, group, first, out),
                // One pass over the weights for short drafts.
                6 => tokens::<B, 6>(l, group, first, out),
                5 => tokens::<B, 5>(l, group, first, out),
                4 | 7 => tokens::<B, 4>(l, group, first, out),
                3 => tokens::<B, 3>(l, group, first, out),
                2 => tokens::<B, 2>(l, group, first, out),
                _ => tokens::<B, 1>(l, group, first, out),
            };
        }
    }
}

impl Avx512 {
    methods! { avx512;
        fn product(l: Avx512, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }
    }
}

impl PackedProduct for Avx512 {
    const FASTER: bool = true;

    fn group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self, group, out);
    }
}

impl PackedProduct for Avx512Bf16 {
    const FASTER: bool = true;

    fn group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.lanes().group(group, out);
    }
}
