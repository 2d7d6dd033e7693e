//! What is done with pairs of bf16 where the chip has instructions for them: rounded by `vcvtne2ps2bf16`, multiplied by `vdpbf16ps`.

use super::factor::{Factor, Pair};
use super::target::Place;
use super::tile::Parts;
use super::{TALL, WIDE};
use crate::lanes::{Avx512, WIDTH};
use std::arch::x86_64::*;

/// As [`super::tile::tile`].
///
/// # Safety
/// As there; and the machine has AVX512_BF16 besides what [`Avx512`] says, and a factor is a pair.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
pub(super) unsafe fn tile<E: Factor>(parts: &Parts<E>, place: &Place) {
    // SAFETY: the caller's word.
    unsafe {
        match place.width() > WIDTH {
            true => part::<E, 2>(parts, place),
            false => part::<E, 1>(parts, place),
        }
    }
}

/// The sums of `C` vectors of columns.
///
/// # Safety
/// As [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
unsafe fn part<E: Factor, const C: usize>(parts: &Parts<E>, place: &Place) {
    place.prefetch();
    let mut sums = [[_mm512_setzero_ps(); C]; TALL];
    for (tall, wide) in parts {
        let (tall, wide) = (
            bytemuck::cast_slice::<E, i32>(tall),
            bytemuck::cast_slice::<E, i32>(wide),
        );
        for (tall, wide) in tall.as_chunks::<TALL>().0.iter().zip(wide.as_chunks::<WIDE>().0) {
            // SAFETY: 32 pairs are two vectors, and a vector of pairs is one of bf16.
            let right: [__m512bh; C] = std::array::from_fn(|c| unsafe {
                std::mem::transmute(_mm512_loadu_si512(wide.as_ptr().add(c * WIDTH).cast()))
            });
            for r in 0..TALL {
                // SAFETY: as above.
                let left: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(tall[r])) };
                for c in 0..C {
                    sums[r][c] = _mm512_dpbf16_ps(sums[r][c], left, right[c]);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, sum) in sums.iter().enumerate() {
            // SAFETY: the caller's word.
            unsafe { place.write(Avx512::new(), r, c, *sum) };
        }
    }
}

/// Rounds sixteen numbers, and those that each is paired with.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
fn pairs(first: __m512, second: __m512) -> __m512i {
    const WOVEN: [i16; 2 * WIDTH] = {
        let mut woven = [0; 2 * WIDTH];
        let mut at = 0;
        while at < 2 * WIDTH {
            woven[at] = (at / 2 + at % 2 * WIDTH) as i16;
            at += 1;
        }
        woven
    };
    // SAFETY: all of them are 64 bytes of plain numbers.
    let (both, woven) = unsafe {
        (
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)),
            _mm512_loadu_si512(WOVEN.as_ptr().cast()),
        )
    };
    _mm512_permutexvar_epi16(woven, both)
}

/// As [`super::factor::join`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
pub(super) fn join<const N: usize>(rows: &[[f32; N]], column: usize, out: &mut [Pair]) {
    for (rows, out) in rows.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<WIDE>().0) {
        let [first, second] = rows.each_ref().map(|row| row.as_chunks::<WIDTH>().0);
        let out = out[column..].as_chunks_mut::<WIDTH>().0;
        for ((first, second), out) in first.iter().zip(second).zip(out) {
            // SAFETY: each is sixteen numbers, or as many pairs, long.
            unsafe {
                let woven = pairs(_mm512_loadu_ps(first.as_ptr()), _mm512_loadu_ps(second.as_ptr()));
                _mm512_storeu_si512(out.as_mut_ptr().cast(), woven);
            }
        }
    }
}

/// As [`super::view::turn`]: twelve rows, sixteen pairs of each at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")]
pub(super) fn turn(rows: &[&[f32]; TALL], out: &mut [Pair]) {
    for (at, out) in out.chunks_mut(WIDTH * TALL).enumerate() {
        let half = |row: &[f32], first: usize| {
            let left = row.len().saturating_sub(first).min(WIDTH);
            // SAFETY: only lanes that the row has are read.
            unsafe { _mm512_maskz_loadu_ps(((1_u32 << left) - 1) as __mmask16, row.as_ptr().wrapping_add(first)) }
        };
        let steps = out.len() / TALL;
        for (rows, column) in rows.as_chunks::<4>().0.iter().zip((0..TALL).step_by(4)) {
            let [a, b, c, d] = rows.map(|row| {
                let first = at * 2 * WIDTH;
                let both = _mm512_cvtne2ps_pbh(half(row, first + WIDTH), half(row, first));
                // SAFETY: both are 64 bytes of plain numbers.
                unsafe { std::mem::transmute::<__m512bh, __m512i>(both) }
            });
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            // Of each four steps one: step `i` of the four is vector `i`.
            let turned = [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ];
            for (i, turned) in turned.into_iter().enumerate() {
                let fours = [
                    _mm512_castsi512_si128(turned),
                    _mm512_extracti32x4_epi32::<1>(turned),
                    _mm512_extracti32x4_epi32::<2>(turned),
                    _mm512_extracti32x4_epi32::<3>(turned),
                ];
                for (step, four) in (i..steps).step_by(4).zip(fours) {
                    let out = &mut out[step * TALL + column..][..4];
                    // SAFETY: four pairs are as long as the vector.
                    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), four) };
                }
            }
        }
    }
}
