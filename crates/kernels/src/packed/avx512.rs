//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four broadcast
//! activations. Two groups of rows share the broadcasts, which load ports limit.
//!
//! What runs for each tile has loops in place of closures with intrinsics, which the compiler does
//! not always inline into functions of the standard library that lack the instructions.

use super::layout::Packable;
use super::scales::{RowScales, activation_sum, minus_codes, row_scales, zero_point};
use super::{Group, PackedProduct, ROWS, array, locate, prefetch_after};
use crate::blocks::with_format;
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx512, Avx512Bf16, Token, avx512, load, methods, store};
use std::arch::x86_64::*;

/// The tiles of `G` groups for the same columns.
struct Tiles<const G: usize> {
    /// Unsigned codes, four columns of sixteen rows each.
    codes: [[__m512i; 8]; G],
    scales: [RowScales<__m512>; G],
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
    /// Products of tiles with part `part` of the activations of `K` tokens, added in integers;
    /// those of half `half` of the columns if the format has half scales.
    #[inline]
    fn dots<B: Packable, const G: usize, const K: usize>(
        tiles: &Tiles<G>,
        chunks: [&ActivationChunk; K],
        part: usize,
        half: usize,
    ) -> [[__m512; G]; K] {
        let mut dots = [[_mm512_setzero_si512(); G]; K];
        let zero_point = const { zero_point::<Avx512, B>() };
        if zero_point != 0 {
            for (dots, chunk) in dots.iter_mut().zip(chunks) {
                let minus = _mm512_set1_epi32(minus_codes::<B>(chunk, part, half));
                // Both fit 16 bits; the upper half of the sum meets zero.
                *dots = [_mm512_madd_epi16(minus, _mm512_set1_epi32(zero_point)); G];
            }
        }
        let count = if B::LAYOUT.halves() { 4 } else { 8 };
        for v in half * count..(half + 1) * count {
            for (dots, chunk) in dots.iter_mut().zip(chunks) {
                let values = _mm512_set1_epi32(chunk.four(part, v));
                for (dot, codes) in dots.iter_mut().zip(&tiles.codes) {
                    *dot = _mm512_dpbusd_epi32(*dot, codes[v], values);
                }
            }
        }
        let mut floats = [[_mm512_setzero_ps(); G]; K];
        for (float, dot) in floats.as_flattened_mut().iter_mut().zip(dots.as_flattened()) {
            *float = _mm512_cvtepi32_ps(*dot);
        }
        floats
    }
}

avx512! {
    /// Accumulates the products of tiles with part `part` of the activations of `K` tokens.
    #[inline]
    fn add<B: Packable, const G: usize, const K: usize>(
        tiles: &Tiles<G>,
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [[__m512; G]; K],
    ) {
        let mut products = dots::<B, G, K>(tiles, chunks, part, 0);
        for products in &mut products {
            for (product, of_rows) in products.iter_mut().zip(&tiles.scales) {
                *product = _mm512_mul_ps(of_rows.scale[0], *product);
            }
        }
        if B::LAYOUT.halves() {
            let second = dots::<B, G, K>(tiles, chunks, part, 1);
            for (products, dots) in products.iter_mut().zip(second) {
                for ((product, dot), of_rows) in products.iter_mut().zip(dots).zip(&tiles.scales) {
                    *product = _mm512_fmadd_ps(of_rows.scale[1], dot, *product);
                }
            }
        }
        for ((sums, products), chunk) in sums.iter_mut().zip(products).zip(chunks) {
            // As integers, or the compiler broadcasts it in a register.
            let scale = _mm512_castsi512_ps(_mm512_set1_epi32(chunk.scales[part].to_bits().cast_signed()));
            for ((sum, products), of_rows) in sums.iter_mut().zip(products).zip(&tiles.scales) {
                *sum = _mm512_fmadd_ps(products, scale, *sum);
                if B::LAYOUT.has_minimum() {
                    let halves = if B::LAYOUT.halves() { 2 } else { 1 };
                    for (half, minimum) in of_rows.minimum.into_iter().enumerate().take(halves) {
                        let activations = _mm512_set1_ps(activation_sum::<B>(chunk, part, half));
                        *sum = _mm512_fmadd_ps(minimum, activations, *sum);
                    }
                }
            }
        }
    }
}

