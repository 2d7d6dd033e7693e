//! Products on 256-bit registers. Of four tokens and more, eight rows at a time, as the sums of
//! sixteen would not fit; of fewer, all sixteen, so that each tile is read from memory once.

/// Most turns of four tokens with the codes of one tile.
pub(super) const TURNS: usize = super::TOKEN_TILE / 4;

/// Adds products with half `HALF` of a tile's rows to sums, scaled: those of the tile or, if its
/// halves have scales, of half `which` of its columns. A function in its place, though inlined,
/// made the compiler store each sum before the next products, and AVX2 slower by up to a quarter.
macro_rules! add_scaled {
    ($B:ident, $HALF:ident; $dots:ident, $scales:ident, $chunks:ident, [$part:ident, $which:ident], $sums:ident) => {
        for ((sum, dot), chunk) in $sums.iter_mut().zip($dots).zip($chunks) {
            let scale = _mm256_set1_ps(chunk.scales[$part]);
            let products = _mm256_mul_ps($scales.scale[$which][$HALF], _mm256_cvtepi32_ps(dot));
            *sum = _mm256_fmadd_ps(products, scale, *sum);
            if $B::LAYOUT.has_minimum() {
                let all = match $B::LAYOUT.halves() {
                    false => chunk.sums[$part],
                    true => chunk.half_sums[2 * $part + $which],
                };
                *sum = _mm256_fmadd_ps($scales.minimum[$which][$HALF], _mm256_set1_ps(all), *sum);
            }
        }
    };
}
pub(super) use add_scaled;

/// Defines `all_tokens`, which multiplies sixteen rows with every token. `enabled` enables the
/// instructions; these functions, which it may call, are in scope:
///
/// * `all_codes::<B>(tile, half)`: the codes of half `half` of a tile's rows;
/// * `add::<B, HALF, K>(codes, scales, chunks, part, sums)`: accumulates their products with part
///   `part` of the activations of `K` tokens. It is called in one place for each `HALF` and `K`, so
///   that the compiler always inlines it (`docs/tried.md`).
macro_rules! eight_rows {
    ($enabled:ident) => {
        $enabled! {
            /// Multiplies half `HALF` of the sixteen rows with four tokens at once, `turns` times
            /// from `first` on. The codes of a tile are made for all of them.
            #[inline]
            fn eight_rows<B: Packable, const HALF: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                turns: usize,
                out: &mut [[[f32; ROWS]; 4]; TURNS],
            ) {
                let turns = turns.min(TURNS);
                        let activations = group.activations;
                let mut sums = [[_mm256_setzero_ps(); 4]; TURNS];
                for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
                    for at in 0..B::LAYOUT.scales.tiles {
                        let (chunk, part, tile) = locate::<B>(block, index, at);
                        let scales = row_scales::<_, B>(l, block, at);
                        let codes = all_codes::<B>(tile, HALF);
                        for (turn, sums) in sums.iter_mut().enumerate().take(turns) {
                            let chunks: &[ActivationChunk; 4] = activations.chunks(first + 4 * turn, chunk);
                            add::<B, HALF, 4>(&codes, &scales, chunks.each_ref(), part, sums);
                        }
                    }
                }
                for (out, sums) in out.iter_mut().zip(&sums).take(turns) {
                    for (out, sum) in out.iter_mut().zip(sums) {
                        store(*sum, &mut out.as_chunks_mut::<8>().0[HALF]);
                    }
                }
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with four tokens, `turns` times. Returns their number.
            #[inline]
            fn turns<B: Packable>(
                l: Avx2,
                group: &Group,
                first: usize,
                turns: usize,
                sink: &mut dyn FnMut(usize, &[f32; ROWS]),
            ) -> usize {
                let mut out = [[[0.0; ROWS]; 4]; TURNS];
                eight_rows::<B, 0>(l, group, first, turns, &mut out);
                eight_rows::<B, 1>(l, group, first, turns, &mut out);
                for (token, out) in out.as_flattened().iter().take(4 * turns).enumerate() {
                    sink(first + token, out);
                }
                4 * turns
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with `K` tokens, at most three. Returns `K`.
            #[inline]
            fn few<B: Packable, const K: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                sink: &mut dyn FnMut(usize, &[f32; ROWS]),
            ) -> usize {
                        let activations = group.activations;
                let [mut upper, mut lower] = [[_mm256_setzero_ps(); K]; 2];
                for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
                    for at in 0..B::LAYOUT.scales.tiles {
                        let (chunk, part, tile) = locate::<B>(block, index, at);
                        prefetch_after(tile);
                        let scales = row_scales::<_, B>(l, block, at);
                        let chunks = activations.chunks::<K>(first, chunk).each_ref();
                        add::<B, 0, K>(&all_codes::<B>(tile, 0), &scales, chunks, part, &mut upper);
                        add::<B, 1, K>(&all_codes::<B>(tile, 1), &scales, chunks, part, &mut lower);
                    }
                }
                for (token, halves) in std::iter::zip(upper, lower).enumerate() {
                    let mut out = [[0.0_f32; ROWS / 2]; 2];
                    store(halves.0, &mut out[0]);
                    store(halves.1, &mut out[1]);
                    sink(first + token, bytemuck::cast_ref(&out));
                }
                K
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with every token.
            fn all_tokens<B: Packable>(l: Avx2, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
                let mut first = 0;
                while first < group.activations.tokens {
                    first += match group.activations.tokens - first {
                        left @ 4.. => turns::<B>(l, group, first, TURNS.min(left / 4), sink),
                        3.. => few::<B, 3>(l, group, first, sink),
                        2.. => few::<B, 2>(l, group, first, sink),
                        _ => few::<B, 1>(l, group, first, sink),
                    };
                }
            }
        }
    };
}
pub(super) use eight_rows;
