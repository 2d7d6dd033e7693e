//! bf16 pairs on AVX512_BF16: rounded by `vcvtne2ps2bf16`, multiplied by `vdpbf16ps`.

use super::factor::{Bf16Pair, Factor, Panels};
use super::output::OutputTile;
use super::{MR, NR};
use crate::lanes::{Avx512Bf16, Token, WIDTH, avx512_bf16, cast, load, store};
use std::arch::x86_64::*;

/// [`super::microkernel::microkernel`] of bf16 pairs.
///
/// # Safety
/// See there.
pub(super) unsafe fn microkernel<E: Factor>(token: Avx512Bf16, panels: &Panels<E>, tile: &OutputTile) {
    // SAFETY: the token proves the instructions; the rest is guaranteed by the caller.
    unsafe {
        if tile.width() > WIDTH {
            accumulate::<E, 2>(token, panels, tile)
        } else {
            accumulate::<E, 1>(token, panels, tile)
        }
    }
}

/// [`super::interleave::interleave`] of bf16 pairs.
pub(super) fn interleave<const N: usize>(_: Avx512Bf16, rows: &[[f32; N]], column: usize, out: &mut [Bf16Pair]) {
    // SAFETY: the token proves the instructions.
    unsafe { interleave_enabled(rows, column, out) }
}

/// [`super::view::transpose`] of bf16 pairs: twelve rows, sixteen pairs of each at a time.
pub(super) fn transpose(_: Avx512Bf16, rows: &[&[f32]; MR], out: &mut [Bf16Pair]) {
    // SAFETY: the token proves the instructions.
    unsafe { transpose_enabled(rows, out) }
}

avx512_bf16! {
    /// Computes `C` vectors of columns.
    ///
    /// # Safety
    /// See [`microkernel`].
    unsafe fn accumulate<E: Factor, const C: usize>(token: Avx512Bf16, panels: &Panels<E>, tile: &OutputTile) {
        tile.prefetch();
        let mut sums = [[_mm512_setzero_ps(); C]; MR];
        for (lhs, rhs) in panels {
            let (lhs, rhs) = (bytemuck::cast_slice::<E, i32>(lhs), bytemuck::cast_slice::<E, i32>(rhs));
            for (lhs, rhs) in lhs.as_chunks::<MR>().0.iter().zip(rhs.as_chunks::<NR>().0) {
                let vectors = rhs.as_chunks::<WIDTH>().0;
                let right: [__m512bh; C] = std::array::from_fn(|c| load(&vectors[c]));
                for r in 0..MR {
                    let left = cast::<__m512i, __m512bh>(_mm512_set1_epi32(lhs[r]));
                    for c in 0..C {
                        sums[r][c] = _mm512_dpbf16_ps(sums[r][c], left, right[c]);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.iter().enumerate() {
                // SAFETY: guaranteed by the caller.
                unsafe { tile.write(token.lanes(), r, c, *sum) };
            }
        }
    }
}

avx512_bf16! {
    /// Rounds two vectors to bf16 and interleaves them into pairs.
    #[inline]
    fn pairs(first: __m512, second: __m512) -> __m512i {
        const INTERLEAVED: [i16; 2 * WIDTH] = {
            let mut interleaved = [0; 2 * WIDTH];
            let mut i = 0;
            while i < 2 * WIDTH {
                interleaved[i] = (i / 2 + i % 2 * WIDTH) as i16;
                i += 1;
            }
            interleaved
        };
        let both = cast::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
        _mm512_permutexvar_epi16(load(&INTERLEAVED), both)
    }
}

avx512_bf16! {
    /// See [`interleave`].
    fn interleave_enabled<const N: usize>(rows: &[[f32; N]], column: usize, out: &mut [Bf16Pair]) {
        for (rows, out) in rows.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<NR>().0) {
            let [first, second] = rows.each_ref().map(|row| row.as_chunks::<WIDTH>().0);
            let out = out[column..].as_chunks_mut::<WIDTH>().0;
            for ((first, second), out) in first.iter().zip(second).zip(out) {
                store(pairs(load(first), load(second)), out);
            }
        }
    }
}

avx512_bf16! {
    /// See [`transpose`].
    fn transpose_enabled(rows: &[&[f32]; MR], out: &mut [Bf16Pair]) {
        for (index, out) in out.chunks_mut(WIDTH * MR).enumerate() {
            // A vector of the row from `first` on, zero-padded.
            let load_row = |row: &[f32], first: usize| {
                let count = row.len().saturating_sub(first).min(WIDTH);
                // SAFETY: only lanes within the row are read.
                unsafe { _mm512_maskz_loadu_ps(((1_u32 << count) - 1) as __mmask16, row.as_ptr().wrapping_add(first)) }
            };
            let steps = out.len() / MR;
            for (rows, column) in rows.as_chunks::<4>().0.iter().zip((0..MR).step_by(4)) {
                let first = index * 2 * WIDTH;
                let [a, b, c, d]: [__m512i; 4] = std::array::from_fn(|i| {
                    cast::<__m512bh, _>(_mm512_cvtne2ps_pbh(load_row(rows[i], first + WIDTH), load_row(rows[i], first)))
                });
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                // Quarter `q` of vector `i` has step `4 q + i` of the four rows.
                let transposed = [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ab_high, cd_high),
                    _mm512_unpackhi_epi64(ab_high, cd_high),
                ];
                for (i, transposed) in transposed.into_iter().enumerate() {
                    let quarters = [
                        _mm512_castsi512_si128(transposed),
                        _mm512_extracti32x4_epi32::<1>(transposed),
                        _mm512_extracti32x4_epi32::<2>(transposed),
                        _mm512_extracti32x4_epi32::<3>(transposed),
                    ];
                    for (step, quarter) in (i..steps).step_by(4).zip(quarters) {
                        store(quarter, &mut out[step * MR..].as_chunks_mut::<4>().0[column / 4]);
                    }
                }
            }
        }
    }
}
