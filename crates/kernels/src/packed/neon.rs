//! NEON with dot products: `sdot` multiplies four columns of four rows with four activations, one
//! of the four words of a register.

use super::layout::Packable;
use super::scales::{self, RowScales, activation_sum, minus_code_sum, restores_sign, row_scales};
use super::{Group, PackedProduct, ROWS, array, locate};
use crate::blocks::{HALF_GROUP, unsigned, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Neon, load, methods, neon_dot, store};
use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

/// Vectors in which sixteen rows fit.
pub(super) const VECTORS: usize = ROWS / 4;

/// The codebook, signed if [`restores_sign`].
const fn values<B: Packable>() -> &'static [u8; 16] {
    const {
        match B::LAYOUT.codebook {
            Some(values) if restores_sign::<Neon<true>, B>() => &unsigned(values, 0),
            _ => &B::UNSIGNED_VALUES,
        }
    }
}

neon_dot! {
    /// Codes of four columns of four rows: vector `v` of a tile, quarter `rows` of the rows. Codes
    /// that use all eight bits are signed.
    #[inline]
    pub(super) fn codes<B: Packable>(tile: &[u8], v: usize, rows: usize) -> int8x16_t {
        let vector = |offset: usize, v: usize| -> uint8x16_t { load(array::<16>(tile, offset + 64 * v + 16 * rows)) };
        let lower = B::LAYOUT.upper_bytes();
        if B::LAYOUT.bits == 8 {
            return vreinterpretq_s8_u8(veorq_u8(vector(lower, v), vdupq_n_u8(0x80)));
        }
        let pairs = |v: usize| vector(B::LAYOUT.bit_bytes(), v / 4);
        let top_bits = |value: u8| {
            let bits = vdupq_n_u16(u16::from_le_bytes(*array(tile, 8 * v + 2 * rows)));
            expand_bits(vreinterpretq_u8_u16(bits), value)
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
                3 => vorrq_u8(codes, top_bits(4)),
                _ => codes,
            });
        }
        let bytes = vector(lower, v % 4);
        let nibbles = if v < 4 { vandq_u8(bytes, vdupq_n_u8(0x0f)) } else { vshrq_n_u8::<4>(bytes) };
        if B::LAYOUT.codebook.is_some() {
            return vreinterpretq_s8_u8(vqtbl1q_u8(load(values::<B>()), nibbles));
        }
        vreinterpretq_s8_u8(match B::LAYOUT.bits {
            5 => vorrq_u8(nibbles, top_bits(16)),
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

neon_dot! {
    /// `value` in byte `i` if bit `i` of the first two bytes is set, else zero.
    #[inline]
    fn expand_bits(bits: uint8x16_t, value: u8) -> uint8x16_t {
        const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let byte_of_bit = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
        vandq_u8(vtstq_u8(vqtbl1q_u8(bits, byte_of_bit), load(&BITS)), vdupq_n_u8(value))
    }
}

neon_dot! {
    /// `sums` plus the dot products of four columns of four rows with lane `LANE` of the
    /// activations.
    #[inline]
    fn sdot_lane<const LANE: usize>(mut sums: int32x4_t, codes: int8x16_t, values: int8x16_t) -> int32x4_t {
        // SAFETY: the instruction is enabled and touches only its operands. The intrinsic is not
        // stable yet.
        unsafe {
            asm!(
                "sdot {sums:v}.4s, {codes:v}.16b, {values:v}.4b[{lane}]",
                sums = inout(vreg) sums,
                codes = in(vreg) codes,
                values = in(vreg) values,
                lane = const LANE,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}

/// Zero-point correction of the products of a tile with part `part` of the activations, or, if
/// halves of a tile have scales, of half `half` of its columns.
#[inline(always)]
pub(super) fn zero_point<B: Packable>(activations: &ActivationChunk, part: usize, half: usize) -> i32 {
    minus_code_sum::<B>(activations, part, half) * const { scales::zero_point::<Neon<true>, B>() }
}

/// Accumulators of `4 V` rows and `N` tokens.
pub(super) type Sums<T, const N: usize, const V: usize> = [[T; V]; N];

neon_dot! {
    /// `dots` plus the products of half `HALF` of the columns of a tile, row vectors
    /// `first..first + V`, with part `part` of the activations.
    #[inline]
    fn add_half<B: Packable, const HALF: usize, const N: usize, const V: usize>(
        mut dots: Sums<int32x4_t, N, V>,
        tile: &[u8],
        first: usize,
        activations: [&ActivationChunk; N],
        part: usize,
    ) -> Sums<int32x4_t, N, V> {
        let values: [int8x16_t; N] =
            from_fn(|n| load(&activations[n].values.as_chunks::<HALF_GROUP>().0[2 * part + HALF]));
        macro_rules! each_lane {
            ($($lane:literal)*) => {$(
                for r in 0..V {
                    let codes = codes::<B>(tile, 4 * HALF + $lane, first + r);
                    for n in 0..N {
                        dots[n][r] = sdot_lane::<$lane>(dots[n][r], codes, values[n]);
                    }
                }
            )*};
        }
        each_lane!(0 1 2 3);
        dots
    }
}

neon_dot! {
    /// Multiplies row vectors `FIRST..FIRST + V` with `N` tokens starting at `token`; writes
    /// the results to these rows of `out`.
    #[inline]
    fn multiply_rows<B: Packable, const FIRST: usize, const N: usize, const V: usize>(
        l: Neon<true>,
        group: &Group,
        token: usize,
        out: &mut [[f32; ROWS]; N],
    ) {
        let mut sums: Sums<_, N, V> = [[vdupq_n_f32(0.0); V]; N];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for tile_index in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, tile) = locate::<B>(block, index, tile_index);
                let activations = group.activations.chunks::<N>(token, chunk).each_ref();
                let RowScales { scale, minimum } = row_scales::<_, B>(l, block, tile_index);
                let select_rows =
                    |x: [[float32x4_t; VECTORS]; 2]| from_fn(|half| from_fn::<_, V, _>(|r| x[half][FIRST + r]));
                let scales = RowScales {
                    scale: select_rows(scale),
                    minimum: select_rows(minimum),
                };
                // Each half of the columns, or all of them if halves have no scales, is summed in
                // integers.
                let initial_dots =
                    |half: usize| from_fn(|n| [vdupq_n_s32(zero_point::<B>(activations[n], part, half)); V]);
                let mut dots = initial_dots(0);
                dots = add_half::<B, 0, N, V>(dots, tile, FIRST, activations, part);
                if B::LAYOUT.halves() {
                    sums = add_scaled::<B, 0, N, V>(sums, dots, &scales, activations, part);
                    dots = initial_dots(1);
                }
                dots = add_half::<B, 1, N, V>(dots, tile, FIRST, activations, part);
                sums = if B::LAYOUT.halves() {
                    add_scaled::<B, 1, N, V>(sums, dots, &scales, activations, part)
                } else {
                    add_scaled::<B, 0, N, V>(sums, dots, &scales, activations, part)
                };
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            for (out, sum) in out.as_chunks_mut::<4>().0[FIRST..].iter_mut().zip(sums) {
                store(*sum, out);
            }
        }
    }
}

neon_dot! {
    /// `sums` plus the scaled products of a tile, or of half `HALF` if halves have scales, with
    /// part `part` of the activations.
    #[inline]
    pub(super) fn add_scaled<B: Packable, const HALF: usize, const N: usize, const V: usize>(
        mut sums: Sums<float32x4_t, N, V>,
        dots: Sums<int32x4_t, N, V>,
        scales: &RowScales<[float32x4_t; V]>,
        activations: [&ActivationChunk; N],
        part: usize,
    ) -> Sums<float32x4_t, N, V> {
        for n in 0..N {
            let activation_sum = activation_sum::<B>(activations[n], part, HALF);
            for r in 0..V {
                let products = vmulq_f32(scales.scale[HALF][r], vcvtq_f32_s32(dots[n][r]));
                sums[n][r] = vfmaq_n_f32(sums[n][r], products, activations[n].scales[part]);
                if B::LAYOUT.has_minimum() {
                    sums[n][r] = vfmaq_n_f32(sums[n][r], scales.minimum[HALF][r], activation_sum);
                }
            }
        }
        sums
    }
}

neon_dot! {
    /// Multiplies sixteen rows with every token. The sums of eight rows and four tokens, or of
    /// sixteen rows and one token, fit 32 registers.
    fn all_tokens<B: Packable>(l: Neon<true>, group: &Group, out: &mut [[f32; ROWS]]) {
        let by_four = group.activations.tokens / 4 * 4;
        for (i, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            multiply_rows::<B, 0, 4, 2>(l, group, 4 * i, out);
            multiply_rows::<B, 2, 4, 2>(l, group, 4 * i, out);
        }
        one_by_one::<B>(l, group, by_four, out);
    }
}

neon_dot! {
    /// Multiplies sixteen rows with the tokens from `first` on, one after the other.
    #[inline]
    pub(super) fn one_by_one<B: Packable>(
        l: Neon<true>,
        group: &Group,
        first: usize,
        out: &mut [[f32; ROWS]],
    ) {
        for token in first..group.activations.tokens {
            let out = std::array::from_mut(&mut out[token]);
            multiply_rows::<B, 0, 1, VECTORS>(l, group, token, out);
        }
    }
}

impl Neon<true> {
    methods! { neon_dot;
        fn product(l: Neon<true>, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }
    }
}

impl PackedProduct for Neon<true> {
    const FASTER: bool = true;
    /// `sdot` takes signed factors.
    const SIGNS: bool = true;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self, group, out);
    }
}

impl PackedProduct for Neon<false> {}
