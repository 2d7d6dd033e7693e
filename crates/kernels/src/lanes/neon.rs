//! NEON, with or without dot products: a vector is four registers, a quarter each.

use super::register::{load, store};
use super::token::{methods, token};
use super::{Lanes, Simd, WIDTH};
use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

/// Proof that the CPU has NEON and, with `DOT`, dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Neon<const DOT: bool>(());

token!($ Neon<false>: Neon<false>, neon, is_aarch64_feature_detected!, "neon");
token!($ Neon<true>: Neon<false>, neon_dot, is_aarch64_feature_detected!, "neon" "dotprod");

impl From<Neon<true>> for Neon<false> {
    #[inline(always)]
    fn from(_: Neon<true>) -> Self {
        Self(())
    }
}

type Floats = [float32x4_t; 4];
type Bytes = [uint8x16_t; 4];
type Ints = [int32x4_t; 4];
type Pairs = [int16x8_t; 4];

/// Each bit of a byte, twice.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

neon! {
    /// Sums of four products of signed bytes.
    #[inline]
    fn dot_four<const DOT: bool>(_: Neon<DOT>, codes: int8x16_t, activations: int8x16_t) -> int32x4_t {
        if !DOT {
            // A product stays below 128 * 127: a sum of two fits 16 bits, and is then widened.
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(activations)));
            let high = vpaddlq_s16(vmull_high_s8(codes, activations));
            return vpaddq_s32(low, high);
        }
        let mut sums = vdupq_n_s32(0);
        // SAFETY: the token proves that the CPU has the instruction, which touches only its
        // operands. The intrinsic is not stable yet.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {codes:v}.16b, {activations:v}.16b",
                sums = inout(vreg) sums,
                codes = in(vreg) codes,
                activations = in(vreg) activations,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}

neon! {
    /// Four f16 as floats.
    #[inline]
    fn widen_f16(halves: uint16x4_t) -> float32x4_t {
        vcvt_f32_f16(vreinterpret_f16_u16(halves))
    }
}

neon! {
    /// Four floats as the nearest f16, ties to even.
    #[inline]
    fn narrow_f16(floats: float32x4_t) -> uint16x4_t {
        vreinterpret_u16_f16(vcvt_f16_f32(floats))
    }
}

neon! {
    /// Four floats, each four times.
    #[inline]
    fn each_four_times(floats: float32x4_t) -> Floats {
        [
            vdupq_laneq_f32::<0>(floats),
            vdupq_laneq_f32::<1>(floats),
            vdupq_laneq_f32::<2>(floats),
            vdupq_laneq_f32::<3>(floats),
        ]
    }
}

neon! {
    /// Sixteen unsigned bytes as floats, in order.
    #[inline]
    fn widen_u8(bytes: uint8x16_t) -> Floats {
        let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
        [
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
            vcvtq_f32_u32(vmovl_high_u16(low)),
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
            vcvtq_f32_u32(vmovl_high_u16(high)),
        ]
    }
}

neon! {
    /// Sixteen signed bytes as integers, in order.
    #[inline]
    fn widen_i8(bytes: int8x16_t) -> Ints {
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
        [
            vmovl_s16(vget_low_s16(low)),
            vmovl_high_s16(low),
            vmovl_s16(vget_low_s16(high)),
            vmovl_high_s16(high),
        ]
    }
}

neon! {
    /// Sixteen integers truncated to bytes.
    #[inline]
    fn narrow_i8([a, b, c, d]: [int32x4_t; 4]) -> int8x16_t {
        let low = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
        let high = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
        vcombine_s8(vmovn_s16(low), vmovn_s16(high))
    }
}

neon! {
    /// `x[0] + x[2]` and `x[1] + x[3]` of two vectors `x`.
    #[inline]
    fn add_halves(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        let (a, b) = (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
        let (low, high) = (vzip1q_f64(a, b), vzip2q_f64(a, b));
        vaddq_f32(vreinterpretq_f32_f64(low), vreinterpretq_f32_f64(high))
    }
}

neon! {
    /// The sum of quarters, as [`Lanes::reduce_add`] adds them.
    #[inline]
    fn add_quarters([a, b, c, d]: Floats) -> float32x4_t {
        vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d))
    }
}

