//! The gradient of attention over a batch.
//!
//! Probabilities are made again from the scores and the logarithms `L` of the forward's sums: `P = e^(S - L)`. With
//! `dP = dO V^T` and `D = sum(dO * O)`: `dS = P (dP - D)`, `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. Groups of keys own their part
//! of `dK` and `dV` and have a part of `dQ` each; these are added up in the order of the groups, so no two threads add to one number.

use super::forward::{Block, Pass, check_logs, check_starts};
use super::heads::Heads;
use super::kv::KvStore;
use super::spans::{Span, Spans};
use super::tiles::{self, KEYS, ROWS, Scores, block_rows};
use crate::dot::Isa;
use crate::lanes::{WIDTH, exp, on_lanes};
use crate::scratch::Scratch;
use crate::shape::{self, ShapeError};
use crate::softmax;
use crate::team;

/// Means that a chunk makes.
const MEANS: usize = 256;
/// Groups of keys at most. The gradient of queries has a part for each that is seen: of long sequences half as many as there are groups.
const GROUPS: usize = 8;

/// What both halves of the backward read.
struct Backward<'a> {
    pass: Pass<'a, f32>,
    /// Values where the pass has keys, keys where it has values.
    exchanged: &'a KvStore<f32>,
    blocks: Vec<Block>,
    /// Of each block, the queries, scaled, and then the gradient of its output, both transposed: made once for all spans.
    rows: Scratch<f32>,
    /// How far apart the rows of blocks begin.
    apart: usize,
    /// The logarithm of each row's sum of exponentials, `[T, heads]`.
    logs: &'a [f32],
    /// The sum of output times its gradient, `[T, heads]`.
    means: &'a [f32],
}

on_lanes! {
    /// A row's scores become its probabilities, and the gradients of those become the gradients of the scores.
    fn slopes_of<L>(l; scores: &mut [f32], gradients: &mut [f32], log: f32, mean: f32) {
        let (log, mean) = (l.splat(log), l.splat(mean));
        for (x, d) in scores.as_chunks_mut().0.iter_mut().zip(gradients.as_chunks_mut().0) {
            let p = exp(l, l.sub(l.load(x), log));
            l.store(p, x);
            l.store(l.mul(p, l.sub(l.load(d), mean)), d);
        }
    }
}

/// What a block has come to over a span.
struct Room {
    probabilities: Scores,
    slopes: Scores,
}

impl Room {
    fn new() -> Self {
        Self {
            probabilities: [[0.0; KEYS]; ROWS],
            slopes: [[0.0; KEYS]; ROWS],
        }
    }
}

impl Backward<'_> {
    /// A block's scaled queries and the gradient of its output, transposed, `[head_dim, size]`, and their size.
    fn rows(&self, number: usize) -> (&[f32], &[f32], usize) {
        let size = block_rows(self.blocks[number].rows.len());
        let length = self.pass.heads.head_dim * size;
        let (queries, d_out) = self.rows[number * self.apart..][..2 * length].split_at(length);
        (queries, d_out, size)
    }

    /// Probabilities of a block over a span of which it sees something, and the gradient of its scores.
    fn slopes(&self, isa: Isa, number: usize, span: &Span, room: &mut Room) {
        let (block, (queries, d_out, size)) = (&self.blocks[number], self.rows(number));
        let (head, used) = (block.kv_head, span.tiles() * WIDTH);
        tiles::scores(isa, self.pass.store, head, span, queries, size, &mut room.probabilities);
        tiles::scores(isa, self.exchanged, head, span, d_out, size, &mut room.slopes);
        for (r, row) in block.rows.clone().enumerate() {
            let (p, s) = (&mut room.probabilities[r][..used], &mut room.slopes[r][..used]);
            let (token, query_head) = self.pass.of_row(head, row);
            let at = token * self.pass.heads.heads + query_head;
            slopes_of(isa, p, s, self.logs[at], self.means[at]);
            let lanes = self.pass.lanes(head, row, span);
            for part in [p, s] {
                part[..lanes.start].fill(0.0);
                part[lanes.end..].fill(0.0);
            }
        }
    }

    /// Writes the gradients of keys and values of a group of spans, and what its keys give to the gradient of queries, not scaled
    /// yet: for each block that sees any of them a part, block after block.
    fn group(&self, isa: Isa, kv_head: usize, spans: &[Span], parts: &Parts, out: &team::Scattered<f32>) {
        let (heads, dim, wide) = (self.pass.heads, self.pass.heads.head_dim, self.exchanged.wide());
        let (tile, tiles) = (dim * WIDTH, spans.iter().map(Span::tiles).sum::<usize>());
        let [mut keys, mut values] = [(); 2].map(|()| vec![0.0; tiles * tile]);
        let mut room = Room::new();
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
                    // SAFETY: each group has a part of its own for each block, and its heads have different blocks.
                    let part = unsafe { parts.of(number) };
                    part.fill(0.0);
                    part
                });
                self.slopes(isa, number, &span, &mut room);
                tiles::weigh(
                    isa,
                    self.exchanged,
                    kv_head,
                    &span,
                    &room.slopes,
                    size,
                    &mut part[..size * wide],
                );
                let at = (span.tile - spans[0].tile) * tile..(span.tile - spans[0].tile + span.tiles()) * tile;
                tiles::scatter(isa, &room.slopes, queries, size, &mut keys[at.clone()]);
                tiles::scatter(isa, &room.probabilities, d_out, size, &mut values[at]);
            }
        }
        for span in spans {
            for key in 0..span.count {
                let row = (span.first + key) * heads.qkv_width() + kv_head * dim;
                let lane = (span.tile - spans[0].tile) * WIDTH + span.skip + key;
                for (at, sums) in [(heads.keys_at(), &keys), (heads.values_at(), &values)] {
                    // SAFETY: each key is of one span.
                    let out = unsafe { out.slice(row + at, dim) };
                    let sums = sums[lane / WIDTH * tile..].iter().skip(lane % WIDTH).step_by(WIDTH);
                    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
                }
            }
        }
    }

    /// Writes the gradient of a block's queries: the sum of its parts.
    fn queries(&self, number: usize, groups: &[&[Span]], parts: &[Parts], out: &team::Scattered<f32>) {
        let (heads, wide, block) = (self.pass.heads, self.exchanged.wide(), &self.blocks[number]);
        let of_block = groups.iter().zip(parts).filter(|(spans, _)| {
            let mut seen = spans.iter().filter_map(|span| self.pass.seen(block, span));
            seen.next().is_some()
        });
        // SAFETY: all parts have been written, and each block reads its own.
        let parts: Vec<&[f32]> = of_block.map(|(_, parts)| &*unsafe { parts.of(number) }).collect();
        for (r, row) in block.rows.clone().enumerate() {
            let (token, head) = self.pass.of_row(block.kv_head, row);
            // SAFETY: each query's row is of one block.
            let out = unsafe { out.slice(token * heads.qkv_width() + head * heads.head_dim, heads.head_dim) };
            out.fill(0.0);
            for part in &parts {
                let part = &part[r * wide..][..heads.head_dim];
                out.iter_mut().zip(part).for_each(|(out, sum)| *out += sum);
            }
            out.iter_mut().for_each(|out| *out *= heads.scale);
        }
    }
}

