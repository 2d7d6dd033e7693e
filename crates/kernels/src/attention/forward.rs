//! The forward of attention.

use super::heads::Heads;
use super::kv::{KvElement, KvLayer, KvStore, with_store};
use super::spans::{Span, Spans};
use super::tiles::{KEYS, ROWS, Scores, block_rows};
use crate::dot::Isa;
use crate::shape::{self, ShapeError};
use crate::softmax;
use crate::team;
use std::ops::Range;

/// Blocks of rows below which splits of the keys are handed out to threads, too.
const FEW_BLOCKS: usize = 16;

/// Everything that a block of rows needs to know.
pub(super) struct Pass<'a, E> {
    pub heads: &'a Heads,
    pub qkv: &'a [f32],
    pub tokens: usize,
    pub store: &'a KvStore<E>,
    pub spans: &'a Spans,
    /// The keys that a token of the batch sees.
    pub sees: &'a (dyn Fn(usize) -> Range<usize> + Sync),
}

/// Rows of one key head: row `r` is token `r / group`, and query head `r % group` of those that share the key head.
#[derive(Clone)]
pub(super) struct Block {
    pub kv_head: usize,
    pub rows: Range<usize>,
}

impl<E> Pass<'_, E> {
    /// All rows, cut into blocks.
    pub fn blocks(&self) -> Vec<Block> {
        let rows = self.tokens * self.heads.group();
        let size = block_rows(rows);
        let of_head = |kv_head| {
            (0..rows).step_by(size).map(move |first| Block {
                kv_head,
                rows: first..(first + size).min(rows),
            })
        };
        (0..self.heads.kv_heads).flat_map(of_head).collect()
    }

    /// The token and the query head of a row.
    pub fn of_row(&self, kv_head: usize, row: usize) -> (usize, usize) {
        let group = self.heads.group();
        (row / group, kv_head * group + row % group)
    }

    /// The query of a row.
    pub fn query(&self, kv_head: usize, row: usize) -> &[f32] {
        let (token, head) = self.of_row(kv_head, row);
        &self.qkv[token * self.heads.qkv_width() + head * self.heads.head_dim..][..self.heads.head_dim]
    }

    /// The queries of a block.
    pub fn queries(&self, isa: Isa, block: &Block) -> E::Queries
    where
        E: KvElement,
    {
        let rows = block.rows.clone().map(|row| self.query(block.kv_head, row));
        let size = block_rows(block.rows.len());
        E::queries(isa, rows, self.heads.head_dim, size, self.heads.scale)
    }

    /// The part of a span that rows of a block see, where they see any of it: nobody meets keys that all of them are blind to.
    pub fn seen(&self, block: &Block, span: &Span) -> Option<Span> {
        let token = |row| self.of_row(block.kv_head, row).0;
        let tokens = token(block.rows.start)..token(block.rows.end - 1) + 1;
        let sees = tokens.map(self.sees).map(|sees| {
            let end = sees.end.min(span.first + span.count);
            (sees.start.max(span.first), end)
        });
        let seen = sees.filter(|(first, end)| first < end);
        let (first, end) = seen.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(span.part(first, end))
    }

    /// The lanes of a span that a row sees.
    pub fn lanes(&self, kv_head: usize, row: usize, span: &Span) -> Range<usize> {
        let sees = (self.sees)(self.of_row(kv_head, row).0);
        let lane = |key: usize| key.clamp(span.first, span.first + span.count) - span.first + span.skip;
        lane(sees.start)..lane(sees.end)
    }
}

/// The partial softmax of a block's rows over some keys: sums not yet divided.
struct Partial {
    /// The greatest score of each row.
    greatest: [f32; ROWS],
    /// The sums of `exp(score - greatest)`; 0 where a row sees no key.
    sums: [f32; ROWS],
    /// The values weighted by `exp(score - greatest)`, `[rows, wide]`.
    values: Vec<f32>,
}

impl Partial {
    /// No keys yet.
    fn empty(rows: usize, wide: usize) -> Self {
        Self {
            greatest: [f32::NEG_INFINITY; ROWS],
            sums: [0.0; ROWS],
            values: vec![0.0; rows * wide],
        }
    }

    fn clear(&mut self) {
        self.greatest = [f32::NEG_INFINITY; ROWS];
        self.sums = [0.0; ROWS];
        self.values.fill(0.0);
    }

    /// Adds the keys of the next split. Splits are always added in the order of their positions, so that a row's bits do not
    /// depend on which thread did which.
    fn merge(&mut self, next: &Partial, rows: usize, wide: usize) {
        for r in 0..rows {
            // A NaN among the sums is no reason to pass over them.
            if next.sums[r] == 0.0 {
                continue;
            }
            let greatest = self.greatest[r].max(next.greatest[r]);
            let (ours, theirs) = ((self.greatest[r] - greatest).exp(), (next.greatest[r] - greatest).exp());
            self.greatest[r] = greatest;
            self.sums[r] = ours * self.sums[r] + theirs * next.sums[r];
            let values = self.values[r * wide..][..wide].iter_mut();
            for (x, next) in values.zip(&next.values[r * wide..][..wide]) {
                *x = ours * *x + theirs * next;
            }
        }
    }

