//! NEON with i8mm: `smmla` multiplies eight columns of two rows with two tokens, twice as many
//! products as `sdot`.

use super::layout::Packable;
use super::neon::{Sums, VECTORS, add_scaled, codes, one_by_one, zero_point};
use super::scales::{RowScales, row_scales};
use super::{Group, PackedProduct, ROWS, TOKEN_TILE, locate};
use crate::blocks::{GROUP, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Neon, NeonI8mm, methods, neon_i8mm, store};
use std::arch::aarch64::*;
use std::arch::asm;

/// Maximum passes, of four tokens each, over the codes of a tile.
const PASSES: usize = TOKEN_TILE / 4;
/// Columns of a factor of `smmla`.
const OCTET: usize = 8;

/// The codes of a tile: for each octet of columns and each four rows, two vectors of two rows.
type Codes = [[[int8x16_t; 2]; VECTORS]; GROUP / OCTET];

neon_i8mm! {
    /// The codes of a tile, signed if they use all eight bits.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> Codes {
        let mut out_codes = [[[vdupq_n_s8(0); 2]; VECTORS]; GROUP / OCTET];
        for (octet, row_vectors) in out_codes.iter_mut().enumerate() {
            for (rows, out) in row_vectors.iter_mut().enumerate() {
                let first = vreinterpretq_s32_s8(codes::<B>(tile, 2 * octet, rows));
                let second = vreinterpretq_s32_s8(codes::<B>(tile, 2 * octet + 1, rows));
                *out = [
                    vreinterpretq_s8_s32(vzip1q_s32(first, second)),
                    vreinterpretq_s8_s32(vzip2q_s32(first, second)),
                ];
            }
        }
        out_codes
    }
}

