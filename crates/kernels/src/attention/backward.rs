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
use crate::lanes::WIDTH;
use crate::shape::{self, ShapeError};
use crate::softmax;
use crate::team;

/// What both halves of the backward read.
struct Backward<'a> {
    pass: Pass<'a, f32>,
    /// Values where the pass has keys, keys where it has values.
    exchanged: &'a KvStore<f32>,
    d_out: &'a [f32],
    /// The logarithm of each row's sum of exponentials, `[T, heads]`.
    logs: &'a [f32],
    /// The sum of output times its gradient, `[T, heads]`.
    means: &'a [f32],
}

/// A block's rows, ready for products.
struct Rows {
    size: usize,
    queries: Vec<f32>,
    d_out: Vec<f32>,
}

impl Backward<'_> {
    fn d_out_of(&self, kv_head: usize, row: usize) -> &[f32] {
        let (token, head) = self.pass.of_row(kv_head, row);
        let dim = self.pass.heads.head_dim;
        &self.d_out[(token * self.pass.heads.heads + head) * dim..][..dim]
    }

    fn rows(&self, block: &Block) -> Rows {
        let (size, dim, head) = (block_rows(block.rows.len()), self.pass.heads.head_dim, block.kv_head);
        let mut rows = Rows {
            size,
            queries: Vec::new(),
            d_out: Vec::new(),
        };
        let queries = block.rows.clone().map(|row| self.pass.query(head, row));
        tiles::transpose(queries, size, self.pass.heads.scale, &mut rows.queries, dim);
        let d_out = block.rows.clone().map(|row| self.d_out_of(head, row));
        tiles::transpose(d_out, size, 1.0, &mut rows.d_out, dim);
        rows
    }

    /// Probabilities of a block over a span, and the gradient of its scores; false where it sees nothing there.
    fn slopes(
        &self,
        isa: Isa,
        block: &Block,
        rows: &Rows,
        span: &Span,
        probabilities: &mut Scores,
        slopes: &mut Scores,
    ) -> bool {
        let head = block.kv_head;
        if block
            .rows
            .clone()
            .all(|row| self.pass.lanes(head, row, span).is_empty())
        {
            return false;
        }
        tiles::scores(
            isa,
            self.pass.store,
            head,
            span,
            &rows.queries,
            rows.size,
            probabilities,
        );
        tiles::scores(isa, self.exchanged, head, span, &rows.d_out, rows.size, slopes);
        let used = span.tiles() * WIDTH;
        for (r, row) in block.rows.clone().enumerate() {
            let lanes = self.pass.lanes(head, row, span);
            let (p, s) = (&mut probabilities[r][..used], &mut slopes[r][..used]);
            for part in [&mut *p, &mut *s] {
                part[..lanes.start].fill(0.0);
                part[lanes.end.max(lanes.start)..].fill(0.0);
            }
            let (token, query_head) = self.pass.of_row(head, row);
            let at = token * self.pass.heads.heads + query_head;
            softmax::exp_in_place(isa, &mut p[lanes.clone()], self.logs[at]);
            for (p, s) in p[lanes.clone()].iter().zip(&mut s[lanes]) {
                *s = p * (*s - self.means[at]);
            }
        }
        true
    }

    /// Writes the gradient of a block's queries.
    fn queries(&self, isa: Isa, block: &Block, out: &team::Scattered<f32>) {
        let (heads, wide) = (self.pass.heads, self.exchanged.wide());
        let rows = self.rows(block);
        let (mut probabilities, mut slopes): (Scores, Scores) = ([[0.0; KEYS]; ROWS], [[0.0; KEYS]; ROWS]);
        let mut sums = vec![0.0; rows.size * wide];
        for span in self.pass.spans {
            if self.slopes(isa, block, &rows, span, &mut probabilities, &mut slopes) {
                tiles::weigh(isa, self.exchanged, block.kv_head, span, &slopes, rows.size, &mut sums);
            }
        }
        for (row, sums) in block.rows.clone().zip(sums.chunks_exact(wide)) {
            let (token, head) = self.pass.of_row(block.kv_head, row);
            // SAFETY: each query's row is of one block.
            let out = unsafe { out.slice(token * heads.qkv_width() + head * heads.head_dim, heads.head_dim) };
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = heads.scale * sum);
        }
    }

    /// Writes the gradients of a span's keys and values.
    fn keys_and_values(&self, isa: Isa, kv_head: usize, span: &Span, blocks: &[Block], out: &team::Scattered<f32>) {
        let (heads, wide, dim) = (self.pass.heads, self.exchanged.wide(), self.pass.heads.head_dim);
        let (mut probabilities, mut slopes): (Scores, Scores) = ([[0.0; KEYS]; ROWS], [[0.0; KEYS]; ROWS]);
        let (mut keys, mut values) = (vec![0.0; KEYS * wide], vec![0.0; KEYS * wide]);
        let (mut queries, mut d_out) = (vec![0.0; ROWS * wide], vec![0.0; ROWS * wide]);
        for block in blocks.iter().filter(|block| block.kv_head == kv_head) {
            // Nobody looks ahead: rows before the span's first key see none of it.
            if self.pass.of_row(kv_head, block.rows.end - 1).0 < span.first {
                continue;
            }
            let rows = self.rows(block);
            if !self.slopes(isa, block, &rows, span, &mut probabilities, &mut slopes) {
                continue;
            }
            for (r, row) in block.rows.clone().enumerate() {
                queries[r * wide..][..dim].copy_from_slice(self.pass.query(kv_head, row));
                d_out[r * wide..][..dim].copy_from_slice(self.d_out_of(kv_head, row));
            }
            let rows = block.rows.len();
            tiles::scatter(isa, &slopes, rows, span.count, &queries, wide, &mut keys);
            tiles::scatter(isa, &probabilities, rows, span.count, &d_out, wide, &mut values);
        }
        for key in 0..span.count {
            let row = (span.first + key) * heads.qkv_width() + kv_head * dim;
            // SAFETY: each key is of one span.
            let (to_key, to_value) = unsafe {
                (
                    out.slice(row + heads.keys_at(), dim),
                    out.slice(row + heads.values_at(), dim),
                )
            };
            to_key
                .iter_mut()
                .zip(&keys[key * wide..])
                .for_each(|(out, sum)| *out = heads.scale * sum);
            to_value.copy_from_slice(&values[key * wide..][..dim]);
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
    let (mut out, mut logs) = (vec![0.0; d_out.len()], vec![0.0; tokens * heads.heads]);
    forward::run(&pass, &mut out, Some(&mut logs));
    let rows = out.chunks_exact(dim).zip(d_out.chunks_exact(dim));
    let means: Vec<f32> = rows.map(|(out, d_out)| softmax::product(isa, out, d_out)).collect();
    let blocks = pass.blocks();
    let backward = Backward {
        pass,
        exchanged: &exchanged,
        d_out,
        logs: &logs,
        means: &means,
    };
    let spans = &spans.spans;
    let out = team::Scattered::new(d_qkv);
    team::run(
        blocks.len() + heads.kv_heads * spans.len(),
        &|chunk| match chunk.checked_sub(blocks.len()) {
            None => backward.queries(isa, &blocks[chunk], &out),
            Some(chunk) => {
                backward.keys_and_values(isa, chunk / spans.len(), &spans[chunk % spans.len()], &blocks, &out);
            }
        },
    );
    Ok(())
}
