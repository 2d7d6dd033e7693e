//! The forward pass of attention.

use super::block::{KEYS, ROWS, Scores, block_rows};
use super::heads::Heads;
use super::kv::{KvElement, KvLayer, KvStore, with_store};
use super::spans::{Span, Spans};
use crate::isa::Isa;
use crate::shape::{self, ShapeError};
use crate::softcap;
use crate::softmax;
use crate::team;
use std::ops::Range;

/// Threads also divide the splits of a block if it may have more than one part in this many, or in
/// the number of threads, of all splits.
const FEW_BLOCKS: usize = 16;

/// Inputs that all blocks of rows share.
pub(super) struct Pass<'a, E> {
    pub heads: &'a Heads,
    pub qkv: &'a [f32],
    pub store: &'a KvStore<E>,
    /// The sequences, in the order of their tokens in the batch.
    pub sequences: &'a [Sequence<'a>],
    /// The mask: the positions of its sequence that are visible to a token of the batch.
    pub visible_keys: &'a (dyn Fn(usize) -> Range<usize> + Sync),
}

/// Consecutive tokens of the batch that belong to one sequence.
pub(super) struct Sequence<'a> {
    /// Tokens of the batch.
    pub tokens: Range<usize>,
    pub spans: &'a Spans,
}

/// Rows of one sequence and KV head. Row `r` is token `r / group` of the batch and query head
/// `r % group` of the heads that share the KV head.
#[derive(Clone)]
pub(super) struct Block {
    /// Index of the sequence.
    pub sequence: usize,
    pub kv_head: usize,
    pub rows: Range<usize>,
}

impl<E> Pass<'_, E> {
    /// All rows, in blocks.
    pub fn blocks(&self) -> Vec<Block> {
        let (group, mut blocks) = (self.heads.group(), Vec::new());
        for (index, sequence) in self.sequences.iter().enumerate() {
            let (first, end) = (sequence.tokens.start * group, sequence.tokens.end * group);
            let size = block_rows(end - first);
            for kv_head in 0..self.heads.kv_heads {
                blocks.extend((first..end).step_by(size).map(|first| Block {
                    sequence: index,
                    kv_head,
                    rows: first..(first + size).min(end),
                }));
            }
        }
        blocks
    }

    /// The token and the query head of a row.
    pub fn token_and_head(&self, kv_head: usize, row: usize) -> (usize, usize) {
        let group = self.heads.group();
        (row / group, kv_head * group + row % group)
    }

    /// The query of a row.
    pub fn query(&self, kv_head: usize, row: usize) -> &[f32] {
        let (token, head) = self.token_and_head(kv_head, row);
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

    /// The part of a span that is visible to any row of a block; `None` if no row sees any of it.
    /// So keys that are masked for the whole block are skipped.
    pub fn visible_part(&self, block: &Block, span: &Span) -> Option<Span> {
        let token = |row| self.token_and_head(block.kv_head, row).0;
        let tokens = token(block.rows.start)..token(block.rows.end - 1) + 1;
        let visible = tokens.map(self.visible_keys).map(|keys| {
            let end = keys.end.min(span.first + span.count);
            (keys.start.max(span.first), end)
        });
        let not_empty = visible.filter(|(first, end)| first < end);
        let (first, end) = not_empty.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(span.part(first, end))
    }

    /// The lanes of a span that are visible to a row.
    pub fn visible_lanes(&self, kv_head: usize, row: usize, span: &Span) -> Range<usize> {
        let keys = (self.visible_keys)(self.token_and_head(kv_head, row).0);
        let lane = |key: usize| key.clamp(span.first, span.first + span.count) - span.first + span.skip;
        lane(keys.start)..lane(keys.end)
    }
}

/// The partial attention of a block's rows over some keys, not yet divided by the sums.
struct Partial {
    /// Maximum score of each row.
    max: [f32; ROWS],
    /// Sums of `exp(score - max)`; 0 if no key is visible to the row.
    sums: [f32; ROWS],
    /// Values weighted by `exp(score - max)`, `[rows, value_width]`.
    values: Vec<f32>,
}

impl Partial {
    /// No keys yet.
    fn empty(rows: usize, value_width: usize) -> Self {
        Self {
            max: [f32::NEG_INFINITY; ROWS],
            sums: [0.0; ROWS],
            values: vec![0.0; rows * value_width],
        }
    }

    /// Removes all keys.
    fn clear(&mut self) {
        self.max = [f32::NEG_INFINITY; ROWS];
        self.sums = [0.0; ROWS];
        self.values.fill(0.0);
    }

