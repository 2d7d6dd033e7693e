//! The loops of attention over a few tiles of floats: scores, and sums of rows by weights.

use super::kv::{KvElement, KvStore};
use super::spans::Span;
use crate::dot::Isa;
use crate::lanes::{Lanes, WIDTH, fetch_ahead, on_lanes};

/// Keys that are met at once: few enough for the scores of a block of rows to stay near, enough to spread thin what the
/// running maximum costs.
pub(super) const KEYS: usize = 128;
/// Query rows of the largest block.
pub(super) const ROWS: usize = 12;

/// Runs a body with the rows of a block as a constant, for each of the [`SIZES`].
macro_rules! of_rows {
    ($($size:literal)*) => {
        /// Rows of a block for which there is code: one token brings as many as query heads share a key head.
        const SIZES: [usize; [$($size),*].len() + 1] = [$($size,)* ROWS];

        macro_rules! with_rows {
            ($rows:expr, $R:ident => $body:expr) => {
                match $rows {
                    $($size => {
                        const $R: usize = $size;
                        $body
                    })*
                    _ => {
                        const $R: usize = ROWS;
                        $body
                    }
                }
            };
        }
    };
}
of_rows!(1 2 3 4 6 8);
pub(super) use with_rows;

/// Vectors of a value that are met at once where there are registers for them.
pub(super) const PART: usize = 4;

/// Scores, or probabilities, of a block of rows.
pub(super) type Scores = [[f32; KEYS]; ROWS];

/// How many rows a block has, where `rows` are left: all that are, in the least of the sizes for which there is code.
pub(super) fn block_rows(rows: usize) -> usize {
    SIZES.into_iter().find(|size| rows <= *size).unwrap_or(ROWS)
}

/// Rows up to which reading keys and values takes longer than multiplying with them.
pub(super) const FEW: usize = 4;
/// Tiles that are fetched ahead of the one at hand.
pub(super) const AHEAD: usize = 8;

/// Elements that are floats.
pub(super) trait KvFloat: KvElement {
    /// Sixteen numbers.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats;
}

/// The greatest f16.
const LARGEST_HALF: f32 = 65_504.0;

/// Numbers as f16 holds them: what is too large becomes the largest, since infinity would reach rows that do not see it (zero times infinity
/// is NaN). NaN stays.
#[inline(always)]
fn within_half<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    l.max(l.splat(-LARGEST_HALF), l.min(l.splat(LARGEST_HALF), x))
}

#[inline(always)]
fn as_is<L: Lanes>(_: L, x: L::Floats) -> L::Floats {
    x
}

/// Floats as elements of a cache, by the names of their loads and stores, and what is done before a store.
macro_rules! float_elements {
    ($($float:ty: $load:ident $store:ident $fit:ident,)*) => {$(
        impl KvFloat for $float {
            #[inline(always)]
            fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats {
                l.$load(x)
            }
        }

        impl KvElement for $float {
            /// Transposed, `[head_dim][block]`.
            type Queries = Vec<f32>;

            #[inline(always)]
            fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [Self; WIDTH]) {
                l.$store($fit(l, x), out);
            }

            fn queries<'a>(
                _isa: Isa,
                rows: impl Iterator<Item = &'a [f32]>,
                dim: usize,
                block: usize,
                scale: f32,
            ) -> Vec<f32> {
                let mut queries = vec![0.0; dim * block];
                transpose(rows, block, scale, &mut queries);
                queries
            }

            fn scores(
                isa: Isa,
                store: &KvStore<Self>,
                head: usize,
                span: &Span,
                queries: &Vec<f32>,
                block: usize,
                out: &mut Scores,
            ) {
                scores(isa, store, head, span, queries, block, out);
            }

            fn weigh(
                isa: Isa,
                store: &KvStore<Self>,
                head: usize,
                span: &Span,
                weights: &Scores,
                block: usize,
                sums: &mut [f32],
            ) {
                weigh(isa, store, head, span, weights, block, sums);
            }
        }
    )*};
}
float_elements! {
    u16: load_half store_half within_half,
    f32: load store as_is,
}