neon! {
    /// Transposes four registers.
    #[inline]
    fn transpose_4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
        let even = [vtrn1q_f32(a, b), vtrn1q_f32(c, d)].map(|x| vreinterpretq_f64_f32(x));
        let odd = [vtrn2q_f32(a, b), vtrn2q_f32(c, d)].map(|x| vreinterpretq_f64_f32(x));
        [
            vreinterpretq_f32_f64(vtrn1q_f64(even[0], even[1])),
            vreinterpretq_f32_f64(vtrn1q_f64(odd[0], odd[1])),
            vreinterpretq_f32_f64(vtrn2q_f64(even[0], even[1])),
            vreinterpretq_f32_f64(vtrn2q_f64(odd[0], odd[1])),
        ]
    }
}

neon! {
    /// Sums of four products of signed codes with activations, as floats.
    #[inline]
    fn dot_floats<const DOT: bool>(l: Neon<DOT>, codes: Bytes, activations: &[i8; 64]) -> Floats {
        let activations: [int8x16_t; 4] = load(activations);
        from_fn(|q| vcvtq_f32_s32(dot_four(l, vreinterpretq_s8_u8(codes[q]), activations[q])))
    }
}

impl<const DOT: bool> Lanes for Neon<DOT> {
    type Floats = Floats;
    type Ints = Ints;
    type Pairs = Pairs;

    const REGISTERS: usize = 8;

    methods! { neon;
        fn splat(x: f32) -> Floats {
            [vdupq_n_f32(x); 4]
        }

        fn load(x: &[f32; WIDTH]) -> Floats {
            load(x)
        }

        fn store(x: Floats, out: &mut [f32; WIDTH]) {
            store(x, out);
        }

        fn load_f16(x: &[u16; WIDTH]) -> Floats {
            let x: [uint16x4_t; 4] = load(x);
            from_fn(|q| widen_f16(x[q]))
        }

        fn load_bf16(x: &[u16; WIDTH]) -> Floats {
            let x: [uint16x4_t; 4] = load(x);
            from_fn(|q| vreinterpretq_f32_u32(vshll_n_u16::<16>(x[q])))
        }

        fn store_f16(x: Floats, out: &mut [u16; WIDTH]) {
            let halves: [uint16x4_t; 4] = from_fn(|q| narrow_f16(x[q]));
            store(halves, out);
        }

        fn load_i8(x: &[i8; WIDTH]) -> Floats {
            let ints = widen_i8(load(x));
            from_fn(|q| vcvtq_f32_s32(ints[q]))
        }

        fn store_i8(x: Floats, out: &mut [i8; WIDTH]) {
            store(narrow_i8(from_fn(|q| vcvtq_s32_f32(x[q]))), out);
        }

        fn store_i16(x: Floats, out: &mut [i16; WIDTH]) {
            let rounded: [int16x4_t; 4] = from_fn(|q| vqmovn_s32(vcvtnq_s32_f32(x[q])));
            store(rounded, out);
        }

        fn load_i8_pairs(x: &[[i8; 2]; WIDTH]) -> Pairs {
            let x: [int8x8_t; 4] = load(x);
            from_fn(|q| vmovl_s8(x[q]))
        }

        fn splat_i16_pair(x: [i16; 2]) -> Pairs {
            [vreinterpretq_s16_s32(vdupq_n_s32(bytemuck::cast(x))); 4]
        }

        fn zero_i32() -> Ints {
            [vdupq_n_s32(0); 4]
        }

        fn dot_i16_add(a: Pairs, b: Pairs, c: Ints) -> Ints {
            from_fn(|q| {
                let low = vmull_s16(vget_low_s16(a[q]), vget_low_s16(b[q]));
                vaddq_s32(vpaddq_s32(low, vmull_high_s16(a[q], b[q])), c[q])
            })
        }

        fn cvt_i32_f32(x: Ints) -> Floats {
            from_fn(|q| vcvtq_f32_s32(x[q]))
        }

        fn load_i8_as_i32(x: &[u8; WIDTH]) -> Ints {
            widen_i8(load(x))
        }

        fn shl_i32(a: Ints, by: u32) -> Ints {
            from_fn(|q| vshlq_s32(a[q], vdupq_n_s32(by as i32)))
        }

        fn shr_and_i32(a: Ints, by: u32, mask: i32) -> Ints {
            from_fn(|q| {
                let shifted = vshlq_u32(vreinterpretq_u32_s32(a[q]), vdupq_n_s32(-(by as i32)));
                vandq_s32(vreinterpretq_s32_u32(shifted), vdupq_n_s32(mask))
            })
        }

        fn or_i32(a: Ints, b: Ints) -> Ints {
            from_fn(|q| vorrq_s32(a[q], b[q]))
        }

        fn add_scalar_i32(a: Ints, b: i32) -> Ints {
            from_fn(|q| vaddq_s32(a[q], vdupq_n_s32(b)))
        }

        fn reinterpret_i32_f32(a: Ints) -> Floats {
            from_fn(|q| vreinterpretq_f32_s32(a[q]))
        }

        fn add(a: Floats, b: Floats) -> Floats {
            from_fn(|q| vaddq_f32(a[q], b[q]))
        }

        fn sub(a: Floats, b: Floats) -> Floats {
            from_fn(|q| vsubq_f32(a[q], b[q]))
        }

        fn mul(a: Floats, b: Floats) -> Floats {
            from_fn(|q| vmulq_f32(a[q], b[q]))
        }

        fn div(a: Floats, b: Floats) -> Floats {
            from_fn(|q| vdivq_f32(a[q], b[q]))
        }

        fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
            from_fn(|q| vfmaq_f32(c[q], a[q], b[q]))
        }

