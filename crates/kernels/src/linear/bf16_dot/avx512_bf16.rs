//! Dot products of bf16 pairs by `vdpbf16ps`.

use super::Bf16Rows;
use crate::lanes::{WIDTH, avx512_bf16, cast, load, store, sums_of};
use crate::packed::ROWS;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows multiplied at once: 4 * 6 accumulators, a token's vector and the rows' vectors fit 32
/// registers.
const AT_ONCE: usize = 4;
/// Prefetch distance in bytes for stored weights: a page, so that the TLB miss is hidden too.
const PREFETCH_BYTES: usize = 4096;

/// Up to sixteen rows of a weight.
trait Source {
    /// Whether rows stream from memory and are processed one after the other; else several at once.
    const STREAMED: bool;

    /// Start of row `row`.
    fn row(&self, row: usize) -> *const u8;

    /// Bytes in a row.
    fn row_bytes(&self) -> usize;

    /// Whole vectors of 64 bytes in a row.
    #[inline(always)]
    fn whole(&self) -> usize {
        self.row_bytes() / VECTOR
    }

    /// Loads sixteen pairs of bf16 from the 64 bytes at `at`.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BF16, and the bytes can be read.
    #[inline(always)]
    unsafe fn pairs(at: *const u8) -> __m512bh {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::of(_mm512_loadu_si512(at.cast())) }
    }

    /// Converts 64 stored bytes to sixteen pairs of bf16.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BF16.
    unsafe fn of(stored: __m512i) -> __m512bh;
}

impl Source for Bf16Rows {
    const STREAMED: bool = false;

    #[inline(always)]
    fn row(&self, row: usize) -> *const u8 {
        Bf16Rows::row(self, row).as_ptr().cast()
    }

    #[inline(always)]
    fn row_bytes(&self) -> usize {
        self.length * size_of::<u32>()
    }

    #[inline(always)]
    unsafe fn of(stored: __m512i) -> __m512bh {
        cast(stored)
    }
}

/// Rows of 16-bit weights as stored in the file.
struct Stored<'a, const F16: bool> {
    bytes: &'a [u8],
    row_bytes: usize,
}

/// Bytes of a vector of weights.
const VECTOR: usize = 4 * WIDTH;

impl<const F16: bool> Source for Stored<'_, F16> {
    const STREAMED: bool = true;

    #[inline(always)]
    fn row(&self, row: usize) -> *const u8 {
        self.bytes[row * self.row_bytes..][..self.row_bytes].as_ptr()
    }

    #[inline(always)]
    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    #[inline(always)]
    unsafe fn pairs(at: *const u8) -> __m512bh {
        // SAFETY: the bytes are within the row; a prefetch may take any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(PREFETCH_BYTES).cast());
            match F16 {
                false => Self::of(_mm512_loadu_si512(at.cast())),
                true => round(
                    _mm256_loadu_si256(at.cast()),
                    _mm256_loadu_si256(at.add(VECTOR / 2).cast()),
                ),
            }
        }
    }

    #[inline(always)]
    unsafe fn of(stored: __m512i) -> __m512bh {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match F16 {
                false => cast(stored),
                true => round(_mm512_castsi512_si256(stored), _mm512_extracti64x4_epi64::<1>(stored)),
            }
        }
    }
}

/// Rounds two vectors of f16 to one of bf16, nearest, ties to even.
#[inline(always)]
unsafe fn round(low: __m256i, high: __m256i) -> __m512bh {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_cvtne2ps_pbh(_mm512_cvtph_ps(high), _mm512_cvtph_ps(low)) }
}

avx512_bf16! {
    /// [`super::strip`] on AVX512_BF16.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW, DQ, VL and BF16; `count` is at most sixteen, rows and tokens are
    /// there, and both have one length.
    pub(super) unsafe fn strip(
        weights: &Bf16Rows,
        count: usize,
        x: &Bf16Rows,
        tokens: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        let mut first = tokens.start;
        while first < tokens.end {
            // SAFETY: guaranteed by the caller; never more tokens than remain.
            unsafe {
                first += match tokens.end - first {
                    6.. => rows_by_tokens::<_, 6>(weights, count, x, first, sink),
                    3.. => rows_by_tokens::<_, 3>(weights, count, x, first, sink),
                    _ => rows_by_tokens::<_, 1>(weights, count, x, first, sink),
                }
            }
        }
    }
}

