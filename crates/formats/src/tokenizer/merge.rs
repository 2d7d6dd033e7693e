//! The loop that BPE and SPM share: join the best pair of neighbours until none can be joined.
//!
//! They differ in what a pair is worth: its place in the list of merges, or the score of what it becomes. A linked list over
//! the pieces and a heap of the pairs make it O(n log n), so that a document without a space is no trap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The id of a piece that is no token (yet).
pub(super) const NO_TOKEN: u32 = u32::MAX;

/// A piece of the text: what it is and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Its token, or [`NO_TOKEN`].
    pub id: u32,
    /// The place of its first byte.
    pub start: u32,
    /// Its bytes; 0 once it was joined to the piece on its left.
    pub len: u32,
    previous: u32,
    next: u32,
}

/// No piece is there.
const END: u32 = u32::MAX;

/// A pair that may be joined. The smallest is joined first: by rank, then from the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: u32,
    right: u32,
    /// Bytes of both when the pair was found; anything else means that one of them has changed since.
    len: u32,
    id: u32,
}

/// The pieces of one text, kept between texts so that memory is asked for once.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    pairs: BinaryHeap<Reverse<Pair>>,
}

impl Pieces {
    /// Forgets the text before.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.pairs.clear();
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, id: u32, len: u32) {
        let place = self.pieces.len() as u32;
        let (start, previous) = match self.pieces.last_mut() {
            Some(last) => {
                last.next = place;
                (last.start + last.len, place - 1)
            }
            None => (0, END),
        };
        self.pieces.push(Piece {
            id,
            start,
            len,
            previous,
            next: END,
        });
    }

    /// Joins neighbours while `rank_of(left, right)` knows what they become: (rank, id), the smallest rank first.
    pub fn merge(&mut self, mut rank_of: impl FnMut(Piece, Piece) -> Option<(u32, u32)>) {
        for left in 1..self.pieces.len() as u32 {
            self.consider(left - 1, left, &mut rank_of);
        }
        while let Some(Reverse(pair)) = self.pairs.pop() {
            let (left, right) = (self.pieces[pair.left as usize], self.pieces[pair.right as usize]);
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            self.pieces[pair.left as usize] = Piece {
                id: pair.id,
                len: pair.len,
                next: right.next,
                ..left
            };
            self.pieces[pair.right as usize].len = 0;
            if right.next != END {
                self.pieces[right.next as usize].previous = pair.left;
            }
            self.consider(left.previous, pair.left, &mut rank_of);
            self.consider(pair.left, right.next, &mut rank_of);
        }
    }

    /// What is left, in order.
    pub fn iter(&self) -> impl Iterator<Item = Piece> {
        self.pieces.iter().copied().filter(|piece| piece.len > 0)
    }

    fn consider(&mut self, left: u32, right: u32, rank_of: &mut impl FnMut(Piece, Piece) -> Option<(u32, u32)>) {
        if left == END || right == END {
            return;
        }
        let (a, b) = (self.pieces[left as usize], self.pieces[right as usize]);
        if let Some((rank, id)) = rank_of(a, b) {
            self.pairs.push(Reverse(Pair {
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

    /// What two digits, or sums of them, become: their sum where that is even, the larger the sooner.
    fn rank_of(a: u32, b: u32) -> Option<(u32, u32)> {
        (a + b).is_multiple_of(2).then(|| (1000 - (a + b), a + b))
    }

    /// The pieces of a text of digits, joined by `-`.
    fn joined(digits: &str) -> String {
        let mut pieces = Pieces::default();
        for digit in digits.bytes() {
            pieces.push((digit - b'0').into(), 1);
        }
        pieces.merge(|a, b| rank_of(a.id, b.id));
        let parts: Vec<_> = pieces
            .iter()
            .map(|p| &digits[p.start as usize..(p.start + p.len) as usize])
            .collect();
        parts.join("-")
    }

    /// The same as the rule says it: again and again, of all neighbours the best, the leftmost of equals.
    fn joined_slowly(digits: &str) -> String {
        let mut parts: Vec<(u32, String)> = digits
            .chars()
            .map(|digit| (digit.to_digit(10).unwrap(), digit.to_string()))
            .collect();
        let best = |parts: &[(u32, String)]| {
            let pairs = (1..parts.len()).filter_map(|right| {
                let (rank, id) = rank_of(parts[right - 1].0, parts[right].0)?;
                Some((rank, right, id))
            });
            pairs.min()
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
            // 57, then the left 13, which goes with it at once; then 1357 and the other 13.
            ("135713", "135713"),
            ("57131", "5713-1"),
            ("2468", "2468"),
        ] {
            assert_eq!(joined(digits), expected, "{digits}");
            assert_eq!(joined_slowly(digits), expected, "{digits}, slowly");
        }
    }

    proptest! {
        #[test]
        fn the_heap_joins_what_a_search_for_the_best_pair_does(digits in "[0-9]{0,40}") {
            prop_assert_eq!(joined(&digits), joined_slowly(&digits));
        }
    }
}
