//! [`Simd`] on AVX2: a vector is two registers.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: `Avx2` exists only if the CPU has the instructions, and references are valid to read"
)]

use std::arch::x86_64::*;

use super::simd::{Kernel, Simd};

/// Proof that the CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Runs a kernel's SIMD form with the instructions enabled.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.simd(Avx2(()))
}

/// Source lanes of the two registers of [`Simd::spread`], for an even and an odd pair.
const SPREAD: [[[i32; 8]; 2]; 2] = [
    [[0, 0, 0, 0, 1, 1, 1, 1], [2, 2, 2, 2, 3, 3, 3, 3]],
    [[4, 4, 4, 4, 5, 5, 5, 5], [6, 6, 6, 6, 7, 7, 7, 7]],
];

/// Source lanes of the two registers of a vector with duplicated lanes.
const TWICE: [[i32; 8]; 2] = [[0, 0, 1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6, 7, 7]];

/// Each bit of a byte.
const BITS: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, -128_i8 as u8]);

/// For each byte of a register, the index of the byte that holds its bit.
const BYTE_OF_BIT: [u8; 32] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
];

/// Evaluates an expression for both registers. Unlike a closure, a macro is always inlined;
/// otherwise the instructions would not be enabled.
macro_rules! both {
    ($i:ident => $value:expr) => {{
        let first = {
            let $i = 0_usize;
            $value
        };
        let second = {
            let $i = 1_usize;
            $value
        };
        [first, second]
    }};
}

#[inline(always)]
fn load(bytes: &[u8; 32]) -> __m256i {
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline(always)]
fn permute(lanes: &[i32; 8], floats: __m256) -> __m256 {
    unsafe { _mm256_permutevar8x32_ps(floats, _mm256_loadu_si256(lanes.as_ptr().cast())) }
}

/// The bits of floats with the sign cleared.
#[inline(always)]
fn unsigned(floats: __m256) -> __m256i {
    unsafe { _mm256_and_si256(_mm256_castps_si256(floats), _mm256_set1_epi32(i32::MAX)) }
}

/// Adds sums of two products to sums of four, as floats.
#[inline(always)]
fn widen(pairs: __m256i) -> __m256 {
    unsafe { _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))) }
}

impl Simd for Avx2 {
    type Bytes = [__m256i; 2];
    type Floats = [__m256; 2];