avx512_bf16! {
    /// [`strip`] of rows as stored, for few tokens: nothing is converted in advance.
    ///
    /// # Safety
    /// See [`strip`]; `bytes` are `count` rows of 16-bit weights, as long as a token: f16 if `F16`,
    /// else bf16.
    pub(super) unsafe fn stored_strip<const F16: bool>(
        bytes: &[u8],
        count: usize,
        x: &Bf16Rows,
        tokens: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        let weights = Stored::<F16> {
            bytes,
            row_bytes: bytes.len() / count.max(1),
        };
        let mut first = tokens.start;
        while first < tokens.end {
            // SAFETY: guaranteed by the caller; never more tokens than remain.
            unsafe {
                first += match tokens.end - first {
                    4.. => rows_by_tokens::<_, 4>(&weights, count, x, first, sink),
                    2.. => rows_by_tokens::<_, 2>(&weights, count, x, first, sink),
                    _ => rows_by_tokens::<_, 1>(&weights, count, x, first, sink),
                }
            }
        }
    }
}

avx512_bf16! {
    /// Accumulates the products of rows from `first` on with vector `at` of each token.
    ///
    /// # Safety
    /// See [`strip`]; tokens have that vector, and `sums` has the rows.
    #[inline]
    unsafe fn add<const R: usize, const N: usize>(
        sums: &mut [[__m512; AT_ONCE]; N],
        first: usize,
        rows: [__m512bh; R],
        tokens: [*const u8; N],
        at: usize,
    ) {
        for (token, sums) in tokens.into_iter().zip(sums) {
            // SAFETY: guaranteed by the caller.
            let token = unsafe { <Bf16Rows as Source>::pairs(token.add(VECTOR * at)) };
            for (sum, row) in sums[first..].iter_mut().zip(rows) {
                *sum = _mm512_dpbf16_ps(*sum, row, token);
            }
        }
    }
}

avx512_bf16! {
    /// Multiplies `count` rows with `N` tokens starting at `first`. Returns `N`.
    ///
    /// # Safety
    /// See [`strip`].
    #[inline]
    unsafe fn rows_by_tokens<S: Source, const N: usize>(
        weights: &S,
        count: usize,
        x: &Bf16Rows,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) -> usize {
        let mut results = [[0.0; ROWS]; N];
        let (whole, vectors) = (weights.whole(), x.length / WIDTH);
        let tokens: [*const u8; N] = std::array::from_fn(|token| Source::row(x, first + token));
        for row in (0..count).step_by(AT_ONCE) {
            // Past the last row, repeat the last one.
            let rows: [*const u8; AT_ONCE] = std::array::from_fn(|r| weights.row((row + r).min(count - 1)));
            let mut sums = [[_mm512_setzero_ps(); AT_ONCE]; N];
            // SAFETY: rows have `whole` vectors; tokens have as many, or one more.
            unsafe {
                if S::STREAMED {
                    for (r, row) in rows.into_iter().enumerate() {
                        for at in 0..whole {
                            add(&mut sums, r, [S::pairs(row.add(VECTOR * at))], tokens, at);
                        }
                    }
                } else {
                    for at in 0..whole {
                        let rows: [__m512bh; AT_ONCE] = std::array::from_fn(|r| S::pairs(rows[r].add(VECTOR * at)));
                        add(&mut sums, 0, rows, tokens, at);
                    }
                }
                if whole < vectors {
                    let mask = (1 << (weights.row_bytes() - VECTOR * whole)) - 1;
                    let last = |row: *const u8| _mm512_maskz_loadu_epi8(mask, row.add(VECTOR * whole).cast());
                    let rows: [__m512bh; AT_ONCE] = std::array::from_fn(|r| S::of(last(rows[r])));
                    add(&mut sums, 0, rows, tokens, whole);
                }
            }
            for (sums, results) in sums.chunks(4).zip(results.chunks_mut(4)) {
                let mut vectors = [_mm512_setzero_ps(); WIDTH];
                vectors
                    .iter_mut()
                    .zip(sums.as_flattened())
                    .for_each(|(vector, sum)| *vector = *sum);
                let mut out = [[0.0; AT_ONCE]; 4];
                store(sums_of(&vectors), &mut out);
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

avx512_bf16! {
    /// Rounds stored f16 to bf16, nearest, ties to even, padded with zeros.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BF16.
    pub(super) unsafe fn round_halves(bytes: &[u8], out: &mut [u16]) {
        let (vectors, rest) = bytes.as_chunks::<{ 4 * WIDTH }>();
        let (out, _) = out.as_chunks_mut::<{ 2 * WIDTH }>();
        let mut last = [0; 4 * WIDTH];
        last[..rest.len()].copy_from_slice(rest);
        for (vector, out) in vectors.iter().chain([&last]).zip(out) {
            // Masking instead of copying the last ones makes stores many times slower.
            let [low, high]: [__m256i; 2] = load(vector);
            // SAFETY: guaranteed by the caller.
            store(unsafe { round(low, high) }, out);
        }
    }
}
