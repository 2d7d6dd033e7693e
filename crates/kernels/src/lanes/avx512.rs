//! [`Lanes`] on AVX-512 with VNNI: a vector is one register.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: `Avx512` exists only if the CPU has the instructions, and references are valid to \
        read and write"
)]

use super::{Lanes, WIDTH, sum_order};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Call only with the instructions enabled.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Lanes for Avx512 {
    type Floats = __m512;
    type Sums = __m512i;
    type Pairs = __m512i;

    const REGISTERS: usize = 32;
    const SUM_ORDER: [usize; WIDTH] = sum_order([2, 1, 8, 4]);

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> __m512 {
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m512, out: &mut [f32; WIDTH]) {
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; WIDTH]) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_bf16(self, x: &[u16; WIDTH]) -> __m512 {
        unsafe {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        }
    }

    #[inline(always)]
    fn store_half(self, x: __m512, out: &mut [u16; WIDTH]) {
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; WIDTH]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn store_bytes(self, x: __m512, out: &mut [i8; WIDTH]) {
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x))) }
    }

    #[inline(always)]
    fn store_shorts(self, x: __m512, out: &mut [i16; WIDTH]) {
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x))) }
    }

    #[inline(always)]
    fn load_pairs(self, x: &[[i8; 2]; WIDTH]) -> __m512i {
        unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn splat_pair(self, x: [i16; 2]) -> __m512i {
        unsafe { _mm512_set1_epi32(bytemuck::cast(x)) }
    }

    #[inline(always)]
    fn no_sums(self) -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn mul_pairs_add(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        unsafe { _mm512_dpwssd_epi32(c, a, b) }
    }

    #[inline(always)]
    fn floats(self, x: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, x: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<0>(x) }
    }

    #[inline(always)]
    fn times_power_of_two(self, x: __m512, n: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(x, n) }
    }

    #[inline(always)]
    fn sum(self, x: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(x) }
    }

    #[inline(always)]
    fn sums(self, x: &[__m512; WIDTH]) -> [f32; WIDTH] {
        let mut sums = [0.0; WIDTH];
        self.store(unsafe { sums_of(x) }, &mut sums);
        sums
    }

    #[inline(always)]
    fn transpose(self, x: [__m512; WIDTH]) -> [__m512; WIDTH] {
        unsafe { transpose_16(x) }
    }

    #[inline(always)]
    fn reduce_max(self, x: __m512) -> f32 {
        unsafe { _mm512_reduce_max_ps(x) }
    }
}

/// Transposes sixteen registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_16(x: [__m512; WIDTH]) -> [__m512; WIDTH] {
    let (mut y, mut z) = (x, x);
    // Pairs of rows, then of pairs, within each quarter of a register.
    for i in (0..WIDTH).step_by(2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for i in (0..WIDTH).step_by(4) {
        for c in 0..2 {
            z[i + 2 * c] = _mm512_shuffle_ps::<0x44>(y[i + c], y[i + c + 2]);
            z[i + 2 * c + 1] = _mm512_shuffle_ps::<0xee>(y[i + c], y[i + c + 2]);
        }
    }
    // Vector 4 i + c has column 4 j + c of rows 4 i to 4 i + 3 in quarter j: even quarters of two
    // vectors, then odd ones, twice.
    for i in [0, 8] {
        for c in i..i + 4 {
            y[c] = _mm512_shuffle_f32x4::<0x88>(z[c], z[c + 4]);
            y[c + 4] = _mm512_shuffle_f32x4::<0xdd>(z[c], z[c + 4]);
        }
    }
    for c in 0..8 {
        z[c] = _mm512_shuffle_f32x4::<0x88>(y[c], y[c + 8]);
        z[c + 8] = _mm512_shuffle_f32x4::<0xdd>(y[c], y[c + 8]);
    }
    z
}

/// The sum of the lanes of each of sixteen vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(crate) fn sums_of(vectors: &[__m512; WIDTH]) -> __m512 {
    // First and third quarter of each, plus second and fourth; two vectors interleaved.
    let halves: [__m512; 8] = std::array::from_fn(|i| {
        let (a, b) = (vectors[2 * i], vectors[2 * i + 1]);
        _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
    });
    let quarters: [__m512; 4] = std::array::from_fn(|i| {
        let [a, b] = [halves[2 * i], halves[2 * i + 1]].map(|half| _mm512_castps_pd(half));
        let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
    });
    // The remaining sums are over the four parts of each vector.
    let pairs: [__m512; 2] = std::array::from_fn(|i| {
        let (a, b) = (quarters[2 * i], quarters[2 * i + 1]);
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
    });
    _mm512_add_ps(
        _mm512_shuffle_f32x4::<0x88>(pairs[0], pairs[1]),
        _mm512_shuffle_f32x4::<0xdd>(pairs[0], pairs[1]),
    )
}
