//! Attention over a KV cache and over a batch against f64, and its gradient against central
//! differences.

use crate::reference::{self, assert_near, central_differences, noise, wide};
use hearth_kernels::attention::*;
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::{Norm, ShapeError};

fn shape(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 2.0 / (head_dim as f32).sqrt(),
        softcap: None,
        window,
    }
}

/// The shape with a softcap near the size of its scores.
fn capped(shape: Heads) -> Heads {
    Heads {
        softcap: Some(1.5),
        ..shape
    }
}

/// Groups of one, some and many heads; head dimensions that are and are not whole vectors; with
/// and without a softcap.
fn shapes() -> [Heads; 8] {
    [
        shape(1, 1, 16, None),
        shape(9, 3, 64, None),
        shape(9, 3, 64, Some(5)),
        shape(4, 4, 8, None),
        shape(14, 2, 24, Some(130)),
        shape(16, 1, 80, None),
        shape(2, 1, 128, Some(1)),
        capped(shape(6, 2, 40, Some(130))),
    ]
}

/// Random rows of Q, K and V.
fn qkv(seed: u64, shape: Heads, tokens: usize) -> Vec<f32> {
    noise(seed, tokens * (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
}

/// The starts of concatenated sequences of these lengths.
fn starts(lengths: &[u32]) -> Vec<u32> {
    let first_tokens = lengths
        .iter()
        .scan(0, |next, length| Some(std::mem::replace(next, *next + length)));
    first_tokens
        .zip(lengths)
        .flat_map(|(first, length)| vec![first; *length as usize])
        .collect()
}

#[test]
fn a_batch_attends_to_itself() {
    for shape in shapes() {
        for lengths in [&[1][..], &[3, 1, 7], &[150, 20], &[300]] {
            let starts = starts(lengths);
            let qkv = qkv(1, shape, starts.len());
            let mut out = vec![f32::NAN; starts.len() * shape.heads * shape.head_dim];
            attend_batch(&qkv, &shape, &starts, &mut out).unwrap();
            assert_near(
                &format!("{shape:?} {lengths:?}"),
                &out,
                &reference::attend(&wide(&qkv), &shape, &starts),
                2e-6,
            );
        }
    }
}

/// Each token sees its sequence, or half a window on either side.
#[test]
fn a_batch_without_a_causal_mask_attends_both_ways() {
    for shape in shapes() {
        for lengths in [&[1][..], &[3, 1, 7], &[150, 20], &[300]] {
            let starts = starts(lengths);
            let tokens = starts.len();
            let ends: Vec<u32> = (0..tokens)
                .map(|token| {
                    (token + 1..tokens)
                        .find(|next| starts[*next] != starts[token])
                        .unwrap_or(tokens) as u32
                })
                .collect();
            let qkv = qkv(1, shape, tokens);
            let mut out = vec![f32::NAN; tokens * shape.out_width()];
            attend_batch_both_ways(&qkv, &shape, &starts, &ends, &mut out).unwrap();
            let half = shape.window.map_or(tokens, |window| window / 2);
            let visible = (0..tokens).map(|token| {
                let end = (ends[token] as usize).min(token + half + 1);
                (starts[token] as usize).max(token.saturating_sub(half))..end
            });
            let expected = reference::attend_to(&wide(&qkv), &shape, visible);
            assert_near(&format!("{shape:?} {lengths:?}"), &out, &expected, 2e-6);
            let mut invalid_ends = ends.clone();
            invalid_ends[tokens - 1] = tokens as u32 + 1;
            assert!(attend_batch_both_ways(&qkv, &shape, &starts, &invalid_ends, &mut out).is_err());
            invalid_ends[tokens - 1] = tokens as u32 - 1;
            assert!(attend_batch_both_ways(&qkv, &shape, &starts, &invalid_ends, &mut out).is_err());
        }
    }
}

/// A sequence in a cache: the rows of Q, K and V of all its tokens, and the pages of its cells.
struct Cached<'a> {
    qkv: &'a [f32],
    pages: &'a [u32],
    /// Tokens in the cache.
    length: usize,
}

impl Cached<'_> {
    /// Writes the next tokens' keys and values, and returns their rows of Q, K and V.
    fn write(&mut self, layer: &mut KvLayer, shape: Heads, tokens: usize) -> &[f32] {
        let width = shape.qkv_width();
        let positions = self.length..self.length + tokens;
        let batch = &self.qkv[positions.start * width..positions.end * width];
        let cell = |position: usize| self.pages[position / PAGE] * PAGE as u32 + (position % PAGE) as u32;
        let cells: Vec<u32> = positions.map(cell).collect();
        layer.write(&shape, &cells, batch).unwrap();
        self.length += tokens;
        batch
    }

    fn spans(&self) -> Spans {
        Spans::of_pages(0, self.pages, self.length)
    }
}

