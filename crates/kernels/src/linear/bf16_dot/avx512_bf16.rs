//! Dot products of bf16 pairs by `vdpbf16ps`.

use super::Bf16Rows;
use crate::blocks::Quant;
use crate::lanes::{Avx512Bf16, WIDTH, avx512_bf16, cast, load, methods, reduce_add_16, store};
use crate::packed::ROWS;
use crate::prefetch::Prefetch;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows multiplied at once: 4 * 6 accumulators, one vector of a token and one of each row fit 32
/// registers.
const AT_ONCE: usize = 4;
/// Bytes of a vector of weights.
const VECTOR: usize = 4 * WIDTH;

/// Source of the rows of a weight.
type Source = u8;
/// [`Bf16Rows`], of which several are multiplied at once.
const EXPANDED: Source = 0;
/// Rows of bf16 as stored in the file. They are streamed from memory, so they are multiplied one
/// after the other.
const STORED_BF16: Source = 1;
/// Rows of f16 as stored in the file, multiplied one after the other.
const STORED_F16: Source = 2;

/// Up to sixteen rows of a weight, or rows of activations.
#[derive(Clone, Copy)]
struct Rows<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
    stride: usize,
    /// Software prefetch of stored weights.
    prefetch: Prefetch,
}

impl<'a> Rows<'a> {
    /// Rows that are already bf16 pairs.
    fn new(rows: &'a Bf16Rows) -> Self {
        Self {
            bytes: bytemuck::cast_slice(&rows.pairs),
            row_bytes: rows.length * size_of::<u32>(),
            stride: rows.stride * size_of::<u32>(),
            prefetch: Prefetch::NONE,
        }
    }

    /// The whole vectors of a row, and the rest of the row padded with zeros.
    #[inline(always)]
    fn row(self, row: usize) -> (&'a [[u8; VECTOR]], [u8; VECTOR]) {
        let (whole, rest) = self.bytes[row * self.stride..][..self.row_bytes].as_chunks();
        let mut last = [0; VECTOR];
        last[..rest.len()].copy_from_slice(rest);
        (whole, last)
    }
}

impl Avx512Bf16 {
    methods! { avx512_bf16;
        /// [`super::strip`] on AVX512_BF16.
        pub(super) fn strip(
            weights: &Bf16Rows, count: usize, x: &Bf16Rows, tokens: Range<usize>, sink: &mut dyn FnMut(usize, &[f32])
        ) {
            let (weights, x) = (Rows::new(weights), Rows::new(x));
            let mut first = tokens.start;
            while first < tokens.end {
                first += match tokens.end - first {
                    6.. => rows_by_tokens::<EXPANDED, 6>(weights, count, x, first, sink),
                    3.. => rows_by_tokens::<EXPANDED, 3>(weights, count, x, first, sink),
                    _ => rows_by_tokens::<EXPANDED, 1>(weights, count, x, first, sink),
                }
            }
        }

        /// [`super::strip`] of `count` rows of f16 as stored, for few tokens: nothing is converted
        /// in advance.
        pub(super) fn f16_strip(
            bytes: &[u8], count: usize, x: &Bf16Rows, tokens: Range<usize>, sink: &mut dyn FnMut(usize, &[f32])
        ) {
            stored_strip::<STORED_F16>(bytes, count, x, tokens, sink);
        }

        /// [`super::strip`] of `count` rows of bf16 as stored, for few tokens.
        pub(super) fn bf16_strip(
            bytes: &[u8], count: usize, x: &Bf16Rows, tokens: Range<usize>, sink: &mut dyn FnMut(usize, &[f32])
        ) {
            stored_strip::<STORED_BF16>(bytes, count, x, tokens, sink);
        }

        /// Rounds stored f16 to bf16, nearest, ties to even, padded with zeros.
        pub(super) fn round_halves(bytes: &[u8], out: &mut [u16]) {
            let (vectors, rest) = bytes.as_chunks::<VECTOR>();
            let (out, _) = out.as_chunks_mut::<{ 2 * WIDTH }>();
            let mut last = [0; VECTOR];
            last[..rest.len()].copy_from_slice(rest);
            for (vector, out) in vectors.iter().chain([&last]).zip(out) {
                // Masked stores, instead of this copy of the rest, are many times slower.
                store(round(load(vector)), out);
            }
        }
    }
}

avx512_bf16! {
    /// Rounds two vectors of f16 to one of bf16, nearest, ties to even.
    #[inline]
    fn round([low, high]: [__m256i; 2]) -> __m512bh {
        _mm512_cvtne2ps_pbh(_mm512_cvtph_ps(high), _mm512_cvtph_ps(low))
    }
}