neon_i8mm! {
    /// `sums` plus the products of eight columns of two rows with two tokens: of the first row with
    /// both tokens, then of the second row.
    #[inline]
    fn smmla(mut sums: int32x4_t, codes: int8x16_t, values: int8x16_t) -> int32x4_t {
        // SAFETY: the instruction is enabled and touches only its operands. The intrinsic is not
        // stable yet.
        unsafe {
            asm!(
                "smmla {sums:v}.4s, {codes:v}.16b, {values:v}.16b",
                sums = inout(vreg) sums,
                codes = in(vreg) codes,
                values = in(vreg) values,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}

neon_i8mm! {
    /// Eight activations of two tokens: columns `8 octet` to `8 octet + 7` of part `part`.
    #[inline]
    fn load_two_tokens(activations: [&ActivationChunk; 2], part: usize, octet: usize) -> int8x16_t {
        let octet_of = |activations: &ActivationChunk| {
            let octets: &[[[i8; OCTET]; GROUP / OCTET]; 8] = bytemuck::cast_ref(&activations.values);
            u64::from_le_bytes(bytemuck::cast(octets[part][octet]))
        };
        vcombine_s8(vcreate_s8(octet_of(activations[0])), vcreate_s8(octet_of(activations[1])))
    }
}

neon_i8mm! {
    /// Dot products, in integers, of octets `octets` of the columns of a tile with part `part` of
    /// the activations of four tokens. The sums of each token start with its element of `initial`.
    #[inline]
    fn dots(
        codes: &[[[int8x16_t; 2]; VECTORS]],
        initial: [i32; 4],
        activations: [&ActivationChunk; 4],
        part: usize,
        octets: std::ops::Range<usize>,
    ) -> Sums<int32x4_t, 4, VECTORS> {
        let initial_pair = |token: usize| vzip1q_s32(vdupq_n_s32(initial[token]), vdupq_n_s32(initial[token + 1]));
        let initial = [initial_pair(0), initial_pair(2)];
        // For every four rows: the sums of the first two and of the last two rows, with each pair
        // of tokens.
        let mut sums = [[initial; 2]; VECTORS];
        for (codes, octet) in codes.iter().zip(octets) {
            let values = [
                load_two_tokens([activations[0], activations[1]], part, octet),
                load_two_tokens([activations[2], activations[3]], part, octet),
            ];
            for (sums, codes) in sums.as_flattened_mut().iter_mut().zip(codes.as_flattened()) {
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum = smmla(*sum, *codes, values);
                }
            }
        }
        let mut dots = [[vdupq_n_s32(0); VECTORS]; 4];
        for (token, dots) in dots.iter_mut().enumerate() {
            for (dot, sums) in dots.iter_mut().zip(&sums) {
                let (first, second) = (sums[0][token / 2], sums[1][token / 2]);
                *dot = match token % 2 {
                    0 => vuzp1q_s32(first, second),
                    _ => vuzp2q_s32(first, second),
                };
            }
        }
        dots
    }
}

neon_i8mm! {
    /// Adds the scaled products of a tile with part `part` of the activations of four tokens.
    #[inline]
    fn add<B: Packable>(
        codes: &Codes,
        scales: &RowScales<[float32x4_t; VECTORS]>,
        activations: [&ActivationChunk; 4],
        part: usize,
        sums: &mut Sums<float32x4_t, 4, VECTORS>,
    ) {
        let dot_octets = |half: usize, octets: std::ops::Range<usize>| {
            let initial = activations.map(|activations| zero_point::<B>(activations, part, half));
            dots(&codes[octets.clone()], initial, activations, part, octets)
        };
        *sums = if B::LAYOUT.halves() {
            let first = add_scaled::<B, 0, 4, VECTORS>(*sums, dot_octets(0, 0..2), scales, activations, part);
            add_scaled::<B, 1, 4, VECTORS>(first, dot_octets(1, 2..4), scales, activations, part)
        } else {
            add_scaled::<B, 0, 4, VECTORS>(*sums, dot_octets(0, 0..4), scales, activations, part)
        };
    }
}

neon_i8mm! {
    /// Multiplies sixteen rows with four tokens per pass, from token `first` on, in `passes` passes
    /// over the codes of a tile, which are unpacked once. Returns the number of tokens.
    #[inline]
    fn by_four<B: Packable>(
        l: Neon<true>,
        group: &Group,
        first: usize,
        passes: usize,
        out: &mut [[f32; ROWS]],
    ) -> usize {
        let passes = passes.min(PASSES);
        let mut sums: [Sums<_, 4, VECTORS>; PASSES] = [[[vdupq_n_f32(0.0); VECTORS]; 4]; PASSES];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for tile_index in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, tile) = locate::<B>(block, index, tile_index);
                let scales = row_scales::<_, B>(l, block, tile_index);
                let codes = all_codes::<B>(tile);
                for (pass, sums) in sums.iter_mut().enumerate().take(passes) {
                    let activations = group.activations.chunks::<4>(first + 4 * pass, chunk).each_ref();
                    add::<B>(&codes, &scales, activations, part, sums);
                }
            }
        }
        for (sums, out) in sums.as_flattened().iter().take(4 * passes).zip(&mut out[first..]) {
            for (sum, out) in sums.iter().zip(out.as_chunks_mut::<4>().0) {
                store(*sum, out);
            }
        }
        4 * passes
    }
}

neon_i8mm! {
    /// Multiplies sixteen rows with every token.
    fn all_tokens<B: Packable>(l: Neon<true>, group: &Group, out: &mut [[f32; ROWS]]) {
        let mut first = 0;
        while group.activations.tokens - first >= 4 {
            first += by_four::<B>(l, group, first, (group.activations.tokens - first) / 4, out);
        }
        one_by_one::<B>(l, group, first, out);
    }
}

impl NeonI8mm {
    methods! { neon_i8mm;
        fn product(l: Neon<true>, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }
    }
}

impl PackedProduct for NeonI8mm {
    const FASTER: bool = true;
    /// Codes are unpacked as for `Neon<true>`.
    const SIGNS: bool = Neon::<true>::SIGNS;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self.dot(), group, out);
    }
}
