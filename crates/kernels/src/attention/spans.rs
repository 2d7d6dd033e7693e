//! The cells of a sequence: runs of consecutive cells, cut to the keys a kernel processes at once.

use super::block::KEYS;
use crate::lanes::WIDTH;

/// Positions of a split: attention sums the keys of a split before merging it with the previous
/// splits. Splits begin at multiples of it, so that the chunks in which a prompt was prefilled
/// change no sum.
pub(super) const SPLIT: usize = 2 * KEYS;

/// Tokens `first..first + count` of a sequence, in lanes `skip..skip + count` of the tiles from
/// `tile` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub tile: usize,
    pub skip: usize,
    pub first: usize,
    pub count: usize,
}

impl Span {
    /// Tiles that the span touches.
    pub fn tiles(&self) -> usize {
        (self.skip + self.count).div_ceil(WIDTH)
    }

    /// The part with tokens `first..end`, which must be inside the span.
    pub fn part(&self, first: usize, end: usize) -> Self {
        let lane = self.skip + first - self.first;
        Self {
            tile: self.tile + lane / WIDTH,
            skip: lane % WIDTH,
            first,
            count: end - first,
        }
    }
}

/// The cells of a sequence's tokens as attention needs them. Built once per pass, used by every
/// layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    pub(super) spans: Vec<Span>,
    length: usize,
    /// Cells that the cache must have.
    pub(super) cells: usize,
}

impl Spans {
    /// From the cell of each token of the sequence.
    pub fn of(cells: &[u32]) -> Self {
        let mut spans = Vec::new();
        let mut first = 0;
        while first < cells.len() {
            let cell = cells[first] as usize;
            let (tile, skip) = (cell / WIDTH, cell % WIDTH);
            // A span never crosses a split.
            let limit = (KEYS - skip).min(SPLIT - first % SPLIT).min(cells.len() - first);
            let run = &cells[first..first + limit];
            let count = run
                .iter()
                .enumerate()
                .take_while(|(i, at)| **at as usize == cell + i)
                .count();
            spans.push(Span {
                tile,
                skip,
                first,
                count,
            });
            first += count;
        }
        let cells_needed = cells.iter().max().map_or(0, |cell| *cell as usize + 1);
        Self {
            spans,
            length: cells.len(),
            cells: cells_needed,
        }
    }

    /// Token `i` in cell `i`.
    pub fn in_order(tokens: usize) -> Self {
        let span = |first: usize| Span {
            tile: first / WIDTH,
            skip: 0,
            first,
            count: KEYS.min(tokens - first),
        };
        Self {
            spans: (0..tokens).step_by(KEYS).map(span).collect(),
            length: tokens,
            cells: tokens,
        }
    }

    /// The spans of each split, in order.
    pub(super) fn splits(&self) -> Vec<&[Span]> {
        self.spans.chunk_by(|a, b| a.first / SPLIT == b.first / SPLIT).collect()
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_cover_every_token_at_its_cell(runs in prop::collection::vec((0_u32..500, 1_u32..300), 0..8)) {
            let cells: Vec<u32> = runs.iter().flat_map(|(at, count)| *at..at + count).collect();
            let spans = Spans::of(&cells);
            let found: Vec<u32> = spans
                .spans
                .iter()
                .flat_map(|span| (0..span.count).map(|i| (span.tile * WIDTH + span.skip + i) as u32))
                .collect();
            prop_assert_eq!(found, cells);
            let fits = |span: &Span| span.count > 0 && span.skip < WIDTH && span.skip + span.count <= KEYS;
            prop_assert!(spans.spans.iter().all(fits));
            let firsts = spans.spans.iter().scan(0, |next, span| Some(std::mem::replace(next, *next + span.count)));
            prop_assert!(firsts.eq(spans.spans.iter().map(|span| span.first)));
            prop_assert_eq!(spans.splits().concat(), spans.spans.clone());
            for split in spans.splits() {
                let (first, last) = (split[0].first, split[split.len() - 1]);
                prop_assert_eq!(first / SPLIT, (last.first + last.count - 1) / SPLIT);
            }
        }
    }
}
