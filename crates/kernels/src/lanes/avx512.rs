//! AVX-512 with VNNI: a vector is one register.

use super::register::{load, store};
use super::token::{Kernel, Token, methods, token};
use super::{Lanes, Simd, WIDTH};
use std::arch::x86_64::*;

/// Proof that the CPU has AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Avx512(());

token!(
    $ Avx512: Avx512, avx512, is_x86_feature_detected!,
    "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx2" "fma" "f16c"
);

/// [`Avx512`], and proof that the CPU has AVX512_BF16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Avx512Bf16(Avx512);

/// Enables the instructions of [`Avx512Bf16`] in a function.
macro_rules! avx512_bf16 {
    ($($function:tt)*) => {
        $crate::lanes::avx512! {
            #[target_feature(enable = "avx512bf16")]
            $($function)*
        }
    };
}
pub(crate) use avx512_bf16;

impl Avx512Bf16 {
    /// Returns `true` if products are faster in bf16 than in f32. Intel's CPUs start one
    /// `vdpbf16ps` every two cycles, and two FMAs every cycle, so f32 has twice as many products;
    /// on AMD's CPUs bf16 has twice as many (measured on Emerald Rapids and Zen 4:
    /// `docs/tried/decode.md`).
    pub(crate) fn is_faster(self) -> bool {
        !crate::isa::is_intel()
    }
}

impl Token for Avx512Bf16 {
    type Lanes = Avx512;

    fn detect() -> Option<Self> {
        Avx512::detect()
            .filter(|_| is_x86_feature_detected!("avx512bf16"))
            .map(Self)
    }

    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        avx512_bf16! {
            #[inline] // As in `token!`.
            fn enabled<R>(f: impl FnOnce() -> R) -> R {
                f()
            }
        }
        // SAFETY: the token exists only if the CPU has the instructions.
        unsafe { enabled(f) }
    }

    #[inline(always)]
    fn kernel<K: Kernel>(self, kernel: K) -> K::Output {
        self.0.kernel(kernel)
    }

    #[inline(always)]
    fn lanes(self) -> Avx512 {
        self.0
    }
}

impl Lanes for Avx512 {
    type Floats = __m512;
    type Ints = __m512i;
    type Pairs = __m512i;

    const REGISTERS: usize = 32;
    const EMBEDS_BROADCASTS: bool = true;

