//! The gradient of attention over a batch.
//!
//! Probabilities are recomputed from the scores and the forward's log-sum-exp `L` (`lse`):
//! `P = e^(S - L)`. With `dP = dO V^T` and `D = sum(dO * O)` (`delta`): `dS = P (dP - D)`,
//! `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. Each group of keys owns its rows of `dK` and `dV` and
//! a partial `dQ`; the partials are added in the order of the groups, so that no two threads add to
//! the same element.

use super::block::{KEYS, ROWS, Scores, block_rows};
use super::forward::{Block, Pass, Sequence, check_lse, check_starts};
use super::heads::Heads;
use super::kv::KvStore;
use super::spans::{Span, Spans};
use super::tiles;
use crate::isa::Isa;
use crate::lanes::{WIDTH, exp, on_lanes};
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::softmax;
use crate::team;

/// Deltas that a chunk of work computes.
const DELTAS: usize = 256;
/// Maximum groups of keys. The query gradient has a partial for each visible group: on average half
/// of them in long sequences.
const GROUPS: usize = 8;

/// Inputs of both halves of the backward pass.
struct Backward<'a> {
    pass: Pass<'a, f32>,
    /// The pass's store with keys and values swapped.
    swapped: &'a KvStore<f32>,
    blocks: Vec<Block>,
    /// For each block: its scaled queries, then its output gradient, both transposed; shared by all
    /// spans.
    rows: Scratch<f32>,
    /// Stride between the rows of two blocks.
    stride: usize,
    /// Log-sum-exp of each row, `[T, heads]`.
    lse: &'a [f32],
    /// Sum of output times its gradient, `[T, heads]`.
    delta: &'a [f32],
}

on_lanes! {
    /// Replaces a row's scores by its probabilities, and the probability gradients by score
    /// gradients.
    fn score_grads_of<L>(l; scores: &mut [f32], gradients: &mut [f32], lse: f32, delta: f32) {
        let (lse, delta) = (l.splat(lse), l.splat(delta));
        for (x, d) in scores.as_chunks_mut().0.iter_mut().zip(gradients.as_chunks_mut().0) {
            let p = exp(l, l.sub(l.load(x), lse));
            l.store(p, x);
            l.store(l.mul(p, l.sub(l.load(d), delta)), d);
        }
    }
}

/// Probabilities and score gradients of one block over one span.
struct Scratchpad {
    probabilities: Scores,
    score_grads: Scores,
}

impl Scratchpad {
    fn new() -> Self {
        Self {
            probabilities: [[0.0; KEYS]; ROWS],
            score_grads: [[0.0; KEYS]; ROWS],
        }
    }
}

