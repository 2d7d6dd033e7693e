//! N-gram lookup: what followed the last tokens where they occurred before, in the prompt or in the
//! answer (Saxena, "Prompt Lookup Decoding", 2023). It needs no weights and no KV cells.

use super::{BUCKETS, DraftRequest, DraftTime, Drafted, Drafter, OnLayer};
use crate::error::SessionError;
use std::collections::HashMap;

/// Earlier occurrences that are compared, the latest first.
const MAX_COMPARED: usize = 64;
/// The longest match that is looked for.
const MAX_MATCH: usize = 64;
/// The shortest matches of the buckets above the first.
const LENGTHS: [usize; 5] = [3, 4, 6, 9, 16];
/// Expected acceptance by the length of the match: long ones are mostly copies.
const PRIORS: [f64; BUCKETS] = [0.2, 0.3, 0.45, 0.6, 0.8, 0.9, 0.5];

/// Drafts by n-gram lookup.
#[derive(Debug, Default)]
pub struct NgramDrafter {
    indices: HashMap<u64, NgramIndex>,
}

impl NgramDrafter {
    /// Nothing indexed yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Drafter for NgramDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], _: &mut OnLayer) -> Result<DraftTime, SessionError> {
        for request in requests {
            let index = self.indices.entry(request.id).or_default();
            index.extend(request.ids);
            let Some(found) = index.find(request.ids) else {
                continue;
            };
            let bucket = LENGTHS.iter().filter(|length| found.length >= **length).count();
            let length = request.budget.length(bucket, 0.0);
            if length == 0 {
                request.declined = (request.budget.most > 0).then_some(bucket);
            }
            let tokens = found.continuation(request.ids).take(length);
            request.drafted.extend(tokens.map(|token| Drafted { token, bucket }));
        }
        Ok(DraftTime::default())
    }

    fn end(&mut self, id: u64) {
        self.indices.remove(&id);
    }

    fn clear(&mut self) {
        self.indices.clear();
    }

    fn priors(&self) -> [f64; BUCKETS] {
        PRIORS
    }

    fn relative_cost(&self) -> f64 {
        0.0
    }
}

/// The occurrences of each pair of tokens, as chains of positions.
#[derive(Debug, Default)]
struct NgramIndex {
    /// The last position of the second token of each pair.
    last: HashMap<[u32; 2], u32>,
    /// For each position the one before it that has the same pair; `u32::MAX` means none.
    before: Vec<u32>,
}

/// An earlier occurrence of the last tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Match {
    /// The position behind it.
    next: usize,
    /// Its tokens.
    length: usize,
}

impl NgramIndex {
    /// Adds the tokens that it does not have yet, but for the last pair, which must not match
    /// itself.
    fn extend(&mut self, ids: &[u32]) {
        let end = ids.len().saturating_sub(1);
        if self.before.len() > end {
            *self = Self::default();
        }
        for at in self.before.len()..end {
            let before = match at.checked_sub(1) {
                Some(first) => self.last.insert([ids[first], ids[at]], at as u32),
                None => None,
            };
            self.before.push(before.unwrap_or(u32::MAX));
        }
    }

    /// The longest earlier occurrence of the last tokens, at least two; the latest of equals.
    fn find(&self, ids: &[u32]) -> Option<Match> {
        let &[.., first, second] = ids else { return None };
        let mut best: Option<Match> = None;
        let mut at = self.last.get(&[first, second]).copied();
        for _ in 0..MAX_COMPARED {
            let Some(position) = at.map(|at| at as usize) else {
                break;
            };
            let earlier = ids[..=position].iter().rev();
            let length = earlier
                .zip(ids.iter().rev())
                .take(MAX_MATCH)
                .take_while(|(a, b)| a == b)
                .count();
            if best.is_none_or(|best| length > best.length) {
                best = Some(Match {
                    next: position + 1,
                    length,
                });
            }
            at = self.before.get(position).copied().filter(|before| *before != u32::MAX);
        }
        best
    }
}

impl Match {
    /// The tokens after the match, repeated periodically past the end of the text.
    fn continuation(self, ids: &[u32]) -> impl Iterator<Item = u32> {
        let period = ids.len() - self.next;
        (0..).map(move |at| ids[self.next + at % period])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(ids: &[u32]) -> Option<(usize, Vec<u32>)> {
        let mut index = NgramIndex::default();
        index.extend(ids);
        let actual = index.find(ids)?;
        Some((actual.length, actual.continuation(ids).take(4).collect()))
    }

    #[test]
    fn the_longest_and_then_the_latest_match_is_continued() {
        assert_eq!(found(&[1, 2, 3, 4, 1, 2]), Some((2, vec![3, 4, 1, 2])));
        assert_eq!(
            found(&[9, 1, 2, 5, 7, 1, 2, 6, 9, 1, 2]),
            Some((3, vec![5, 7, 1, 2])),
            "longer"
        );
        assert_eq!(
            found(&[3, 1, 2, 5, 4, 1, 2, 6, 7, 1, 2]),
            Some((2, vec![6, 7, 1, 2])),
            "later"
        );
        assert_eq!(found(&[7, 7, 7]), Some((2, vec![7, 7, 7, 7])), "a period of one");
        assert_eq!(found(&[1, 2, 1, 2]), Some((2, vec![1, 2, 1, 2])), "past the end");
        assert_eq!(found(&[1, 2, 3]), None);
        assert_eq!(found(&[1]), None);
        assert_eq!(found(&[]), None);
    }

    proptest! {
        /// Against a search of all positions.
        #[test]
        fn the_index_finds_what_a_search_finds(
            ids in prop::collection::vec(0..4u32, 0..60),
            cuts in prop::collection::vec(0..60usize, 0..4),
        ) {
            let mut index = NgramIndex::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(ids.len())).collect();
            cuts.sort_unstable();
            for cut in cuts {
                index.extend(&ids[..cut]);
            }
            index.extend(&ids);
            let length = |next: usize| {
                ids[..next].iter().rev().zip(ids.iter().rev()).take(MAX_MATCH).take_while(|(a, b)| a == b).count()
            };
            let expected = (2..ids.len()).filter(|next| length(*next) >= 2).max_by_key(|next| (length(*next), *next));
            prop_assert_eq!(index.find(&ids).map(|actual| actual.next), expected);
        }
    }
}
