//! The gradient of attention over a batch.
//!
//! Probabilities are recomputed from the scores and the forward's log-sum-exp `L` (`lse`):
//! `P = e^(S - L)`. With `dP = dO V^T` and `D = sum(dO * O)` (`delta`): `dS = P (dP - D)`,
//! `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. With a softcap, `S` and `L` are of capped scores, and
//! `dS` is multiplied by the softcap's derivative, `1 - (S / cap)^2`. Each group of keys owns its
//! rows of `dK` and `dV` and a partial `dQ`; the partials are added in the order of the groups, so
//! that no two threads add to the same element.

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
use crate::softcap::{capped_ratio, slope};
use crate::softmax;
use crate::team;

/// Deltas that a work chunk computes.
const DELTAS: usize = 256;
/// Maximum groups of keys. The query gradient has a partial for each visible group: in long
/// sequences, for half of the groups on average.
const MAX_GROUPS: usize = 8;

/// Inputs of both halves of the backward: the gradients of keys and values, and the gradients of
/// queries.
struct Backward<'a> {
    pass: Pass<'a, f32>,
    /// The pass's store with keys and values swapped.
    swapped: &'a KvStore<f32>,
    blocks: Vec<Block>,
    /// For each block, its scaled queries, then its output gradient, both transposed; shared by all
    /// spans.
    rows: Scratch<f32>,
    /// Stride between two blocks in `rows`.
    stride: usize,
    /// Log-sum-exp of each row, `[T, heads]`.
    lse: &'a [f32],
    /// Sum of output times its gradient, `[T, heads]`.
    delta: &'a [f32],
}

on_lanes! {
    /// Replaces a row's scores by its probabilities, and the probability gradients by score
    /// gradients.
    fn softmax_backward_in_place<L>(l; scores: &mut [f32], gradients: &mut [f32], lse: f32, delta: f32) {
        let (lse, delta) = (l.splat(lse), l.splat(delta));
        for (x, d) in scores.as_chunks_mut().0.iter_mut().zip(gradients.as_chunks_mut().0) {
            let p = exp(l, l.sub(l.load(x), lse));
            l.store(p, x);
            l.store(l.mul(p, l.sub(l.load(d), delta)), d);
        }
    }
}

on_lanes! {
    /// [`softmax_backward_in_place`] of scores before their softcap. It caps them as the forward,
    /// bit for bit, since their exponentials are relative to the forward's log-sum-exp.
    fn capped_softmax_backward_in_place<L>(
        l; scores: &mut [f32], gradients: &mut [f32], lse: f32, delta: f32, cap: f32
    ) {
        let (lse, delta, cap) = (l.splat(lse), l.splat(delta), l.splat(cap));
        for (x, d) in scores.as_chunks_mut().0.iter_mut().zip(gradients.as_chunks_mut().0) {
            let ratio = capped_ratio(l, l.load(x), cap);
            let p = exp(l, l.sub(l.mul(cap, ratio), lse));
            l.store(p, x);
            let capped_gradient = l.mul(p, l.sub(l.load(d), delta));
            l.store(l.mul(capped_gradient, slope(l, ratio)), d);
        }
    }
}

/// Probabilities and score gradients of one block over one span.
struct Scratchpad {
    probabilities: Scores,
    score_grads: Scores,
}

impl Scratchpad {
    /// Zeros.
    fn new() -> Self {
        Self {
            probabilities: [[0.0; KEYS]; ROWS],
            score_grads: [[0.0; KEYS]; ROWS],
        }
    }
}