    methods! { avx512;
        fn splat(x: f32) -> __m512 {
            _mm512_set1_ps(x)
        }

        fn load(x: &[f32; WIDTH]) -> __m512 {
            load(x)
        }

        fn store(x: __m512, out: &mut [f32; WIDTH]) {
            store(x, out);
        }

        fn load_f16(x: &[u16; WIDTH]) -> __m512 {
            _mm512_cvtph_ps(load(x))
        }

        fn load_bf16(x: &[u16; WIDTH]) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load(x))))
        }

        fn store_f16(x: __m512, out: &mut [u16; WIDTH]) {
            store(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x), out);
        }

        fn load_i8(x: &[i8; WIDTH]) -> __m512 {
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load(x)))
        }

        fn store_i8(x: __m512, out: &mut [i8; WIDTH]) {
            store(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)), out);
        }

        fn store_i16(x: __m512, out: &mut [i16; WIDTH]) {
            store(_mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)), out);
        }

        fn load_i8_pairs(x: &[[i8; 2]; WIDTH]) -> __m512i {
            _mm512_cvtepi8_epi16(load(x))
        }

        fn splat_i16_pair(x: [i16; 2]) -> __m512i {
            _mm512_set1_epi32(bytemuck::cast(x))
        }

        fn zero_i32() -> __m512i {
            _mm512_setzero_si512()
        }

        fn dot_i16_add(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
            _mm512_dpwssd_epi32(c, a, b)
        }

        fn cvt_i32_f32(x: __m512i) -> __m512 {
            _mm512_cvtepi32_ps(x)
        }

        fn load_i8_as_i32(x: &[u8; WIDTH]) -> __m512i {
            _mm512_cvtepi8_epi32(load(x))
        }

        fn shl_i32(a: __m512i, by: u32) -> __m512i {
            _mm512_sll_epi32(a, _mm_cvtsi32_si128(by as i32))
        }

        fn shr_and_i32(a: __m512i, by: u32, mask: i32) -> __m512i {
            _mm512_and_si512(_mm512_srl_epi32(a, _mm_cvtsi32_si128(by as i32)), _mm512_set1_epi32(mask))
        }

        fn or_i32(a: __m512i, b: __m512i) -> __m512i {
            _mm512_or_si512(a, b)
        }

        fn add_scalar_i32(a: __m512i, b: i32) -> __m512i {
            _mm512_add_epi32(a, _mm512_set1_epi32(b))
        }

        fn reinterpret_i32_f32(a: __m512i) -> __m512 {
            _mm512_castsi512_ps(a)
        }

        fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }

        fn sub(a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }

        fn mul(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }

        fn div(a: __m512, b: __m512) -> __m512 {
            _mm512_div_ps(a, b)
        }

        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }

        fn fma_scalar(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }

        fn max(a: __m512, b: __m512) -> __m512 {
            _mm512_max_ps(a, b)
        }

        fn min(a: __m512, b: __m512) -> __m512 {
            _mm512_min_ps(a, b)
        }

        fn round(x: __m512) -> __m512 {
            _mm512_roundscale_ps::<0>(x)
        }

        fn scalef(x: __m512, n: __m512) -> __m512 {
            _mm512_scalef_ps(x, n)
        }

        fn reduce_add(x: __m512) -> f32 {
            _mm512_reduce_add_ps(x)
        }

        fn reduce_add_each(x: &[__m512; WIDTH]) -> [f32; WIDTH] {
            let mut sums = [0.0; WIDTH];
            store(reduce_add_16(x), &mut sums);
            sums
        }

        fn transpose(x: [__m512; WIDTH]) -> [__m512; WIDTH] {
            let (mut y, mut z) = (x, x);
            // Interleaves pairs of rows, then pairs of pairs, within each quarter of a register.
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
            // Vector 4 i + c has column 4 j + c of rows 4 i to 4 i + 3 in quarter j: even quarters
            // of two vectors, then odd ones, twice.
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

        fn reduce_max(x: __m512) -> f32 {
            _mm512_reduce_max_ps(x)
        }
    }
}

avx512! {
    /// The sum of the lanes of each of sixteen vectors.
    #[inline]
    pub(crate) fn reduce_add_16(vectors: &[__m512; WIDTH]) -> __m512 {
        // Within each quarter, lanes 0 + 2 and 1 + 3 of two vectors, interleaved.
        let halves: [__m512; 8] = std::array::from_fn(|i| {
            let (a, b) = (vectors[2 * i], vectors[2 * i + 1]);
            _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
        });
        // Lane `4 q + v` is the sum of quarter `q` of vector `v`.
        let quarter_sums: [__m512; 4] = std::array::from_fn(|i| {
            let [a, b] = [halves[2 * i], halves[2 * i + 1]].map(|half| _mm512_castps_pd(half));
            let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
        });
        // The four quarters of each vector remain to be added.
        let pairs: [__m512; 2] = std::array::from_fn(|i| {
            let (a, b) = (quarter_sums[2 * i], quarter_sums[2 * i + 1]);
            _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
        });
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0x88>(pairs[0], pairs[1]),
            _mm512_shuffle_f32x4::<0xdd>(pairs[0], pairs[1]),
        )
    }
}

/// Source lanes of [`Simd::load_floats_twice`].
const TWICE: [i32; 16] = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7];

/// The sign bit of a code. Flipping it adds 128.
const SIGN: i8 = i8::MIN;

/// Source lanes of [`Simd::spread`], for each pair.
const SPREAD: [[i32; 16]; 4] = [spread(0), spread(4), spread(8), spread(12)];

/// Four times each of the four lanes from `first` on.
const fn spread(first: i32) -> [i32; 16] {
    let mut lanes = [first; 16];
    let mut i = 0;
    while i < 16 {
        lanes[i] += i as i32 / 4;
        i += 1;
    }
    lanes
}

/// An array whose quarters are filled with these values.
#[inline(always)]
fn fill_quarters<T: Copy, const N: usize>(values: [T; 4]) -> [T; N] {
    std::array::from_fn(|i| values[i / (N / 4)])
}

avx512! {
    /// The bits of floats with the sign cleared.
    #[inline]
    fn magnitude_bits(floats: __m512) -> __m512i {
        _mm512_and_si512(_mm512_castps_si512(floats), _mm512_set1_epi32(i32::MAX))
    }
}

