//! Attention microkernels over tiles of floats: scores, accumulation of values, and accumulation
//! into keys.

use super::block::{KEYS, ROWS, Scores, with_rows};
use super::kv::{KvElement, KvStore};
use super::spans::Span;
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes, prefetch};

/// Vectors of a value processed at once if there are enough registers.
pub(super) const VALUE_VECTORS: usize = 4;

/// Maximum rows of a block that is bound by memory. Larger blocks do not prefetch.
pub(super) const MEMORY_BOUND_ROWS: usize = 4;
/// Prefetch distance in tiles.
pub(super) const PREFETCH_TILES: usize = 8;

/// Float elements.
pub(super) trait KvFloat: KvElement {
    /// Loads sixteen elements as f32.
    fn load<L: Lanes>(l: L, x: &[Self; WIDTH]) -> L::Floats;
}

/// The largest finite f16.
const F16_MAX: f32 = 65_504.0;

/// Clamps to the finite range of f16: an infinity would also affect rows that do not see it, since
/// zero times infinity is NaN. NaN stays.
#[inline(always)]
fn clamp_to_f16<L: Lanes>(l: L, x: L::Floats) -> L::Floats {
    l.max(l.splat(-F16_MAX), l.min(l.splat(F16_MAX), x))
}

/// Returns `x`.
#[inline(always)]
fn identity<L: Lanes>(_: L, x: L::Floats) -> L::Floats {
    x
}

/// Implements float elements, given the methods that load and store them, and the function that is
/// applied before a store.
macro_rules! float_elements {
    ($($float:ty: $load:ident $store:ident $clamp:ident,)*) => {$(
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
                l.$store($clamp(l, x), out);
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

            fn accumulate_values(
                isa: Isa,
                store: &KvStore<Self>,
                head: usize,
                span: &Span,
                weights: &Scores,
                block: usize,
                sums: &mut [f32],
            ) {
                accumulate_values(isa, store, head, span, weights, block, sums);
            }
        }
    )*};
}
float_elements! {
    u16: load_f16 store_f16 clamp_to_f16,
    f32: load store identity,
}

/// Transposes rows to `[head_dim][block]`, times `scale`; missing rows are zeros.
pub(super) fn transpose<'a>(rows: impl Iterator<Item = &'a [f32]>, block: usize, scale: f32, out: &mut [f32]) {
    out.fill(0.0);
    for (r, row) in rows.enumerate() {
        for (x, out) in row.iter().zip(out.chunks_exact_mut(block)) {
            out[r] = scale * x;
        }
    }
}

/// Computes `scores[r][lane]` for every lane of the span's tiles: `block` transposed rows of
/// `queries` times the keys of a head.
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
        // Limited by the registers.
        const TILES: usize = if R > 6 { 2 } else { 4 };
        scores_of::<E, R, TILES>(isa, store, head, span, queries, scores)
    })
}

on_lanes! {
    /// [`scores`] of `R` rows, `T` tiles at a time.
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

/// Scores of `T` tiles from `first` on, so that a broadcast query element is reused for several
/// vectors of keys. Written to vectors `first_vector..first_vector + T` of each row.
#[inline(always)]
fn score_tiles<L: Lanes, E: KvFloat, const R: usize, const T: usize>(
    l: L,
    store: &KvStore<E>,
    head: usize,
    first: usize,
    queries: &[f32],
    first_vector: usize,
    scores: &mut Scores,
) {
    let keys: [&[[E; WIDTH]]; T] = std::array::from_fn(|t| store.keys(first + t, head).as_chunks().0);
    let queries = &queries.as_chunks::<R>().0[..keys[0].len()];
    let mut sums = [[l.splat(0.0); T]; R];
    let keys: [&[[E; WIDTH]]; T] = std::array::from_fn(|t| &keys[t][..queries.len()]);
    for (i, query) in queries.iter().enumerate() {
        if R <= MEMORY_BOUND_ROWS {
            keys.iter()
                .for_each(|keys| prefetch(&keys[i], PREFETCH_TILES * WIDTH * queries.len()));
        }
        let keys: [L::Floats; T] = std::array::from_fn(|t| E::load(l, &keys[t][i]));
        for r in 0..R {
            let query = l.splat(query[r]);
            for t in 0..T {
                sums[r][t] = l.fma(query, keys[t], sums[r][t]);
            }
        }
    }
    for r in 0..R {
        let out = &mut scores[r].as_chunks_mut::<WIDTH>().0[first_vector..];
        for t in 0..T {
            l.store(sums[r][t], &mut out[t]);
        }
    }
}

/// Adds the values of a head, weighted by `weights[r]`, to `sums[r]`, rows of `value_width`, over
/// every lane of the span's tiles.
pub(super) fn accumulate_values<E: KvFloat>(
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
            accumulate_values_of_rows::<E, { R / PARTS }>(isa, store, head, span, weights, part * R / PARTS, sums);
        }
    })
}