/// A layer of `pages` pages whose cells and scales are NaN, as the previous sequence of a page may
/// leave them.
fn unwritten(format: KvFormat, shape: Heads, pages: u32) -> KvLayer {
    let mut layer = KvLayer::new(format, pages as usize * PAGE, shape.kv_heads, shape.head_dim);
    for tile in layer.tiles_mut(0..pages as usize * PAGE / KvLayer::TILE).unwrap() {
        tile.fill(0xff);
    }
    layer
}

/// Attention through a cache with these pages, in steps of these numbers of tokens.
fn attend_through_cache(format: KvFormat, shape: Heads, qkv: &[f32], pages: &[u32], steps: &[usize]) -> Vec<f32> {
    let mut layer = unwritten(format, shape, pages.iter().max().map_or(0, |page| page + 1));
    let mut sequence = Cached { qkv, pages, length: 0 };
    let mut out = Vec::new();
    for &rows in steps {
        let batch = sequence.write(&mut layer, shape, rows).to_vec();
        let spans = &sequence.spans();
        let mut step_out = vec![f32::NAN; rows * shape.out_width()];
        attend(&batch, &shape, &layer, &[CachedRows { rows, spans }], &mut step_out).unwrap();
        out.extend(step_out);
    }
    out
}

#[test]
fn a_cache_matches_the_batch_with_pages_in_any_order() {
    let tokens = 300;
    let odd_shapes = [
        shape(4, 2, 6, None),
        shape(3, 1, 10, Some(7)),
        shape(2, 2, 33, None),
        capped(shape(2, 2, 33, None)),
    ];
    let (skip, step) = if reference::is_emulated() { (1, 3) } else { (0, 1) };
    for shape in shapes().into_iter().chain(odd_shapes).skip(skip).step_by(step) {
        let qkv = qkv(2, shape, tokens);
        let attend = |qkv: &[f32]| reference::attend(&wide(qkv), &shape, &vec![0; tokens]);
        let exact = attend(&qkv);
        // Besides the rounding of the format, sums are rounded, and with 8-bit caches queries and
        // weights, to 16 bits.
        for (format, tolerance, format_error) in [(KvFormat::F16, 3e-6, 1e-3), (KvFormat::Q8_0, 5e-5, 2e-2)] {
            let expected = attend(&reference::cached(&qkv, &shape, format));
            for steps in [&[280, 1, 1, 2, 3, 13][..], &[1, 2, 297]] {
                let actual = attend_through_cache(format, shape, &qkv, &[0, 1, 2], steps);
                let case = format!("{format:?} {shape:?} {steps:?}");
                assert_near(&case, &actual, &expected, tolerance);
                assert_near(&case, &actual, &exact, format_error);
                for pages in [[3, 4, 5], [2, 1, 0], [4, 0, 7]] {
                    let permuted = attend_through_cache(format, shape, &qkv, &pages, steps);
                    assert!(permuted == actual, "{case} {pages:?}");
                }
            }
        }
    }
}