avx512_bf16! {
    /// Sixteen pairs of bf16.
    #[inline]
    fn pairs<const SOURCE: Source>(vector: &[u8; VECTOR]) -> __m512bh {
        match SOURCE {
            STORED_F16 => round(load(vector)),
            _ => cast::<__m512i, _>(load(vector)),
        }
    }
}

avx512_bf16! {
    /// [`super::strip`] of rows as stored.
    fn stored_strip<const SOURCE: Source>(
        bytes: &[u8],
        count: usize,
        x: &Bf16Rows,
        tokens: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        let row_bytes = bytes.len() / count.max(1);
        let quant = if SOURCE == STORED_F16 { Quant::F16 } else { Quant::BF16 };
        let prefetch = Prefetch::for_format(quant);
        let (weights, x) = (Rows { bytes, row_bytes, stride: row_bytes, prefetch }, Rows::new(x));
        let mut first = tokens.start;
        while first < tokens.end {
            first += match tokens.end - first {
                4.. => rows_by_tokens::<SOURCE, 4>(weights, count, x, first, sink),
                3.. => rows_by_tokens::<SOURCE, 3>(weights, count, x, first, sink),
                2.. => rows_by_tokens::<SOURCE, 2>(weights, count, x, first, sink),
                _ => rows_by_tokens::<SOURCE, 1>(weights, count, x, first, sink),
            }
        }
    }
}

avx512_bf16! {
    /// Accumulates the products of rows from `first` on with a vector of each token.
    #[inline]
    fn add<const R: usize, const N: usize>(
        sums: &mut [[__m512; AT_ONCE]; N],
        first: usize,
        rows: [__m512bh; R],
        tokens: [&[u8; VECTOR]; N],
    ) {
        for (token, sums) in tokens.into_iter().zip(sums) {
            let x = pairs::<EXPANDED>(token);
            for (sum, row) in sums[first..].iter_mut().zip(rows) {
                *sum = _mm512_dpbf16_ps(*sum, row, x);
            }
        }
    }
}

avx512_bf16! {
    /// Multiplies `count` rows, at most sixteen, with `N` tokens starting at `first`. Returns `N`.
    #[inline]
    fn rows_by_tokens<const SOURCE: Source, const N: usize>(
        weights: Rows,
        count: usize,
        x: Rows,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) -> usize {
        let mut results = [[0.0; ROWS]; N];
        let whole = weights.row_bytes / VECTOR;
        let tokens: [_; N] = std::array::from_fn(|token| x.row(first + token).0);
        // Slices of equal length, so that indices are checked once.
        let token_vectors: [_; N] = std::array::from_fn(|n| &tokens[n][..whole]);
        for row in (0..count).step_by(AT_ONCE) {
            // Past the last row, repeat the last one.
            let rows: [_; AT_ONCE] = std::array::from_fn(|r| weights.row((row + r).min(count - 1)));
            let mut sums = [[_mm512_setzero_ps(); AT_ONCE]; N];
            if SOURCE == EXPANDED {
                let rows: [_; AT_ONCE] = std::array::from_fn(|r| &rows[r].0[..whole]);
                for i in 0..whole {
                    let rows: [_; AT_ONCE] = std::array::from_fn(|r| pairs::<SOURCE>(&rows[r][i]));
                    add(&mut sums, 0, rows, std::array::from_fn(|n| &token_vectors[n][i]));
                }
            } else {
                for (r, (vectors, _)) in rows.into_iter().enumerate() {
                    for (i, vector) in vectors[..whole].iter().enumerate() {
                        weights.prefetch.after(vector);
                        add(&mut sums, r, [pairs::<SOURCE>(vector)], std::array::from_fn(|n| &token_vectors[n][i]));
                    }
                }
            }
            if whole < tokens[0].len() {
                let rows: [_; AT_ONCE] = std::array::from_fn(|r| pairs::<SOURCE>(&rows[r].1));
                add(&mut sums, 0, rows, std::array::from_fn(|n| &tokens[n][whole]));
            }
            for (sums, results) in sums.chunks(4).zip(results.chunks_mut(4)) {
                let mut vectors = [_mm512_setzero_ps(); WIDTH];
                vectors
                    .iter_mut()
                    .zip(sums.as_flattened())
                    .for_each(|(vector, sum)| *vector = *sum);
                let mut out = [[0.0; AT_ONCE]; 4];
                store(reduce_add_16(&vectors), &mut out);
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
}
