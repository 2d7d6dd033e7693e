//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four activations of a
//! token, a memory operand with embedded broadcast. A separate broadcast would be one more
//! micro-operation per product, and the number of micro-operations bounds this kernel on Intel's
//! CPUs (`docs/tried/gemm.md`).
//!
//! Code that runs for each tile uses loops, because closures with intrinsics that are passed to the
//! standard library are not always inlined.

use super::activation_part::ActivationPart;
use super::layout::{Packable, PackedLayout};
use super::scales::{RowScales, row_scales};
use super::token_tiles::TokenTile;
use super::{Group, PackedProduct, ROWS, Starts, TOKEN_TILE, array, each_tile, locate};
use crate::blocks::{GROUP, with_format};
use crate::gemv::MAX_CODE;
use crate::lanes::{Avx512, Avx512Bf16, Token, avx512, load, methods, store};
use std::arch::x86_64::*;

/// Vectors of codes in a tile; each has four columns of sixteen rows.
const CODE_VECTORS: usize = GROUP / 4;

/// 1.5 * 2^23: an f32 of this size has no fraction bits, so its bits plus an integer `n`, for `|n|`
/// below 2^22, are the bits of `BIAS + n`. Accumulators that start with these bits are floats
/// without a conversion; one FMA scales them and subtracts the scaled bias. The bias causes no
/// rounding error: a scale has at most 19 bits, its product with the bias at most 21.
const BIAS: f32 = 12_582_912.0;
const _: () = assert!(GROUP as i32 * u8::MAX as i32 * (MAX_CODE as i32) < 1 << 22);

avx512! {
    /// Unsigned codes of columns `4 v..4 v + 4` of a tile.
    #[inline]
    fn codes<B: Packable>(tile: &[u8], v: usize) -> __m512i {
        let vector = |offset: usize, v: usize| load(array::<64>(tile, offset + 64 * v));
        let lower = B::LAYOUT.upper_bytes();
        if B::LAYOUT.bits == 8 {
            return vector(lower, v);
        }
        // Byte `4 row + i`: two bits each of columns `16 (v / 4) + i`, `+ 4`, `+ 8` and `+ 12`.
        let pairs = |v: usize| vector(B::LAYOUT.bit_bytes(), v / 4);
        if B::LAYOUT.bits < 4 {
            let pairs = pairs(v);
            let pairs = match v % 4 {
                0 => pairs,
                1 => _mm512_srli_epi16::<2>(pairs),
                2 => _mm512_srli_epi16::<4>(pairs),
                _ => _mm512_srli_epi16::<6>(pairs),
            };
            let codes = _mm512_and_si512(pairs, _mm512_set1_epi8(3));
            return match B::LAYOUT.bits {
                3 => add_bit(tile, v, codes, 4),
                _ => codes,
            };
        }
        let low_nibble = _mm512_set1_epi8(0x0f);
        let bytes = vector(lower, v % 4);
        let nibbles = if v < 4 {
            _mm512_and_si512(bytes, low_nibble)
        } else {
            _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low_nibble)
        };
        if B::LAYOUT.codebook.is_some() {
            let values = _mm512_broadcast_i32x4(load(&B::UNSIGNED_VALUES));
            return _mm512_shuffle_epi8(values, nibbles);
        }
        match B::LAYOUT.bits {
            5 => add_bit(tile, v, nibbles, 16),
            6 => {
                let upper = pairs(v);
                let upper = match v % 4 {
                    0 => _mm512_slli_epi16::<4>(upper),
                    1 => _mm512_slli_epi16::<2>(upper),
                    2 => upper,
                    _ => _mm512_srli_epi16::<2>(upper),
                };
                _mm512_or_si512(nibbles, _mm512_and_si512(upper, _mm512_set1_epi8(0x30)))
            }
            _ => nibbles,
        }
    }
}

avx512! {
    /// Adds `value` to each code of vector `v` whose bit is set. A tile starts with eight bytes of
    /// bits per vector.
    #[inline]
    fn add_bit(tile: &[u8], v: usize, codes: __m512i, value: i8) -> __m512i {
        let mask = u64::from_le_bytes(*array(tile, 8 * v));
        _mm512_mask_add_epi8(codes, mask, codes, _mm512_set1_epi8(value))
    }
}

avx512! {
    /// Dot products of the rows of a tile with the activations of `K` tokens, in integers: over all
    /// columns or, if the format has half scales, over half `HALF`. They include the bits of
    /// [`BIAS`].
    #[inline]
    fn dots<B: Packable, const K: usize, const HALF: usize>(
        tile: &[u8],
        activations: &ActivationPart<K>,
    ) -> [__m512i; K] {
        let mut dots = [_mm512_set1_epi32(BIAS.to_bits().cast_signed()); K];
        if B::LAYOUT.zero_point != 0 {
            for (token, dot) in dots.iter_mut().enumerate() {
                *dot = _mm512_set1_epi32(activations.start(token, HALF));
            }
        }
        let halves = B::LAYOUT.halves();
        let count = if halves { CODE_VECTORS / 2 } else { CODE_VECTORS };
        for i in 0..count {
            // Order 0, 4, 1, 5, ...: vectors `v` and `v + 4` are nibbles of the same bytes.
            let v = if halves { 4 * HALF + i } else { i % 2 * 4 + i / 2 };
            let codes = codes::<B>(tile, v);
            for (token, dot) in dots.iter_mut().enumerate() {
                *dot = _mm512_dpbusd_epi32(*dot, codes, _mm512_set1_epi32(activations.four_codes(token, v)));
            }
        }
        dots
    }
}