/// One call has decode rows and chunks of prompts, some of them over pages that another sequence
/// also reads.
#[test]
fn sequences_of_a_batch_have_the_bits_they_have_alone() {
    let lengths_and_rows = [(300, 1), (5, 5), (260, 130), (700, 1), (129, 2)];
    for shape in [
        shape(9, 3, 64, None),
        capped(shape(4, 2, 24, Some(100))),
        shape(2, 2, 33, Some(1)),
    ] {
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            for count in 1..=lengths_and_rows.len() {
                let sequences = &lengths_and_rows[..count];
                let inputs: Vec<Vec<f32>> = (20..)
                    .zip(sequences)
                    .map(|(seed, (length, _))| qkv(seed, shape, *length))
                    .collect();
                let pages: Vec<Vec<u32>> = (0..count as u32)
                    .map(|index| (0..6).map(|page| page * 5 + index).collect())
                    .collect();
                let mut layer = unwritten(format, shape, 30);
                let (mut batch, mut all_spans, mut expected) = (Vec::new(), Vec::new(), Vec::new());
                for ((qkv, pages), &(length, rows)) in inputs.iter().zip(&pages).zip(sequences) {
                    let mut sequence = Cached { qkv, pages, length: 0 };
                    sequence.write(&mut layer, shape, length - rows);
                    let last = sequence.write(&mut layer, shape, rows).to_vec();
                    let sequence_spans = sequence.spans();
                    let mut out = vec![f32::NAN; rows * shape.out_width()];
                    let spans = &sequence_spans;
                    attend(&last, &shape, &layer, &[CachedRows { rows, spans }], &mut out).unwrap();
                    expected.extend(out);
                    batch.extend(last);
                    all_spans.push(sequence_spans);
                }
                let rows: Vec<CachedRows> = all_spans
                    .iter()
                    .zip(sequences)
                    .map(|(spans, (_, rows))| CachedRows { rows: *rows, spans })
                    .collect();
                let mut out = vec![f32::NAN; expected.len()];
                attend(&batch, &shape, &layer, &rows, &mut out).unwrap();
                assert!(out == expected, "{count} sequences, {format:?} {shape:?}");
            }
        }
    }
}

/// A NaN in the key or the value of a token reaches the tokens that see it, and no other tokens,
/// even of the same tile and step.
#[test]
fn a_nan_in_the_cache_reaches_only_rows_that_see_it() {
    const TOKENS: usize = 40;
    const NAN_TOKEN: usize = 21;
    let shapes = [
        shape(4, 2, 24, None),
        shape(2, 2, 64, Some(5)),
        shape(3, 1, 33, None),
        capped(shape(4, 2, 24, None)),
    ];
    for shape in shapes {
        let clean = qkv(30, shape, TOKENS);
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            let expected = attend_through_cache(format, shape, &clean, &[0], &[20, 20]);
            let keys = shape.out_width();
            let values = keys + shape.kv_heads * shape.head_dim;
            for element in [keys, values + shape.head_dim - 1] {
                let mut with_nan = clean.clone();
                with_nan[NAN_TOKEN * shape.qkv_width() + element] = f32::NAN;
                let actual = attend_through_cache(format, shape, &with_nan, &[0], &[20, 20]);
                let rows = actual.chunks(shape.out_width()).zip(expected.chunks(shape.out_width()));
                for (token, (actual, expected)) in rows.enumerate() {
                    let case = format!("token {token}, {format:?} {shape:?} {element}");
                    let group = shape.out_width() / shape.kv_heads;
                    let sees_nan = (NAN_TOKEN..NAN_TOKEN + shape.window.unwrap_or(TOKENS)).contains(&token);
                    // The NaN is in the first KV head.
                    assert!(actual[group..] == expected[group..], "{case}");
                    if sees_nan {
                        assert!(actual[..group].iter().all(|x| x.is_nan()), "{case}")
                    } else {
                        assert!(actual[..group] == expected[..group], "{case}")
                    }
                }
            }
        }
    }
}

