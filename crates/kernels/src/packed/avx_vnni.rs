//! AVX-VNNI: `vpdpbusd` multiplies four columns of eight rows with four broadcast activations.

use super::avx2::codes;
use super::layout::Packable;
use super::scales::{RowScales, row_scales};
use super::sixteen_rows::{add_scaled, sixteen_rows, zero_point};
use super::{Group, PackedProduct, ROWS, each_tile, locate};
use crate::blocks::with_format;
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx2, AvxVnni, Token, avx_vnni, dot_bytes, methods, store};
use std::arch::x86_64::*;

avx_vnni! {
    /// The codes of both halves of a tile's rows.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8]) -> [[__m256i; 2]; 8] {
        let mut all = [[_mm256_setzero_si256(); 2]; 8];
        for (v, all) in all.iter_mut().enumerate() {
            for (half, all) in all.iter_mut().enumerate() {
                *all = codes::<B>(tile, v, half);
            }
        }
        all
    }
}

avx_vnni! {
    /// Accumulates the products of a tile's rows with part `part` of the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const K: usize>(
        codes: &[[__m256i; 2]; 8],
        scales: &RowScales<[__m256; 2]>,
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [[__m256; 2]; K],
    ) {
        // A tile, or each half of it, is summed in integers.
        let parts = if B::LAYOUT.halves() { 2 } else { 1 };
        for which in 0..parts {
            let mut dots = [[_mm256_setzero_si256(); 2]; K];
            for (dots, chunk) in dots.iter_mut().zip(chunks) {
                *dots = [zero_point::<AvxVnni, B>(chunk, part, which); 2];
            }
            let first = 8 / parts * which;
            for (at, codes) in codes[first..][..8 / parts].iter().enumerate() {
                for (dots, chunk) in dots.iter_mut().zip(chunks) {
                    let values = _mm256_set1_epi32(chunk.four(part, first + at));
                    for (dot, codes) in dots.iter_mut().zip(codes) {
                        *dot = dot_bytes(*dot, *codes, values);
                    }
                }
            }
            add_scaled!(B; dots, scales, chunks, [part, which], sums);
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

    fn group(self, group: &Group, out: &mut [[f32; ROWS]]) {
        self.product(self.lanes(), group, out);
    }
}
