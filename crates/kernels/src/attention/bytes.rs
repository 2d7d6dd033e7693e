//! Attention microkernels over tiles of int8 keys and values, in integer arithmetic.
//!
//! Bytes are widened to 16 bits and multiplied in pairs, twice as many per instruction as floats.
//! Queries and weights are therefore quantized to 16 bits too, to multiples of 1/32767 of their
//! maximum, which is far finer than the stored values. Scales are applied to sums, not to the
//! summands.

use super::block::{KEYS, ROWS, Scores, with_rows};
use super::kv::{BLOCK, I8_MAX, KvElement, KvStore};
use super::spans::Span;
use super::tiles::{MEMORY_BOUND_ROWS, PREFETCH_TILES, VALUE_VECTORS};
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes, prefetch};

/// Maximum quantized query or weight.
const I16_MAX: f32 = 32767.0;
/// Tiles processed at once.
const TILES: usize = KEYS / WIDTH;
/// Vectors of a block of elements that share a scale.
const VECTORS: usize = BLOCK / WIDTH;
/// Blocks of elements in [`VALUE_VECTORS`] vectors.
const BLOCKS: usize = VALUE_VECTORS / VECTORS;

/// A block of query rows in 16 bits, in pairs of elements.
pub(super) struct Queries {
    /// `[head_dim / 2][block]`; missing rows are zeros.
    pairs: Vec<[i16; 2]>,
    /// Scale of each row.
    scales: [f32; ROWS],
}

impl KvElement for i8 {
    const SCALED: bool = true;
    const INTERLEAVE: usize = 2;
    type Queries = Queries;

    #[inline(always)]
    fn store<L: Lanes>(l: L, x: L::Floats, out: &mut [i8; WIDTH]) {
        // The rounding error of a subnormal f16 scale may be large.
        let clamped = l.min(l.max(x, l.splat(-I8_MAX)), l.splat(I8_MAX));
        l.store_i8(l.round(clamped), out);
    }

    fn queries<'a>(isa: Isa, rows: impl Iterator<Item = &'a [f32]>, dim: usize, block: usize, scale: f32) -> Queries {
        let (mut pairs, mut scales) = (vec![[0; 2]; dim.div_ceil(2) * block], [0.0; ROWS]);
        let mut padded = vec![[0.0; WIDTH]; dim.div_ceil(WIDTH)];
        let mut quantized = vec![[0; WIDTH]; padded.len()];
        for (r, row) in rows.enumerate() {
            padded.as_flattened_mut()[..dim].copy_from_slice(row);
            scales[r] = scale * row_to_i16(isa, &padded, &mut quantized);
            let row = quantized.as_flattened().as_chunks().0;
            for (pair, out) in row.iter().zip(pairs.chunks_exact_mut(block)) {
                out[r] = *pair;
            }
        }
        Queries { pairs, scales }
    }

    fn scores(
        isa: Isa,
        store: &KvStore<i8>,
        head: usize,
        span: &Span,
        queries: &Queries,
        block: usize,
        scores: &mut Scores,
    ) {
        with_rows!(block, R => {
            // Limited by the registers.
            const AT_ONCE: usize = if R > 6 { 2 } else { 4 };
            scores_of::<R, AT_ONCE>(isa, store, head, span, queries, scores)
        })
    }

    fn accumulate_values(
        isa: Isa,
        store: &KvStore<i8>,
        head: usize,
        span: &Span,
        weights: &Scores,
        block: usize,
        sums: &mut [f32],
    ) {
        with_rows!(block, R => {
            const PARTS: usize = if R > 6 { 2 } else { 1 };
            for part in 0..PARTS {
                accumulate_values_of_rows::<{ R / PARTS }>(isa, store, head, span, weights, part * R / PARTS, sums);
            }
        })
    }
}

/// The factor that quantizes values of magnitude up to `max` to 16 bits, and the scale that
/// dequantizes them.
fn i16_factor_and_scale(max: f32) -> (f32, f32) {
    let factor = I16_MAX / max;
    // The factor overflows if `max` is zero or almost zero.
    (if factor.is_finite() { factor } else { 0.0 }, max / I16_MAX)
}