avx512! {
    /// Multiplies `G` groups of sixteen rows with `K` tokens at once, `turns` times from `first`
    /// on. The codes of a tile are made for all of them. Returns the number of tokens.
    #[inline]
    fn tokens<B: Packable, const G: usize, const K: usize, const TURNS: usize>(
        l: Avx512,
        groups: &[Group; G],
        first: usize,
        turns: usize,
        sink: &mut dyn FnMut(usize, usize, &[f32; ROWS]),
    ) -> usize {
        let turns = turns.min(TURNS);
        let activations = groups[0].activations;
        let mut sums = [[[_mm512_setzero_ps(); G]; K]; TURNS];
        for index in 0..groups[0].blocks.len() / B::LAYOUT.bytes() {
            let mut blocks: [&[u8]; G] = [&[]; G];
            for (block, group) in blocks.iter_mut().zip(groups) {
                *block = &group.blocks[index * B::LAYOUT.bytes()..][..B::LAYOUT.bytes()];
            }
            for at in 0..B::LAYOUT.scales.tiles {
                let (chunk, part, _) = locate::<B>(blocks[0], index, at);
                let zero = [_mm512_setzero_ps(); 2];
                let mut tiles = Tiles {
                    codes: [[_mm512_setzero_si512(); 8]; G],
                    scales: [RowScales { scale: zero, minimum: zero }; G],
                };
                for (g, block) in blocks.iter().enumerate() {
                    let (_, _, bytes) = locate::<B>(block, index, at);
                    prefetch_after(bytes);
                    tiles.codes[g] = codes::<B>(bytes);
                    tiles.scales[g] = row_scales::<_, B>(l, block, at);
                }
                for (turn, sums) in sums.iter_mut().enumerate().take(turns) {
                    let chunks: &[ActivationChunk; K] = activations.chunks(first + K * turn, chunk);
                    add::<B, G, K>(&tiles, chunks.each_ref(), part, sums);
                }
            }
        }
        for (token, sums) in sums.as_flattened().iter().take(K * turns).enumerate() {
            for (which, sum) in sums.iter().enumerate() {
                let mut out = [0.0; ROWS];
                store(*sum, &mut out);
                sink(which, first + token, &out);
            }
        }
        K * turns
    }
}

avx512! {
    /// Multiplies one group after the other with the tokens from `first` on, of which `left` are
    /// left. Returns the number of tokens, which is the same for each.
    #[inline]
    fn one_by_one<B: Packable>(
        l: Avx512,
        groups: &[Group],
        first: usize,
        left: usize,
        sink: &mut dyn FnMut(usize, usize, &[f32; ROWS]),
    ) -> usize {
        let mut done = 0;
        for (which, group) in groups.iter().enumerate() {
            let group = std::array::from_ref(group);
            let mut sink = |_: usize, token: usize, results: &[f32; ROWS]| sink(which, token, results);
            done = match left {
                4 | 7.. => tokens::<B, 1, 4, 3>(l, group, first, left / 4, &mut sink),
                // One pass over the weights for short drafts.
                6 => tokens::<B, 1, 6, 1>(l, group, first, 1, &mut sink),
                5 => tokens::<B, 1, 5, 1>(l, group, first, 1, &mut sink),
                3 => tokens::<B, 1, 3, 1>(l, group, first, 1, &mut sink),
                2 => tokens::<B, 1, 2, 1>(l, group, first, 1, &mut sink),
                _ => tokens::<B, 1, 1, 1>(l, group, first, 1, &mut sink),
            };
        }
        done
    }
}

avx512! {
    /// Multiplies one group, or two, with every token.
    fn all_tokens<B: Packable>(l: Avx512, groups: &[Group], sink: &mut dyn FnMut(usize, usize, &[f32; ROWS])) {
        let (count, pair) = (groups[0].activations.tokens, <&[Group; 2]>::try_from(groups));
        let mut first = 0;
        while first < count {
            let left = count - first;
            first += match pair {
                // Six tokens and two groups are twelve sums: enough to hide the latency of
                // `vpdpbusd`, which is five cycles, at two of them per cycle.
                Ok(pair) if left >= 12 => tokens::<B, 2, 6, 2>(l, pair, first, 2, sink),
                Ok(pair) if left >= 7 || left == 4 => tokens::<B, 2, 4, 2>(l, pair, first, left / 4, sink),
                _ => one_by_one::<B>(l, groups, first, left, sink),
            };
        }
    }
}

impl Avx512 {
    methods! { avx512;
        fn product(l: Avx512, groups: &[Group], sink: &mut dyn FnMut(usize, usize, &[f32; ROWS])) {
            with_format!(groups[0].quant, float _F => (), block B => all_tokens::<B>(l, groups, sink));
        }
    }
}

impl PackedProduct for Avx512 {
    const FASTER: bool = true;
    const AT_ONCE: usize = 2;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.groups(std::slice::from_ref(group), &mut |_, token, results| {
            sink(token, results)
        });
    }

    fn groups(self, groups: &[Group], sink: &mut dyn FnMut(usize, usize, &[f32; ROWS])) {
        self.product(self, groups, sink);
    }
}

impl PackedProduct for Avx512Bf16 {
    const FASTER: bool = true;
    const AT_ONCE: usize = Avx512::AT_ONCE;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.lanes().group(group, sink);
    }

    fn groups(self, groups: &[Group], sink: &mut dyn FnMut(usize, usize, &[f32; ROWS])) {
        self.lanes().groups(groups, sink);
    }
}