    /// Divides by the sums: hands each row's output to `write`, and the logarithm of its sum of exponentials. A row that sees no key
    /// gives zeros.
    fn finish(mut self, rows: usize, wide: usize, mut write: impl FnMut(usize, &[f32], f32)) {
        for (r, values) in self.values.chunks_exact_mut(wide).enumerate().take(rows) {
            let sum = if self.sums[r] == 0.0 { 1.0 } else { self.sums[r] };
            let inverse = 1.0 / sum;
            values.iter_mut().for_each(|x| *x *= inverse);
            write(r, values, self.greatest[r] + sum.ln());
        }
    }
}

/// The splits of which a block sees any key, in order.
fn seen_splits<'a, E>(pass: &Pass<E>, block: &Block, splits: &[&'a [Span]]) -> Vec<&'a [Span]> {
    let seen = |split: &&&[Span]| split.iter().any(|span| pass.seen(block, span).is_some());
    splits.iter().filter(seen).copied().collect()
}

/// A block, and its queries, over the spans of one split, added to `partial`.
fn over_split<E: KvElement>(
    isa: Isa,
    pass: &Pass<E>,
    block: &Block,
    queries: &E::Queries,
    split: &[Span],
    partial: &mut Partial,
) {
    let wide = pass.store.wide();
    let size = block_rows(block.rows.len());
    let mut scores: Scores = [[0.0; KEYS]; ROWS];
    for span in split.iter().filter_map(|span| pass.seen(block, span)) {
        let lanes = |row: usize| pass.lanes(block.kv_head, row, &span);
        E::scores(isa, pass.store, block.kv_head, &span, queries, size, &mut scores);
        let used = span.tiles() * crate::lanes::WIDTH;
        for (r, row) in block.rows.clone().enumerate() {
            let (lanes, scores) = (lanes(row), &mut scores[r][..used]);
            if lanes.is_empty() {
                scores.fill(0.0);
                continue;
            }
            scores[..lanes.start].fill(0.0);
            scores[lanes.end..].fill(0.0);
            let seen = &mut scores[lanes];
            let greatest = softmax::greatest(isa, seen).max(partial.greatest[r]);
            if greatest > partial.greatest[r] {
                let shrink = (partial.greatest[r] - greatest).exp();
                partial.sums[r] *= shrink;
                partial.values[r * wide..][..wide].iter_mut().for_each(|x| *x *= shrink);
                partial.greatest[r] = greatest;
            }
            partial.sums[r] += softmax::exp_in_place(isa, seen, greatest);
        }
        E::weigh(
            isa,
            pass.store,
            block.kv_head,
            &span,
            &scores,
            size,
            &mut partial.values,
        );
    }
}

/// Runs all blocks: `out [T, heads * head_dim]`, and where asked the logarithm of each row's sum of exponentials,
/// `[T, heads]`.
///
/// Keys are summed up in splits of [`SPLIT`](super::spans::SPLIT) positions, which are merged in order: the bits of a
/// row depend on its position and its sequence alone.
pub(super) fn run<E: KvElement>(pass: &Pass<E>, out: &mut [f32], logs: Option<&mut [f32]>) {
    let (isa, blocks, dim, wide) = (Isa::best(), pass.blocks(), pass.heads.head_dim, pass.store.wide());
    let (out, logs) = (team::Scattered::new(out), logs.map(team::Scattered::new));
    let finish = |block: &Block, partial: Partial| {
        partial.finish(block.rows.len(), wide, |r, values, log| {
            let (token, head) = pass.of_row(block.kv_head, block.rows.start + r);
            // SAFETY: each row is finished once.
            unsafe { out.slice((token * pass.heads.heads + head) * dim, dim) }.copy_from_slice(&values[..dim]);
            if let Some(logs) = &logs {
                // SAFETY: as above.
                let to_log = unsafe { logs.slice(token * pass.heads.heads + head, 1) };
                to_log[0] = log;
            }
        });
    };
    let empty = |block: &Block| Partial::empty(block_rows(block.rows.len()), wide);
    let splits = pass.spans.splits();
    if blocks.len() >= FEW_BLOCKS || splits.len() <= 1 {
        // The last tokens see the most keys: they go first, so that threads end together.
        team::run(blocks.len(), &|chunk| {
            let block = &blocks[blocks.len() - 1 - chunk];
            let queries = pass.queries(isa, block);
            let (mut whole, mut part) = (empty(block), empty(block));
            for split in seen_splits(pass, block, &splits) {
                part.clear();
                over_split(isa, pass, block, &queries, split, &mut part);
                whole.merge(&part, block.rows.len(), wide);
            }
            finish(block, whole);
        });
        return;
    }
    let queries: Vec<E::Queries> = blocks.iter().map(|block| pass.queries(isa, block)).collect();
    let mut parts = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        parts.extend(
            seen_splits(pass, block, &splits)
                .into_iter()
                .map(|split| (number, split, None)),
        );
    }
    team::run_over(&mut parts, 1, &|_, part| {
        let (number, split, partial) = &mut part[0];
        let block = &blocks[*number];
        let partial = partial.insert(empty(block));
        over_split(isa, pass, block, &queries[*number], split, partial);
    });
    let mut parts = parts.iter().peekable();
    for (number, block) in blocks.iter().enumerate() {
        let mut whole = empty(block);
        while let Some((_, _, part)) = parts.next_if(|(of, _, _)| *of == number) {
            if let Some(part) = part {
                whole.merge(part, block.rows.len(), wide);
            }
        }
        finish(block, whole);
    }
}

