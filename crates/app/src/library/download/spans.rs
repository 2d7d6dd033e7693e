//! Sets of byte offsets in a file, as spans.

use std::ops::Range;

/// A set of offsets, as sorted spans that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(Vec<Range<u64>>);

impl Spans {
    /// The offsets from 0 to `end`, exclusive.
    pub fn up_to(end: u64) -> Self {
        let mut spans = Self::default();
        spans.insert(0..end);
        spans
    }

    /// Adds a span.
    pub fn insert(&mut self, span: Range<u64>) {
        if span.is_empty() {
            return;
        }
        let from = self.0.partition_point(|other| other.end < span.start);
        let to = self.0.partition_point(|other| other.start <= span.end);
        let merged = self.0[from..to].iter().fold(span, |merged, other| {
            merged.start.min(other.start)..merged.end.max(other.end)
        });
        self.0.splice(from..to, [merged]);
    }

    /// Removes the offsets from `end` on.
    pub fn truncate(&mut self, end: u64) {
        self.0.retain(|span| span.start < end);
        if let Some(last) = self.0.last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of offsets.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|span| span.end - span.start).sum()
    }

    /// The end of the span that starts at 0, or 0 if there is none.
    pub fn prefix(&self) -> u64 {
        self.0.first().filter(|span| span.start == 0).map_or(0, |span| span.end)
    }

    /// The greatest offset, plus one.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |span| span.end)
    }

    /// The first missing span from an offset on, below `end`.
    pub fn gap(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let index = self.0.partition_point(|span| span.end <= from);
        let containing = self.0.get(index).filter(|span| span.start <= from);
        let start = containing.map_or(from, |span| span.end);
        let next = self.0[index..].iter().find(|span| span.start > start);
        let gap = start..next.map_or(end, |span| span.start.min(end));
        (!gap.is_empty()).then_some(gap)
    }

    /// Returns the spans as pairs of start and end.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|span| (span.start, span.end)).collect()
    }

    /// Converts pairs of start and end. `None` means that they are not sorted, overlap or touch.
    pub fn from_pairs(pairs: &[(u64, u64)]) -> Option<Self> {
        let is_sorted = pairs.windows(2).all(|window| window[0].1 < window[1].0);
        let spans = || Self(pairs.iter().map(|(start, end)| *start..*end).collect());
        (is_sorted && pairs.iter().all(|(start, end)| start < end)).then(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: u64 = 40;

    proptest! {
        #[test]
        fn spans_are_sets(
            inserted in prop::collection::vec((0..END, 0..9u64), 0..12),
            cut in 0..=END,
            from in 0..=END,
        ) {
            let mut spans = Spans::default();
            let mut set = std::collections::BTreeSet::new();
            for (start, len) in inserted {
                let span = start..(start + len).min(END);
                set.extend(span.clone());
                spans.insert(span);
                prop_assert_eq!(Spans::from_pairs(&spans.pairs()), Some(spans.clone()));
            }
            let missing: Vec<u64> = (from..END).filter(|at| !set.contains(at)).collect();
            let gap = spans.gap(from, END);
            prop_assert_eq!(gap.as_ref().map(|gap| gap.start), missing.first().copied());
            if let Some(gap) = gap {
                prop_assert!(gap.clone().all(|at| !set.contains(&at)));
                prop_assert!(gap.end == END || set.contains(&gap.end));
            }
            spans.truncate(cut);
            set.retain(|at| *at < cut);
            prop_assert_eq!(spans.total(), set.len() as u64);
            prop_assert_eq!(spans.end(), set.last().map_or(0, |last| last + 1));
            prop_assert_eq!(spans.prefix(), (0..END).take_while(|at| set.contains(at)).count() as u64);
        }
    }

    #[test]
    fn what_is_no_set_of_spans_is_refused() {
        for pairs in [
            &[(1, 1)][..],
            &[(2, 1)],
            &[(0, 2), (1, 3)],
            &[(0, 1), (1, 2)],
            &[(5, 6), (0, 1)],
        ] {
            assert_eq!(Spans::from_pairs(pairs), None, "{pairs:?}");
        }
    }
}
