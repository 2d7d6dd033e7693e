//! [`Simd`] on ARM64: a vector is four registers, a quarter each.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all: `Neon` exists only if the CPU has the instructions, and references are valid to read"
)]

use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

use super::simd::{Kernel, Simd};

/// Proof that the CPU has NEON and, with `DOT`, dot products.
#[derive(Clone, Copy)]
pub(super) struct Neon<const DOT: bool>(());

/// Runs a kernel's SIMD form with NEON, which every ARM64 CPU has.
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.simd(Neon::<false>(()))
}

/// Runs a kernel's SIMD form with dot products enabled.
#[target_feature(enable = "neon,dotprod")]
pub(super) fn run_with_dot<K: Kernel>(kernel: K) -> K::Output {
    kernel.simd(Neon::<true>(()))
}

/// Each bit of a byte, twice.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

/// Sums of four products of signed bytes.
#[inline(always)]
fn dot_four<const DOT: bool>(codes: int8x16_t, activations: int8x16_t) -> int32x4_t {
    unsafe {
        if DOT {
            let mut sums = vdupq_n_s32(0);
            // The intrinsic is not stable yet.
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {codes:v}.16b, {activations:v}.16b",
                sums = inout(vreg) sums,
                codes = in(vreg) codes,
                activations = in(vreg) activations,
                options(pure, nomem, nostack, preserves_flags),
            );
            sums
        } else {
            // Products stay below 128 * 127: sums of two fit 16 bits and are widened immediately.
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(activations)));
            let high = vpaddlq_s16(vmull_high_s8(codes, activations));
            vpaddq_s32(low, high)
        }
    }
}