impl Backward<'_> {
    /// A block's scaled queries and its output gradient, transposed, `[head_dim, size]`, and
    /// `size`.
    fn rows(&self, number: usize) -> (&[f32], &[f32], usize) {
        let size = block_rows(self.blocks[number].rows.len());
        let length = self.pass.heads.head_dim * size;
        let (queries, d_out) = self.rows[number * self.stride..][..2 * length].split_at(length);
        (queries, d_out, size)
    }

    /// Computes a block's probabilities and score gradients over a span it can at least partly see.
    fn score_grads(&self, isa: Isa, number: usize, span: &Span, scratchpad: &mut Scratchpad) {
        let (block, (queries, d_out, size)) = (&self.blocks[number], self.rows(number));
        let (head, used) = (block.kv_head, span.tiles() * WIDTH);
        tiles::scores(
            isa,
            self.pass.store,
            head,
            span,
            queries,
            size,
            &mut scratchpad.probabilities,
        );
        tiles::scores(isa, self.swapped, head, span, d_out, size, &mut scratchpad.score_grads);
        for (r, row) in block.rows.clone().enumerate() {
            let (p, s) = (
                &mut scratchpad.probabilities[r][..used],
                &mut scratchpad.score_grads[r][..used],
            );
            let (token, query_head) = self.pass.of_row(head, row);
            let at = token * self.pass.heads.heads + query_head;
            score_grads_of(isa, p, s, self.lse[at], self.delta[at]);
            let lanes = self.pass.lanes(head, row, span);
            for part in [p, s] {
                part[..lanes.start].fill(0.0);
                part[lanes.end..].fill(0.0);
            }
        }
    }

    /// Writes the key and value gradients of a group of spans, and the group's partial query
    /// gradients, unscaled: one per block that sees any of the keys, block after block.
    fn group(&self, isa: Isa, kv_head: usize, spans: &[Span], parts: &QueryGrads, out: &team::Scattered<f32>) {
        let (heads, dim, value_width) = (self.pass.heads, self.pass.heads.head_dim, self.swapped.value_width());
        let (tile, tiles) = (dim * WIDTH, spans.iter().map(Span::tiles).sum::<usize>());
        let [mut keys, mut values] = [(); 2].map(|()| vec![0.0; tiles * tile]);
        let mut scratchpad = Scratchpad::new();
        for (number, block) in self
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.kv_head == kv_head)
        {
            let (queries, d_out, size) = self.rows(number);
            let mut part = None;
            for span in spans.iter().filter_map(|span| self.pass.seen(block, span)) {
                let part = part.get_or_insert_with(|| {
                    // SAFETY: each group has its own partial for each block, and its heads have
                    // different blocks.
                    let part = unsafe { parts.part(number) };
                    part.fill(0.0);
                    part
                });
                self.score_grads(isa, number, &span, &mut scratchpad);
                tiles::accumulate_values(
                    isa,
                    self.swapped,
                    kv_head,
                    &span,
                    &scratchpad.score_grads,
                    size,
                    &mut part[..size * value_width],
                );
                let at = (span.tile - spans[0].tile) * tile..(span.tile - spans[0].tile + span.tiles()) * tile;
                tiles::scatter_keys(isa, &scratchpad.score_grads, queries, size, &mut keys[at.clone()]);
                tiles::scatter_keys(isa, &scratchpad.probabilities, d_out, size, &mut values[at]);
            }
        }
        for span in spans {
            for key in 0..span.count {
                let row = (span.first + key) * heads.qkv_width() + kv_head * dim;
                let lane = (span.tile - spans[0].tile) * WIDTH + span.skip + key;
                for (at, sums) in [(heads.keys_at(), &keys), (heads.values_at(), &values)] {
                    // SAFETY: each key belongs to one span.
                    let out = unsafe { out.slice(row + at, dim) };
                    let sums = sums[lane / WIDTH * tile..].iter().skip(lane % WIDTH).step_by(WIDTH);
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
                }
            }
        }
    }

    /// Writes the gradient of a block's queries: the sum of its partials.
    fn queries(&self, number: usize, groups: &[&[Span]], parts: &[QueryGrads], out: &team::Scattered<f32>) {
        let (heads, value_width, block) = (self.pass.heads, self.swapped.value_width(), &self.blocks[number]);
        let of_block = groups.iter().zip(parts).filter(|(spans, _)| {
            let mut seen = spans.iter().filter_map(|span| self.pass.seen(block, span));
            seen.next().is_some()
        });
        // SAFETY: all partials have been written, and each block reads its own.
        let parts: Vec<&[f32]> = of_block.map(|(_, parts)| &*unsafe { parts.part(number) }).collect();
        for (r, row) in block.rows.clone().enumerate() {
            let (token, head) = self.pass.of_row(block.kv_head, row);
            // SAFETY: each query's row belongs to one block.
            let out = unsafe { out.slice(token * heads.qkv_width() + head * heads.head_dim, heads.head_dim) };
            out.fill(0.0);
            for part in &parts {
                let part = &part[r * value_width..][..heads.head_dim];
                out.iter_mut().zip(part).for_each(|(out, sum)| *out += sum);
            }
            out.iter_mut().for_each(|out| *out *= heads.scale);
        }
    }
}

/// A group's partial query gradients: `stride` elements for each block.
struct QueryGrads<'a> {
    all: &'a team::Scattered<'a, f32>,
    first: usize,
    stride: usize,
}

