//! Products on 256-bit registers: eight rows at a time, as the sums of sixteen would not fit.

/// Defines `all_tokens`, which multiplies sixteen rows with every token. `enabled` enables the
/// instructions; these functions, which it may call, are in scope:
///
/// * `all_codes::<B>(tile, half)`: the codes of half `half` of a tile's rows;
/// * `add::<B, HALF, K>(codes, scales, chunks, part, sums)`: accumulates their products with part
///   `part` of the activations of `K` tokens.
macro_rules! eight_rows {
    ($enabled:ident) => {
        $enabled! {
            /// Accumulates the products with the last `K` of `N` tokens, if as many are left.
            #[inline]
            fn add_last<B: Packable, const HALF: usize, const N: usize, const K: usize>(
                codes: &[__m256i; 8],
                scales: &RowScales<[__m256; 2]>,
                tokens: &[&[ActivationChunk]; N],
                [chunk, part]: [usize; 2],
                left: &mut [__m256],
            ) {
                if let Ok(sums) = <&mut [_; K]>::try_from(left) {
                    let chunks = std::array::from_fn(|token| &tokens[N - K + token][chunk]);
                    add::<B, HALF, K>(codes, scales, chunks, part, sums);
                }
            }
        }

        $enabled! {
            /// Multiplies half `HALF` of the sixteen rows with `N` tokens from `first` on, four at
            /// once: their sums fit sixteen registers. The codes of a tile are made for all of
            /// them.
            #[inline]
            fn eight_rows<B: Packable, const HALF: usize, const N: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                out: &mut [[f32; ROWS]; N],
            ) {
                let tiles = B::LAYOUT.scales.tiles;
                let tokens: [_; N] = group.rows(first);
                let mut sums = [_mm256_setzero_ps(); N];
                for (index, block) in group.blocks.chunks_exact(B::LAYOUT.bytes()).enumerate() {
                    for at in 0..tiles {
                        let group = index * tiles + at;
                        let (chunk, part) = (group * GROUP / CHUNK, group % (CHUNK / GROUP));
                        let tile = &block[B::LAYOUT.tile_at(at)..][..B::LAYOUT.tile_bytes()];
                        let scales = row_scales::<_, B>(l, block, at);
                        let codes = all_codes::<B>(tile, HALF);
                        let (fours, left) = sums.as_chunks_mut::<4>();
                        for (four, sums) in fours.iter_mut().enumerate() {
                            let chunks = std::array::from_fn(|token| &tokens[4 * four + token][chunk]);
                            add::<B, HALF, 4>(&codes, &scales, chunks, part, sums);
                        }
                        add_last::<B, HALF, N, 1>(&codes, &scales, &tokens, [chunk, part], left);
                        add_last::<B, HALF, N, 2>(&codes, &scales, &tokens, [chunk, part], left);
                        add_last::<B, HALF, N, 3>(&codes, &scales, &tokens, [chunk, part], left);
                    }
                }
                for (out, sum) in out.iter_mut().zip(&sums) {
                    store(*sum, &mut out.as_chunks_mut::<8>().0[HALF]);
                }
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with `N` tokens. Returns `N`.
            #[inline]
            fn tokens<B: Packable, const N: usize>(
                l: Avx2,
                group: &Group,
                first: usize,
                sink: &mut dyn FnMut(usize, &[f32; ROWS]),
            ) -> usize {
                let mut out = [[0.0; ROWS]; N];
                eight_rows::<B, 0, N>(l, group, first, &mut out);
                eight_rows::<B, 1, N>(l, group, first, &mut out);
                for (token, out) in out.iter().enumerate() {
                    sink(first + token, out);
                }
                N
            }
        }

        $enabled! {
            /// Multiplies sixteen rows with every token.
            fn all_tokens<B: Packable>(l: Avx2, group: &Group, sink: &mut dyn FnMut(usize, &[f32; ROWS])) {
                let mut first = 0;
                while first < group.tokens {
                    first += match group.tokens - first {
                        12.. => tokens::<B, 12>(l, group, first, sink),
                        8.. => tokens::<B, 8>(l, group, first, sink),
                        4.. => tokens::<B, 4>(l, group, first, sink),
                        3.. => tokens::<B, 3>(l, group, first, sink),
                        2.. => tokens::<B, 2>(l, group, first, sink),
                        _ => tokens::<B, 1>(l, group, first, sink),
                    };
                }
            }
        }
    };
}
pub(super) use eight_rows;
