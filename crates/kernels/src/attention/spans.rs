//! The keys of a sequence: pages of consecutive cells, each a span that a kernel processes at once.

use super::block::KEYS;
use crate::lanes::WIDTH;

/// Cells of a page, the unit in which cells of a KV cache are allocated to a sequence. Page `p` has
/// the cells `p * PAGE..(p + 1) * PAGE`.
pub const PAGE: usize = KEYS;

/// Positions of a split: attention sums the keys of a split before merging it with the previous
/// splits. Splits begin at multiples of this, so that sums do not depend on the chunks in which a
/// prompt was prefilled.
pub(super) const SPLIT: usize = 2 * PAGE;

/// Tokens `first..first + count` of a sequence, which are in lanes `skip..skip + count` of the
/// tiles from `tile` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub tile: usize,
    pub skip: usize,
    pub first: usize,
    pub count: usize,
}

impl Span {
    /// Number of tiles that contain the span.
    pub fn tiles(&self) -> usize {
        (self.skip + self.count).div_ceil(WIDTH)
    }

    /// Tokens `first..end` of the span, which must contain them.
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

/// The cells of positions `first..end` of a sequence. Built once per step, for all layers that
/// share the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    pub(super) spans: Vec<Span>,
    first: usize,
    end: usize,
    /// The position after the last that has a cell.
    pub(super) cells_end: usize,
    /// Minimum number of cells of the cache.
    pub(super) min_cells: usize,
}

impl Spans {
    /// A sequence of `length` tokens, of which the tokens from `first_page * PAGE` on are in
    /// `pages`, in order. Pages beyond `length` are ignored; with too few pages, attention returns
    /// an error.
    pub fn of_pages(first_page: usize, pages: &[u32], length: usize) -> Self {
        let first = first_page * PAGE;
        let mut spans = Vec::with_capacity(pages.len());
        for (page, position) in pages.iter().zip((first..length).step_by(PAGE)) {
            spans.push(Span {
                tile: *page as usize * (PAGE / WIDTH),
                skip: 0,
                first: position,
                count: PAGE.min(length - position),
            });
        }
        Self {
            first,
            end: length,
            cells_end: spans.last().map_or(first, |last| last.first + last.count),
            min_cells: spans
                .iter()
                .map(|span| span.tile * WIDTH + span.count)
                .max()
                .unwrap_or(0),
            spans,
        }
    }

    /// A sequence with token `i` in cell `i`.
    pub fn in_order(tokens: usize) -> Self {
        let pages: Vec<u32> = (0..tokens.div_ceil(PAGE) as u32).collect();
        Self::of_pages(0, &pages, tokens)
    }

    /// The spans of each split, in order.
    pub(super) fn splits(&self) -> Vec<&[Span]> {
        self.spans.chunk_by(|a, b| a.first / SPLIT == b.first / SPLIT).collect()
    }

    /// The first position that has a cell.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The position after the last.
    pub fn end(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_cover_every_position_in_its_page(
            pages in prop::collection::vec(0_u32..500, 0..8),
            first_page in 0_usize..5,
            unused in 0..PAGE,
        ) {
            let length = (first_page + pages.len()) * PAGE - if pages.is_empty() { 0 } else { unused };
            let spans = Spans::of_pages(first_page, &pages, length);
            let cells_of = |span: &Span| (0..span.count).map(|i| span.tile * WIDTH + span.skip + i).collect::<Vec<_>>();
            let actual: Vec<usize> = spans.spans.iter().flat_map(cells_of).collect();
            let cell = |position: usize| pages[position / PAGE - first_page] as usize * PAGE + position % PAGE;
            prop_assert_eq!(&actual, &(first_page * PAGE..length).map(cell).collect::<Vec<_>>());
            prop_assert_eq!(spans.min_cells, actual.iter().max().map_or(0, |last| last + 1));
            prop_assert_eq!([spans.first(), spans.end()], [first_page * PAGE, length]);
            prop_assert_eq!(spans.splits().concat(), spans.spans.clone());
            for split in spans.splits() {
                let (first, last) = (split[0].first, split[split.len() - 1]);
                prop_assert_eq!(first / SPLIT, (last.first + last.count - 1) / SPLIT);
            }
        }
    }
}
