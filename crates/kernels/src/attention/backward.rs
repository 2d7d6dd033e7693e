//! The gradient of attention over a batch.
//!
//! Probabilities are made again from the scores and the logarithms `L` of the forward's sums: `P = e^(S - L)`. With
//! `dP = dO V^T` and `D = sum(dO * O)`: `dS = P (dP - D)`, `dQ = dS K`, `dK = dS^T Q`, `dV = P^T dO`. Query blocks own their part
//! of `dQ`, blocks of keys theirs of `dK` and `dV`, so no two threads add to one number.

use super::forward::{self, Block, Pass, check_starts, store_batch};
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

    /// Writes the gradient of a block's queries.
    fn queries(&self, isa: Isa, number: usize, out: &team::Scattered<f32>) {
        let (heads, wide, block) = (self.pass.heads, self.exchanged.wide(), &self.blocks[number]);
        let size = block_rows(block.rows.len());
        let (mut room, mut sums) = (Room::new(), vec![0.0; size * wide]);
        for span in self.pass.spans.iter().filter_map(|span| self.pass.seen(block, span)) {
            self.slopes(isa, number, &span, &mut room);
            tiles::weigh(isa, self.exchanged, block.kv_head, &span, &room.slopes, size, &mut sums);
        }
        for (row, sums) in block.rows.clone().zip(sums.chunks_exact(wide)) {
            let (token, head) = self.pass.of_row(block.kv_head, row);
            // SAFETY: each query's row is of one block.
            let out = unsafe { out.slice(token * heads.qkv_width() + head * heads.head_dim, heads.head_dim) };
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = heads.scale * sum);
        }
    }

    /// Writes the gradients of a span's keys and values.
    fn keys_and_values(&self, isa: Isa, kv_head: usize, whole: &Span, out: &team::Scattered<f32>) {
        let (heads, dim) = (self.pass.heads, self.pass.heads.head_dim);
        let (tile, used) = (dim * WIDTH, whole.tiles() * dim * WIDTH);
        let (mut room, mut keys, mut values) = (Room::new(), vec![0.0; used], vec![0.0; used]);
        for (number, block) in self.blocks.iter().enumerate() {
            if block.kv_head != kv_head {
                continue;
            }
            let Some(span) = self.pass.seen(block, whole) else {
                continue;
            };
            self.slopes(isa, number, &span, &mut room);
            let (queries, d_out, size) = self.rows(number);
            let (first, seen) = ((span.tile - whole.tile) * tile, span.tiles() * tile);
            tiles::scatter(isa, &room.slopes, queries, size, &mut keys[first..][..seen]);
            tiles::scatter(isa, &room.probabilities, d_out, size, &mut values[first..][..seen]);
        }
        for key in 0..whole.count {
            let row = (whole.first + key) * heads.qkv_width() + kv_head * dim;
            let lane = whole.skip + key;
            for (at, sums) in [(heads.keys_at(), &keys), (heads.values_at(), &values)] {
                // SAFETY: each key is of one span.
                let out = unsafe { out.slice(row + at, dim) };
                let sums = sums[lane / WIDTH * tile..].iter().skip(lane % WIDTH).step_by(WIDTH);
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
            }
        }
    }
}

/// The gradient of [`super::attend_batch`]: of prepared `qkv`, from that of the output, `d_out [T, heads * head_dim]`. Every
/// element of `d_qkv` is written.
///
/// # Errors
/// Where the sizes do not fit.
pub fn attend_batch_backward(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    d_out: &[f32],
    d_qkv: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    check_starts(starts, tokens)?;
    shape::length(
        "the gradient of attention",
        d_out.len(),
        tokens.checked_mul(heads.out_width()),
    )?;
    shape::length("the gradient of Q, K and V", d_qkv.len(), Some(qkv.len()))?;
    let (isa, dim) = (Isa::best(), heads.head_dim);
    let store = store_batch(heads, qkv, tokens, [heads.keys_at(), heads.values_at()]);
    let exchanged = store_batch(heads, qkv, tokens, [heads.values_at(), heads.keys_at()]);
    let sees = |token: usize| heads.sees(starts[token] as usize, token);
    let spans = Spans::in_order(tokens);
    let pass = Pass {
        heads,
        qkv,
        tokens,
        store: &store,
        spans: &spans.spans,
        sees: &sees,
    };
    let mut out = Scratch::new(d_out.len());
    let (mut logs, mut means) = (vec![0.0; tokens * heads.heads], vec![0.0; tokens * heads.heads]);
    forward::run(&pass, &mut out, Some(&mut logs));
    team::run_over(&mut means, MEANS, &|chunk, means| {
        let [out, d_out] = [&out, d_out].map(|x| x[chunk * MEANS * dim..].chunks_exact(dim));
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
        logs: &logs,
        means: &means,
    };
    let (blocks, of_keys) = (backward.blocks.len(), heads.kv_heads * spans.spans.len());
    let out = team::Scattered::new(d_qkv);
    // The first keys are seen by most rows, and the last rows see the most keys: what takes longest goes first, so that
    // threads end together.
    team::run(of_keys + blocks, &|chunk| match chunk.checked_sub(of_keys) {
        None => {
            let span = &spans.spans[chunk / heads.kv_heads];
            backward.keys_and_values(isa, chunk % heads.kv_heads, span, &out);
        }
        Some(chunk) => backward.queries(isa, blocks - 1 - chunk, &out),
    });
    Ok(())
}