avx512! {
    /// Sums of four products of unsigned codes with activations.
    #[inline]
    fn dot_four(codes: __m512i, activations: &[i8; 64]) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, load(activations)))
    }
}

impl Simd for Avx512 {
    type Bytes = __m512i;

    const SIGNED_BIAS: f32 = 128.0;

    methods! { avx512;
        fn load_bytes(bytes: &[u8; 64]) -> __m512i {
            load(bytes)
        }

        fn load_halves(low: &[u8; 32], high: &[u8; 32]) -> __m512i {
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(load(low)), load(high))
        }

        fn load_half_twice(bytes: &[u8; 32]) -> __m512i {
            _mm512_broadcast_i64x4(load(bytes))
        }

        fn load_quarters_twice(low: &[u8; 16], high: &[u8; 16]) -> __m512i {
            _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load(low)), 0xff00, load(high))
        }

        fn expand_bits(bits: u64, value: u8) -> __m512i {
            _mm512_maskz_set1_epi8(bits, value as i8)
        }

        fn test_bits(bytes: __m512i, bits: [u8; 4], value: u8) -> __m512i {
            let bits = load(&fill_quarters::<u8, 64>(bits));
            _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(bytes, bits), value as i8)
        }

        fn shift_right(bytes: __m512i, by: [u8; 4]) -> __m512i {
            let by = [u16::from(by[0]), u16::from(by[1]), u16::from(by[2]), u16::from(by[3])];
            _mm512_srlv_epi16(bytes, load(&fill_quarters::<u16, 32>(by)))
        }

        fn shift_left_4(bytes: __m512i) -> __m512i {
            _mm512_slli_epi16::<4>(bytes)
        }

        fn and(bytes: __m512i, mask: u8) -> __m512i {
            _mm512_and_si512(bytes, _mm512_set1_epi8(mask as i8))
        }

        fn or(a: __m512i, b: __m512i) -> __m512i {
            _mm512_or_si512(a, b)
        }

        fn look_up(table: &[u8; 16], indices: __m512i) -> __m512i {
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load(table)), indices)
        }

        fn to_array(bytes: __m512i) -> [u8; 64] {
            let mut out = [0; 64];
            store(bytes, &mut out);
            out
        }

        fn dot_u8_i8(codes: __m512i, activations: &[i8; 64]) -> __m512 {
            dot_four(codes, activations)
        }

        fn dot_i8_i8(codes: __m512i, activations: &[i8; 64]) -> __m512 {
            dot_four(_mm512_xor_si512(codes, _mm512_set1_epi8(SIGN)), activations)
        }

        fn splat_f16(bits: u16) -> __m512 {
            _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
        }

        fn widen_u8(bytes: [u8; 16]) -> __m512 {
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load(&bytes)))
        }

        fn widen_u8_twice(bytes: u64) -> __m512 {
            let bytes = _mm_cvtsi64_si128(bytes as i64);
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)))
        }

        fn widen_f16_pairs_twice(pairs: [[u8; 4]; 8]) -> (__m512, __m512) {
            let [a, b, c, d, e, f, g, h]: [i32; 8] = bytemuck::cast(pairs);
            let floats = _mm512_cvtph_ps(_mm256_setr_epi32(a, b, c, d, e, f, g, h));
            (_mm512_moveldup_ps(floats), _mm512_movehdup_ps(floats))
        }

        fn load_floats_twice(floats: &[f32; 8]) -> __m512 {
            _mm512_permutexvar_ps(load(&TWICE), _mm512_castps256_ps512(load(floats)))
        }

        fn spread(floats: __m512, pair: usize) -> __m512 {
            _mm512_permutexvar_ps(load(&SPREAD[pair]), floats)
        }

        fn max_magnitude(a: __m512, b: __m512) -> u32 {
            _mm512_reduce_max_epi32(_mm512_max_epi32(magnitude_bits(a), magnitude_bits(b))) as u32
        }

        fn round_to_i8(floats: __m512, out: &mut [i8; 16]) -> i32 {
            let ordered = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(floats, floats);
            let rounded = _mm512_maskz_cvtps_epi32(ordered, floats);
            store(_mm512_cvtepi32_epi8(rounded), out);
            _mm512_reduce_add_epi32(rounded)
        }
    }
}
