//! The merge loop of BPE and SPM: merges the best pair of adjacent symbols until there is none.
//!
//! The two differ in the rank of a pair: its index in the list of merges, or the score of the
//! resulting token. A linked list of symbols and a heap of bigrams make the loop O(n log n), even
//! for a long text without spaces.

use crate::interrupt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Id of a symbol that is not a token (yet).
pub(super) const NO_TOKEN: u32 = u32::MAX;

/// A token with its position in the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    /// The token, or [`NO_TOKEN`].
    pub id: u32,
    /// Byte offset in the text.
    pub start: u32,
    /// Length in bytes. 0 once merged into the symbol on its left.
    pub len: u32,
    previous: u32,
    next: u32,
}

/// The cost of a merge for [`interrupt::step`].
const BYTES_PER_MERGE: u64 = 4;

/// Link of the first and last symbol.
const NO_SYMBOL: u32 = u32::MAX;

/// A pair of adjacent symbols that may be merged. Ordered by rank, then from left to right; the
/// smallest is merged first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bigram {
    rank: u32,
    left: u32,
    right: u32,
    /// Length of both when the bigram was pushed. A different length means that one of them has
    /// been merged since.
    len: u32,
    id: u32,
}

/// The symbols of a text. Reused between texts to avoid allocations.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    symbols: Vec<Symbol>,
    bigrams: BinaryHeap<Reverse<Bigram>>,
}

impl Symbols {
    /// Removes all symbols.
    pub fn clear(&mut self) {
        self.symbols.clear();
        self.bigrams.clear();
    }

    /// Appends a symbol.
    pub fn push(&mut self, id: u32, len: u32) {
        let index = self.symbols.len() as u32;
        let (start, previous) = match self.symbols.last_mut() {
            Some(last) => {
                last.next = index;
                (last.start + last.len, index - 1)
            }
            None => (0, NO_SYMBOL),
        };
        self.symbols.push(Symbol {
            id,
            start,
            len,
            previous,
            next: NO_SYMBOL,
        });
    }

    /// Merges adjacent symbols for which `rank_of(left, right)` returns a rank and the id of the
    /// resulting token, smallest rank first. Returns early if interrupted.
    pub fn merge(&mut self, mut rank_of: impl FnMut(Symbol, Symbol) -> Option<(u32, u32)>) {
        for left in 1..self.symbols.len() as u32 {
            if interrupt::step(BYTES_PER_MERGE) {
                return;
            }
            self.push_bigram(left - 1, left, &mut rank_of);
        }
        while let Some(Reverse(bigram)) = self.bigrams.pop() {
            if interrupt::step(BYTES_PER_MERGE) {
                return;
            }
            let (left, right) = (self.symbols[bigram.left as usize], self.symbols[bigram.right as usize]);
            if left.len == 0 || right.len == 0 || left.len + right.len != bigram.len {
                continue;
            }
            self.symbols[bigram.left as usize] = Symbol {
                id: bigram.id,
                len: bigram.len,
                next: right.next,
                ..left
            };
            self.symbols[bigram.right as usize].len = 0;
            if right.next != NO_SYMBOL {
                self.symbols[right.next as usize].previous = bigram.left;
            }
            self.push_bigram(left.previous, bigram.left, &mut rank_of);
            self.push_bigram(bigram.left, right.next, &mut rank_of);
        }
    }

    /// The remaining symbols, in order.
    pub fn iter(&self) -> impl Iterator<Item = Symbol> {
        self.symbols.iter().copied().filter(|symbol| symbol.len > 0)
    }

    fn push_bigram(&mut self, left: u32, right: u32, rank_of: &mut impl FnMut(Symbol, Symbol) -> Option<(u32, u32)>) {
        if left == NO_SYMBOL || right == NO_SYMBOL {
            return;
        }
        let (a, b) = (self.symbols[left as usize], self.symbols[right as usize]);
        if let Some((rank, id)) = rank_of(a, b) {
            self.bigrams.push(Reverse(Bigram {
                rank,
                left,
                right,
                len: a.len + b.len,
                id,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two digits or sums merge into their sum if it is even. Larger sums merge first.
    fn rank_of(a: u32, b: u32) -> Option<(u32, u32)> {
        (a + b).is_multiple_of(2).then(|| (1000 - (a + b), a + b))
    }

    /// Symbols of a string of digits after merging, separated by `-`.
    fn merged(digits: &str) -> String {
        let mut symbols = Symbols::default();
        for digit in digits.bytes() {
            symbols.push((digit - b'0').into(), 1);
        }
        symbols.merge(|a, b| rank_of(a.id, b.id));
        let parts: Vec<_> = symbols
            .iter()
            .map(|symbol| &digits[symbol.start as usize..(symbol.start + symbol.len) as usize])
            .collect();
        parts.join("-")
    }

    /// Reference implementation: repeatedly merges the best pair, the leftmost of equally ranked.
    fn merged_naively(digits: &str) -> String {
        let mut parts: Vec<(u32, String)> = digits
            .chars()
            .map(|digit| (digit.to_digit(10).unwrap(), digit.to_string()))
            .collect();
        let best = |parts: &[(u32, String)]| {
            let bigrams = (1..parts.len()).filter_map(|right| {
                let (rank, id) = rank_of(parts[right - 1].0, parts[right].0)?;
                Some((rank, right, id))
            });
            bigrams.min()
        };
        while let Some((_, right, id)) = best(&parts) {
            let (_, text) = parts.remove(right);
            let left = &mut parts[right - 1];
            left.0 = id;
            left.1.push_str(&text);
        }
        let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
        parts.join("-")
    }

    #[test]
    fn best_pair_first_then_from_the_left() {
        for (digits, expected) in [
            ("", ""),
            ("1", "1"),
            ("12", "1-2"),
            ("111", "11-1"),
            ("113", "1-13"),
            // Merges 57, the left 13, both of these, and then the other 13.
            ("135713", "135713"),
            ("57131", "5713-1"),
            ("2468", "2468"),
        ] {
            assert_eq!(merged(digits), expected, "{digits}");
            assert_eq!(merged_naively(digits), expected, "{digits}, reference");
        }
    }

    proptest! {
        #[test]
        fn the_heap_agrees_with_the_reference(digits in "[0-9]{0,40}") {
            prop_assert_eq!(merged(&digits), merged_naively(&digits));
        }
    }
}
