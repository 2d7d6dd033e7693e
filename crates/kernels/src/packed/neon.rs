//! NEON with dot products: `sdot` multiplies four columns of four rows with four activations, one
//! of the four words of a register.

use super::layout::Packable;
use super::scales::{RowLanes, RowScales, restores_sign, row_scales, zero_point_shift};
use super::{Group, PackedProduct, ROWS};
use crate::blocks::{CHUNK, GROUP, HALF_GROUP, unsigned, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Neon, neon_dot, widen_f16};
use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

/// Vectors of sixteen rows.
const VECTORS: usize = ROWS / Four::COUNT;

/// Four rows.
struct Four;

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "guaranteed by the caller, for every method"
)]
impl RowLanes for Four {
    type Floats = float32x4_t;
    type Words = int32x4_t;

    const COUNT: usize = 4;
    /// `sdot` takes signed factors.
    const SIGNS: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        unsafe { vdupq_n_f32(x) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8) -> float32x4_t {
        widen_f16(unsafe { vreinterpret_u16_u8(vld1_u8(at)) })
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8) -> int32x4_t {
        unsafe {
            let four = vreinterpret_s8_u32(vdup_n_u32(at.cast::<u32>().read_unaligned()));
            vmovl_s16(vget_low_s16(vmovl_s8(four)))
        }
    }

    #[inline(always)]
    unsafe fn shift_left(words: int32x4_t, shift: usize) -> int32x4_t {
        unsafe { vshlq_s32(words, vdupq_n_s32(shift as i32)) }
    }

    #[inline(always)]
    unsafe fn offset(words: int32x4_t, by: i32) -> int32x4_t {
        unsafe { vaddq_s32(words, vdupq_n_s32(by)) }
    }

    #[inline(always)]
    unsafe fn from_bits(words: int32x4_t) -> float32x4_t {
        unsafe { vreinterpretq_f32_s32(words) }
    }

    #[inline(always)]
    unsafe fn bits(words: int32x4_t, shift: usize, mask: i32) -> int32x4_t {
        unsafe {
            let shifted = vshlq_u32(vreinterpretq_u32_s32(words), vdupq_n_s32(-(shift as i32)));
            vandq_s32(vreinterpretq_s32_u32(shifted), vdupq_n_s32(mask))
        }
    }

    #[inline(always)]
    unsafe fn or(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        unsafe { vorrq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn floats(words: int32x4_t) -> float32x4_t {
        unsafe { vcvtq_f32_s32(words) }
    }

    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vsubq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vmulq_f32(a, b) }
    }
}

/// The codebook, signed if [`restores_sign`].
const fn values<B: Packable>() -> &'static [u8; 16] {
    const {
        match B::LAYOUT.codebook {
            Some(values) if restores_sign::<Four, B>() => &unsigned(values, 0),
            _ => &B::UNSIGNED_VALUES,
        }
    }
}

neon_dot! {
    /// Codes of four columns of four rows: vector `v` of the tile at `at`, row quarter `rows`.
    /// Codes that use all eight bits are signed.
    ///
    /// # Safety
    /// `at` points to a tile, `v` is below 8, and `rows` below 4.
    #[inline]
    unsafe fn codes<B: Packable>(at: *const u8, v: usize, rows: usize) -> int8x16_t {
        // SAFETY: all reads are within the tile, as the caller guarantees; loads need no alignment.
        unsafe {
            let vector = |at: *const u8, v: usize| vld1q_u8(at.add(64 * v + 16 * rows));
            let lower = at.add(B::LAYOUT.upper_bytes());
            if B::LAYOUT.bits == 8 {
                return vreinterpretq_s8_u8(veorq_u8(vector(lower, v), vdupq_n_u8(0x80)));
            }
            let pairs = |v: usize| vector(at.add(B::LAYOUT.bit_bytes()), v / 4);
            let bits = |value: u8| {
                let bits = vdupq_n_u16(at.add(8 * v + 2 * rows).cast::<u16>().read_unaligned());
                spread(vreinterpretq_u8_u16(bits), value)
            };
            if B::LAYOUT.bits < 4 {
                let pairs = pairs(v);
                let pairs = match v % 4 {
                    0 => pairs,
                    1 => vshrq_n_u8::<2>(pairs),
                    2 => vshrq_n_u8::<4>(pairs),
                    _ => vshrq_n_u8::<6>(pairs),
                };
                let codes = vandq_u8(pairs, vdupq_n_u8(3));
                return vreinterpretq_s8_u8(match B::LAYOUT.bits {
                    3 => vorrq_u8(codes, bits(4)),
                    _ => codes,
                });
            }
            let both = vector(lower, v % 4);
            let nibbles = match v < 4 {
                true => vandq_u8(both, vdupq_n_u8(0x0f)),
                false => vshrq_n_u8::<4>(both),
            };
            if B::LAYOUT.codebook.is_some() {
                return vreinterpretq_s8_u8(vqtbl1q_u8(vld1q_u8(values::<B>().as_ptr()), nibbles));
            }
            vreinterpretq_s8_u8(match B::LAYOUT.bits {
                5 => vorrq_u8(nibbles, bits(16)),
                6 => {
                    let upper = pairs(v);
                    let upper = match v % 4 {
                        0 => vshlq_n_u8::<4>(upper),
                        1 => vshlq_n_u8::<2>(upper),
                        2 => upper,
                        _ => vshrq_n_u8::<2>(upper),
                    };
                    vorrq_u8(nibbles, vandq_u8(upper, vdupq_n_u8(0x30)))
                }
                _ => nibbles,
            })
        }
    }
}

