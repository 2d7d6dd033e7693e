//! AVX-VNNI: `vpdpbusd` multiplies four columns of eight rows with four broadcast activations.

use super::avx2::codes;
use super::layout::Packable;
use super::scales::{RowScales, row_scales};
use super::sixteen_rows::{add_scaled, sixteen_rows, zero_point};
use super::{Group, PackedProduct, ROWS, each_tile, locate};
use crate::blocks::with_format;
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx2, AvxVnni, Token, avx_vnni, dpbusd, methods, store};
use std::arch::x86_64::*;

avx_vnni! {
    /// The codes of a tile: for each vector, both halves of the rows.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> [[__m256i; 2]; 8] {
        let mut out_codes = [[_mm256_setzero_si256(); 2]; 8];
        for (v, halves) in out_codes.iter_mut().enumerate() {
            for (half, out) in halves.iter_mut().enumerate() {
                *out = codes::<B>(tile, v, half);
            }
        }
        out_codes
    }
}

avx_vnni! {
    /// Accumulates the products of a tile's rows with part `part` of the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const K: usize>(
        codes: &[[__m256i; 2]; 8],
        scales: &RowScales<[__m256; 2]>,
        activations: [&ActivationChunk; K],
        part: usize,
        sums: &mut [[__m256; 2]; K],
    ) {
        // Each half of the columns, or all of them if halves have no scales, is summed in integers.
        let halves = if B::LAYOUT.halves() { 2 } else { 1 };
        for half in 0..halves {
            let mut dots = [[_mm256_setzero_si256(); 2]; K];
            for (dots, activations) in dots.iter_mut().zip(activations) {
                *dots = [zero_point::<AvxVnni, B>(activations, part, half); 2];
            }
            let first = 8 / halves * half;
            for (i, codes) in codes[first..][..8 / halves].iter().enumerate() {
                for (dots, activations) in dots.iter_mut().zip(activations) {
                    let values = _mm256_set1_epi32(activations.four_codes(part, first + i));
                    for (dot, codes) in dots.iter_mut().zip(codes) {
                        *dot = dpbusd(*dot, *codes, values);
                    }
                }
            }
            add_scaled!(B; dots, scales, activations, [part, half], sums);
        }
    }
}

sixteen_rows!(avx_vnni: 4.. => 4 x 3, 3 => 3 x 1, 2 => 2 x 1, _ => 1 x 1);

impl AvxVnni {
    methods! { avx_vnni;
        fn product(l: Avx2, group: &Group, out: &mut [[f32; ROWS]]) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, out));
        }
    }
}

impl PackedProduct for AvxVnni {
    const FASTER: bool = true;

    fn multiply_group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self.lanes(), group, out);
    }
}