avx512! {
    /// Accumulates the products of a tile, or of half `HALF` of its columns if the format has half
    /// scales, with the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const K: usize, const HALF: usize>(
        tile: &[u8],
        scales: &RowScales<__m512>,
        activations: &ActivationPart<K>,
        sums: &mut [__m512; K],
    ) {
        let scale = scales.scale[HALF];
        let bias = _mm512_mul_ps(scale, _mm512_set1_ps(BIAS));
        let dots = dots::<B, K, HALF>(tile, activations);
        for (token, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
            let products = _mm512_fmsub_ps(scale, _mm512_castsi512_ps(dot), bias);
            *sum = _mm512_fmadd_ps(products, broadcast(activations.scale_bits(token)), *sum);
            if B::LAYOUT.has_minimum() {
                let activation_sum = broadcast(activations.sum_bits::<B>(token, HALF));
                *sum = _mm512_fmadd_ps(scales.minimum[HALF], activation_sum, *sum);
            }
        }
    }
}

avx512! {
    /// The float with these bits in every lane. Takes an integer, because the compiler would load
    /// an f32 into a register and broadcast it there, instead of using a memory operand.
    #[inline]
    fn broadcast(bits: i32) -> __m512 {
        _mm512_castsi512_ps(_mm512_set1_epi32(bits))
    }
}

avx512! {
    /// Multiplies a group of sixteen rows with its `K` tokens.
    #[inline]
    fn multiply_tokens<B: Packable, const K: usize>(l: Avx512, group: &Group, out: &mut [[f32; ROWS]]) {
        let starts = group.starts.as_chunks::<K>().0;
        let mut sums = [_mm512_setzero_ps(); K];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            each_tile!(B, unrolled if K == 1, tile_index => {
                let (chunk, part, tile) = locate::<B>(block, index, tile_index);
                group.prefetch.after(tile);
                let scales = row_scales::<_, B>(l, block, tile_index);
                let starts = if B::LAYOUT.zero_point != 0 { Some(&starts[chunk]) } else { None };
                let activations = ActivationPart::new(group.activations.chunks::<K>(0, chunk), starts, part);
                add::<B, K, 0>(tile, &scales, &activations, &mut sums);
                if B::LAYOUT.halves() {
                    // Otherwise the compiler keeps the scales of the activations for both halves in
                    // registers, and spills them.
                    add::<B, K, 1>(tile, &scales, &activations.opaque(), &mut sums);
                }
            });
        }
        for (sum, out) in sums.into_iter().zip(out) {
            store(sum, out);
        }
    }
}

avx512! {
    /// Multiplies a group of sixteen rows with every token, in one pass over the weights.
    /// `vpdpbusd` has a latency of five cycles and two start per cycle: ten accumulators hide it.
    fn all_tokens<B: Packable>(l: Avx512, group: &Group, out: &mut [[f32; ROWS]]) {
        match group.activations.tokens {
            0 => (),
            1 => multiply_tokens::<B, 1>(l, group, out),
            2 => multiply_tokens::<B, 2>(l, group, out),
            3 => multiply_tokens::<B, 3>(l, group, out),
            4 => multiply_tokens::<B, 4>(l, group, out),
            5 => multiply_tokens::<B, 5>(l, group, out),
            6 => multiply_tokens::<B, 6>(l, group, out),
            7 => multiply_tokens::<B, 7>(l, group, out),
            8 => multiply_tokens::<B, 8>(l, group, out),
            9 => multiply_tokens::<B, 9>(l, group, out),
            10 => multiply_tokens::<B, 10>(l, group, out),
            11 => multiply_tokens::<B, 11>(l, group, out),
            _ => {
                const { assert!(TOKEN_TILE == 12, "a kernel for each number of tokens") };
                multiply_tokens::<B, TOKEN_TILE>(l, group, out);
            }
        }
    }
}

impl Avx512 {
    methods! { avx512;
        fn product(l: Avx512, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }

        /// Appends the initial values of the accumulators for a tile of tokens: the bits of
        /// [`BIAS`], minus the zero point times the sum of the codes.
        fn append_biases(layout: &PackedLayout, activations: &TokenTile, chunks: usize, out: &mut Vec<Starts>) {
            let (bias, zero_point) = (BIAS.to_bits().cast_signed(), i32::from(layout.zero_point));
            for chunk in 0..chunks {
                for token in 0..activations.tokens {
                    let [activations] = activations.chunks(token, chunk);
                    let minus_sums = if layout.halves() {
                        activations.minus_half_sums
                    } else {
                        std::array::from_fn(|half| activations.minus_sums[half / 2])
                    };
                    out.push(minus_sums.map(|minus_sum| bias + zero_point * minus_sum));
                }
            }
        }
    }
}

impl PackedProduct for Avx512 {
    const FASTER: bool = true;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self, group, out);
    }

    fn append_starts(self, layout: &PackedLayout, activations: &TokenTile, chunks: usize, out: &mut Vec<Starts>) {
        if layout.zero_point != 0 {
            self.append_biases(layout, activations, chunks, out);
        }
    }
}

impl PackedProduct for Avx512Bf16 {
    const FASTER: bool = true;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.lanes().multiply_group(group, out);
    }

    fn append_starts(self, layout: &PackedLayout, activations: &TokenTile, chunks: usize, out: &mut Vec<Starts>) {
        self.lanes().append_starts(layout, activations, chunks, out);
    }
}