/// A group's parts of the gradient of queries: `apart` numbers for each block.
struct Parts<'a> {
    all: &'a team::Scattered<'a, f32>,
    first: usize,
    apart: usize,
}

impl Parts<'_> {
    /// That of a block.
    ///
    /// # Safety
    /// Nobody else has it.
    #[allow(clippy::mut_from_ref)] // As of `Scattered`.
    unsafe fn of(&self, block: usize) -> &mut [f32] {
        // SAFETY: the caller's word.
        unsafe { self.all.slice(self.first + block * self.apart, self.apart) }
    }
}

/// The gradient of [`super::attend_batch`]: of prepared `qkv`, from what [`super::attend_batch_keeping`] gave, `out` and `logs`, and the
/// gradient of the output, `d_out [T, heads * head_dim]`. Every element of `d_qkv` is written.
///
/// # Errors
/// Where the sizes do not fit.
pub fn attend_batch_backward(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    [out, logs]: [&[f32]; 2],
    d_out: &[f32],
    d_qkv: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    check_starts(starts, tokens)?;
    let width = tokens.checked_mul(heads.out_width());
    shape::length("the output of attention", out.len(), width)?;
    shape::length("the gradient of attention", d_out.len(), width)?;
    check_logs(heads, tokens, logs)?;
    shape::length("the gradient of Q, K and V", d_qkv.len(), Some(qkv.len()))?;
    let (isa, dim) = (Isa::best(), heads.head_dim);
    let store = KvStore::of_batch(heads, qkv, [heads.keys_at(), heads.values_at()]);
    let exchanged = KvStore::of_batch(heads, qkv, [heads.values_at(), heads.keys_at()]);
    let sees = |token: usize| heads.sees(starts[token] as usize, token);
    let spans = Spans::in_order(tokens);
    let pass = Pass {
        heads,
        qkv,
        tokens,
        store: &store,
        spans: &spans,
        sees: &sees,
    };
    let mut means = vec![0.0; tokens * heads.heads];
    team::run_over(&mut means, MEANS, &|chunk, means| {
        let [out, d_out] = [out, d_out].map(|x| x[chunk * MEANS * dim..].chunks_exact(dim));
        for ((out, d_out), mean) in out.zip(d_out).zip(means) {
            *mean = softmax::product(isa, out, d_out);
        }
    });
    let blocks = pass.blocks();
    let apart = 2 * dim * block_rows(tokens * heads.group());
    let mut rows = Scratch::new(blocks.len() * apart);
    team::run_over(&mut rows, apart, &|number, out| {
        let Block { kv_head, rows } = &blocks[number];
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
        exchanged: &exchanged,
        blocks,
        rows,
        apart,
        logs,
        means: &means,
    };
    let groups: Vec<&[Span]> = spans.spans.chunks(spans.spans.len().div_ceil(GROUPS).max(1)).collect();
    let apart = block_rows(tokens * heads.group()) * exchanged.wide();
    let mut all = Scratch::new(groups.len() * backward.blocks.len() * apart);
    let all = team::Scattered::new(&mut all);
    let parts = (0..groups.len()).map(|group| Parts {
        all: &all,
        first: group * backward.blocks.len() * apart,
        apart,
    });
    let parts: Vec<Parts> = parts.collect();
    let out = team::Scattered::new(d_qkv);
    // The first keys are seen by most rows: what takes longest goes first, so that threads end together.
    team::run(groups.len() * heads.kv_heads, &|chunk| {
        let (group, kv_head) = (chunk / heads.kv_heads, chunk % heads.kv_heads);
        backward.group(isa, kv_head, groups[group], &parts[group], &out);
    });
    team::run(backward.blocks.len(), &|number| {
        backward.queries(number, &groups, &parts, &out)
    });
    Ok(())
}
