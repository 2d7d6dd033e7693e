//! Products of sixteen rows on 256-bit registers: two vectors of eight rows each, which share the
//! broadcast activations.

use super::PackedProduct;
use super::layout::Packable;
use super::scales::{self, minus_code_sum};
use crate::gemv::ActivationChunk;
use crate::lanes::avx2;
use std::arch::x86_64::*;

avx2! {
    /// Zero-point correction of the products of a tile with part `part` of the activations, or, if
    /// halves of a tile have scales, of half `half` of its columns.
    #[inline]
    pub(super) fn zero_point<P: PackedProduct, B: Packable>(
        activations: &ActivationChunk,
        part: usize,
        half: usize,
    ) -> __m256i {
        let zero_point = const { scales::zero_point::<P, B>() };
        if zero_point == 0 {
            return _mm256_setzero_si256();
        }
        let minus_sum = minus_code_sum::<B>(activations, part, half);
        // Both fit 16 bits; the upper 16 bits of the sum are multiplied by zero.
        _mm256_madd_epi16(_mm256_set1_epi32(minus_sum), _mm256_set1_epi32(zero_point))
    }
}

/// Scales the products of a tile and adds them to sums: the products of the whole tile or, if its
/// halves have scales, of half `half` of its columns. As a function, even an inlined one, it made
/// the compiler store each sum before the next products, and AVX2 slower by up to a quarter.
macro_rules! add_scaled {
    ($B:ident; $dots:ident, $scales:ident, $activations:ident, [$part:ident, $half:ident], $sums:ident) => {
        for ((sums, dots), activations) in $sums.iter_mut().zip($dots).zip($activations) {
            let scale = _mm256_set1_ps(activations.scales[$part]);
            for (rows, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                let products = _mm256_mul_ps($scales.scale[$half][rows], _mm256_cvtepi32_ps(dot));
                *sum = _mm256_fmadd_ps(products, scale, *sum);
                if $B::LAYOUT.has_minimum() {
                    let activation_sum =
                        _mm256_set1_ps($crate::packed::scales::activation_sum::<$B>(activations, $part, $half));
                    *sum = _mm256_fmadd_ps($scales.minimum[$half][rows], activation_sum, *sum);
                }
            }
        }
    };
}
pub(super) use add_scaled;

/// Defines `all_tokens`, which multiplies sixteen rows with every token. `$enabled` enables the
/// instructions. In `remaining => at_once x passes`, `at_once` is the number of tokens multiplied
/// at once if `remaining` tokens remain, and `passes` the maximum number of such passes with the
/// codes of one tile. The code calls these functions, which must be in scope:
///
/// * `all_codes::<B>(tile)`: eight vectors of codes of each half of a tile's rows;
/// * `add::<B, K>(codes, scales, activations, part, sums)`: accumulates their products with part
///   `part` of the activations of `K` tokens. It is called in one place for each `K`, so that the
///   compiler always inlines it (`docs/tried/gemm.md`).
///
/// They contain loops instead of closures with intrinsics: the compiler does not always inline such
/// closures, which then run at half the speed.
macro_rules! sixteen_rows {
    ($enabled:ident: $($remaining:pat => $at_once:literal x $passes:literal),+) => {
        $enabled! {
            /// Multiplies sixteen rows with `K` tokens per pass, from token `first` on, in `passes`
            /// passes over the codes of a tile, which are unpacked once. Returns the number of
            /// tokens.
            #[inline]
            fn multiply_tokens<B: Packable, const K: usize, const PASSES: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                passes: usize,
                out: &mut [[f32; ROWS]],
            ) -> usize {
                let passes = passes.min(PASSES);
                let mut sums = [[[_mm256_setzero_ps(); 2]; K]; PASSES];
                for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
                    each_tile!(B, unrolled if K == 1, tile_index => {
                        let (chunk, part, tile) = locate::<B>(block, index, tile_index);
                        group.prefetch.after(tile);
                        let scales = row_scales::<_, B>(l, block, tile_index);
                        let codes = all_codes::<B>(tile);
                        for (pass, sums) in sums.iter_mut().enumerate().take(passes) {
                            let activations: &[ActivationChunk; K] = group.activations.chunks(first + K * pass, chunk);
                            add::<B, K>(&codes, &scales, activations.each_ref(), part, sums);
                        }
                    });
                }
                let sums = sums.as_flattened().iter().take(K * passes);
                for (sums, out) in sums.zip(&mut out[first..]) {
                    let halves: &mut [[f32; ROWS / 2]; 2] = bytemuck::cast_mut(out);
                    for (sum, out) in sums.iter().zip(halves) {
                        store(*sum, out);
                    }
                }
                K * passes
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with every token.
            fn all_tokens<B: Packable>(l: Avx2, group: &Group, out: &mut [[f32; ROWS]]) {
                let mut first = 0;
                while first < group.activations.tokens {
                    let remaining = group.activations.tokens - first;
                    first += match remaining {
                        $($remaining => {
                            multiply_tokens::<B, $at_once, $passes>(l, group, first, remaining / $at_once, out)
                        })+
                    };
                }
            }
        }
    };
}
pub(super) use sixteen_rows;