    /// Adds the keys of the next split. Splits are merged in the order of their positions, so that
    /// the bits of a row do not depend on the assignment of splits to threads.
    fn merge(&mut self, next: &Partial, rows: usize, value_width: usize) {
        for r in 0..rows {
            // Skips zero sums only: NaN sums are merged.
            if next.sums[r] == 0.0 {
                continue;
            }
            let max = self.max[r].max(next.max[r]);
            let (factor, next_factor) = ((self.max[r] - max).exp(), (next.max[r] - max).exp());
            self.max[r] = max;
            self.sums[r] = factor * self.sums[r] + next_factor * next.sums[r];
            let values = self.values[r * value_width..][..value_width].iter_mut();
            for (x, next) in values.zip(&next.values[r * value_width..][..value_width]) {
                *x = factor * *x + next_factor * next;
            }
        }
    }

    /// Returns the result of merging this into an empty partial, bit for bit.
    fn merged_into_empty(mut self, rows: usize, value_width: usize) -> Self {
        for (values, sum) in self.values.chunks_exact_mut(value_width).zip(self.sums).take(rows) {
            if sum == 0.0 {
                values.fill(0.0)
            } else {
                // Adding to zero makes a negative zero positive.
                values.iter_mut().for_each(|x| *x += 0.0)
            }
        }
        self
    }

    /// Divides by the sums and calls `write` with the output and the log-sum-exp of each row. Rows
    /// to which no key is visible give zeros.
    fn finish(mut self, rows: usize, value_width: usize, mut write: impl FnMut(usize, &[f32], f32)) {
        for (r, values) in self.values.chunks_exact_mut(value_width).enumerate().take(rows) {
            let sum = if self.sums[r] == 0.0 { 1.0 } else { self.sums[r] };
            let inverse = 1.0 / sum;
            values.iter_mut().for_each(|x| *x *= inverse);
            write(r, values, self.max[r] + sum.ln());
        }
    }
}

/// The splits with any key that is visible to a block, in order.
fn visible_splits<'a, E>(pass: &Pass<E>, block: &Block, splits: &[&'a [Span]]) -> Vec<&'a [Span]> {
    let is_visible = |split: &&&[Span]| split.iter().any(|span| pass.visible_part(block, span).is_some());
    splits.iter().filter(is_visible).copied().collect()
}

