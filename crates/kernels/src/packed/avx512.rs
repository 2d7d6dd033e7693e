//! AVX-512 with VNNI: `vpdpbusd` multiplies four columns of sixteen rows with four broadcast
//! activations.

use super::layout::Packable;
use super::scales::{RowLanes, RowScales, row_scales, zero_point_shift};
use super::{Group, PackedProduct, ROWS};
use crate::blocks::{CHUNK, GROUP, with_format};
use crate::gemv::ActivationChunk;
use crate::lanes::{Avx512, Avx512Bf16, Token, avx512};
use std::arch::x86_64::*;

/// A tile in registers.
struct Tile {
    /// Unsigned codes, four columns of sixteen rows each.
    codes: [__m512i; 8],
    scales: RowScales<__m512>,
}

/// Sixteen rows.
struct Sixteen;

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "guaranteed by the caller, for every method"
)]
impl RowLanes for Sixteen {
    type Floats = __m512;
    type Words = __m512i;

    const COUNT: usize = ROWS;
    const SIGNS: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8) -> __m512i {
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())) }
    }

    #[inline(always)]
    unsafe fn shift_left(words: __m512i, shift: usize) -> __m512i {
        unsafe { _mm512_sll_epi32(words, _mm_cvtsi32_si128(shift as i32)) }
    }

    #[inline(always)]
    unsafe fn offset(words: __m512i, by: i32) -> __m512i {
        unsafe { _mm512_add_epi32(words, _mm512_set1_epi32(by)) }
    }

    #[inline(always)]
    unsafe fn from_bits(words: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(words) }
    }

    #[inline(always)]
    unsafe fn bits(words: __m512i, shift: usize, mask: i32) -> __m512i {
        unsafe {
            _mm512_and_si512(
                _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32)),
                _mm512_set1_epi32(mask),
            )
        }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn floats(words: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(words) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
}

avx512! {
    /// The codes of the tile at `at`.
    ///
    /// # Safety
    /// `at` points to a tile.
    #[inline]
    unsafe fn codes<B: Packable>(at: *const u8) -> [__m512i; 8] {
        let mut codes = [_mm512_setzero_si512(); 8];
        // SAFETY: all reads are within the tile, and loads need no alignment.
        unsafe {
            let vector = |v: usize| _mm512_loadu_si512(at.add(B::LAYOUT.upper_bytes() + 64 * v).cast());
            if B::LAYOUT.bits == 8 {
                for (v, codes) in codes.iter_mut().enumerate() {
                    *codes = vector(v);
                }
                return codes;
            }
            let pairs = |h: usize| _mm512_loadu_si512(at.add(B::LAYOUT.bit_bytes() + 64 * h).cast());
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
                    add_bits(at, &mut codes, 4);
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
                let values = _mm512_broadcast_i32x4(_mm_loadu_si128(B::UNSIGNED_VALUES.as_ptr().cast()));
                return codes.map(|codes| _mm512_shuffle_epi8(values, codes));
            }
            match B::LAYOUT.bits {
                5 => add_bits(at, &mut codes, 16),
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
        }
        codes
    }
}

avx512! {
    /// Adds `value` to each code whose bit in the 64 bytes at `at` is set.
    ///
    /// # Safety
    /// `at` is valid for 64 bytes.
    #[inline]
    unsafe fn add_bits(at: *const u8, codes: &mut [__m512i; 8], value: i8) {
        let value = _mm512_set1_epi8(value);
        for (v, codes) in codes.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            let bits = unsafe { at.cast::<u64>().add(v).read_unaligned() };
            *codes = _mm512_mask_add_epi8(*codes, bits, *codes, value);
        }
    }
}