        fn fma_scalar(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }

        fn max(a: Floats, b: Floats) -> Floats {
            // `fmax` would return NaN if either operand is NaN.
            from_fn(|q| vbslq_f32(vcgtq_f32(a[q], b[q]), a[q], b[q]))
        }

        fn min(a: Floats, b: Floats) -> Floats {
            // As above.
            from_fn(|q| vbslq_f32(vcltq_f32(a[q], b[q]), a[q], b[q]))
        }

        fn round(x: Floats) -> Floats {
            from_fn(|q| vrndnq_f32(x[q]))
        }

        fn scalef(x: Floats, n: Floats) -> Floats {
            from_fn(|q| {
                let exponent = vaddq_s32(vcvtq_s32_f32(n[q]), vdupq_n_s32(127));
                vmulq_f32(x[q], vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)))
            })
        }

        fn reduce_add(x: Floats) -> f32 {
            let sums = add_quarters(x);
            vaddv_f32(vadd_f32(vget_low_f32(sums), vget_high_f32(sums)))
        }

        fn reduce_add_each(x: &[Floats; WIDTH]) -> [f32; WIDTH] {
            let mut sums = [0.0; WIDTH];
            for (x, sums) in x.as_chunks::<4>().0.iter().zip(sums.as_chunks_mut::<4>().0) {
                let low = add_halves(add_quarters(x[0]), add_quarters(x[1]));
                let high = add_halves(add_quarters(x[2]), add_quarters(x[3]));
                store(vpaddq_f32(low, high), sums);
            }
            sums
        }

        fn transpose(x: [Floats; WIDTH]) -> [Floats; WIDTH] {
            let mut out = x;
            for quarter in 0..4 {
                for rows in 0..4 {
                    let columns = transpose_4(from_fn(|r| x[4 * rows + r][quarter]));
                    for c in 0..4 {
                        out[4 * quarter + c][rows] = columns[c];
                    }
                }
            }
            out
        }

        fn reduce_max(x: Floats) -> f32 {
            let [a, b, c, d] = x;
            vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a, b), vmaxnmq_f32(c, d)))
        }
    }
}

impl<const DOT: bool> Simd for Neon<DOT> {
    type Bytes = Bytes;

    const SIGNED_BIAS: f32 = 0.0;