/// Adds a block's attention over the spans of one split to `partial`.
fn attend_split<E: KvElement>(
    isa: Isa,
    pass: &Pass<E>,
    block: &Block,
    queries: &E::Queries,
    split: &[Span],
    partial: &mut Partial,
) {
    let value_width = pass.store.value_width();
    let size = block_rows(block.rows.len());
    let mut scores: Scores = [[0.0; KEYS]; ROWS];
    for span in split.iter().filter_map(|span| pass.visible_part(block, span)) {
        let lanes = |row: usize| pass.visible_lanes(block.kv_head, row, &span);
        E::scores(isa, pass.store, block.kv_head, &span, queries, size, &mut scores);
        let lane_count = span.tiles() * crate::lanes::WIDTH;
        for (r, row) in block.rows.clone().enumerate() {
            let (lanes, scores) = (lanes(row), &mut scores[r][..lane_count]);
            if lanes.is_empty() {
                scores.fill(0.0);
                continue;
            }
            // Before the mask, and in whole vectors: what invisible lanes hold is overwritten next.
            if let Some(cap) = pass.heads.softcap {
                softcap::cap_in_place(isa, scores, cap);
            }
            scores[..lanes.start].fill(0.0);
            scores[lanes.end..].fill(0.0);
            let visible = &mut scores[lanes];
            let max = softmax::row_max(isa, visible).max(partial.max[r]);
            if max > partial.max[r] {
                let factor = (partial.max[r] - max).exp();
                partial.sums[r] *= factor;
                partial.values[r * value_width..][..value_width]
                    .iter_mut()
                    .for_each(|x| *x *= factor);
                partial.max[r] = max;
            }
            partial.sums[r] += softmax::exp_in_place(isa, visible, max);
        }
        E::accumulate_values(
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

/// Computes all blocks: writes `out [T, heads * head_dim]` and, if requested, the log-sum-exp of
/// each row, `[T, heads]`.
///
/// Keys are summed in splits of [`SPLIT`](super::spans::SPLIT) positions, which are merged in
/// order, so that the bits of a row depend only on its position and its sequence.
pub(super) fn run<E: KvElement>(pass: &Pass<E>, out: &mut [f32], lse: Option<&mut [f32]>) {
    let (isa, blocks, dim, value_width) = (
        Isa::best(),
        pass.blocks(),
        pass.heads.head_dim,
        pass.store.value_width(),
    );
    let splits: Vec<_> = pass.sequences.iter().map(|sequence| sequence.spans.splits()).collect();
    let splits_of = |block: &Block| visible_splits(pass, block, &splits[block.sequence]);
    let (out, lse) = (team::Scattered::new(out), lse.map(team::Scattered::new));
    let finish = |block: &Block, partial: Partial| {
        partial.finish(block.rows.len(), value_width, |r, values, log_sum_exp| {
            let (token, head) = pass.token_and_head(block.kv_head, block.rows.start + r);
            // SAFETY: each row is written once.
            unsafe { out.slice((token * pass.heads.heads + head) * dim, dim) }.copy_from_slice(&values[..dim]);
            if let Some(lse) = &lse {
                // SAFETY: as above.
                let row_lse = unsafe { lse.slice(token * pass.heads.heads + head, 1) };
                row_lse[0] = log_sum_exp;
            }
        });
    };
    let empty = |block: &Block| Partial::empty(block_rows(block.rows.len()), value_width);
    let max_splits = splits.iter().map(Vec::len).max().unwrap_or(0);
    let total_splits: usize = blocks.iter().map(|block| splits[block.sequence].len()).sum();
    // Both branches sum in the same order.
    if max_splits <= 1 || total_splits >= max_splits * FEW_BLOCKS.max(team::threads()) {
        // The last tokens see the most keys: start with them, so that threads finish together.
        team::run(blocks.len(), &|work_chunk| {
            let block = &blocks[blocks.len() - 1 - work_chunk];
            let queries = pass.queries(isa, block);
            let splits = splits_of(block);
            let mut partial = empty(block);
            if let [split] = splits[..] {
                attend_split(isa, pass, block, &queries, split, &mut partial);
                return finish(block, partial.merged_into_empty(block.rows.len(), value_width));
            }
            let mut whole = empty(block);
            for split in splits {
                partial.clear();
                attend_split(isa, pass, block, &queries, split, &mut partial);
                whole.merge(&partial, block.rows.len(), value_width);
            }
            finish(block, whole);
        });
        return;
    }
    let queries: Vec<E::Queries> = blocks.iter().map(|block| pass.queries(isa, block)).collect();
    // Index of a block, one of its splits, and their partial attention.
    let mut partials = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        partials.extend(splits_of(block).into_iter().map(|split| (index, split, None)));
    }
    team::run_over(&mut partials, 1, &|_, partials| {
        let (index, split, partial) = &mut partials[0];
        let block = &blocks[*index];
        let partial = partial.insert(empty(block));
        attend_split(isa, pass, block, &queries[*index], split, partial);
    });
    let mut partials = partials.iter().peekable();
    for (index, block) in blocks.iter().enumerate() {
        let mut whole = empty(block);
        while let Some((_, _, partial)) = partials.next_if(|(block_index, _, _)| *block_index == index) {
            if let Some(partial) = partial {
                whole.merge(partial, block.rows.len(), value_width);
            }
        }
        finish(block, whole);
    }
}

/// Consecutive rows of a batch that continue one sequence of a KV cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedRows<'a> {
    /// The number of rows, the last tokens of the sequence.
    pub rows: usize,
    /// The cells of the sequence, including the cells of the rows.
    pub spans: &'a Spans,
}

/// Attention over the KV cache, as `ggml_flash_attn_ext` with a causal mask: computes
/// `out [T, heads * head_dim]` from `qkv`, normalized and rotated rows of a batch whose keys and
/// values are already in the cache. `sequences` divides the rows among the sequences that they
/// continue, in order.
///
/// # Errors
/// Returns an error if the sizes do not match, or a cell that is visible to a row does not exist.
pub fn attend(
    qkv: &[f32],
    heads: &Heads,
    layer: &KvLayer,
    sequences: &[CachedRows],
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    with_store!(&layer.0, store => store.check(heads))?;
    shape::length(
        "the output of attention",
        out.len(),
        tokens.checked_mul(heads.out_width()),
    )?;
    let rows = sequences
        .iter()
        .try_fold(0_usize, |sum, cached| sum.checked_add(cached.rows));
    shape::length("the rows of a batch", tokens, rows)?;
    let mut positions = Vec::with_capacity(tokens);
    let mut batch_sequences = Vec::with_capacity(sequences.len());
    for &CachedRows { rows, spans } in sequences {
        check_sequence(heads, layer, rows, spans)?;
        let first = positions.len();
        positions.extend(spans.end() - rows..spans.end());
        batch_sequences.push(Sequence {
            tokens: first..positions.len(),
            spans,
        });
    }
    let visible_keys = |token: usize| heads.visible_keys(0, positions[token]);
    with_store!(&layer.0, store => {
        let pass = Pass {
            heads,
            qkv,
            store,
            sequences: &batch_sequences,
            visible_keys: &visible_keys,
        };
        run(&pass, out, None);
    });
    Ok(())
}

/// Checks that the cells exist that are visible to the last `rows` tokens of a sequence.
fn check_sequence(heads: &Heads, layer: &KvLayer, rows: usize, spans: &Spans) -> Result<(), ShapeError> {
    if spans.min_cells > layer.cells() {
        return Err(ShapeError::Index {
            what: "a cell",
            index: spans.min_cells - 1,
            count: layer.cells(),
        });
    }
    let first = spans.end().checked_sub(rows);
    let Some(first) = first.filter(|_| spans.cells_end >= spans.end()) else {
        return shape::length("a sequence's cells", spans.cells_end, Some(spans.end().max(rows)));
    };
    if rows > 0 && heads.visible_keys(0, first).start < spans.first() {
        Err(ShapeError::Index {
            what: "the first cell of a sequence",
            index: spans.first(),
            count: heads.visible_keys(0, first).start + 1,
        })
    } else {
        Ok(())
    }
}

/// Checks that no token's sequence starts after the token.
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

/// Attention of a batch over itself, in f32: computes `out [T, heads * head_dim]` from normalized
/// and rotated `qkv`. The batch is a concatenation of sequences; `starts` has for each token the
/// first token of its sequence. Causal within each sequence.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn attend_batch(qkv: &[f32], heads: &Heads, starts: &[u32], out: &mut [f32]) -> Result<(), ShapeError> {
    check_starts(starts, heads.tokens(qkv)?)?;
    attend_batch_masked(
        qkv,
        heads,
        &|token| heads.visible_keys(starts[token] as usize, token),
        out,
        None,
    )
}