/// A sequence needs only the pages that its last rows see.
#[test]
fn pages_behind_the_window_are_not_needed() {
    let (tokens, rows) = (700, 3);
    let shape = shape(6, 2, 40, Some(200));
    let qkv = qkv(21, shape, tokens);
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        let pages = [3, 0, 5, 1, 4, 2];
        let mut layer = unwritten(format, shape, 6);
        let mut sequence = Cached {
            qkv: &qkv,
            pages: &pages,
            length: 0,
        };
        sequence.write(&mut layer, shape, tokens - rows);
        let last = sequence.write(&mut layer, shape, rows).to_vec();
        let attend_from = |first: usize| {
            let spans = &Spans::of_pages(first, &pages[first..], tokens);
            let mut out = vec![f32::NAN; rows * shape.out_width()];
            attend(&last, &shape, &layer, &[CachedRows { rows, spans }], &mut out).map(|()| out)
        };
        let expected = attend_from(0).unwrap();
        // The first row sees positions 498 to 697, so pages 3 to 5.
        for first in 1..=3 {
            assert!(attend_from(first).unwrap() == expected, "{format:?} from page {first}");
        }
        assert!(matches!(attend_from(4), Err(ShapeError::Index { .. })));
        let spans = &Spans::of_pages(0, &pages[..5], tokens);
        let mut out = vec![0.0; rows * shape.out_width()];
        assert!(attend(&last, &shape, &layer, &[CachedRows { rows, spans }], &mut out).is_err());
    }
}

#[test]
fn a_copied_page_has_the_cells_of_its_source() {
    let shape = shape(4, 2, 33, None);
    let qkv = qkv(22, shape, 200);
    for format in [KvFormat::F16, KvFormat::Q8_0] {
        let mut layer = unwritten(format, shape, 4);
        let mut sequence = Cached {
            qkv: &qkv,
            pages: &[1, 2],
            length: 0,
        };
        sequence.write(&mut layer, shape, 199);
        let before = layer.clone();
        layer.copy_page(2, 3).unwrap();
        let tiles = |layer: &KvLayer, page: usize| {
            let page_tiles = PAGE / KvLayer::TILE;
            layer
                .tiles(page * page_tiles..(page + 1) * page_tiles)
                .unwrap()
                .concat()
        };
        assert_eq!(tiles(&layer, 3), tiles(&before, 2));
        assert!((0..3).all(|page| tiles(&layer, page) == tiles(&before, page)));
        let last = sequence.write(&mut layer, shape, 1).to_vec();
        let attend_in = |pages: &[u32], layer: &KvLayer| {
            let spans = &Spans::of_pages(0, pages, 199);
            let mut out = vec![f32::NAN; shape.out_width()];
            attend(&last, &shape, layer, &[CachedRows { rows: 1, spans }], &mut out).unwrap();
            out
        };
        assert_eq!(attend_in(&[1, 3], &layer), attend_in(&[1, 2], &before));
        assert!(layer.copy_page(4, 0).is_err() && layer.copy_page(0, u32::MAX).is_err());
    }
}

#[test]
fn tiles_copied_to_another_cache_give_the_same_attention() {
    let (copied, tokens) = (2 * KvLayer::TILE, 2 * KvLayer::TILE + 5);
    let cells: Vec<u32> = (0..tokens as u32).collect();
    for shape in [shape(9, 3, 64, Some(20)), shape(2, 2, 33, None)] {
        let qkv = qkv(14, shape, tokens);
        let (first, last) = qkv.split_at(qkv.len() / tokens * copied);
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            let [mut source, mut target] =
                [300, tokens].map(|cells| KvLayer::new(format, cells, shape.kv_heads, shape.head_dim));
            // Cells after the tiles must not be affected.
            source.write(&shape, &cells, &noise(15, qkv.len())).unwrap();
            source.write(&shape, &cells[..copied], first).unwrap();
            for tiles in [1..2, 0..1] {
                let target_tiles = target.tiles_mut(tiles.clone()).unwrap().into_iter();
                for (target, source) in target_tiles.zip(source.tiles(tiles).unwrap()) {
                    target.copy_from_slice(source);
                }
            }
            let [expected, actual] = [&mut source, &mut target].map(|layer| {
                layer.write(&shape, &cells[copied..], last).unwrap();
                let mut out = vec![f32::NAN; (tokens - copied) * shape.heads * shape.head_dim];
                let spans = &Spans::in_order(tokens);
                let rows = tokens - copied;
                attend(last, &shape, layer, &[CachedRows { rows, spans }], &mut out).unwrap();
                out
            });
            assert_eq!(actual, expected, "{format:?} {shape:?}");
            assert!(
                matches!(target.tiles(2..4), Err(ShapeError::Index { .. })) && target.tiles_mut(0..usize::MAX).is_err()
            );
        }
    }
}

