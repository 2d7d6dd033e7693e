//! [`Simd`] on AVX-512 with VNNI: a vector is one register.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: `Avx512` exists only if the CPU has the instructions, and references are valid to \
        read"
)]

use std::arch::x86_64::*;

use super::simd::{Kernel, Simd};

/// Proof that the CPU has AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Runs a kernel's SIMD form with the instructions enabled.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.simd(Avx512(()))
}

/// Source of lane `i` of a vector with duplicated lanes.
const TWICE: [i32; 16] = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7];

/// Flips the sign bit of a code, which adds 128.
const SIGN: i8 = i8::MIN;

/// Source lanes of [`Simd::spread`], for each pair.
const SPREAD: [[i32; 16]; 4] = [spread(0), spread(4), spread(8), spread(12)];

const fn spread(first: i32) -> [i32; 16] {
    let mut lanes = [first; 16];
    let mut i = 0;
    while i < 16 {
        lanes[i] += i as i32 / 4;
        i += 1;
    }
    lanes
}

/// A 16-bit count in each lane, by quarters.
#[inline(always)]
fn quarters(by: [u8; 4]) -> [u16; 32] {
    std::array::from_fn(|i| u16::from(by[i / 8]))
}

#[inline(always)]
fn permute(lanes: &[i32; 16], floats: __m512) -> __m512 {
    unsafe { _mm512_permutexvar_ps(_mm512_loadu_si512(lanes.as_ptr().cast()), floats) }
}

/// The bits of floats with the sign cleared.
#[inline(always)]
fn unsigned(floats: __m512) -> __m512i {
    unsafe { _mm512_and_si512(_mm512_castps_si512(floats), _mm512_set1_epi32(i32::MAX)) }
}

impl Simd for Avx512 {
    type Bytes = __m512i;
    type Floats = __m512;

    const SIGNED_BIAS: f32 = 128.0;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 64]) -> __m512i {
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn join(self, low: &[u8; 32], high: &[u8; 32]) -> __m512i {
        unsafe {
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
            _mm512_inserti64x4(low, _mm256_loadu_si256(high.as_ptr().cast()), 1)
        }
    }

    #[inline(always)]
    fn twice(self, bytes: &[u8; 32]) -> __m512i {
        unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn each_twice(self, low: &[u8; 16], high: &[u8; 16]) -> __m512i {
        unsafe {
            let low = _mm512_broadcast_i32x4(_mm_loadu_si128(low.as_ptr().cast()));
            _mm512_mask_broadcast_i32x4(low, 0xff00, _mm_loadu_si128(high.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn bits(self, bits: u64, value: u8) -> __m512i {
        unsafe { _mm512_maskz_set1_epi8(bits, value as i8) }
    }

    #[inline(always)]
    fn flags(self, bytes: __m512i, bits: [u8; 4], value: u8) -> __m512i {
        let bits: [u8; 64] = std::array::from_fn(|i| bits[i / 16]);
        unsafe { self.bits(_mm512_test_epi8_mask(bytes, self.bytes(&bits)), value) }
    }

    #[inline(always)]
    fn shift_right(self, bytes: __m512i, by: [u8; 4]) -> __m512i {
        unsafe { _mm512_srlv_epi16(bytes, _mm512_loadu_si512(quarters(by).as_ptr().cast())) }
    }

    #[inline(always)]
    fn shift_left_4(self, bytes: __m512i) -> __m512i {
        unsafe { _mm512_slli_epi16(bytes, 4) }
    }

    #[inline(always)]
    fn and(self, bytes: __m512i, mask: u8) -> __m512i {
        unsafe { _mm512_and_si512(bytes, _mm512_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: __m512i) -> __m512i {
        unsafe { _mm512_shuffle_epi8(self.each_twice(table, table), indices) }
    }

    #[inline(always)]
    fn store_bytes(self, bytes: __m512i) -> [u8; 64] {
        let mut out = [0; 64];
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), bytes) }
        out
    }

    #[inline(always)]
    fn dot(self, codes: __m512i, activations: &[i8; 64]) -> __m512 {
        unsafe {
            let activations = _mm512_loadu_si512(activations.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, activations))
        }
    }

    #[inline(always)]
    fn dot_signed(self, codes: __m512i, activations: &[i8; 64]) -> __m512 {
        self.dot(unsafe { _mm512_xor_si512(codes, _mm512_set1_epi8(SIGN)) }, activations)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn splat_f16(self, bits: u16) -> __m512 {
        unsafe { _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
    }

    #[inline(always)]
    fn floats(self, floats: &[f32; 16]) -> __m512 {
        unsafe { _mm512_loadu_ps(floats.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, floats: __m512, out: &mut [f32; 16]) {
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), floats) }
    }

    #[inline(always)]
    fn stored_floats(self, floats: &[u8; 64]) -> __m512 {
        unsafe { _mm512_loadu_ps(floats.as_ptr().cast()) }
    }

    #[inline(always)]
    fn widen_f16(self, halves: &[u8; 32]) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.as_ptr().cast())) }
    }

    #[inline(always)]
    fn widen_bf16(self, halves: &[u8; 32]) -> __m512 {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(halves.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))
        }
    }

    #[inline(always)]
    fn widen_u8(self, bytes: [u8; 16]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn widen_i8(self, bytes: [i8; 16]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn widen_u8_twice(self, bytes: u64) -> __m512 {
        unsafe {
            let bytes = _mm_cvtsi64_si128(bytes as i64);
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)))
        }
    }

    #[inline(always)]
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (__m512, __m512) {
        let [a, b, c, d, e, f, g, h] = pairs.map(i32::from_le_bytes);
        unsafe {
            let floats = _mm512_cvtph_ps(_mm256_setr_epi32(a, b, c, d, e, f, g, h));
            (_mm512_moveldup_ps(floats), _mm512_movehdup_ps(floats))
        }
    }

    #[inline(always)]
    fn floats_twice(self, floats: &[f32; 8]) -> __m512 {
        unsafe { permute(&TWICE, _mm512_castps256_ps512(_mm256_loadu_ps(floats.as_ptr()))) }
    }

    #[inline(always)]
    fn spread(self, floats: __m512, pair: usize) -> __m512 {
        permute(&SPREAD[pair], floats)
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn sum(self, floats: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(floats) }
    }

    #[inline(always)]
    fn magnitude(self, a: __m512, b: __m512) -> u32 {
        unsafe { _mm512_reduce_max_epi32(_mm512_max_epi32(unsigned(a), unsigned(b))) as u32 }
    }

    #[inline(always)]
    fn round(self, floats: __m512, out: &mut [i8; 16]) -> i32 {
        unsafe {
            let ordered = _mm512_cmp_ps_mask(floats, floats, _CMP_ORD_Q);
            let rounded = _mm512_maskz_cvtps_epi32(ordered, floats);
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(rounded));
            _mm512_reduce_add_epi32(rounded)
        }
    }
}