    methods! { neon;
        fn load_bytes(bytes: &[u8; 64]) -> Bytes {
            load(bytes)
        }

        fn load_halves(low: &[u8; 32], high: &[u8; 32]) -> Bytes {
            let [[a, b], [c, d]]: [[_; 2]; 2] = [load(low), load(high)];
            [a, b, c, d]
        }

        fn load_half_twice(bytes: &[u8; 32]) -> Bytes {
            let [low, high]: [uint8x16_t; 2] = load(bytes);
            [low, high, low, high]
        }

        fn load_quarters_twice(low: &[u8; 16], high: &[u8; 16]) -> Bytes {
            let (low, high) = (load(low), load(high));
            [low, low, high, high]
        }

        fn expand_bits(bits: u64, value: u8) -> Bytes {
            from_fn(|q| {
                let [low, high] = ((bits >> (16 * q)) as u16).to_le_bytes();
                let bytes = vcombine_u8(vdup_n_u8(low), vdup_n_u8(high));
                vandq_u8(vtstq_u8(bytes, load(&BITS)), vdupq_n_u8(value))
            })
        }

        fn test_bits(bytes: Bytes, bits: [u8; 4], value: u8) -> Bytes {
            from_fn(|q| vandq_u8(vtstq_u8(bytes[q], vdupq_n_u8(bits[q])), vdupq_n_u8(value)))
        }

        fn shift_right(bytes: Bytes, by: [u8; 4]) -> Bytes {
            from_fn(|q| vshlq_u8(bytes[q], vdupq_n_s8(-(by[q] as i8))))
        }

        fn shift_left_4(bytes: Bytes) -> Bytes {
            from_fn(|q| vshlq_n_u8::<4>(bytes[q]))
        }

        fn and(bytes: Bytes, mask: u8) -> Bytes {
            from_fn(|q| vandq_u8(bytes[q], vdupq_n_u8(mask)))
        }

        fn or(a: Bytes, b: Bytes) -> Bytes {
            from_fn(|q| vorrq_u8(a[q], b[q]))
        }

        fn look_up(table: &[u8; 16], indices: Bytes) -> Bytes {
            let table = load(table);
            from_fn(|q| vqtbl1q_u8(table, indices[q]))
        }

        fn to_array(bytes: Bytes) -> [u8; 64] {
            let mut out = [0; 64];
            store(bytes, &mut out);
            out
        }

        fn splat_f16(bits: u16) -> Floats {
            [widen_f16(vdup_n_u16(bits)); 4]
        }

        fn widen_u8(bytes: [u8; 16]) -> Floats {
            widen_u8(load(&bytes))
        }

        fn widen_u8_twice(bytes: u64) -> Floats {
            let bytes = vcombine_u8(vcreate_u8(bytes), vcreate_u8(0));
            widen_u8(vzip1q_u8(bytes, bytes))
        }

        fn widen_f16_pairs_twice(pairs: [[u8; 4]; 8]) -> (Floats, Floats) {
            let halves: [uint16x4_t; 4] = load(&pairs);
            let floats: Floats = from_fn(|q| widen_f16(halves[q]));
            (
                from_fn(|q| vtrn1q_f32(floats[q], floats[q])),
                from_fn(|q| vtrn2q_f32(floats[q], floats[q])),
            )
        }

        fn load_floats_twice(floats: &[f32; 8]) -> Floats {
            let [low, high]: [float32x4_t; 2] = load(floats);
            [
                vzip1q_f32(low, low),
                vzip2q_f32(low, low),
                vzip1q_f32(high, high),
                vzip2q_f32(high, high),
            ]
        }

        fn spread(floats: Floats, pair: usize) -> Floats {
            each_four_times(floats[pair])
        }

        fn max_magnitude(a: Floats, b: Floats) -> u32 {
            let bits = |floats| vandq_u32(vreinterpretq_u32_f32(floats), vdupq_n_u32(i32::MAX as u32));
            let max: [uint32x4_t; 4] = from_fn(|q| vmaxq_u32(bits(a[q]), bits(b[q])));
            vmaxvq_u32(vmaxq_u32(vmaxq_u32(max[0], max[1]), vmaxq_u32(max[2], max[3])))
        }

        fn round_to_i8(floats: Floats, out: &mut [i8; 16]) -> i32 {
            // Ties go to even, and NaN to zero.
            let rounded: [int32x4_t; 4] = from_fn(|q| vcvtnq_s32_f32(floats[q]));
            store(narrow_i8(rounded), out);
            let [a, b, c, d] = rounded;
            vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)))
        }
    }

    #[inline(always)]
    fn dot_u8_i8(self, codes: Bytes, activations: &[i8; 64]) -> Floats {
        // Unsigned codes are at most 127, so they are valid signed ones.
        self.dot_i8_i8(codes, activations)
    }

    #[inline(always)]
    fn dot_i8_i8(self, codes: Bytes, activations: &[i8; 64]) -> Floats {
        // SAFETY: the token proves NEON.
        unsafe { dot_floats(self, codes, activations) }
    }
}