/// Blocks of zeros, of values too small for a scale, and with one value among far smaller ones.
#[test]
fn blocks_in_8_bits_are_as_precise_as_their_scale() {
    let shape = shape(1, 1, 40, None);
    for sizes in [[0.0, 0.0], [1e-9, 1e-6], [1e-5, 1e-5], [1e-5, 3e-3], [1e-4, 1e6]] {
        let mut qkv = qkv(13, shape, 2);
        for (i, x) in qkv.iter_mut().skip(40).enumerate() {
            *x *= sizes[usize::from(i % 7 == 0)];
        }
        // A zero query gives both keys the same weight.
        qkv[..40].fill(0.0);
        qkv[120..160].fill(0.0);
        let cached = wide(&reference::cached(&qkv, &shape, KvFormat::Q8_0));
        let magnitudes: Vec<f64> = cached.iter().map(|x| x.abs()).collect();
        let [expected, magnitude_sums] = [&cached, &magnitudes].map(|qkv| reference::attend(qkv, &shape, &[0, 0]));
        let actual = attend_through_cache(KvFormat::Q8_0, shape, &qkv, &[1], &[2]);
        for ((actual, expected), magnitude_sums) in actual.iter().zip(&expected).zip(&magnitude_sums) {
            assert!(
                (f64::from(*actual) - expected).abs() <= 5e-5 * magnitude_sums,
                "{sizes:?}: {actual} {expected}"
            );
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let shape = Heads {
        scale: 100.0,
        ..shape(2, 1, 16, None)
    };
    let qkv: Vec<f32> = qkv(3, shape, 40).iter().map(|x| 20.0 * x).collect();
    let mut out = vec![f32::NAN; 40 * 32];
    attend_batch(&qkv, &shape, &[0; 40], &mut out).unwrap();
    assert_near(
        "large scores",
        &out,
        &reference::attend(&wide(&qkv), &shape, &[0; 40]),
        5e-3,
    );
}

/// Scores far beyond the cap, up to 1e37, become the cap with their sign, and the gradient through
/// them is zero.
#[test]
fn a_softcap_bounds_scores_of_any_size() {
    let shape = Heads {
        scale: 1.0,
        ..capped(shape(2, 1, 16, None))
    };
    let mut qkv = qkv(3, shape, 40);
    // Only queries and keys: gradients of huge values overflow.
    for row in qkv.chunks_mut(shape.qkv_width()) {
        row[..48].iter_mut().for_each(|x| *x *= 1e18);
    }
    let starts = [0; 40];
    let mut out = vec![f32::NAN; 40 * 32];
    attend_batch(&qkv, &shape, &starts, &mut out).unwrap();
    let expected = reference::attend(&wide(&qkv), &shape, &starts);
    assert_near("capped scores", &out, &expected, 2e-6);
    let gradient = backward(&qkv, shape, &starts, &noise(4, out.len()));
    for row in gradient.chunks(shape.qkv_width()) {
        let (through_scores, values) = row.split_at(48);
        assert!(through_scores.iter().all(|x| *x == 0.0), "{through_scores:?}");
        assert!(values.iter().all(|x| x.is_finite()));
    }
}

/// Runs attention and returns the gradient of Q, K and V.
fn backward(qkv: &[f32], shape: Heads, starts: &[u32], d_out: &[f32]) -> Vec<f32> {
    let [mut out, mut without_lse] = [(); 2].map(|()| vec![f32::NAN; d_out.len()]);
    let (mut lse, mut actual) = (vec![f32::NAN; starts.len() * shape.heads], vec![f32::NAN; qkv.len()]);
    attend_batch_with_lse(qkv, &shape, starts, &mut out, &mut lse).unwrap();
    attend_batch(qkv, &shape, starts, &mut without_lse).unwrap();
    assert_eq!(out, without_lse, "saving lse must not change the output");
    attend_batch_backward(qkv, &shape, starts, [&out, &lse], d_out, &mut actual).unwrap();
    actual
}

#[test]
fn the_gradient_matches_central_differences() {
    let shapes = [
        shape(1, 1, 4, None),
        shape(6, 2, 8, None),
        shape(3, 1, 18, Some(3)),
        capped(shape(3, 1, 18, None)),
    ];
    for shape in shapes {
        for lengths in [&[1][..], &[4, 1, 6], &[17]] {
            let starts = starts(lengths);
            let qkv = qkv(4, shape, starts.len());
            let d_out = noise(5, starts.len() * shape.heads * shape.head_dim);
            let expected = central_differences(&wide(&qkv), &wide(&d_out), |qkv| {
                reference::attend(qkv, &shape, &starts)
            });
            let actual = backward(&qkv, shape, &starts, &d_out);
            assert_near(&format!("{shape:?} {lengths:?}"), &actual, &expected, 5e-6);
        }
    }
}

/// The gradient of attention from the formulas, for sizes at which central differences take too
/// long.
fn gradient(qkv: &[f64], shape: Heads, starts: &[u32], d_out: &[f64]) -> Vec<f64> {
    let (heads, kv_heads, dim, scale) = (shape.heads, shape.kv_heads, shape.head_dim, f64::from(shape.scale));
    let width = (heads + 2 * kv_heads) * dim;
    let mut gradient = vec![0.0; qkv.len()];
    for (token, start) in starts.iter().enumerate() {
        let first = (*start as usize).max(shape.window.map_or(0, |window| (token + 1).saturating_sub(window)));
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let (q, d_out) = (
                token * width + head * dim,
                &d_out[(token * heads + head) * dim..][..dim],
            );
            let k = |key: usize| key * width + (heads + kv) * dim;
            let v = |key: usize| key * width + (heads + kv_heads + kv) * dim;
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let scores: Vec<f64> = (first..=token)
                .map(|key| scale * dot(&qkv[q..q + dim], &qkv[k(key)..k(key) + dim]))
                .collect();
            let cap = shape.softcap.map(f64::from);
            let scores = cap.map_or(scores.clone(), |cap| reference::softcapped(&scores, cap));
            let slope = |score: f64| cap.map_or(1.0, |cap| 1.0 - (score / cap).powi(2));
            let p = reference::softmax(&scores);
            let dp: Vec<f64> = (first..=token)
                .map(|key| dot(d_out, &qkv[v(key)..v(key) + dim]))
                .collect();
            let delta = dot(&p, &dp);
            for (((key, p), dp), score) in (first..=token).zip(&p).zip(&dp).zip(&scores) {
                let ds = scale * p * (dp - delta) * slope(*score);
                for i in 0..dim {
                    gradient[v(key) + i] += p * d_out[i];
                    gradient[q + i] += ds * qkv[k(key) + i];
                    gradient[k(key) + i] += ds * qkv[q + i];
                }
            }
        }
    }
    gradient
}

#[test]
fn the_gradient_of_long_sequences_matches_the_formulas() {
    for (shape, lengths) in [
        (shape(9, 3, 64, None), &[200, 70][..]),
        (shape(14, 2, 24, Some(100)), &[200, 70]),
        // Several spans in a group of keys.
        (shape(2, 1, 4, None), &[900, 500]),
        (capped(shape(4, 2, 24, None)), &[200, 70]),
    ] {
        let starts = starts(lengths);
        let qkv = qkv(6, shape, starts.len());
        let d_out = noise(7, starts.len() * shape.heads * shape.head_dim);
        let actual = backward(&qkv, shape, &starts, &d_out);
        assert_near(
            &format!("{shape:?}"),
            &actual,
            &gradient(&wide(&qkv), shape, &starts, &wide(&d_out)),
            5e-6,
        );
    }
}

/// Parameters with and without each change, the same in f32 and in f64. Q of the first token has
/// the factor 1, since its position is below the length of the temperature.
fn changes<'a>(rope: &'a Rope, norms: &'a [Norm<'a>; 4]) -> Vec<(QkNormRope<'a>, reference::QkNormRope)> {
    let [q_head, k_head, q_all, k_all] = norms.map(Some);
    let temperature = Some(Temperature { scale: 0.3, length: 5 });
    let (head, all) = (QkNormWidth::Head, QkNormWidth::AllHeads);
    let mut changes = Vec::new();
    for (norms, norm_width, rope, temperature) in [
        ([q_head, k_head], head, Some(rope), None),
        ([None, None], head, Some(rope), temperature),
        ([q_head, None], head, None, temperature),
        ([q_all, k_all], all, Some(rope), None),
        ([None, k_all], all, Some(rope), temperature),
        ([None, None], all, None, None),
    ] {
        let plain = reference::Rotation::plain(Pairing::Halves, 6, 10_000.0);
        let expected = reference::QkNormRope {
            norms: norms.map(|norm| norm.map(|norm| wide(norm.weight))),
            eps: f64::from(EPS),
            rotation: rope.map(|rope| reference::Rotation {
                magnitude: f64::from(rope.magnitude()),
                ..plain
            }),
            temperature,
        };
        let actual = QkNormRope {
            norms,
            norm_width,
            rope,
            temperature,
        };
        changes.push((actual, expected));
    }
    changes
}