neon_dot! {
    /// `value` in every byte whose bit in the first two bytes is set.
    #[inline]
    fn spread(bits: uint8x16_t, value: u8) -> uint8x16_t {
        const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let byte_of_bit = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
        // SAFETY: a reference is valid to read.
        let each = unsafe { vld1q_u8(BITS.as_ptr()) };
        vandq_u8(vtstq_u8(vqtbl1q_u8(bits, byte_of_bit), each), vdupq_n_u8(value))
    }
}

neon_dot! {
    /// `sums` plus the dot products of four columns of four rows with word `WORD` of the
    /// activations.
    #[inline]
    fn multiply<const WORD: usize>(mut sums: int32x4_t, codes: int8x16_t, values: int8x16_t) -> int32x4_t {
        // SAFETY: the instruction is enabled and touches only its operands. The intrinsic is not
        // stable yet.
        unsafe {
            asm!(
                "sdot {sums:v}.4s, {codes:v}.16b, {values:v}.4b[{word}]",
                sums = inout(vreg) sums,
                codes = in(vreg) codes,
                values = in(vreg) values,
                word = const WORD,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}

/// Accumulators of `4 V` rows and `N` tokens.
type Sums<T, const N: usize, const V: usize> = [[T; V]; N];

neon_dot! {
    /// `dots` plus the products of half `HALF` of the tile at `at`, row vectors `first..first + V`,
    /// with the activations at `values`.
    ///
    /// # Safety
    /// `at` points to a tile, each of `values` to its 32 activations, and `first + V` is at most
    /// four.
    #[inline]
    unsafe fn add_half<B: Packable, const HALF: usize, const N: usize, const V: usize>(
        mut dots: Sums<int32x4_t, N, V>,
        at: *const u8,
        first: usize,
        values: [*const i8; N],
    ) -> Sums<int32x4_t, N, V> {
        // SAFETY: guaranteed by the caller.
        let values = values.map(|values| unsafe { vld1q_s8(values.add(HALF_GROUP * HALF)) });
        macro_rules! each {
            ($($word:literal)*) => {$(
                for r in 0..V {
                    // SAFETY: guaranteed by the caller.
                    let codes = unsafe { codes::<B>(at, 4 * HALF + $word, first + r) };
                    for n in 0..N {
                        dots[n][r] = multiply::<$word>(dots[n][r], codes, values[n]);
                    }
                }
            )*};
        }
        each!(0 1 2 3);
        dots
    }
}

neon_dot! {
    /// Multiplies row vectors `first..first + V` with `N` tokens starting at `token`; writes
    /// results to these rows of `out`.
    ///
    /// # Safety
    /// `blocks` are whole packed blocks, every token has `chunks` chunks that cover them, and
    /// `first + V` is at most four.
    #[inline]
    unsafe fn rows<B: Packable, const N: usize, const V: usize>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        token: usize,
        first: usize,
        out: &mut [[f32; ROWS]; N],
    ) {
        let tiles = B::LAYOUT.scales.tiles;
        let mut sums: Sums<_, N, V> = [[vdupq_n_f32(0.0); V]; N];
        for (index, block) in blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..tiles {
                let group = index * tiles + at;
                let (chunk, part) = (group * GROUP / CHUNK, group % (CHUNK / GROUP));
                // SAFETY: `at` counts the tiles of a whole block, and the chunk of a tile is one of
                // the token's `chunks`.
                unsafe {
                    let chunk_of: [_; N] = from_fn(|n| activations.get_unchecked((token + n) * chunks + chunk));
                    let values = chunk_of.map(|chunk| chunk.values.as_ptr().add(GROUP * part));
                    let codes_at = block.as_ptr().add(B::LAYOUT.tile_at(at));
                    let mut scales = [row_scales::<Four, B>(block.as_ptr(), at, first); V];
                    for (r, scales) in scales.iter_mut().enumerate().skip(1) {
                        *scales = row_scales::<Four, B>(block.as_ptr(), at, first + r);
                    }
                    // A tile, or each half of it, is summed in integers.
                    let initial = |minus: &dyn Fn(&ActivationChunk) -> i32| {
                        let shift = zero_point_shift::<Four, B>();
                        chunk_of.map(|chunk| [vdupq_n_s32(shift.map_or(0, |shift| minus(chunk) << shift)); V])
                    };
                    let half = |half: usize| initial(&|chunk| *chunk.minus_half_sums.get_unchecked(2 * part + half));
                    let mut dots = match B::LAYOUT.halves() {
                        true => half(0),
                        false => initial(&|chunk| *chunk.minus_sums.get_unchecked(part)),
                    };
                    dots = add_half::<B, 0, N, V>(dots, codes_at, first, values);
                    if B::LAYOUT.halves() {
                        sums = add_scaled::<B, 0, N, V>(sums, dots, &scales, chunk_of, part);
                        dots = half(1);
                    }
                    dots = add_half::<B, 1, N, V>(dots, codes_at, first, values);
                    sums = match B::LAYOUT.halves() {
                        true => add_scaled::<B, 1, N, V>(sums, dots, &scales, chunk_of, part),
                        false => add_scaled::<B, 0, N, V>(sums, dots, &scales, chunk_of, part),
                    };
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            for (out, sum) in out.as_chunks_mut::<4>().0[first..].iter_mut().zip(sums) {
                // SAFETY: four floats are one vector.
                unsafe { vst1q_f32(out.as_mut_ptr(), *sum) };
            }
        }
    }
}

neon_dot! {
    /// `sums` plus the scaled products of a tile, or of half `HALF` if halves have scales, with
    /// part `part` of the activations.
    ///
    /// # Safety
    /// `part` is below 8.
    #[inline]
    unsafe fn add_scaled<B: Packable, const HALF: usize, const N: usize, const V: usize>(
        mut sums: Sums<float32x4_t, N, V>,
        dots: Sums<int32x4_t, N, V>,
        scales: &[RowScales<float32x4_t>; V],
        chunks: [&ActivationChunk; N],
        part: usize,
    ) -> Sums<float32x4_t, N, V> {
        for n in 0..N {
            // SAFETY: `part` is one of eight, and twice that one of sixteen.
            let (scale, all) = unsafe {
                let all = match B::LAYOUT.halves() {
                    false => chunks[n].sums.get_unchecked(part),
                    true => chunks[n].half_sums.get_unchecked(2 * part + HALF),
                };
                (*chunks[n].scales.get_unchecked(part), *all)
            };
            for r in 0..V {
                let products = vmulq_f32(scales[r].scale[HALF], vcvtq_f32_s32(dots[n][r]));
                sums[n][r] = vfmaq_n_f32(sums[n][r], products, scale);
                if B::LAYOUT.has_minimum() {
                    sums[n][r] = vfmaq_n_f32(sums[n][r], scales[r].minimum[HALF], all);
                }
            }
        }
        sums
    }
}

neon_dot! {
    /// Multiplies sixteen rows with `N` tokens, `V` vectors of rows at a time. Returns `N`.
    ///
    /// # Safety
    /// See [`rows`].
    #[inline]
    unsafe fn tokens<B: Packable, const N: usize, const V: usize>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        token: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) -> usize {
        let mut out = [[0.0; ROWS]; N];
        for first in (0..VECTORS).step_by(V) {
            // SAFETY: guaranteed by the caller.
            unsafe { rows::<B, N, V>(blocks, activations, chunks, token, first, &mut out) };
        }
        for (n, out) in out.iter().enumerate() {
            sink(token + n, out);
        }
        N
    }
}

neon_dot! {
    /// Multiplies sixteen rows with every token.
    ///
    /// # Safety
    /// See [`rows`].
    unsafe fn all_tokens<B: Packable>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        count: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let mut first = 0;
        while first < count {
            // SAFETY: guaranteed by the caller; never more tokens than remain. Eight rows against
            // four tokens, or sixteen against one, fit 32 registers.
            first += unsafe {
                match count - first {
                    4.. => tokens::<B, 4, 2>(blocks, activations, chunks, first, sink),
                    _ => tokens::<B, 1, 4>(blocks, activations, chunks, first, sink),
                }
            };
        }
    }
}

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the macro drops the comment: the token proves the instructions, and `Group` its sizes"
)]
impl PackedProduct for Neon<true> {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        with_format!(group.quant, float _F => (), block B => unsafe { all_tokens::<B>(group.blocks, group.activations, group.chunks, group.tokens, sink) });
    }
}

impl PackedProduct for Neon<false> {}
