//! [`Lanes`] on AVX2 with FMA: a vector is two registers.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: `Avx2` exists only if the CPU has the instructions, and references are valid to read \
        and write"
)]

use super::{Lanes, WIDTH, sum_order};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Call only with the instructions enabled.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

type Floats = [__m256; 2];

#[inline(always)]
fn each<T: Copy, U>(a: [T; 2], f: impl Fn(T) -> U) -> [U; 2] {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
fn pairs<T: Copy, U>(a: [T; 2], b: [T; 2], f: impl Fn(T, T) -> U) -> [U; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// The halves of 16 values.
#[inline(always)]
fn halves<T>(x: &[T; WIDTH]) -> [*const T; 2] {
    [x.as_ptr(), x[8..].as_ptr()]
}

impl Lanes for Avx2 {
    type Floats = Floats;
    type Sums = [__m256i; 2];
    type Pairs = [__m256i; 2];

    const REGISTERS: usize = 8;
    const SUM_ORDER: [usize; WIDTH] = sum_order([8, 1, 2, 4]);

    #[inline(always)]
    fn splat(self, x: f32) -> Floats {
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Floats {
        each(halves(x), |x| unsafe { _mm256_loadu_ps(x) })
    }

    #[inline(always)]
    fn store(self, x: Floats, out: &mut [f32; WIDTH]) {
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(out[8..].as_mut_ptr(), x[1]);
        }
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; WIDTH]) -> Floats {
        each(halves(x), |x| unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.cast())) })
    }

    #[inline(always)]
    fn load_bf16(self, x: &[u16; WIDTH]) -> Floats {
        each(halves(x), |x| unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        })
    }

    #[inline(always)]
    fn store_half(self, x: Floats, out: &mut [u16; WIDTH]) {
        unsafe {
            let halves = each(x, |x| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
            _mm_storeu_si128(out.as_mut_ptr().cast(), halves[0]);
            _mm_storeu_si128(out[8..].as_mut_ptr().cast(), halves[1]);
        }
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; WIDTH]) -> Floats {
        let [a, b] = halves(x);
        unsafe {
            let (a, b) = (_mm_loadl_epi64(a.cast()), _mm_loadl_epi64(b.cast()));
            let (a, b) = (_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(b));
            [_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)]
        }
    }

    #[inline(always)]
    fn store_bytes(self, x: Floats, out: &mut [i8; WIDTH]) {
        unsafe {
            let (a, b) = (_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
            let a = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            let b = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256::<1>(b));
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_packs_epi16(a, b));
        }
    }

    #[inline(always)]
    fn store_shorts(self, x: Floats, out: &mut [i16; WIDTH]) {
        unsafe {
            let [a, b] = each(x, |x| _mm256_cvtps_epi32(x));
            // Packing interleaves the quarters.
            let shorts = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), shorts);
        }
    }

    #[inline(always)]
    fn load_pairs(self, x: &[[i8; 2]; WIDTH]) -> [__m256i; 2] {
        each(halves(x), |x| unsafe {
            _mm256_cvtepi8_epi16(_mm_loadu_si128(x.cast()))
        })
    }

    #[inline(always)]
    fn splat_pair(self, x: [i16; 2]) -> [__m256i; 2] {
        unsafe { [_mm256_set1_epi32(bytemuck::cast(x)); 2] }
    }

    #[inline(always)]
    fn no_sums(self) -> [__m256i; 2] {
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    fn mul_pairs_add(self, a: [__m256i; 2], b: [__m256i; 2], c: [__m256i; 2]) -> [__m256i; 2] {
        let products = pairs(a, b, |a, b| unsafe { _mm256_madd_epi16(a, b) });
        pairs(products, c, |products, c| unsafe { _mm256_add_epi32(products, c) })
    }

    #[inline(always)]
    fn floats(self, x: [__m256i; 2]) -> Floats {
        each(x, |x| unsafe { _mm256_cvtepi32_ps(x) })
    }

    #[inline(always)]
    fn add(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_add_ps(a, b) })
    }

    #[inline(always)]
    fn sub(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_sub_ps(a, b) })
    }

    #[inline(always)]
    fn mul(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_mul_ps(a, b) })
    }

    #[inline(always)]
    fn div(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_div_ps(a, b) })
    }

    #[inline(always)]
    fn mul_add(self, a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }

    #[inline(always)]
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn max(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_max_ps(a, b) })
    }

    #[inline(always)]
    fn min(self, a: Floats, b: Floats) -> Floats {
        pairs(a, b, |a, b| unsafe { _mm256_min_ps(a, b) })
    }

    #[inline(always)]
    fn round(self, x: Floats) -> Floats {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        each(x, |x| unsafe { _mm256_round_ps::<NEAREST>(x) })
    }

    #[inline(always)]
    fn times_power_of_two(self, x: Floats, n: Floats) -> Floats {
        pairs(x, n, |x, n| unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        })
    }

    #[inline(always)]
    fn sum(self, x: Floats) -> f32 {
        unsafe {
            let x = _mm256_add_ps(x[0], x[1]);
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    fn sums(self, x: &[Floats; WIDTH]) -> [f32; WIDTH] {
        let mut sums = [0.0; WIDTH];
        for (x, sums) in x.as_chunks::<8>().0.iter().zip(sums.as_chunks_mut::<8>().0) {
            unsafe {
                // Adds neighbouring lanes three times; each addition halves the number of vectors.
                let both = |i: usize| _mm256_add_ps(x[i][0], x[i][1]);
                let four = |i: usize| _mm256_hadd_ps(both(i), both(i + 1));
                let eight = |i: usize| _mm256_hadd_ps(four(i), four(i + 2));
                let (low, high) = (eight(0), eight(4));
                let halves = [
                    _mm256_permute2f128_ps::<0x20>(low, high),
                    _mm256_permute2f128_ps::<0x31>(low, high),
                ];
                _mm256_storeu_ps(sums.as_mut_ptr(), _mm256_add_ps(halves[0], halves[1]));
            }
        }
        sums
    }

    #[inline(always)]
    fn transpose(self, x: [Floats; WIDTH]) -> [Floats; WIDTH] {
        let mut out = x;
        for half in 0..2 {
            for rows in 0..2 {
                let mut eight = [x[0][0]; 8];
                for r in 0..8 {
                    eight[r] = x[8 * rows + r][half];
                }
                let eight = unsafe { transpose_8(eight) };
                for c in 0..8 {
                    out[8 * half + c][rows] = eight[c];
                }
            }
        }
        out
    }

    #[inline(always)]
    fn reduce_max(self, x: Floats) -> f32 {
        unsafe {
            let x = _mm256_max_ps(x[0], x[1]);
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }
}

/// Transposes eight registers.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_8(x: [__m256; 8]) -> [__m256; 8] {
    let (mut y, mut z) = (x, x);
    // Pairs of rows, then of pairs, within each half of a register; then halves.
    for i in (0..8).step_by(2) {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for i in [0, 4] {
        for c in 0..2 {
            z[i + 2 * c] = _mm256_shuffle_ps::<0x44>(y[i + c], y[i + c + 2]);
            z[i + 2 * c + 1] = _mm256_shuffle_ps::<0xee>(y[i + c], y[i + c + 2]);
        }
    }
    for c in 0..4 {
        y[c] = _mm256_permute2f128_ps::<0x20>(z[c], z[c + 4]);
        y[c + 4] = _mm256_permute2f128_ps::<0x31>(z[c], z[c + 4]);
    }
    y
}