/// Rows transposed, `[head_dim][block]`, times `scale`; rows that are missing are zeros.
pub(super) fn transpose<'a>(rows: impl Iterator<Item = &'a [f32]>, block: usize, scale: f32, out: &mut [f32]) {
    out.fill(0.0);
    for (r, row) in rows.enumerate() {
        for (x, out) in row.iter().zip(out.chunks_exact_mut(block)) {
            out[r] = scale * x;
        }
    }
}

/// `scores[r][lane]` for every lane of the span's tiles: `queries`, transposed, `block` rows of them, times the keys of a head.
pub(super) fn scores<E: KvFloat>(
    isa: Isa,
    store: &KvStore<E>,
    head: usize,
    span: &Span,
    queries: &[f32],
    block: usize,
    scores: &mut Scores,
) {
    with_rows!(block, R => {
        // As many as there are registers for.
        const TILES: usize = if R > 6 { 2 } else { 4 };
        scores_of::<E, R, TILES>(isa, store, head, span, queries, scores)
    })
}

on_lanes! {
    fn scores_of<L>[E: KvFloat, const R: usize, const T: usize][E, R, T](
        l; store: &KvStore<E>, head: usize, span: &Span, queries: &[f32], scores: &mut Scores
    ) {
        let tiles = span.tiles();
        let mut tile = 0;
        if R * T + 2 <= L::REGISTERS {
            while tile + T <= tiles {
                score_tiles::<L, E, R, T>(l, store, head, span.tile + tile, queries, tile, scores);
                tile += T;
            }
        }
        while tile < tiles {
            score_tiles::<L, E, R, 1>(l, store, head, span.tile + tile, queries, tile, scores);
            tile += 1;
        }
    }
}

/// Scores of `T` tiles at once, so that a broadcast query element meets several vectors of keys.
#[inline(always)]
fn score_tiles<L: Lanes, E: KvFloat, const R: usize, const T: usize>(
    l: L,
    store: &KvStore<E>,
    head: usize,
    first: usize,
    queries: &[f32],
    at: usize,
    scores: &mut Scores,
) {
    let keys: [&[[E; WIDTH]]; T] = std::array::from_fn(|t| store.keys(first + t, head).as_chunks().0);
    let queries = &queries.as_chunks::<R>().0[..keys[0].len()];
    let mut sums = [[l.splat(0.0); T]; R];
    let keys: [&[[E; WIDTH]]; T] = std::array::from_fn(|t| &keys[t][..queries.len()]);
    for (i, query) in queries.iter().enumerate() {
        if R <= FEW {
            keys.iter()
                .for_each(|keys| fetch_ahead(&keys[i], AHEAD * WIDTH * queries.len()));
        }
        let keys: [L::Floats; T] = std::array::from_fn(|t| E::load(l, &keys[t][i]));
        for r in 0..R {
            let query = l.splat(query[r]);
            for t in 0..T {
                sums[r][t] = l.mul_add(query, keys[t], sums[r][t]);
            }
        }
    }
    for r in 0..R {
        let out = &mut scores[r].as_chunks_mut::<WIDTH>().0[at..];
        for t in 0..T {
            l.store(sums[r][t], &mut out[t]);
        }
    }
}

/// `sums[r]`, rows of `wide`, grow by the values of a head weighted with `weights[r]`, over every lane of the span's tiles.
pub(super) fn weigh<E: KvFloat>(
    isa: Isa,
    store: &KvStore<E>,
    head: usize,
    span: &Span,
    weights: &Scores,
    block: usize,
    sums: &mut [f32],
) {
    with_rows!(block, R => {
        const PARTS: usize = if R > 6 { 2 } else { 1 };
        for part in 0..PARTS {
            weigh_rows::<E, { R / PARTS }>(isa, store, head, span, weights, part * R / PARTS, sums);
        }
    })
}

on_lanes! {
    fn weigh_rows<L>[E: KvFloat, const R: usize][E, R](
        l; store: &KvStore<E>, head: usize, span: &Span, weights: &Scores, row: usize, sums: &mut [f32]
    ) {
        let vectors = store.wide() / WIDTH;
        let mut at = 0;
        if R * PART + 2 <= L::REGISTERS {
            while at + PART <= vectors {
                weigh_part::<L, E, R, PART>(l, store, head, span, weights, row, at, sums);
                at += PART;
            }
        }
        while at < vectors {
            weigh_part::<L, E, R, 1>(l, store, head, span, weights, row, at, sums);
            at += 1;
        }
    }
}

