//! Pairs of bf16 by the chip's own product, `vdpbf16ps`.

use super::Rows;
use crate::lanes::WIDTH;
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows that meet tokens at once: 4 * 6 sums, a token's vector and the rows' stay in 32 registers.
const AT_ONCE: usize = 4;

/// As [`super::strip`].
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ, VL and BF16; `count` is at most sixteen, rows and tokens are there, and both have one length.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
pub(super) unsafe fn strip(
    weights: &Rows,
    count: usize,
    x: &Rows,
    tokens: Range<usize>,
    sink: &mut dyn FnMut(usize, &[f32]),
) {
    let mut first = tokens.start;
    while first < tokens.end {
        // SAFETY: the caller's word, and never more tokens than are left.
        unsafe {
            first += match tokens.end - first {
                6.. => some::<6>(weights, count, x, first, sink),
                3.. => some::<3>(weights, count, x, first, sink),
                _ => some::<1>(weights, count, x, first, sink),
            }
        }
    }
}

/// `count` rows against `N` tokens from `first` on; gives `N`.
///
/// # Safety
/// As [`strip`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn some<const N: usize>(
    weights: &Rows,
    count: usize,
    x: &Rows,
    first: usize,
    sink: &mut dyn FnMut(usize, &[f32]),
) -> usize {
    let mut results = [[0.0; ROWS]; N];
    let tokens: [&[u32]; N] = std::array::from_fn(|token| x.row(first + token));
    for row in (0..count).step_by(AT_ONCE) {
        // Rows past the last are not read: the last stands in for them.
        let rows: [&[u32]; AT_ONCE] = std::array::from_fn(|r| weights.row((row + r).min(count - 1)));
        let mut sums = [[_mm512_setzero_ps(); AT_ONCE]; N];
        for at in (0..weights.length).step_by(WIDTH) {
            // SAFETY: rows and tokens have `length` pairs, whole vectors; a vector of pairs is one of bf16.
            let vector = |row: &[u32]| unsafe {
                std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(row.as_ptr().add(at).cast()))
            };
            let rows = rows.map(vector);
            for (token, sums) in tokens.iter().zip(&mut sums) {
                let token = vector(token);
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = _mm512_dpbf16_ps(*sum, row, token);
                }
            }
        }
        for (sums, results) in sums.chunks(4).zip(results.chunks_mut(4)) {
            let mut vectors = [_mm512_setzero_ps(); WIDTH];
            vectors
                .iter_mut()
                .zip(sums.as_flattened())
                .for_each(|(vector, sum)| *vector = *sum);
            let mut out = [[0.0; AT_ONCE]; 4];
            // SAFETY: sixteen floats are one vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr().cast(), totals(&vectors)) };
            for (out, results) in out.iter().zip(results) {
                results[row..row + AT_ONCE].copy_from_slice(out);
            }
        }
    }
    for (token, results) in results.iter().enumerate() {
        sink(first + token, &results[..count]);
    }
    N
}

/// The sum of the lanes of each of sixteen vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn totals(vectors: &[__m512; WIDTH]) -> __m512 {
    // First and third quarter of each, with second and fourth; two vectors' in turns.
    let halves: [__m512; 8] = std::array::from_fn(|i| {
        let (a, b) = (vectors[2 * i], vectors[2 * i + 1]);
        _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
    });
    let quarters: [__m512; 4] = std::array::from_fn(|i| {
        let [a, b] = [halves[2 * i], halves[2 * i + 1]].map(|half| _mm512_castps_pd(half));
        let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
    });
    // What is left to add up lies in the four parts of each vector.
    let pairs: [__m512; 2] = std::array::from_fn(|i| {
        let (a, b) = (quarters[2 * i], quarters[2 * i + 1]);
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
    });
    _mm512_add_ps(
        _mm512_shuffle_f32x4::<0x88>(pairs[0], pairs[1]),
        _mm512_shuffle_f32x4::<0xdd>(pairs[0], pairs[1]),
    )
}

/// f16 in the file's bytes to the nearest bf16, ties to even, and zeros.
///
/// # Safety
/// The machine has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn round_halves(bytes: &[u8], out: &mut [u16]) {
    let (vectors, rest) = bytes.as_chunks::<{ 4 * WIDTH }>();
    let (out, _) = out.as_chunks_mut::<{ 2 * WIDTH }>();
    let mut last = [0; 4 * WIDTH];
    last[..rest.len()].copy_from_slice(rest);
    for (vector, out) in vectors.iter().chain([&last]).zip(out) {
        // SAFETY: a vector of 32 is read, and one is written. A mask instead of a copy of the last ones would make stores many times as slow.
        unsafe {
            let half = |half: usize| _mm512_cvtph_ps(_mm256_loadu_si256(vector.as_ptr().cast::<__m256i>().add(half)));
            let rounded: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(half(1), half(0)));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), rounded);
        }
    }
}