/// Four f16 as floats.
#[inline(always)]
pub(crate) fn widen_f16(halves: uint16x4_t) -> float32x4_t {
    let floats: float32x4_t;
    // The intrinsic's type is not stable yet.
    unsafe {
        asm!(
            "fcvtl {floats:v}.4s, {halves:v}.4h",
            floats = lateout(vreg) floats,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    floats
}

/// Four floats, each four times.
#[inline(always)]
fn each_four_times(floats: float32x4_t) -> [float32x4_t; 4] {
    unsafe {
        [
            vdupq_laneq_f32::<0>(floats),
            vdupq_laneq_f32::<1>(floats),
            vdupq_laneq_f32::<2>(floats),
            vdupq_laneq_f32::<3>(floats),
        ]
    }
}

/// Eight floats in two registers, each twice.
#[inline(always)]
fn each_twice(low: float32x4_t, high: float32x4_t) -> [float32x4_t; 4] {
    unsafe {
        [
            vzip1q_f32(low, low),
            vzip2q_f32(low, low),
            vzip1q_f32(high, high),
            vzip2q_f32(high, high),
        ]
    }
}

/// Sixteen bytes, widened to floats in order.
#[inline(always)]
fn widen_u8(bytes: uint8x16_t) -> [float32x4_t; 4] {
    unsafe {
        let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
        [
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
            vcvtq_f32_u32(vmovl_high_u16(low)),
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
            vcvtq_f32_u32(vmovl_high_u16(high)),
        ]
    }
}

impl<const DOT: bool> Simd for Neon<DOT> {
    type Bytes = [uint8x16_t; 4];
    type Floats = [float32x4_t; 4];

    const SIGNED_BIAS: f32 = 0.0;

    #[inline(always)]
    fn bytes(self, bytes: &[u8; 64]) -> Self::Bytes {
        from_fn(|q| unsafe { vld1q_u8(bytes.as_ptr().add(16 * q)) })
    }

    #[inline(always)]
    fn join(self, low: &[u8; 32], high: &[u8; 32]) -> Self::Bytes {
        unsafe {
            [
                vld1q_u8(low.as_ptr()),
                vld1q_u8(low.as_ptr().add(16)),
                vld1q_u8(high.as_ptr()),
                vld1q_u8(high.as_ptr().add(16)),
            ]
        }
    }

    #[inline(always)]
    fn twice(self, bytes: &[u8; 32]) -> Self::Bytes {
        self.join(bytes, bytes)
    }

    #[inline(always)]
    fn each_twice(self, low: &[u8; 16], high: &[u8; 16]) -> Self::Bytes {
        let (low, high) = unsafe { (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())) };
        [low, low, high, high]
    }

    #[inline(always)]
    fn bits(self, bits: u64, value: u8) -> Self::Bytes {
        from_fn(|q| unsafe {
            let [low, high] = ((bits >> (16 * q)) as u16).to_le_bytes();
            let spread = vcombine_u8(vdup_n_u8(low), vdup_n_u8(high));
            vandq_u8(vtstq_u8(spread, vld1q_u8(BITS.as_ptr())), vdupq_n_u8(value))
        })
    }

    #[inline(always)]
    fn flags(self, bytes: Self::Bytes, bits: [u8; 4], value: u8) -> Self::Bytes {
        from_fn(|q| unsafe { vandq_u8(vtstq_u8(bytes[q], vdupq_n_u8(bits[q])), vdupq_n_u8(value)) })
    }

    #[inline(always)]
    fn shift_right(self, bytes: Self::Bytes, by: [u8; 4]) -> Self::Bytes {
        from_fn(|q| unsafe { vshlq_u8(bytes[q], vdupq_n_s8(-(by[q] as i8))) })
    }

    #[inline(always)]
    fn shift_left_4(self, bytes: Self::Bytes) -> Self::Bytes {
        from_fn(|q| unsafe { vshlq_n_u8::<4>(bytes[q]) })
    }

    #[inline(always)]
    fn and(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes {
        from_fn(|q| unsafe { vandq_u8(bytes[q], vdupq_n_u8(mask)) })
    }

    #[inline(always)]
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        from_fn(|q| unsafe { vorrq_u8(a[q], b[q]) })
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: Self::Bytes) -> Self::Bytes {
        let table = unsafe { vld1q_u8(table.as_ptr()) };
        from_fn(|q| unsafe { vqtbl1q_u8(table, indices[q]) })
    }

    #[inline(always)]
    fn store_bytes(self, bytes: Self::Bytes) -> [u8; 64] {
        let mut out = [[0; 16]; 4];
        for (bytes, out) in bytes.into_iter().zip(&mut out) {
            unsafe { vst1q_u8(out.as_mut_ptr(), bytes) }
        }
        bytemuck::cast(out)
    }

    #[inline(always)]
    fn dot(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats {
        // Unsigned codes are at most 127, so they are valid signed ones.
        self.dot_signed(codes, activations)
    }

    #[inline(always)]
    fn dot_signed(self, codes: Self::Bytes, activations: &[i8; 64]) -> Self::Floats {
        from_fn(|q| unsafe {
            let activations = vld1q_s8(activations.as_ptr().add(16 * q));
            vcvtq_f32_s32(dot_four::<DOT>(vreinterpretq_s8_u8(codes[q]), activations))
        })
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        [unsafe { vdupq_n_f32(value) }; 4]
    }

    #[inline(always)]
    fn splat_f16(self, bits: u16) -> Self::Floats {
        [widen_f16(unsafe { vdup_n_u16(bits) }); 4]
    }

    #[inline(always)]
    fn floats(self, floats: &[f32; 16]) -> Self::Floats {
        from_fn(|q| unsafe { vld1q_f32(floats.as_ptr().add(4 * q)) })
    }

    #[inline(always)]
    fn store(self, floats: Self::Floats, out: &mut [f32; 16]) {
        for (floats, out) in floats.into_iter().zip(out.as_chunks_mut::<4>().0) {
            unsafe { vst1q_f32(out.as_mut_ptr(), floats) }
        }
    }

    #[inline(always)]
    fn stored_floats(self, floats: &[u8; 64]) -> Self::Floats {
        from_fn(|q| unsafe { vreinterpretq_f32_u8(vld1q_u8(floats.as_ptr().add(16 * q))) })
    }

    #[inline(always)]
    fn widen_f16(self, halves: &[u8; 32]) -> Self::Floats {
        from_fn(|q| widen_f16(unsafe { vreinterpret_u16_u8(vld1_u8(halves.as_ptr().add(8 * q))) }))
    }

    #[inline(always)]
    fn widen_bf16(self, halves: &[u8; 32]) -> Self::Floats {
        from_fn(|q| unsafe {
            let halves = vreinterpret_u16_u8(vld1_u8(halves.as_ptr().add(8 * q)));
            vreinterpretq_f32_u32(vshll_n_u16::<16>(halves))
        })
    }

    #[inline(always)]
    fn widen_u8(self, bytes: [u8; 16]) -> Self::Floats {
        widen_u8(unsafe { vld1q_u8(bytes.as_ptr()) })
    }

    #[inline(always)]
    fn widen_i8(self, bytes: [i8; 16]) -> Self::Floats {
        unsafe {
            let bytes = vld1q_s8(bytes.as_ptr());
            let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
            [
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                vcvtq_f32_s32(vmovl_high_s16(low)),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                vcvtq_f32_s32(vmovl_high_s16(high)),
            ]
        }
    }

    #[inline(always)]
    fn widen_u8_twice(self, bytes: u64) -> Self::Floats {
        unsafe {
            let bytes = vcombine_u8(vcreate_u8(bytes), vcreate_u8(0));
            widen_u8(vzip1q_u8(bytes, bytes))
        }
    }

    #[inline(always)]
    fn widen_f16_pairs_twice(self, pairs: [[u8; 4]; 8]) -> (Self::Floats, Self::Floats) {
        let floats = self.widen_f16(&bytemuck::cast(pairs));
        unsafe {
            (
                from_fn(|q| vtrn1q_f32(floats[q], floats[q])),
                from_fn(|q| vtrn2q_f32(floats[q], floats[q])),
            )
        }
    }

    #[inline(always)]
    fn floats_twice(self, floats: &[f32; 8]) -> Self::Floats {
        unsafe { each_twice(vld1q_f32(floats.as_ptr()), vld1q_f32(floats.as_ptr().add(4))) }
    }

    #[inline(always)]
    fn spread(self, floats: Self::Floats, pair: usize) -> Self::Floats {
        each_four_times(floats[pair])
    }

    #[inline(always)]
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|q| unsafe { vaddq_f32(a[q], b[q]) })
    }

    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|q| unsafe { vmulq_f32(a[q], b[q]) })
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        from_fn(|q| unsafe { vfmaq_f32(c[q], a[q], b[q]) })
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d]: Self::Floats) -> f32 {
        unsafe { vaddvq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d))) }
    }

    #[inline(always)]
    fn magnitude(self, a: Self::Floats, b: Self::Floats) -> u32 {
        unsafe {
            let bits = |floats| vandq_u32(vreinterpretq_u32_f32(floats), vdupq_n_u32(i32::MAX as u32));
            let most: [uint32x4_t; 4] = from_fn(|q| vmaxq_u32(bits(a[q]), bits(b[q])));
            vmaxvq_u32(vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3])))
        }
    }

    #[inline(always)]
    fn round(self, floats: Self::Floats, out: &mut [i8; 16]) -> i32 {
        unsafe {
            // Ties go to even, and NaN to zero.
            let [a, b, c, d] = floats.map(|floats| vcvtnq_s32_f32(floats));
            let words = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
            let more = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
            vst1q_s8(out.as_mut_ptr(), vcombine_s8(vmovn_s16(words), vmovn_s16(more)));
            vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)))
        }
    }
}
