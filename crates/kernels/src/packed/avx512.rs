//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four broadcast
//! activations.

use super::layout::Packable;
use super::scales::{RowScales, row_scales};
use super::{Group, PackedProduct, ROWS, array, locate, prefetch_after};
use crate::blocks::with_format;
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx512, Avx512Bf16, Token, avx512, load, methods, store};
use std::arch::x86_64::*;

/// A tile in registers.
struct Tile {
    /// Unsigned codes, four columns of sixteen rows each.
    codes: [__m512i; 8],
    scales: RowScales<__m512>,
}

avx512! {
    /// The codes of a tile.
    #[inline]
    fn codes<B: Packable>(tile: &[u8]) -> [__m512i; 8] {
        let vector = |v: usize| load(array::<64>(tile, B::LAYOUT.upper_bytes() + 64 * v));
        if B::LAYOUT.bits == 8 {
            return std::array::from_fn(vector);
        }
        let pairs = |h: usize| load(array::<64>(tile, B::LAYOUT.bit_bytes() + 64 * h));
        let mut codes = [_mm512_setzero_si512(); 8];
        if B::LAYOUT.bits < 4 {
            let two = _mm512_set1_epi8(3);
            for h in 0..2 {
                let all = pairs(h);
                let shifted = [
                    all,
                    _mm512_srli_epi16::<2>(all),
                    _mm512_srli_epi16::<4>(all),
                    _mm512_srli_epi16::<6>(all),
                ];
                for (codes, pairs) in codes[4 * h..].iter_mut().zip(shifted) {
                    *codes = _mm512_and_si512(pairs, two);
                }
            }
            if B::LAYOUT.bits == 3 {
                add_bits(tile, &mut codes, 4);
            }
            return codes;
        }
        let low = _mm512_set1_epi8(0x0f);
        for v in 0..4 {
            let both = vector(v);
            codes[v] = _mm512_and_si512(both, low);
            codes[v + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
        }
        if B::LAYOUT.codebook.is_some() {
            let values = _mm512_broadcast_i32x4(load(&B::UNSIGNED_VALUES));
            return codes.map(|codes| _mm512_shuffle_epi8(values, codes));
        }
        match B::LAYOUT.bits {
            5 => add_bits(tile, &mut codes, 16),
            6 => {
                let top = _mm512_set1_epi8(0x30);
                for h in 0..2 {
                    let upper = pairs(h);
                    let shifted = [
                        _mm512_slli_epi16::<4>(upper),
                        _mm512_slli_epi16::<2>(upper),
                        upper,
                        _mm512_srli_epi16::<2>(upper),
                    ];
                    for (codes, upper) in codes[4 * h..].iter_mut().zip(shifted) {
                        *codes = _mm512_or_si512(*codes, _mm512_and_si512(upper, top));
                    }
                }
            }
            _ => {}
        }
        codes
    }
}

avx512! {
    /// Adds `value` to each code whose bit in the first 64 bytes is set.
    #[inline]
    fn add_bits(tile: &[u8], codes: &mut [__m512i; 8], value: i8) {
        let value = _mm512_set1_epi8(value);
        for (v, codes) in codes.iter_mut().enumerate() {
            *codes = _mm512_mask_add_epi8(*codes, u64::from_le_bytes(*array(tile, 8 * v)), *codes, value);
        }
    }
}

avx512! {
    /// Accumulates a tile's products with part `part` of the activations of `K` tokens. Tokens are
    /// interleaved to hide the latency of dependent additions: four at once, or two if each has two
    /// sums, as registers allow.
    #[inline]
    fn add<B: Packable, const K: usize>(
        tile: &Tile,
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [__m512; K],
    ) {
        let first = |half: Option<usize>| {
            chunks.map(|chunk| {
                if B::LAYOUT.zero_point == 0 {
                    return _mm512_setzero_si512();
                }
                let minus = match half {
                    None => chunk.minus_sums[part],
                    Some(half) => chunk.minus_half_sums[2 * part + half],
                };
                // Both fit 16 bits; the upper half of the sum meets zero.
                _mm512_madd_epi16(_mm512_set1_epi32(minus), _mm512_set1_epi32(B::LAYOUT.zero_point.into()))
            })
        };
        let dots = |mut dots: [__m512i; K], vectors: std::ops::Range<usize>| {
            for v in vectors {
                for (dot, chunk) in dots.iter_mut().zip(chunks) {
                    *dot = _mm512_dpbusd_epi32(*dot, tile.codes[v], _mm512_set1_epi32(chunk.four(part, v)));
                }
            }
            dots.map(|dot| _mm512_cvtepi32_ps(dot))
        };
        let RowScales { scale, minimum } = tile.scales;
        let products = match B::LAYOUT.halves() {
            false => dots(first(None), 0..8).map(|dot| _mm512_mul_ps(scale[0], dot)),
            true => {
                let (low, high) = (dots(first(Some(0)), 0..4), dots(first(Some(1)), 4..8));
                std::array::from_fn(|k| _mm512_fmadd_ps(scale[1], high[k], _mm512_mul_ps(scale[0], low[k])))
            }
        };
        for ((sum, products), chunk) in sums.iter_mut().zip(products).zip(chunks) {
            // As integers, or the compiler broadcasts it in a register.
            let scale = _mm512_castsi512_ps(_mm512_set1_epi32(chunk.scales[part].to_bits().cast_signed()));
            *sum = _mm512_fmadd_ps(products, scale, *sum);
            if B::LAYOUT.has_minimum() && !B::LAYOUT.halves() {
                *sum = _mm512_fmadd_ps(minimum[0], _mm512_set1_ps(chunk.sums[part]), *sum);
            }
            if B::LAYOUT.has_minimum() && B::LAYOUT.halves() {
                for (half, minimum) in minimum.into_iter().enumerate() {
                    let activations = _mm512_set1_ps(chunk.half_sums[2 * part + half]);
                    *sum = _mm512_fmadd_ps(minimum, activations, *sum);
                }
            }
        }
    }
}

avx512! {
    /// Multiplies sixteen rows with `N` tokens starting at `first`; `N` is at most 12. Returns `N`.
    #[inline]
    fn tokens<B: Packable, const N: usize>(
        l: Avx512,
        group: &Group,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) -> usize {
        let activations = group.activations;
        let mut sums = [_mm512_setzero_ps(); N];
        for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, bytes) = locate::<B>(block, index, at);
                prefetch_after(bytes);
                let chunks: &[ActivationChunk; N] = activations.chunks(first, chunk);
                let tile = Tile {
                    codes: codes::<B>(bytes),
                    scales: row_scales::<_, B>(l, block, at),
                };
                // Unrolled by hand, so that the sums stay in registers: the compiler does not
                // unroll a loop this long.
                macro_rules! each {
                    ($at_once:literal: $($turn:literal)*, $($left:literal)*) => {{
                        let (turns, rest) = sums.as_chunks_mut::<$at_once>();
                        $(if let Some(sums) = turns.get_mut($turn) {
                            let chunks = std::array::from_fn(|token| &chunks[$at_once * $turn + token]);
                            add::<B, $at_once>(&tile, chunks, part, sums);
                        })*
                        $(if let Ok(sums) = <&mut [_; $left]>::try_from(&mut *rest) {
                            let chunks = std::array::from_fn(|token| &chunks[N - $left + token]);
                            add::<B, $left>(&tile, chunks, part, sums);
                        })*
                    }};
                }
                match B::LAYOUT.halves() {
                    true => each!(2: 0 1 2 3 4 5, 1),
                    false => each!(4: 0 1 2, 1 2 3),
                }
            }
        }
        for (token, sum) in sums.iter().enumerate() {
            let mut out = [0.0; ROWS];
            store(*sum, &mut out);
            sink(first + token, &out);
        }
        N
    }
}

avx512! {
    /// Multiplies sixteen rows with every token, at most twelve at once: with the tile, their sums
    /// fit 32 registers.
    fn all_tokens<B: Packable>(l: Avx512, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        let mut first = 0;
        while first < group.activations.tokens {
            first += match group.activations.tokens - first {
                12.. => tokens::<B, 12>(l, group, first, sink),
                8.. => tokens::<B, 8>(l, group, first, sink),
                6.. => tokens::<B, 6>(l, group, first, sink),
                5.. => tokens::<B, 5>(l, group, first, sink),
                4.. => tokens::<B, 4>(l, group, first, sink),
                3.. => tokens::<B, 3>(l, group, first, sink),
                2.. => tokens::<B, 2>(l, group, first, sink),
                _ => tokens::<B, 1>(l, group, first, sink),
            };
        }
    }
}

impl Avx512 {
    methods! { avx512;
        fn product(l: Avx512, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
            with_format!(group.quant, float _F => (), block B => all_tokens::<B>(l, group, sink));
        }
    }
}

impl PackedProduct for Avx512 {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.product(self, group, sink);
    }
}

impl PackedProduct for Avx512Bf16 {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.lanes().group(group, sink);
    }
}