on_lanes! {
    /// [`accumulate_values`] of rows `row..row + R`.
    fn accumulate_values_of_rows<L>[E: KvFloat, const R: usize][E, R](
        l; store: &KvStore<E>, head: usize, span: &Span, weights: &Scores, row: usize, sums: &mut [f32]
    ) {
        let vectors = store.value_width() / WIDTH;
        let mut vector = 0;
        if R * VALUE_VECTORS + 2 <= L::REGISTERS {
            while vector + VALUE_VECTORS <= vectors {
                accumulate_values_of_part::<L, E, R, VALUE_VECTORS>(l, store, head, span, weights, row, vector, sums);
                vector += VALUE_VECTORS;
            }
        }
        while vector < vectors {
            accumulate_values_of_part::<L, E, R, 1>(l, store, head, span, weights, row, vector, sums);
            vector += 1;
        }
    }
}

/// [`accumulate_values`] of rows `row..row + R`, of vectors `first_vector..first_vector + C`, at
/// most [`VALUE_VECTORS`].
#[inline(always)]
fn accumulate_values_of_part<L: Lanes, E: KvFloat, const R: usize, const C: usize>(
    l: L,
    store: &KvStore<E>,
    head: usize,
    span: &Span,
    weights: &Scores,
    row: usize,
    first_vector: usize,
    sums: &mut [f32],
) {
    let value_width = store.value_width();
    let weights: &[[f32; KEYS]; R] = match weights[row..].first_chunk() {
        Some(weights) => weights,
        None => return,
    };
    let mut totals = [[l.splat(0.0); C]; R];
    for (r, totals) in totals.iter_mut().enumerate() {
        let row =
            &sums[(row + r) * value_width..][..value_width].as_chunks::<WIDTH>().0[first_vector..first_vector + C];
        for c in 0..C {
            totals[c] = l.load(&row[c]);
        }
    }
    for tile in 0..span.tiles() {
        let values = store.values(span.tile + tile, head);
        let weights: [&[f32; WIDTH]; R] = std::array::from_fn(|r| &weights[r].as_chunks().0[tile]);
        for lane in 0..WIDTH {
            let values =
                &values[lane * value_width..][..value_width].as_chunks::<WIDTH>().0[first_vector..first_vector + C];
            if R <= MEMORY_BOUND_ROWS {
                values
                    .iter()
                    .for_each(|value| prefetch(value, PREFETCH_TILES * WIDTH * value_width));
            }
            let values: [L::Floats; C] = std::array::from_fn(|c| E::load(l, &values[c]));
            for r in 0..R {
                let weight = l.splat(weights[r][lane]);
                for c in 0..C {
                    totals[r][c] = l.fma(weight, values[c], totals[r][c]);
                }
            }
        }
    }
    for (r, totals) in totals.iter().enumerate() {
        let row = &mut sums[(row + r) * value_width..][..value_width]
            .as_chunks_mut::<WIDTH>()
            .0[first_vector..first_vector + C];
        for c in 0..C {
            l.store(totals[c], &mut row[c]);
        }
    }
}

/// Adds `block` transposed `rows`, each times `weights[r][lane]`, to `sums`, contiguous tiles of
/// `[head_dim][16]`: the gradient of a span's keys or values.
pub(super) fn accumulate_keys(isa: Isa, weights: &Scores, rows: &[f32], block: usize, sums: &mut [f32]) {
    with_rows!(block, R => accumulate_keys_of::<R>(isa, weights, rows, sums))
}

on_lanes! {
    /// [`accumulate_keys`] of `R` rows.
    fn accumulate_keys_of<L>[const R: usize][R](l; weights: &Scores, rows: &[f32], sums: &mut [f32]) {
        let (rows, sums) = (rows.as_chunks::<R>().0, sums.as_chunks_mut::<WIDTH>().0);
        let (mut tile, mut rest) = (0, sums);
        while !rest.is_empty() {
            let count = if L::REGISTERS >= 32 && rest.len() >= 2 * rows.len() { 2 } else { 1 };
            let (sums, after) = rest.split_at_mut(count * rows.len());
            match count {
                2 => accumulate_key_tiles::<L, R, 2>(l, weights, tile, rows, sums),
                _ => accumulate_key_tiles::<L, R, 1>(l, weights, tile, rows, sums),
            }
            (tile, rest) = (tile + count, after);
        }
    }
}

/// [`accumulate_keys`] of `T` tiles at once: their weights stay in registers, and each sum is
/// loaded and stored once for all rows.
#[inline(always)]
fn accumulate_key_tiles<L: Lanes, const R: usize, const T: usize>(
    l: L,
    weights: &Scores,
    tile: usize,
    rows: &[[f32; R]],
    sums: &mut [[f32; WIDTH]],
) {
    let weights: [[L::Floats; T]; R] =
        std::array::from_fn(|r| std::array::from_fn(|t| l.load(&weights[r].as_chunks().0[tile + t])));
    let mut tiles = sums.chunks_exact_mut(rows.len());
    let sums: [&mut [[f32; WIDTH]]; T] = std::array::from_fn(|_| tiles.next().unwrap_or_default());
    for (i, row) in rows.iter().enumerate() {
        let mut totals: [L::Floats; T] = std::array::from_fn(|t| l.load(&sums[t][i]));
        for r in 0..R {
            let x = l.splat(row[r]);
            for t in 0..T {
                totals[t] = l.fma(x, weights[r][t], totals[t]);
            }
        }
        for t in 0..T {
            l.store(totals[t], &mut sums[t][i]);
        }
    }
}