avx512! {
    /// Accumulates a tile's products with part `part` of the activations of `K` tokens. Tokens are
    /// interleaved to hide the latency of dependent additions: four at once, or two if each has two
    /// sums, as registers allow.
    ///
    /// # Safety
    /// `part` is below 8.
    #[inline]
    unsafe fn add<B: Packable, const K: usize>(
        tile: &Tile,
        chunks: [&ActivationChunk; K],
        part: usize,
        sums: &mut [__m512; K],
    ) {
        // SAFETY: `part` is one of eight, and twice that one of sixteen.
        let first = |half: Option<usize>| unsafe {
            chunks.map(|chunk| {
                let Some(shift) = zero_point_shift::<Sixteen, B>() else {
                    return _mm512_setzero_si512();
                };
                let minus = match half {
                    None => *chunk.minus_sums.get_unchecked(part),
                    Some(half) => *chunk.minus_half_sums.get_unchecked(2 * part + half),
                };
                _mm512_sll_epi32(_mm512_set1_epi32(minus), _mm_cvtsi32_si128(shift as i32))
            })
        };
        let dots = |mut dots: [__m512i; K], vectors: std::ops::Range<usize>| {
            for v in vectors {
                for (dot, chunk) in dots.iter_mut().zip(chunks) {
                    // SAFETY: a chunk has eight parts of 32 activations, which are eight times
                    // four.
                    let values = unsafe {
                        chunk
                            .values
                            .as_ptr()
                            .add(GROUP * part + 4 * v)
                            .cast::<i32>()
                            .read_unaligned()
                    };
                    *dot = _mm512_dpbusd_epi32(*dot, tile.codes[v], _mm512_set1_epi32(values));
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
            // SAFETY: as above.
            unsafe {
                *sum = _mm512_fmadd_ps(products, _mm512_set1_ps(*chunk.scales.get_unchecked(part)), *sum);
                if B::LAYOUT.has_minimum() && !B::LAYOUT.halves() {
                    *sum = _mm512_fmadd_ps(minimum[0], _mm512_set1_ps(*chunk.sums.get_unchecked(part)), *sum);
                }
                if B::LAYOUT.has_minimum() && B::LAYOUT.halves() {
                    for (half, minimum) in minimum.into_iter().enumerate() {
                        let activations = _mm512_set1_ps(*chunk.half_sums.get_unchecked(2 * part + half));
                        *sum = _mm512_fmadd_ps(minimum, activations, *sum);
                    }
                }
            }
        }
    }
}

avx512! {
    /// Multiplies sixteen rows with `N` tokens starting at `first`; `N` is at most 12.
    ///
    /// # Safety
    /// `blocks` are whole packed blocks, and every token has `chunks` chunks that cover them.
    #[inline]
    unsafe fn tokens<B: Packable, const N: usize>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        first: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let tiles = B::LAYOUT.scales.tiles;
        let mut sums = [_mm512_setzero_ps(); N];
        for (index, block) in blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
            for at in 0..tiles {
                let group = index * tiles + at;
                let (chunk, part) = (group * GROUP / CHUNK, group % (CHUNK / GROUP));
                // SAFETY: `at` counts the tiles of a whole block, and the chunk of a tile is one of
                // the token's `chunks`.
                unsafe {
                    let codes_at = block.as_ptr().add(B::LAYOUT.tile_at(at));
                    let tile = Tile {
                        codes: codes::<B>(codes_at),
                        scales: row_scales::<Sixteen, B>(block.as_ptr(), at, 0),
                    };
                    let of = |token: usize| activations.get_unchecked((first + token) * chunks + chunk);
                    // Unrolled by hand, so that the sums stay in registers: the compiler does not
                    // unroll a loop this long.
                    macro_rules! each {
                        ($at_once:literal: $($turn:literal)*) => {{
                            let (turns, rest) = sums.as_chunks_mut::<$at_once>();
                            $(if let Some(sums) = turns.get_mut($turn) {
                                let chunks = std::array::from_fn(|token| of($at_once * $turn + token));
                                add::<B, $at_once>(&tile, chunks, part, sums);
                            })*
                            if let [sum] = rest {
                                add::<B, 1>(&tile, [of(0)], part, std::array::from_mut(sum));
                            }
                        }};
                    }
                    match B::LAYOUT.halves() {
                        true => each!(2: 0 1 2 3 4 5),
                        false => each!(4: 0 1 2),
                    }
                }
            }
        }
        for (token, sum) in sums.iter().enumerate() {
            let mut out = [0.0; ROWS];
            // SAFETY: sixteen floats are one vector.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), *sum) };
            sink(first + token, &out);
        }
    }
}

avx512! {
    /// Multiplies sixteen rows with every token, at most twelve at once: with the tile, their sums
    /// fit 32 registers.
    ///
    /// # Safety
    /// See [`tokens`].
    unsafe fn all_tokens<B: Packable>(
        blocks: &[u8],
        activations: &[ActivationChunk],
        chunks: usize,
        count: usize,
        sink: &mut dyn FnMut(usize, &[f32; ROWS]),
    ) {
        let mut first = 0;
        while first < count {
            // SAFETY: guaranteed by the caller; never more tokens than remain.
            unsafe {
                first += match count - first {
                    12.. => {
                        tokens::<B, 12>(blocks, activations, chunks, first, sink);
                        12
                    }
                    8.. => {
                        tokens::<B, 8>(blocks, activations, chunks, first, sink);
                        8
                    }
                    4.. => {
                        tokens::<B, 4>(blocks, activations, chunks, first, sink);
                        4
                    }
                    _ => {
                        tokens::<B, 1>(blocks, activations, chunks, first, sink);
                        1
                    }
                };
            }
        }
    }
}

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the macro drops the comment: the token proves the instructions, and `Group` its sizes"
)]
impl PackedProduct for Avx512 {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        with_format!(group.quant, float _F => (), block B => unsafe { all_tokens::<B>(group.blocks, group.activations, group.chunks, group.tokens, sink) });
    }
}

impl PackedProduct for Avx512Bf16 {
    const FASTER: bool = true;

    fn group(self, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
        self.lanes().group(group, sink);
    }
}
