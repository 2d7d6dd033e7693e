//! NEON with i8mm: `smmla` multiplies eight columns of two rows with two tokens, twice as many
//! products as `sdot`.

use super::layout::Packable;
use super::neon::{Sums, VECTORS, add_scaled, codes, few, zero_point};
use super::scales::{RowScales, row_scales};
use super::{Group, PackedProduct, ROWS, TOKEN_TILE, locate};
use crate::blocks::{GROUP, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Neon, NeonI8mm, methods, neon_i8mm, store};
use std::arch::aarch64::*;
use std::arch::asm;

/// Most turns of four tokens with the codes of one tile.
const TURNS: usize = TOKEN_TILE / 4;
/// Columns of a factor of `smmla`.
const OCTET: usize = 8;

/// The codes of a tile: for each eight columns and each four rows, two vectors of two rows.
type Codes = [[[int8x16_t; 2]; VECTORS]; GROUP / OCTET];

neon_i8mm! {
    /// The codes of a tile, signed if they use all eight bits.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> Codes {
        let mut all = [[[vdupq_n_s8(0); 2]; VECTORS]; GROUP / OCTET];
        for (octet, all) in all.iter_mut().enumerate() {
            for (rows, all) in all.iter_mut().enumerate() {
                let first = vreinterpretq_s32_s8(codes::<B>(tile, 2 * octet, rows));
                let second = vreinterpretq_s32_s8(codes::<B>(tile, 2 * octet + 1, rows));
                *all = [
                    vreinterpretq_s8_s32(vzip1q_s32(first, second)),
                    vreinterpretq_s8_s32(vzip2q_s32(first, second)),
                ];
            }
        }
        all
    }
}

neon_i8mm! {
    /// `sums` plus the products of eight columns of two rows with two tokens: of the first row with
    /// both, then of the second.
    #[inline]
    fn multiply(mut sums: int32x4_t, codes: int8x16_t, values: int8x16_t) -> int32x4_t {
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
    fn two_tokens(chunks: [&ActivationChunk; 2], part: usize, octet: usize) -> int8x16_t {
        let eight = |chunk: &ActivationChunk| {
            let octets: &[[[i8; OCTET]; GROUP / OCTET]; 8] = bytemuck::cast_ref(&chunk.values);
            u64::from_le_bytes(bytemuck::cast(octets[part][octet]))
        };
        vcombine_s8(vcreate_s8(eight(chunks[0])), vcreate_s8(eight(chunks[1])))
    }
}

neon_i8mm! {
    /// Sums of products, in integers, of the eights of columns `octets` of a tile with part `part`
    /// of the activations of four tokens, which start at `first`, for each token.
    #[inline]
    fn dots(
        codes: &[[[int8x16_t; 2]; VECTORS]],
        first: [i32; 4],
        chunks: [&ActivationChunk; 4],
        part: usize,
        octets: std::ops::Range<usize>,
    ) -> Sums<int32x4_t, 4, VECTORS> {
        let two = |at: usize| vzip1q_s32(vdupq_n_s32(first[at]), vdupq_n_s32(first[at + 1]));
        let first = [two(0), two(2)];
        // For each four rows, of the first and the last two of them, with each two tokens.
        let mut sums = [[first; 2]; VECTORS];
        for (codes, octet) in codes.iter().zip(octets) {
            let values = [
                two_tokens([chunks[0], chunks[1]], part, octet),
                two_tokens([chunks[2], chunks[3]], part, octet),
            ];
            for (sums, codes) in sums.as_flattened_mut().iter_mut().zip(codes.as_flattened()) {
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum = multiply(*sum, *codes, values);
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
        chunks: [&ActivationChunk; 4],
        part: usize,
        sums: &mut Sums<float32x4_t, 4, VECTORS>,
    ) {
        let of_octets = |which: usize, octets: std::ops::Range<usize>| {
            let first = chunks.map(|chunk| zero_point::<B>(chunk, part, which));
            dots(&codes[octets.clone()], first, chunks, part, octets)
        };
        *sums = if B::LAYOUT.halves() {
            let first = add_scaled::<B, 0, 4, VECTORS>(*sums, of_octets(0, 0..2), scales, chunks, part);
            add_scaled::<B, 1, 4, VECTORS>(first, of_octets(1, 2..4), scales, chunks, part)
        } else {
            add_scaled::<B, 0, 4, VECTORS>(*sums, of_octets(0, 0..4), scales, chunks, part)
        };
    }
}

neon_i8mm! {
    /// Multiplies sixteen rows with four tokens at once, `turns` times from `first` on. The codes
    /// of a tile are made for all of them. Returns the number of tokens.
    #[inline]
    fn fours<B: Packable>(
        l: Neon<true>,
        group: &Group,
        first: usize,
        turns: usize,
        out: &mut [[f32; ROWS]],
    ) -> usize {
        let turns = turns.min(TURNS);
        let mut sums: [Sums<_, 4, VECTORS>; TURNS] = [[[vdupq_n_f32(0.0); VECTORS]; 4]; TURNS];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, tile) = locate::<B>(block, index, at);
                let scales = row_scales::<_, B>(l, block, at);
                let codes = all_codes::<B>(tile);
                for (turn, sums) in sums.iter_mut().enumerate().take(turns) {
                    let chunks = group.activations.chunks::<4>(first + 4 * turn, chunk).each_ref();
                    add::<B>(&codes, &scales, chunks, part, sums);
                }
            }
        }
        for (sums, out) in sums.as_flattened().iter().take(4 * turns).zip(&mut out[first..]) {
            for (sum, out) in sums.iter().zip(out.as_chunks_mut::<4>().0) {
                store(*sum, out);
            }
        }
        4 * turns
    }
}

neon_i8mm! {
    /// Multiplies sixteen rows with every token.
    fn all_tokens<B: Packable>(l: Neon<true>, group: &Group, out: &mut [[f32; ROWS]]) {
        let mut first = 0;
        while group.activations.tokens - first >= 4 {
            first += fours::<B>(l, group, first, (group.activations.tokens - first) / 4, out);
        }
        few::<B>(l, group, first, out);
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
    /// The codes are the same as in `Neon<true>`.
    const SIGNS: bool = Neon::<true>::SIGNS;

    fn group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self.dot(), group, out);
    }
}