on_lanes! {
    /// Quantizes whole vectors to 16 bits and returns their scale.
    fn row_to_i16<L>(l; row: &[[f32; WIDTH]], out: &mut [[i16; WIDTH]]) -> f32 {
        let max = row.iter().fold(l.splat(0.0), |max, x| {
            let x = l.load(x);
            l.max(max, l.max(x, l.sub(l.splat(0.0), x)))
        });
        let (factor, scale) = i16_factor_and_scale(l.reduce_max(max));
        for (x, out) in row.iter().zip(out) {
            l.store_i16(l.mul(l.load(x), l.splat(factor)), out);
        }
        scale
    }
}

on_lanes! {
    /// Scores of `R` rows, `T` tiles at a time.
    fn scores_of<L>[const R: usize, const T: usize][R, T](
        l; store: &KvStore<i8>, head: usize, span: &Span, queries: &Queries, scores: &mut Scores
    ) {
        let tiles = span.tiles();
        let mut tile = 0;
        if R * T + 2 <= L::REGISTERS {
            while tile + T <= tiles {
                score_tiles::<L, R, T>(l, store, head, span.tile + tile, queries, tile, scores);
                tile += T;
            }
        }
        while tile < tiles {
            score_tiles::<L, R, 1>(l, store, head, span.tile + tile, queries, tile, scores);
            tile += 1;
        }
    }
}

/// Scores of `T` tiles from `first` on, so that a broadcast query pair is reused for several
/// vectors of keys. Written to vectors `first_vector..first_vector + T` of each row.
#[inline(always)]
fn score_tiles<L: Lanes, const R: usize, const T: usize>(
    l: L,
    store: &KvStore<i8>,
    head: usize,
    first: usize,
    queries: &Queries,
    first_vector: usize,
    scores: &mut Scores,
) {
    let pairs = queries.pairs.as_chunks::<R>().0;
    let keys: [&[[[i8; 2]; WIDTH]]; T] =
        std::array::from_fn(|t| &store.keys(first + t, head).as_chunks().0.as_chunks().0[..pairs.len()]);
    let mut sums = [[l.splat(0.0); T]; R];
    for (block, pairs) in pairs.chunks(BLOCK / 2).enumerate() {
        let keys: [&[[[i8; 2]; WIDTH]]; T] = std::array::from_fn(|t| &keys[t][block * BLOCK / 2..][..pairs.len()]);
        let mut products = [[l.zero_i32(); T]; R];
        for (i, query) in pairs.iter().enumerate() {
            if R <= MEMORY_BOUND_ROWS {
                keys.iter()
                    .for_each(|keys| prefetch(&keys[i], PREFETCH_TILES * WIDTH * queries.pairs.len() / R));
            }
            let keys: [L::Pairs; T] = std::array::from_fn(|t| l.load_i8_pairs(&keys[t][i]));
            for r in 0..R {
                let query = l.splat_i16_pair(query[r]);
                for t in 0..T {
                    products[r][t] = l.dot_i16_add(query, keys[t], products[r][t]);
                }
            }
        }
        let scales: [L::Floats; T] = std::array::from_fn(|t| l.load_f16(&store.key_scales(first + t, head)[block]));
        for r in 0..R {
            for t in 0..T {
                sums[r][t] = l.fma(l.cvt_i32_f32(products[r][t]), scales[t], sums[r][t]);
            }
        }
    }
    for r in 0..R {
        let out = &mut scores[r].as_chunks_mut::<WIDTH>().0[first_vector..];
        for t in 0..T {
            l.store(l.mul(sums[r][t], l.splat(queries.scales[r])), &mut out[t]);
        }
    }
}

/// Weights of `R` rows, multiplied by the scales of some blocks of values, in 16 bits, in pairs of
/// lanes.
struct ScaledWeights<const R: usize> {
    pairs: [[[[i16; 2]; KEYS / 2]; R]; BLOCKS],
    /// Scale of each row.
    scales: [[f32; R]; BLOCKS],
}