/// Attention over a cache: `qkv`, prepared rows of a batch whose own keys and values have been written, to
/// `out [T, heads * head_dim]`. `spans` are the cells of the whole sequence, the batch's at the end; token `t` of the batch is
/// number `first + t` of the sequence.
///
/// # Errors
/// Where the sizes do not fit, or a cell is not there.
pub fn attend(
    qkv: &[f32],
    heads: &Heads,
    layer: &KvLayer,
    spans: &Spans,
    first: usize,
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    with_store!(&layer.0, store => store.check(heads))?;
    shape::length(
        "the output of attention",
        out.len(),
        tokens.checked_mul(heads.out_width()),
    )?;
    shape::length("a sequence's cells", spans.len(), first.checked_add(tokens))?;
    if spans.cells > layer.cells() {
        return Err(ShapeError::Index {
            what: "a cell",
            index: spans.cells - 1,
            count: layer.cells(),
        });
    }
    let sees = |token: usize| heads.sees(0, first + token);
    with_store!(&layer.0, store => {
        let pass = Pass {
            heads,
            qkv,
            tokens,
            store,
            spans,
            sees: &sees,
        };
        run(&pass, out, None);
    });
    Ok(())
}

/// Checks the first tokens of a batch's sequences.
pub(super) fn check_starts(starts: &[u32], tokens: usize) -> Result<(), ShapeError> {
    shape::length("the starts of sequences", starts.len(), Some(tokens))?;
    match starts
        .iter()
        .enumerate()
        .find(|(token, start)| **start as usize > *token)
    {
        Some((token, start)) => Err(ShapeError::Index {
            what: "the start of a sequence",
            index: *start as usize,
            count: token + 1,
        }),
        None => Ok(()),
    }
}

/// Attention of a batch over itself, in f32: prepared `qkv` to `out [T, heads * head_dim]`. The batch is made of sequences
/// one behind the other; `starts` names for each token the first of its own, and it sees those from there to itself.
///
/// # Errors
/// Where the sizes do not fit.
pub fn attend_batch(qkv: &[f32], heads: &Heads, starts: &[u32], out: &mut [f32]) -> Result<(), ShapeError> {
    batch(qkv, heads, starts, out, None)
}

/// [`attend_batch`], which also hands out the logarithm of each row's sum of exponentials, `logs [T, heads]`: with its output what
/// [`super::attend_batch_backward`] takes.
///
/// # Errors
/// Where the sizes do not fit.
pub fn attend_batch_keeping(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    out: &mut [f32],
    logs: &mut [f32],
) -> Result<(), ShapeError> {
    batch(qkv, heads, starts, out, Some(logs))
}

fn batch(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    out: &mut [f32],
    logs: Option<&mut [f32]>,
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    check_starts(starts, tokens)?;
    shape::length(
        "the output of attention",
        out.len(),
        tokens.checked_mul(heads.out_width()),
    )?;
    if let Some(logs) = &logs {
        check_logs(heads, tokens, logs)?;
    }
    let store = KvStore::of_batch(heads, qkv, [heads.keys_at(), heads.values_at()]);
    let sees = |token: usize| heads.sees(starts[token] as usize, token);
    let spans = Spans::in_order(tokens);
    run(
        &Pass {
            heads,
            qkv,
            tokens,
            store: &store,
            spans: &spans,
            sees: &sees,
        },
        out,
        logs,
    );
    Ok(())
}

/// Checks the logarithms of a batch.
pub(super) fn check_logs(heads: &Heads, tokens: usize, logs: &[f32]) -> Result<(), ShapeError> {
    shape::length(
        "the logarithms of attention's sums",
        logs.len(),
        tokens.checked_mul(heads.heads),
    )
}