impl QueryGrads<'_> {
    /// The partial of one block.
    ///
    /// # Safety
    /// No other reference to this block's partial exists.
    #[allow(clippy::mut_from_ref)] // As for `Scattered`.
    unsafe fn part(&self, block: usize) -> &mut [f32] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.all.slice(self.first + block * self.stride, self.stride) }
    }
}

/// The gradient of [`super::attend_batch`] at `qkv` (normalized and rotated), from the results of
/// [`super::attend_batch_with_lse`], `out` and `lse`, and the output gradient
/// `d_out [T, heads * head_dim]`. Writes every element of `d_qkv`.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn attend_batch_backward(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    [out, lse]: [&[f32]; 2],
    d_out: &[f32],
    d_qkv: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    check_starts(starts, tokens)?;
    let width = tokens.checked_mul(heads.out_width());
    shape::length("the output of attention", out.len(), width)?;
    shape::length("the gradient of attention", d_out.len(), width)?;
    check_lse(heads, tokens, lse)?;
    shape::length("the gradient of Q, K and V", d_qkv.len(), Some(qkv.len()))?;
    let (isa, dim) = (Isa::best(), heads.head_dim);
    let store = KvStore::of_batch(heads, qkv, [heads.keys_at(), heads.values_at()]);
    let swapped = KvStore::of_batch(heads, qkv, [heads.values_at(), heads.keys_at()]);
    let sees = |token: usize| heads.sees(starts[token] as usize, token);
    let spans = Spans::in_order(tokens);
    let sequences = [Sequence {
        tokens: 0..tokens,
        spans: &spans,
    }];
    let pass = Pass {
        heads,
        qkv,
        store: &store,
        sequences: &sequences,
        sees: &sees,
    };
    let mut delta = vec![0.0; tokens * heads.heads];
    team::run_over(&mut delta, DELTAS, &|chunk, delta| {
        let [out, d_out] = [out, d_out].map(|x| x[chunk * DELTAS * dim..].chunks_exact(dim));
        for ((out, d_out), delta) in out.zip(d_out).zip(delta) {
            *delta = softmax::dot(isa, out, d_out);
        }
    });
    let blocks = pass.blocks();
    let stride = 2 * dim * block_rows(tokens * heads.group());
    let mut rows = Scratch::new(blocks.len() * stride);
    team::run_over(&mut rows, stride, &|number, out| {
        let Block { kv_head, rows, .. } = &blocks[number];
        let size = block_rows(rows.len());
        let (queries, to) = out[..2 * dim * size].split_at_mut(dim * size);
        let of_rows = rows.clone().map(|row| pass.query(*kv_head, row));
        tiles::transpose(of_rows, size, heads.scale, queries);
        let d_out_of = |row| {
            let (token, head) = pass.of_row(*kv_head, row);
            &d_out[(token * heads.heads + head) * dim..][..dim]
        };
        tiles::transpose(rows.clone().map(d_out_of), size, 1.0, to);
    });
    let backward = Backward {
        pass,
        swapped: &swapped,
        blocks,
        rows,
        stride,
        lse,
        delta: &delta,
    };
    let groups: Vec<&[Span]> = spans.spans.chunks(spans.spans.len().div_ceil(GROUPS).max(1)).collect();
    let stride = block_rows(tokens * heads.group()) * swapped.value_width();
    let mut all = Scratch::new(groups.len() * backward.blocks.len() * stride);
    let all = team::Scattered::new(&mut all);
    let parts = (0..groups.len()).map(|group| QueryGrads {
        all: &all,
        first: group * backward.blocks.len() * stride,
        stride,
    });
    let parts: Vec<QueryGrads> = parts.collect();
    let out = team::Scattered::new(d_qkv);
    // Most rows see the first keys: start with the longest chunks, so that threads finish together.
    team::run(groups.len() * heads.kv_heads, &|chunk| {
        let (group, kv_head) = (chunk / heads.kv_heads, chunk % heads.kv_heads);
        backward.group(isa, kv_head, groups[group], &parts[group], &out);
    });
    team::run(backward.blocks.len(), &|number| {
        backward.queries(number, &groups, &parts, &out)
    });
    Ok(())
}