/// [`attend_batch`] without a causal mask: a token sees its whole sequence, or half a window on
/// either side. `ends` has for each token the token after the last of its sequence.
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn attend_batch_both_ways(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    ends: &[u32],
    out: &mut [f32],
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    check_starts(starts, tokens)?;
    check_ends(ends, tokens)?;
    attend_batch_masked(
        qkv,
        heads,
        &|token| heads.visible_keys_both_ways(starts[token] as usize..ends[token] as usize, token),
        out,
        None,
    )
}

/// Checks that no token's sequence ends before or at the token, or after the batch.
fn check_ends(ends: &[u32], tokens: usize) -> Result<(), ShapeError> {
    shape::length("the ends of sequences", ends.len(), Some(tokens))?;
    let invalid = ends
        .iter()
        .enumerate()
        .find(|(token, end)| !(token + 1..=tokens).contains(&(**end as usize)));
    match invalid {
        Some((_, end)) => Err(ShapeError::Index {
            what: "the end of a sequence",
            index: *end as usize,
            count: tokens + 1,
        }),
        None => Ok(()),
    }
}

/// [`attend_batch`] that also returns the log-sum-exp of each row, `lse [T, heads]`: input of
/// [`super::attend_batch_backward`].
///
/// # Errors
/// Returns an error if the sizes do not match.
pub fn attend_batch_with_lse(
    qkv: &[f32],
    heads: &Heads,
    starts: &[u32],
    out: &mut [f32],
    lse: &mut [f32],
) -> Result<(), ShapeError> {
    check_starts(starts, heads.tokens(qkv)?)?;
    let visible_keys = |token: usize| heads.visible_keys(starts[token] as usize, token);
    attend_batch_masked(qkv, heads, &visible_keys, out, Some(lse))
}

/// Attention of a batch over itself with any mask.
fn attend_batch_masked(
    qkv: &[f32],
    heads: &Heads,
    visible_keys: &(dyn Fn(usize) -> Range<usize> + Sync),
    out: &mut [f32],
    lse: Option<&mut [f32]>,
) -> Result<(), ShapeError> {
    let tokens = heads.tokens(qkv)?;
    shape::length(
        "the output of attention",
        out.len(),
        tokens.checked_mul(heads.out_width()),
    )?;
    if let Some(lse) = &lse {
        check_lse(heads, tokens, lse)?;
    }
    let store = KvStore::from_batch(heads, qkv, [heads.keys_offset(), heads.values_offset()]);
    let spans = Spans::in_order(tokens);
    let sequences = [Sequence {
        tokens: 0..tokens,
        spans: &spans,
    }];
    run(
        &Pass {
            heads,
            qkv,
            store: &store,
            sequences: &sequences,
            visible_keys,
        },
        out,
        lse,
    );
    Ok(())
}

/// Checks the length of a batch's log-sum-exp.
pub(super) fn check_lse(heads: &Heads, tokens: usize, lse: &[f32]) -> Result<(), ShapeError> {
    shape::length(
        "the log-sum-exp of attention",
        lse.len(),
        tokens.checked_mul(heads.heads),
    )
}
