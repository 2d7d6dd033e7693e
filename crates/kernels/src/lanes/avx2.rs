//! AVX2 with FMA and F16C: a vector is two registers.

use super::register::{load, store};
use super::token::{methods, token};
use super::{Lanes, Simd, WIDTH};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Avx2(());

token!($ Avx2: Avx2, avx2, is_x86_feature_detected!, "avx2" "fma" "f16c");

type Floats = [__m256; 2];
type Ints = [__m256i; 2];
type Bytes = [__m256i; 2];

/// Applies `f` to both registers of a vector.
#[inline(always)]
fn map<T: Copy, U>(a: [T; 2], f: impl Fn(T) -> U) -> [U; 2] {
    [f(a[0]), f(a[1])]
}

/// Applies `f` to corresponding registers of two vectors.
#[inline(always)]
fn zip_with<T: Copy, U>(a: [T; 2], b: [T; 2], f: impl Fn(T, T) -> U) -> [U; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

impl Lanes for Avx2 {
    type Floats = Floats;
    type Ints = Ints;
    type Pairs = Ints;

    const REGISTERS: usize = 8;

    methods! { avx2;
        fn splat(x: f32) -> Floats {
            [_mm256_set1_ps(x); 2]
        }

        fn load(x: &[f32; WIDTH]) -> Floats {
            load(x)
        }

        fn store(x: Floats, out: &mut [f32; WIDTH]) {
            store(x, out);
        }

        fn load_f16(x: &[u16; WIDTH]) -> Floats {
            map(load(x), |x| _mm256_cvtph_ps(x))
        }

        fn load_bf16(x: &[u16; WIDTH]) -> Floats {
            map(load(x), |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(x))))
        }

        fn store_f16(x: Floats, out: &mut [u16; WIDTH]) {
            store(map(x, |x| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)), out);
        }

        fn load_i8(x: &[i8; WIDTH]) -> Floats {
            let x = load(x);
            let halves = [x, _mm_unpackhi_epi64(x, x)];
            map(halves, |x| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)))
        }

        fn store_i8(x: Floats, out: &mut [i8; WIDTH]) {
            let [a, b] = map(x, |x| {
                let x = _mm256_cvtps_epi32(x);
                _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
            });
            store(_mm_packs_epi16(a, b), out);
        }

        fn store_i16(x: Floats, out: &mut [i16; WIDTH]) {
            let [a, b] = map(x, |x| _mm256_cvtps_epi32(x));
            // `packs` works within halves of a register and swaps the middle quarters.
            store(_mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b)), out);
        }

        fn load_i8_pairs(x: &[[i8; 2]; WIDTH]) -> Ints {
            map(load(x), |x| _mm256_cvtepi8_epi16(x))
        }

        fn splat_i16_pair(x: [i16; 2]) -> Ints {
            [_mm256_set1_epi32(bytemuck::cast(x)); 2]
        }

        fn zero_i32() -> Ints {
            [_mm256_setzero_si256(); 2]
        }

        fn dot_i16_add(a: Ints, b: Ints, c: Ints) -> Ints {
            zip_with(zip_with(a, b, |a, b| _mm256_madd_epi16(a, b)), c, |products, c| _mm256_add_epi32(products, c))
        }

        fn cvt_i32_f32(x: Ints) -> Floats {
            map(x, |x| _mm256_cvtepi32_ps(x))
        }

        fn load_i8_as_i32(x: &[u8; WIDTH]) -> Ints {
            let x = load(x);
            map([x, _mm_unpackhi_epi64(x, x)], |x| _mm256_cvtepi8_epi32(x))
        }

        fn shl_i32(a: Ints, by: u32) -> Ints {
            map(a, |a| _mm256_sll_epi32(a, _mm_cvtsi32_si128(by as i32)))
        }

        fn shr_and_i32(a: Ints, by: u32, mask: i32) -> Ints {
            map(a, |a| {
                let shifted = _mm256_srl_epi32(a, _mm_cvtsi32_si128(by as i32));
                _mm256_and_si256(shifted, _mm256_set1_epi32(mask))
            })
        }

        fn or_i32(a: Ints, b: Ints) -> Ints {
            zip_with(a, b, |a, b| _mm256_or_si256(a, b))
        }

        fn add_scalar_i32(a: Ints, b: i32) -> Ints {
            map(a, |a| _mm256_add_epi32(a, _mm256_set1_epi32(b)))
        }

        fn reinterpret_i32_f32(a: Ints) -> Floats {
            map(a, |a| _mm256_castsi256_ps(a))
        }

        fn add(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_add_ps(a, b))
        }

        fn sub(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_sub_ps(a, b))
        }

        fn mul(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_mul_ps(a, b))
        }

        fn div(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_div_ps(a, b))
        }

        fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
            [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])]
        }

        fn fma_scalar(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }

        fn max(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_max_ps(a, b))
        }

        fn min(a: Floats, b: Floats) -> Floats {
            zip_with(a, b, |a, b| _mm256_min_ps(a, b))
        }

        fn round(x: Floats) -> Floats {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            map(x, |x| _mm256_round_ps::<NEAREST>(x))
        }

        fn scalef(x: Floats, n: Floats) -> Floats {
            zip_with(x, n, |x, n| {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
            })
        }

        fn reduce_add(x: Floats) -> f32 {
            let x = _mm256_add_ps(x[0], x[1]);
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }

        fn reduce_add_each(x: &[Floats; WIDTH]) -> [f32; WIDTH] {
            let mut sums = [0.0; WIDTH];
            for (x, sums) in x.as_chunks::<8>().0.iter().zip(sums.as_chunks_mut::<8>().0) {
                // Each `hadd` adds neighboring lanes and halves the number of vectors.
                let one = |i: usize| _mm256_add_ps(x[i][0], x[i][1]);
                let two = |i: usize| _mm256_hadd_ps(one(i), one(i + 1));
                let four = |i: usize| _mm256_hadd_ps(two(i), two(i + 2));
                let (low, high) = (four(0), four(4));
                let halves = [
                    _mm256_permute2f128_ps::<0x20>(low, high),
                    _mm256_permute2f128_ps::<0x31>(low, high),
                ];
                store(_mm256_add_ps(halves[0], halves[1]), sums);
            }
            sums
        }

        fn transpose(x: [Floats; WIDTH]) -> [Floats; WIDTH] {
            let mut out = x;
            for half in 0..2 {
                for rows in 0..2 {
                    let mut square = [x[0][0]; 8];
                    for r in 0..8 {
                        square[r] = x[8 * rows + r][half];
                    }
                    let square = transpose_8(square);
                    for c in 0..8 {
                        out[8 * half + c][rows] = square[c];
                    }
                }
            }
            out
        }

        fn reduce_max(x: Floats) -> f32 {
            let x = _mm256_max_ps(x[0], x[1]);
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }
}

