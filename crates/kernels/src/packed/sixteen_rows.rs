//! Products of sixteen rows on 256-bit registers: two vectors of eight rows each, which share the
//! broadcast activations.

use super::PackedProduct;
use super::layout::Packable;
use super::scales::{self, minus_codes};
use crate::gemv::ActivationChunk;
use crate::lanes::avx2;
use std::arch::x86_64::*;

avx2! {
    /// Zero-point correction of the products with part `part` of a chunk: of the tile or, if its
    /// halves have scales, of half `which` of its columns.
    #[inline]
    pub(super) fn zero_point<P: PackedProduct, B: Packable>(
        chunk: &ActivationChunk,
        part: usize,
        which: usize,
    ) -> __m256i {
        let zero_point = const { scales::zero_point::<P, B>() };
        if zero_point == 0 {
            return _mm256_setzero_si256();
        }
        let minus = minus_codes::<B>(chunk, part, which);
        // Both fit 16 bits; the upper half of the sum meets zero.
        _mm256_madd_epi16(_mm256_set1_epi32(minus), _mm256_set1_epi32(zero_point))
    }
}

/// Scales products with a tile's rows and adds them to sums: the products of the whole tile or, if
/// its halves have scales, of half `which` of its columns. A function in its place, though inlined,
/// made the compiler store each sum before the next products, and AVX2 slower by up to a quarter.
macro_rules! add_scaled {
    ($B:ident; $dots:ident, $scales:ident, $chunks:ident, [$part:ident, $which:ident], $sums:ident) => {
        for ((sums, dots), chunk) in $sums.iter_mut().zip($dots).zip($chunks) {
            let scale = _mm256_set1_ps(chunk.scales[$part]);
            for (half, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                let products = _mm256_mul_ps($scales.scale[$which][half], _mm256_cvtepi32_ps(dot));
                *sum = _mm256_fmadd_ps(products, scale, *sum);
                if $B::LAYOUT.has_minimum() {
                    let activations =
                        _mm256_set1_ps($crate::packed::scales::activation_sum::<$B>(chunk, $part, $which));
                    *sum = _mm256_fmadd_ps($scales.minimum[$which][half], activations, *sum);
                }
            }
        }
    };
}
pub(super) use add_scaled;

/// Defines `all_tokens`, which multiplies sixteen rows with every token. `enabled` enables the
/// instructions. `left => at_once x turns` says how many tokens are multiplied at once if `left`
/// are left, and how often at most with the codes of one tile. These functions, which it may call,
/// are in scope:
///
/// * `all_codes::<B>(tile)`: eight vectors of codes of each half of a tile's rows;
/// * `add::<B, K>(codes, scales, chunks, part, sums)`: accumulates their products with part `part`
///   of the activations of `K` tokens. It is called in one place for each `K`, so that the compiler
///   always inlines it (`docs/tried/gemm.md`).
///
/// They contain loops instead of closures with intrinsics, which the compiler does not always
/// inline and which then run at half the speed.
macro_rules! sixteen_rows {
    ($enabled:ident: $($left:pat => $at_once:literal x $turns:literal),+) => {
        $enabled! {
            /// Multiplies sixteen rows with `K` tokens at once, `turns` times from `first` on. The
            /// codes of a tile are made for all of them. Returns the number of tokens.
            #[inline]
            fn tokens<B: Packable, const K: usize, const TURNS: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                turns: usize,
                out: &mut [[f32; ROWS]],
            ) -> usize {
                let turns = turns.min(TURNS);
                let mut sums = [[[_mm256_setzero_ps(); 2]; K]; TURNS];
                for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
                    each_tile!(B, unrolled if K == 1, at => {
                        let (chunk, part, tile) = locate::<B>(block, index, at);
                        group.prefetch.after(tile);
                        let scales = row_scales::<_, B>(l, block, at);
                        let codes = all_codes::<B>(tile);
                        for (turn, sums) in sums.iter_mut().enumerate().take(turns) {
                            let chunks: &[ActivationChunk; K] = group.activations.chunks(first + K * turn, chunk);
                            add::<B, K>(&codes, &scales, chunks.each_ref(), part, sums);
                        }
                    });
                }
                let sums = sums.as_flattened().iter().take(K * turns);
                for (sums, out) in sums.zip(&mut out[first..]) {
                    let halves: &mut [[f32; ROWS / 2]; 2] = bytemuck::cast_mut(out);
                    for (sum, out) in sums.iter().zip(halves) {
                        store(*sum, out);
                    }
                }
                K * turns
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with every token.
            fn all_tokens<B: Packable>(l: Avx2, group: &Group, out: &mut [[f32; ROWS]]) {
                let mut first = 0;
                while first < group.activations.tokens {
                    let left = group.activations.tokens - first;
                    first += match left {
                        $($left => tokens::<B, $at_once, $turns>(l, group, first, left / $at_once, out),)+
                    };
                }
            }
        }
    };
}
pub(super) use sixteen_rows;