const EPS: f32 = 1e-3;

#[test]
fn qk_norm_rope_and_its_gradient_match_f64() {
    let shape = shape(6, 2, 8, None);
    let positions = [0, 5, 300];
    let weights = [8, 8, 48, 16].map(|length| noise(8 + length as u64, length));
    let norms = weights.each_ref().map(|weight| Norm { weight, eps: EPS });
    let frequencies = reference::Rotation::plain(Pairing::Halves, 6, 10_000.0).frequencies;
    for magnitude in [1.0, 0.75] {
        let rope = Rope::new(Pairing::Halves, &frequencies, magnitude);
        for (number, (args, reference_args)) in changes(&rope, &norms).iter().enumerate() {
            let forward = |qkv: &[f64]| reference::qk_norm_rope(qkv, &shape, &positions, reference_args);
            let qkv = qkv(10, shape, 3);
            let mut actual = qkv.clone();
            qk_norm_rope_in_place(&mut actual, &shape, &positions, args).unwrap();
            let case = format!("change {number}, magnitude {magnitude}");
            assert_near(&case, &actual, &forward(&wide(&qkv)), 1e-6);
            let mut gradient = noise(11, qkv.len());
            let expected = central_differences(&wide(&qkv), &wide(&gradient), forward);
            qk_norm_rope_backward_in_place(&mut gradient, &qkv, &shape, &positions, args).unwrap();
            assert_near(&format!("gradient of {case}"), &gradient, &expected, 5e-6);
        }
    }
}

