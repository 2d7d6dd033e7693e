//! AVX-VNNI: `vpdpbusd` multiplies four columns of eight rows with four broadcast activations.

use super::avx2::codes;
use super::eight_rows::{TURNS, add_scaled, eight_rows};
use super::layout::Packable;
use super::scales::{RowScales, row_scales, zero_point_shift};
use super::{Group, PackedProduct, ROWS, locate, prefetch_after};
use crate::blocks::with_format;
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx2, AvxVnni, Token, avx_vnni, dot_bytes, methods, store};
use std::arch::x86_64::*;

avx_vnni! {
    /// The codes of half `half` of a tile's rows.
    #[inline]
    fn all_codes<B: Packable>(tile: &[u8], half: usize) -> [__m256i; 8] {
        std::array::from_fn(|v| codes::<B>(tile, v, half))
    }
}

avx_vnni! {
    /// Accumulates the products of half `HALF` of a tile's rows with part `part` of the activations
    /// of `K` tokens.
    #[inline]
    fn add<B: Packable, const HALF: usize, const K: usize>(
        codes: &[__m256i; 8],
        scales: &RowScales<[__m256; 2]>,
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [__m256; K],
    ) {
        // A tile, or each half of it, is summed in integers.
        let parts = if B::LAYOUT.halves() { 2 } else { 1 };
        for which in 0..parts {
            let mut dots: [_; K] = std::array::from_fn(|k| {
                let Some(shift) = zero_point_shift::<AvxVnni, B>() else {
                    return _mm256_setzero_si256();
                };
                let minus = match parts {
                    1 => chunks[k].minus_sums[part],
                    _ => chunks[k].minus_half_sums[2 * part + which],
                };
                _mm256_sll_epi32(_mm256_set1_epi32(minus), _mm_cvtsi32_si128(shift as i32))
            });
            let first = 8 / parts * which;
            for (at, codes) in codes[first..][..8 / parts].iter().enumerate() {
                for (dot, chunk) in dots.iter_mut().zip(chunks) {
                    let values = _mm256_set1_epi32(chunk.four(part, first + at));
                    *dot = dot_bytes(*dot, *codes, values);
                }
            }
            add_scaled!(B, HALF; dots, scales, chunks, [part, which], sums);
        }
    }
}

eight_rows!(avx_vnni);

impl AvxVnni {
    methods! { avx_vnni;
        fn product(l: Avx2, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, sink));
        }
    }
}

impl PackedProduct for AvxVnni {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.product(self.lanes(), group, sink);
    }
}