impl Backward<'_> {
    /// The scaled queries of a block and its output gradient, transposed, `[head_dim, size]`, and
    /// `size`.
    fn rows(&self, block: usize) -> (&[f32], &[f32], usize) {
        let size = block_rows(self.blocks[block].rows.len());
        let length = self.pass.heads.head_dim * size;
        let (queries, d_out) = self.rows[block * self.stride..][..2 * length].split_at(length);
        (queries, d_out, size)
    }

    /// Computes the probabilities and score gradients of a block over a span of which a part is
    /// visible to it.
    fn score_grads(&self, isa: Isa, block_index: usize, span: &Span, scratchpad: &mut Scratchpad) {
        let (block, (queries, d_out, size)) = (&self.blocks[block_index], self.rows(block_index));
        let (head, lane_count) = (block.kv_head, span.tiles() * WIDTH);
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
            let (p, ds) = (
                &mut scratchpad.probabilities[r][..lane_count],
                &mut scratchpad.score_grads[r][..lane_count],
            );
            let (token, query_head) = self.pass.token_and_head(head, row);
            let index = token * self.pass.heads.heads + query_head;
            let (lse, delta) = (self.lse[index], self.delta[index]);
            match self.pass.heads.softcap {
                None => softmax_backward_in_place(isa, p, ds, lse, delta),
                Some(cap) => capped_softmax_backward_in_place(isa, p, ds, lse, delta, cap),
            }
            let lanes = self.pass.visible_lanes(head, row, span);
            for row in [p, ds] {
                row[..lanes.start].fill(0.0);
                row[lanes.end..].fill(0.0);
            }
        }
    }

    /// Writes the key and value gradients of a group of spans, and the partial query gradients of
    /// the group, unscaled: one for each block to which any of the keys is visible.
    fn write_group(
        &self,
        isa: Isa,
        kv_head: usize,
        spans: &[Span],
        query_grads: &QueryGrads,
        out: &team::Scattered<f32>,
    ) {
        let (heads, dim, value_width) = (self.pass.heads, self.pass.heads.head_dim, self.swapped.value_width());
        let (tile, tiles) = (dim * WIDTH, spans.iter().map(Span::tiles).sum::<usize>());
        let [mut keys, mut values] = [(); 2].map(|()| vec![0.0; tiles * tile]);
        let mut scratchpad = Scratchpad::new();
        for (block_index, block) in self
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.kv_head == kv_head)
        {
            let (queries, d_out, size) = self.rows(block_index);
            let mut partial = None;
            for span in spans.iter().filter_map(|span| self.pass.visible_part(block, span)) {
                let partial = partial.get_or_insert_with(|| {
                    // SAFETY: each group has its own partial for each block, and KV heads have
                    // different blocks.
                    let partial = unsafe { query_grads.partial(block_index) };
                    partial.fill(0.0);
                    partial
                });
                self.score_grads(isa, block_index, &span, &mut scratchpad);
                tiles::accumulate_values(
                    isa,
                    self.swapped,
                    kv_head,
                    &span,
                    &scratchpad.score_grads,
                    size,
                    &mut partial[..size * value_width],
                );
                let at = (span.tile - spans[0].tile) * tile..(span.tile - spans[0].tile + span.tiles()) * tile;
                tiles::accumulate_keys(isa, &scratchpad.score_grads, queries, size, &mut keys[at.clone()]);
                tiles::accumulate_keys(isa, &scratchpad.probabilities, d_out, size, &mut values[at]);
            }
        }
        for span in spans {
            for key in 0..span.count {
                let row = (span.first + key) * heads.qkv_width() + kv_head * dim;
                let lane = (span.tile - spans[0].tile) * WIDTH + span.skip + key;
                for (offset, sums) in [(heads.keys_offset(), &keys), (heads.values_offset(), &values)] {
                    // SAFETY: each key belongs to one span.
                    let out = unsafe { out.slice(row + offset, dim) };
                    let sums = sums[lane / WIDTH * tile..].iter().skip(lane % WIDTH).step_by(WIDTH);
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
                }
            }
        }
    }

    /// Writes the gradient of a block's queries: the sum of its partials.
    fn write_queries(
        &self,
        block_index: usize,
        groups: &[&[Span]],
        query_grads: &[QueryGrads],
        out: &team::Scattered<f32>,
    ) {
        let (heads, value_width, block) = (self.pass.heads, self.swapped.value_width(), &self.blocks[block_index]);
        let visible_groups = groups.iter().zip(query_grads).filter(|(spans, _)| {
            let mut visible = spans.iter().filter_map(|span| self.pass.visible_part(block, span));
            visible.next().is_some()
        });
        // SAFETY: all partials have been written, and each block reads its own.
        let partials: Vec<&[f32]> = visible_groups
            .map(|(_, query_grads)| &*unsafe { query_grads.partial(block_index) })
            .collect();
        for (r, row) in block.rows.clone().enumerate() {
            let (token, head) = self.pass.token_and_head(block.kv_head, row);
            // SAFETY: each query's row belongs to one block.
            let out = unsafe { out.slice(token * heads.qkv_width() + head * heads.head_dim, heads.head_dim) };
            out.fill(0.0);
            for partial in &partials {
                let partial = &partial[r * value_width..][..heads.head_dim];
                out.iter_mut().zip(partial).for_each(|(out, sum)| *out += sum);
            }
            out.iter_mut().for_each(|out| *out *= heads.scale);
        }
    }
}