#[test]
fn neutral_changes_of_q_and_k_keep_every_bit() {
    let shape = shape(3, 1, 8, None);
    let (positions, qkv) = ([0, 7, 70_000, 1 << 21], qkv(13, shape, 4));
    let run = |args: &QkNormRope| {
        let mut actual = qkv.clone();
        qk_norm_rope_in_place(&mut actual, &shape, &positions, args).unwrap();
        actual.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(run(&QkNormRope::default()), bits(&qkv));
    let rope = Rope::plain(Pairing::Interleaved, 8, 10_000.0);
    let rotated = QkNormRope {
        rope: Some(&rope),
        ..QkNormRope::default()
    };
    for (scale, length) in [(0.0, 1), (0.0, 0), (9.0, u32::MAX)] {
        let temperature = Some(Temperature { scale, length });
        assert_eq!(
            run(&QkNormRope { temperature, ..rotated }),
            run(&rotated),
            "{temperature:?}"
        );
    }
    // K and V have no temperature.
    let temperature = Some(Temperature { scale: 0.5, length: 3 });
    let (warm, cold) = (run(&QkNormRope { temperature, ..rotated }), run(&rotated));
    for (token, (warm, cold)) in warm.chunks(40).zip(cold.chunks(40)).enumerate() {
        assert_eq!(warm[24..], cold[24..], "token {token}");
        assert_eq!(warm[..24] == cold[..24], token == 0, "token {token}");
    }
}

#[test]
fn norms_of_q_and_k_must_have_their_width() {
    let shape = shape(6, 2, 8, None);
    let weights = [8, 16, 48].map(|length| vec![1.0; length]);
    let [head, k_all, q_all] = weights.each_ref().map(|weight| Some(Norm { weight, eps: EPS }));
    for (norm_width, norms, is_valid) in [
        (QkNormWidth::Head, [head, head], true),
        (QkNormWidth::Head, [q_all, head], false),
        (QkNormWidth::Head, [head, k_all], false),
        (QkNormWidth::AllHeads, [q_all, k_all], true),
        (QkNormWidth::AllHeads, [q_all, None], true),
        (QkNormWidth::AllHeads, [head, k_all], false),
        (QkNormWidth::AllHeads, [q_all, head], false),
    ] {
        let args = QkNormRope {
            norms,
            norm_width,
            ..QkNormRope::default()
        };
        let (mut x, gradient) = (qkv(14, shape, 2), qkv(15, shape, 2));
        let forward = qk_norm_rope_in_place(&mut x, &shape, &[0, 1], &args);
        let backward = qk_norm_rope_backward_in_place(&mut x, &gradient, &shape, &[0, 1], &args);
        assert_eq!((forward.is_ok(), backward.is_ok()), (is_valid, is_valid), "{args:?}");
        assert!(qk_norm_rope_in_place(&mut x, &shape, &[0], &args).is_err());
    }
}

#[test]
fn mismatched_sizes_are_errors() {
    let shape = shape(4, 2, 8, None);
    let (heads, qkv) = (shape, qkv(12, shape, 3));
    let mut layer = KvLayer::new(KvFormat::F16, 4, 2, 8);
    assert!(matches!(
        layer.write(&heads, &[0, 1, 4], &qkv),
        Err(ShapeError::Index { index: 4, count: 4, .. })
    ));
    assert!(matches!(
        layer.write(&heads, &[0, 1], &qkv),
        Err(ShapeError::Length { .. })
    ));
    assert!(
        KvLayer::new(KvFormat::F16, 4, 1, 8)
            .write(&heads, &[0, 1, 2], &qkv)
            .is_err()
    );
    let mut out = vec![0.0; 3 * 32];
    for (spans, rows) in [
        (Spans::of_pages(0, &[1], 3), 3),
        (Spans::in_order(2), 3),
        (Spans::in_order(4), 2),
        (Spans::in_order(5), 3),
    ] {
        assert!(attend(&qkv, &heads, &layer, &[CachedRows { rows, spans: &spans }], &mut out).is_err());
    }
    assert!(attend_batch(&qkv, &heads, &[0, 1, 3], &mut out).is_err());
    assert!(attend_batch(&qkv, &Heads { kv_heads: 0, ..heads }, &[0, 0, 0], &mut out).is_err());
    assert!(attend_batch(&qkv, &Heads { kv_heads: 3, ..heads }, &[0, 0, 0], &mut out).is_err());
}