avx2! {
    /// Transposes eight registers.
    #[inline]
    fn transpose_8(x: [__m256; 8]) -> [__m256; 8] {
        let (mut y, mut z) = (x, x);
        // Interleaves pairs of rows, then pairs of pairs, within each half of a register; then
        // exchanges halves.
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
}

/// Source lanes of the two registers of [`Simd::spread`], for an even and an odd pair.
const SPREAD: [[[i32; 8]; 2]; 2] = [
    [[0, 0, 0, 0, 1, 1, 1, 1], [2, 2, 2, 2, 3, 3, 3, 3]],
    [[4, 4, 4, 4, 5, 5, 5, 5], [6, 6, 6, 6, 7, 7, 7, 7]],
];

/// Source lanes of the two registers of [`Simd::load_floats_twice`].
const TWICE: [[i32; 8]; 2] = [[0, 0, 1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6, 7, 7]];

/// Each bit of a byte.
const BITS: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, -128_i8 as u8]);

/// For each byte of a register, the index of the byte that contains its bit.
const BYTE_OF_BIT: [u8; 32] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
];

avx2! {
    /// Two registers with the lanes of `floats` at these indices.
    #[inline]
    fn permute(lanes: &[[i32; 8]; 2], floats: __m256) -> Floats {
        map(load(lanes), |lanes| _mm256_permutevar8x32_ps(floats, lanes))
    }
}

avx2! {
    /// Lane-wise maximum of the bits of floats with the sign cleared.
    #[inline]
    fn max_magnitude_bits(a: __m256, b: __m256) -> __m256i {
        let magnitude = |floats| _mm256_and_si256(_mm256_castps_si256(floats), _mm256_set1_epi32(i32::MAX));
        _mm256_max_epi32(magnitude(a), magnitude(b))
    }
}

avx2! {
    /// `value` in each byte that has the bit of the same byte of `bit`, else zero.
    #[inline]
    fn select_by_bit(bytes: __m256i, bit: __m256i, value: u8) -> __m256i {
        let mask = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_and_si256(mask, _mm256_set1_epi8(value as i8))
    }
}

avx2! {
    /// Adds neighboring sums of two products and converts the sums of four to floats.
    #[inline]
    fn add_neighbors(sums_of_two: __m256i) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_madd_epi16(sums_of_two, _mm256_set1_epi16(1)))
    }
}

impl Simd for Avx2 {
    type Bytes = Bytes;

    const SIGNED_BIAS: f32 = 0.0;