/// Vectors `at..at + C`, at most [`PART`], of rows `row..row + R`.
#[inline(always)]
fn weigh_part<L: Lanes, E: KvFloat, const R: usize, const C: usize>(
    l: L,
    store: &KvStore<E>,
    head: usize,
    span: &Span,
    weights: &Scores,
    row: usize,
    at: usize,
    sums: &mut [f32],
) {
    let wide = store.wide();
    let weights: &[[f32; KEYS]; R] = match weights[row..].first_chunk() {
        Some(weights) => weights,
        None => return,
    };
    let mut totals = [[l.splat(0.0); C]; R];
    for (r, totals) in totals.iter_mut().enumerate() {
        let row = &sums[(row + r) * wide..][..wide].as_chunks::<WIDTH>().0[at..at + C];
        for c in 0..C {
            totals[c] = l.load(&row[c]);
        }
    }
    for tile in 0..span.tiles() {
        let values = store.values(span.tile + tile, head);
        let weights: [&[f32; WIDTH]; R] = std::array::from_fn(|r| &weights[r].as_chunks().0[tile]);
        for lane in 0..WIDTH {
            let values = &values[lane * wide..][..wide].as_chunks::<WIDTH>().0[at..at + C];
            if R <= FEW {
                values.iter().for_each(|value| fetch_ahead(value, AHEAD * WIDTH * wide));
            }
            let values: [L::Floats; C] = std::array::from_fn(|c| E::load(l, &values[c]));
            for r in 0..R {
                let weight = l.splat(weights[r][lane]);
                for c in 0..C {
                    totals[r][c] = l.mul_add(weight, values[c], totals[r][c]);
                }
            }
        }
    }
    for (r, totals) in totals.iter().enumerate() {
        let row = &mut sums[(row + r) * wide..][..wide].as_chunks_mut::<WIDTH>().0[at..at + C];
        for c in 0..C {
            l.store(totals[c], &mut row[c]);
        }
    }
}

/// `sums`, tiles of `[head_dim][16]` one behind the other, grow by `rows`, transposed, `block` of them, each times
/// `weights[r][lane]`: what many rows give back to the keys of a span.
pub(super) fn scatter(isa: Isa, weights: &Scores, rows: &[f32], block: usize, sums: &mut [f32]) {
    with_rows!(block, R => scatter_of::<R>(isa, weights, rows, sums))
}

on_lanes! {
    fn scatter_of<L>[const R: usize][R](l; weights: &Scores, rows: &[f32], sums: &mut [f32]) {
        let (rows, sums) = (rows.as_chunks::<R>().0, sums.as_chunks_mut::<WIDTH>().0);
        let (mut tile, mut rest) = (0, sums);
        while !rest.is_empty() {
            let here = match L::REGISTERS >= 32 && rest.len() >= 2 * rows.len() {
                true => 2,
                false => 1,
            };
            let (sums, further) = rest.split_at_mut(here * rows.len());
            match here {
                2 => scatter_tiles::<L, R, 2>(l, weights, tile, rows, sums),
                _ => scatter_tiles::<L, R, 1>(l, weights, tile, rows, sums),
            }
            (tile, rest) = (tile + here, further);
        }
    }
}

/// `T` tiles at once: their weights stay in registers, and each sum is fetched and put back once for all rows.
#[inline(always)]
fn scatter_tiles<L: Lanes, const R: usize, const T: usize>(
    l: L,
    weights: &Scores,
    tile: usize,
    rows: &[[f32; R]],
    sums: &mut [[f32; WIDTH]],
) {
    let weights: [[L::Floats; T]; R] =
        std::array::from_fn(|r| std::array::from_fn(|t| l.load(&weights[r].as_chunks().0[tile + t])));
    let mut parts = sums.chunks_exact_mut(rows.len());
    let sums: [&mut [[f32; WIDTH]]; T] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    for (i, row) in rows.iter().enumerate() {
        let mut totals: [L::Floats; T] = std::array::from_fn(|t| l.load(&sums[t][i]));
        for r in 0..R {
            let x = l.splat(row[r]);
            for t in 0..T {
                totals[t] = l.mul_add(x, weights[r][t], totals[t]);
            }
        }
        for t in 0..T {
            l.store(totals[t], &mut sums[t][i]);
        }
    }
}