on_lanes! {
    /// Accumulates the values for rows `row..row + R`.
    fn accumulate_values_of_rows<L>[const R: usize][R](
        l; store: &KvStore<i8>, head: usize, span: &Span, weights: &Scores, row: usize, sums: &mut [f32]
    ) {
        let vectors = store.value_width() / WIDTH;
        let mut scaled = ScaledWeights::<R> {
            pairs: [[[[0; 2]; KEYS / 2]; R]; BLOCKS],
            scales: [[0.0; R]; BLOCKS],
        };
        for first in (0..vectors).step_by(VALUE_VECTORS) {
            let count = VALUE_VECTORS.min(vectors - first);
            for block in 0..count.div_ceil(VECTORS) {
                scale_weights(l, store, head, span, &weights[row..], first / VECTORS + block, block, &mut scaled);
            }
            let mut v = 0;
            while v < count {
                let sums = &mut sums[row * store.value_width()..];
                let fits = |vectors| count - v >= vectors && R * vectors + 2 <= L::REGISTERS;
                if fits(VALUE_VECTORS) {
                    accumulate_values_of_part::<L, R, VALUE_VECTORS>(l, store, head, span, &scaled, [first, v], sums);
                    v += VALUE_VECTORS;
                } else if fits(VECTORS) {
                    accumulate_values_of_part::<L, R, VECTORS>(l, store, head, span, &scaled, [first, v], sums);
                    v += VECTORS;
                } else {
                    accumulate_values_of_part::<L, R, 1>(l, store, head, span, &scaled, [first, v], sums);
                    v += 1;
                }
            }
        }
    }
}

/// Multiplies each weight by the scale of block `block` of its value, and quantizes it to 16 bits.
/// Writes the result to index `out_block` of `scaled`.
#[inline(always)]
fn scale_weights<L: Lanes, const R: usize>(
    l: L,
    store: &KvStore<i8>,
    head: usize,
    span: &Span,
    weights: &[[f32; KEYS]],
    block: usize,
    out_block: usize,
    scaled: &mut ScaledWeights<R>,
) {
    let tiles = span.tiles();
    let mut scales = [[0.0; WIDTH]; TILES];
    for (tile, out) in scales[..tiles].iter_mut().enumerate() {
        l.store(l.load_f16(&store.value_scales(span.tile + tile, head)[block]), out);
    }
    for r in 0..R {
        let weights = weights[r].as_chunks::<WIDTH>().0;
        let products: [L::Floats; TILES] = std::array::from_fn(|tile| {
            if tile < tiles {
                l.mul(l.load(&weights[tile]), l.load(&scales[tile]))
            } else {
                l.splat(0.0)
            }
        });
        let max = products.into_iter().fold(l.splat(0.0), |max, x| l.max(max, x));
        let (factor, scale) = i16_factor_and_scale(l.reduce_max(max));
        let out = scaled.pairs[out_block][r].as_flattened_mut().as_chunks_mut().0;
        for (x, out) in products.into_iter().zip(out) {
            l.store_i16(l.mul(x, l.splat(factor)), out);
        }
        scaled.scales[out_block][r] = scale;
    }
}

/// Accumulates vectors `first + v..first + v + C` of `R` rows of sums; `weights` start at vector
/// `first`.
#[inline(always)]
fn accumulate_values_of_part<L: Lanes, const R: usize, const C: usize>(
    l: L,
    store: &KvStore<i8>,
    head: usize,
    span: &Span,
    weights: &ScaledWeights<R>,
    [first, v]: [usize; 2],
    sums: &mut [f32],
) {
    let value_width = store.value_width();
    let (pairs, scales) = (&weights.pairs[v / VECTORS..], &weights.scales[v / VECTORS..]);
    let (pairs, scales) = (&pairs[..C.div_ceil(VECTORS)], &scales[..C.div_ceil(VECTORS)]);
    let mut products = [[l.zero_i32(); C]; R];
    for tile in 0..span.tiles() {
        let values = store.values(span.tile + tile, head).as_chunks::<2>().0;
        for (i, values) in values.chunks_exact(value_width).enumerate() {
            let values = &values.as_chunks::<WIDTH>().0[first + v..][..C];
            if R <= MEMORY_BOUND_ROWS {
                values
                    .iter()
                    .for_each(|value| prefetch(value, PREFETCH_TILES * WIDTH / 2 * value_width));
            }
            let values: [L::Pairs; C] = std::array::from_fn(|c| l.load_i8_pairs(&values[c]));
            for r in 0..R {
                for c in 0..C {
                    let weight = l.splat_i16_pair(pairs[c / VECTORS][r][tile * WIDTH / 2 + i]);
                    products[r][c] = l.dot_i16_add(weight, values[c], products[r][c]);
                }
            }
        }
    }
    for r in 0..R {
        let row = &mut sums[r * value_width..][..value_width].as_chunks_mut::<WIDTH>().0[first + v..][..C];
        for c in 0..C {
            let scale = l.splat(scales[c / VECTORS][r]);
            let sum = l.fma(l.cvt_i32_f32(products[r][c]), scale, l.load(&row[c]));
            l.store(sum, &mut row[c]);
        }
    }
}