    const SIGNED_BIAS: f32 = 0.0;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 64]) -> [__m256i; 2] {
        let [low, high]: &[[u8; 32]; 2] = bytemuck::cast_ref(bytes);
        self.join(low, high)
    }

    #[inline(always)]
    fn join(self, low: &[u8; 32], high: &[u8; 32]) -> [__m256i; 2] {
        [load(low), load(high)]
    }

    #[inline(always)]
    fn twice(self, bytes: &[u8; 32]) -> [__m256i; 2] {
        [load(bytes); 2]
    }

    #[inline(always)]
    fn each_twice(self, low: &[u8; 16], high: &[u8; 16]) -> [__m256i; 2] {
        both!(i => unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128([low, high][i].as_ptr().cast())) })
    }

    #[inline(always)]
    fn bits(self, bits: u64, value: u8) -> [__m256i; 2] {
        both!(i => unsafe {
            let bit = _mm256_set1_epi64x(BITS);
            let byte = _mm256_shuffle_epi8(_mm256_set1_epi32((bits >> (32 * i)) as i32), load(&BYTE_OF_BIT));
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit);
            _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
        })
    }

    #[inline(always)]
    fn flags(self, bytes: [__m256i; 2], bits: [u8; 4], value: u8) -> [__m256i; 2] {
        both!(i => unsafe {
            let (low, high) = (bits[2 * i] as i8, bits[2 * i + 1] as i8);
            let bit = _mm256_set_m128i(_mm_set1_epi8(high), _mm_set1_epi8(low));
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes[i], bit), bit);
            _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
        })
    }

    #[inline(always)]
    fn shift_right(self, bytes: [__m256i; 2], by: [u8; 4]) -> [__m256i; 2] {
        both!(i => unsafe {
            let (low, high) = (i32::from(by[2 * i]), i32::from(by[2 * i + 1]));
            _mm256_srlv_epi32(bytes[i], _mm256_set_m128i(_mm_set1_epi32(high), _mm_set1_epi32(low)))
        })
    }

    #[inline(always)]
    fn shift_left_4(self, bytes: [__m256i; 2]) -> [__m256i; 2] {
        both!(i => unsafe { _mm256_slli_epi16(bytes[i], 4) })
    }

    #[inline(always)]
    fn and(self, bytes: [__m256i; 2], mask: u8) -> [__m256i; 2] {
        both!(i => unsafe { _mm256_and_si256(bytes[i], _mm256_set1_epi8(mask as i8)) })
    }

    #[inline(always)]
    fn or(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        both!(i => unsafe { _mm256_or_si256(a[i], b[i]) })
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: [__m256i; 2]) -> [__m256i; 2] {
        let [table, _] = self.each_twice(table, table);
        both!(i => unsafe { _mm256_shuffle_epi8(table, indices[i]) })
    }

    #[inline(always)]
    fn store_bytes(self, bytes: [__m256i; 2]) -> [u8; 64] {
        let mut out = [[0_u8; 32]; 2];
        unsafe {
            _mm256_storeu_si256(out[0].as_mut_ptr().cast(), bytes[0]);
            _mm256_storeu_si256(out[1].as_mut_ptr().cast(), bytes[1]);
        }
        bytemuck::cast(out)
    }

    #[inline(always)]
    fn dot(self, codes: [__m256i; 2], activations: &[i8; 64]) -> [__m256; 2] {
        let activations = self.bytes(bytemuck::cast_ref(activations));
        // Sums of two products stay below 2 * 127 * 127, inside 16 bits.
        both!(i => widen(unsafe { _mm256_maddubs_epi16(codes[i], activations[i]) }))
    }

    #[inline(always)]
    fn dot_signed(self, codes: [__m256i; 2], activations: &[i8; 64]) -> [__m256; 2] {
        let activations = self.bytes(bytemuck::cast_ref(activations));
        // A code's sign moves to its activation. The magnitude of -128 is 128 as an unsigned byte,
        // and sums of two products stay below 2 * 128 * 127, inside 16 bits.
        both!(i => unsafe {
            let signed = _mm256_sign_epi8(activations[i], codes[i]);
            widen(_mm256_maddubs_epi16(_mm256_abs_epi8(codes[i]), signed))
        })
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [__m256; 2] {
        [unsafe { _mm256_set1_ps(value) }; 2]
    }

    #[inline(always)]
    fn splat_f16(self, bits: u16) -> [__m256; 2] {
        [unsafe { _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }; 2]
    }

    #[inline(always)]
    fn floats(self, floats: &[f32; 16]) -> [__m256; 2] {
        let floats: &[[f32; 8]; 2] = bytemuck::cast_ref(floats);
        both!(i => unsafe { _mm256_loadu_ps(floats[i].as_ptr()) })
    }

    #[inline(always)]
    fn store(self, floats: [__m256; 2], out: &mut [f32; 16]) {
        let out: &mut [[f32; 8]; 2] = bytemuck::cast_mut(out);
        unsafe {
            _mm256_storeu_ps(out[0].as_mut_ptr(), floats[0]);
            _mm256_storeu_ps(out[1].as_mut_ptr(), floats[1]);
        }
    }

    #[inline(always)]
    fn stored_floats(self, floats: &[u8; 64]) -> [__m256; 2] {
        let floats: &[[u8; 32]; 2] = bytemuck::cast_ref(floats);
        both!(i => unsafe { _mm256_loadu_ps(floats[i].as_ptr().cast()) })
    }

    #[inline(always)]
    fn widen_f16(self, stored: &[u8; 32]) -> [__m256; 2] {
        let stored: &[[u8; 16]; 2] = bytemuck::cast_ref(stored);
        both!(i => unsafe { _mm256_cvtph_ps(_mm_loadu_si128(stored[i].as_ptr().cast())) })
    }

    #[inline(always)]
    fn widen_bf16(self, stored: &[u8; 32]) -> [__m256; 2] {
        let stored: &[[u8; 16]; 2] = bytemuck::cast_ref(stored);
        both!(i => unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(stored[i].as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))
        })
    }

    #[inline(always)]
    fn widen_u8(self, bytes: [u8; 16]) -> [__m256; 2] {
        let bytes: [[u8; 8]; 2] = bytemuck::cast(bytes);
        both!(i => unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes[i].as_ptr().cast()))) })
    }

    #[inline(always)]
    fn widen_i8(self, bytes: [i8; 16]) -> [__m256; 2] {
        let bytes: [[i8; 8]; 2] = bytemuck::cast(bytes);
        both!(i => unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes[i].as_ptr().cast()))) })
    }

    #[inline(always)]
    fn widen_u8_twice(self, bytes: u64) -> [__m256; 2] {
        unsafe {
            let bytes = _mm_cvtsi64_si128(bytes as i64);
            let twice = _mm_unpacklo_epi8(bytes, bytes);
            let halves = [twice, _mm_unpackhi_epi64(twice, twice)];
            both!(i => _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(halves[i])))
        }
    }

    #[inline(always)]
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (Self::Floats, Self::Floats) {
        let [a, b, c, d, e, f, g, h] = pairs.map(i32::from_le_bytes);
        let floats = unsafe { [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h)] };
        let floats = both!(i => unsafe { _mm256_cvtph_ps(floats[i]) });
        unsafe {
            (
                both!(i => _mm256_moveldup_ps(floats[i])),
                both!(i => _mm256_movehdup_ps(floats[i])),
            )
        }
    }

    #[inline(always)]
    fn floats_twice(self, floats: &[f32; 8]) -> [__m256; 2] {
        let floats = unsafe { _mm256_loadu_ps(floats.as_ptr()) };
        both!(i => permute(&TWICE[i], floats))
    }

    #[inline(always)]
    fn spread(self, floats: [__m256; 2], pair: usize) -> [__m256; 2] {
        both!(i => permute(&SPREAD[pair % 2][i], floats[pair / 2]))
    }

    #[inline(always)]
    fn add(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(i => unsafe { _mm256_add_ps(a[i], b[i]) })
    }

    #[inline(always)]
    fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        both!(i => unsafe { _mm256_mul_ps(a[i], b[i]) })
    }

    #[inline(always)]
    fn mul_add(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
        both!(i => unsafe { _mm256_fmadd_ps(a[i], b[i], c[i]) })
    }

    #[inline(always)]
    fn sum(self, [low, high]: [__m256; 2]) -> f32 {
        unsafe {
            let eight = _mm256_add_ps(low, high);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn magnitude(self, a: [__m256; 2], b: [__m256; 2]) -> u32 {
        unsafe {
            let eight = _mm256_max_epi32(
                _mm256_max_epi32(unsigned(a[0]), unsigned(a[1])),
                _mm256_max_epi32(unsigned(b[0]), unsigned(b[1])),
            );
            let four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
            let two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0b01_00_11_10));
            _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0b10_11_00_01))) as u32
        }
    }

    #[inline(always)]
    fn round(self, floats: [__m256; 2], out: &mut [i8; 16]) -> i32 {
        unsafe {
            let [low, high] = both!(i => {
                let ordered = _mm256_castps_si256(_mm256_cmp_ps(floats[i], floats[i], _CMP_ORD_Q));
                _mm256_and_si256(_mm256_cvtps_epi32(floats[i]), ordered)
            });
            // Packing works within halves of a register and swaps the middle quarters.
            let words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0b11_01_10_00);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes);
            let eight = _mm256_add_epi32(low, high);
            let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0b01_00_11_10));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0b10_11_00_01)))
        }
    }
}