/// The partial query gradients of a group: `stride` elements for each block.
struct QueryGrads<'a> {
    buffer: &'a team::Scattered<'a, f32>,
    first: usize,
    stride: usize,
}

impl QueryGrads<'_> {
    /// The partial of one block.
    ///
    /// # Safety
    /// No other reference to this block's partial exists.
    #[allow(clippy::mut_from_ref)] // As for `Scattered`.
    unsafe fn partial(&self, block: usize) -> &mut [f32] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.buffer.slice(self.first + block * self.stride, self.stride) }
    }
}

/// The gradient of [`super::attend_batch`] at `qkv` (normalized and rotated), from the results
/// `out` and `lse` of [`super::attend_batch_with_lse`] and the output gradient
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
    let store = KvStore::from_batch(heads, qkv, [heads.keys_offset(), heads.values_offset()]);
    let swapped = KvStore::from_batch(heads, qkv, [heads.values_offset(), heads.keys_offset()]);
    let visible_keys = |token: usize| heads.visible_keys(starts[token] as usize, token);
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
        visible_keys: &visible_keys,
    };
    let mut delta = vec![0.0; tokens * heads.heads];
    team::run_over(&mut delta, DELTAS, &|work_chunk, delta| {
        let [out, d_out] = [out, d_out].map(|x| x[work_chunk * DELTAS * dim..].chunks_exact(dim));
        for ((out, d_out), delta) in out.zip(d_out).zip(delta) {
            *delta = softmax::dot(isa, out, d_out);
        }
    });
    let blocks = pass.blocks();
    let stride = 2 * dim * block_rows(tokens * heads.group());
    let mut rows = Scratch::new(blocks.len() * stride);
    team::run_over(&mut rows, stride, &|block, out| {
        let Block { kv_head, rows, .. } = &blocks[block];
        let size = block_rows(rows.len());
        let (queries, block_d_out) = out[..2 * dim * size].split_at_mut(dim * size);
        let row_queries = rows.clone().map(|row| pass.query(*kv_head, row));
        tiles::transpose(row_queries, size, heads.scale, queries);
        let d_out_of = |row| {
            let (token, head) = pass.token_and_head(*kv_head, row);
            &d_out[(token * heads.heads + head) * dim..][..dim]
        };
        tiles::transpose(rows.clone().map(d_out_of), size, 1.0, block_d_out);
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
    let groups: Vec<&[Span]> = spans
        .spans
        .chunks(spans.spans.len().div_ceil(MAX_GROUPS).max(1))
        .collect();
    let stride = block_rows(tokens * heads.group()) * swapped.value_width();
    let mut buffer = Scratch::new(groups.len() * backward.blocks.len() * stride);
    let buffer = team::Scattered::new(&mut buffer);
    let query_grads = (0..groups.len()).map(|group| QueryGrads {
        buffer: &buffer,
        first: group * backward.blocks.len() * stride,
        stride,
    });
    let query_grads: Vec<QueryGrads> = query_grads.collect();
    let out = team::Scattered::new(d_qkv);
    // The first keys are visible to the most rows: start with them, so that threads finish
    // together.
    team::run(groups.len() * heads.kv_heads, &|work_chunk| {
        let (group, kv_head) = (work_chunk / heads.kv_heads, work_chunk % heads.kv_heads);
        backward.write_group(isa, kv_head, groups[group], &query_grads[group], &out);
    });
    team::run(backward.blocks.len(), &|block| {
        backward.write_queries(block, &groups, &query_grads, &out)
    });
    Ok(())
}