    methods! { avx2;
        fn load_bytes(bytes: &[u8; 64]) -> Bytes {
            load(bytes)
        }

        fn load_halves(low: &[u8; 32], high: &[u8; 32]) -> Bytes {
            [load(low), load(high)]
        }

        fn load_half_twice(bytes: &[u8; 32]) -> Bytes {
            [load(bytes); 2]
        }

        fn load_quarters_twice(low: &[u8; 16], high: &[u8; 16]) -> Bytes {
            [_mm256_broadcastsi128_si256(load(low)), _mm256_broadcastsi128_si256(load(high))]
        }

        fn expand_bits(bits: u64, value: u8) -> Bytes {
            map([bits as i32, (bits >> 32) as i32], |bits| {
                let byte = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), load(&BYTE_OF_BIT));
                select_by_bit(byte, _mm256_set1_epi64x(BITS), value)
            })
        }

        fn test_bits(bytes: Bytes, bits: [u8; 4], value: u8) -> Bytes {
            let [a, b, c, d] = [bits[0] as i8, bits[1] as i8, bits[2] as i8, bits[3] as i8];
            let bits = [
                _mm256_set_m128i(_mm_set1_epi8(b), _mm_set1_epi8(a)),
                _mm256_set_m128i(_mm_set1_epi8(d), _mm_set1_epi8(c)),
            ];
            zip_with(bytes, bits, |bytes, bits| select_by_bit(bytes, bits, value))
        }

        fn shift_right(bytes: Bytes, by: [u8; 4]) -> Bytes {
            let [a, b, c, d] = [i32::from(by[0]), i32::from(by[1]), i32::from(by[2]), i32::from(by[3])];
            let by = [
                _mm256_set_m128i(_mm_set1_epi32(b), _mm_set1_epi32(a)),
                _mm256_set_m128i(_mm_set1_epi32(d), _mm_set1_epi32(c)),
            ];
            zip_with(bytes, by, |bytes, by| _mm256_srlv_epi32(bytes, by))
        }

        fn shift_left_4(bytes: Bytes) -> Bytes {
            map(bytes, |bytes| _mm256_slli_epi16::<4>(bytes))
        }

        fn and(bytes: Bytes, mask: u8) -> Bytes {
            map(bytes, |bytes| _mm256_and_si256(bytes, _mm256_set1_epi8(mask as i8)))
        }

        fn or(a: Bytes, b: Bytes) -> Bytes {
            zip_with(a, b, |a, b| _mm256_or_si256(a, b))
        }

        fn look_up(table: &[u8; 16], indices: Bytes) -> Bytes {
            let table = _mm256_broadcastsi128_si256(load(table));
            map(indices, |indices| _mm256_shuffle_epi8(table, indices))
        }

        fn to_array(bytes: Bytes) -> [u8; 64] {
            let mut out = [0; 64];
            store(bytes, &mut out);
            out
        }

        fn dot_u8_i8(codes: Bytes, activations: &[i8; 64]) -> Floats {
            // Sums of two products stay below 2 * 127 * 127, inside 16 bits.
            zip_with(codes, load(activations), |codes, activations| {
                add_neighbors(_mm256_maddubs_epi16(codes, activations))
            })
        }

        fn dot_i8_i8(codes: Bytes, activations: &[i8; 64]) -> Floats {
            // The sign of a code is applied to its activation. The magnitude of -128 is 128 as an
            // unsigned byte, and sums of two products stay below 2 * 128 * 127, inside 16 bits.
            zip_with(codes, load(activations), |codes, activations| {
                let signed = _mm256_sign_epi8(activations, codes);
                add_neighbors(_mm256_maddubs_epi16(_mm256_abs_epi8(codes), signed))
            })
        }

        fn splat_f16(bits: u16) -> Floats {
            [_mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))); 2]
        }

        fn widen_u8(bytes: [u8; 16]) -> Floats {
            let bytes = load(&bytes);
            let halves = [bytes, _mm_unpackhi_epi64(bytes, bytes)];
            map(halves, |bytes| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)))
        }

        fn widen_u8_twice(bytes: u64) -> Floats {
            let bytes = _mm_cvtsi64_si128(bytes as i64);
            let twice = _mm_unpacklo_epi8(bytes, bytes);
            let halves = [twice, _mm_unpackhi_epi64(twice, twice)];
            map(halves, |bytes| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)))
        }

        fn widen_f16_pairs_twice(pairs: [[u8; 4]; 8]) -> (Floats, Floats) {
            let [a, b, c, d, e, f, g, h]: [i32; 8] = bytemuck::cast(pairs);
            let floats = map([_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h)], |pairs| _mm256_cvtph_ps(pairs));
            (map(floats, |floats| _mm256_moveldup_ps(floats)), map(floats, |floats| _mm256_movehdup_ps(floats)))
        }

        fn load_floats_twice(floats: &[f32; 8]) -> Floats {
            permute(&TWICE, load(floats))
        }

        fn spread(floats: Floats, pair: usize) -> Floats {
            permute(&SPREAD[pair % 2], floats[pair / 2])
        }

        fn max_magnitude(a: Floats, b: Floats) -> u32 {
            let eight = _mm256_max_epi32(max_magnitude_bits(a[0], a[1]), max_magnitude_bits(b[0], b[1]));
            let four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
            _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two))) as u32
        }

        fn round_to_i8(floats: Floats, out: &mut [i8; 16]) -> i32 {
            let [low, high] = map(floats, |floats| {
                let ordered = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(floats, floats));
                _mm256_and_si256(_mm256_cvtps_epi32(floats), ordered)
            });
            // As in `store_i16`.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            store(_mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words)), out);
            let eight = _mm256_add_epi32(low, high);
            let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
        }
    }
}
