//! N-gram lookup, also called prompt lookup decoding (Saxena, 2023): finds an earlier occurrence of
//! the last tokens in the prompt or the answer, and proposes the tokens that followed it. It needs
//! no weights and no KV cache.

use super::{BUCKETS, DraftRequest, DraftTime, Drafted, Drafter, OnLayer};
use crate::error::SessionError;
use std::collections::HashMap;

/// Maximum earlier occurrences of the last two tokens that are compared, the latest first.
const MAX_COMPARED: usize = 64;
/// Maximum length of a match.
const MAX_MATCH: usize = 64;
/// The minimum match length of each bucket after the first.
const BUCKET_LENGTHS: [usize; 5] = [3, 4, 6, 9, 16];
/// Expected acceptance rate by match length: long matches are mostly copies.
const PRIORS: [f64; BUCKETS] = [0.2, 0.3, 0.45, 0.6, 0.8, 0.9, 0.5];

/// Drafts by n-gram lookup.
#[derive(Debug, Default)]
pub struct NgramDrafter {
    /// The index of each answer.
    indices: HashMap<u64, NgramIndex>,
}

impl NgramDrafter {
    /// A drafter without indexed answers.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Drafter for NgramDrafter {
    fn propose(&mut self, requests: &mut [DraftRequest], _: &mut OnLayer) -> Result<DraftTime, SessionError> {
        for request in requests {
            let index = self.indices.entry(request.id).or_default();
            index.extend(request.ids);
            let Some(longest) = index.find(request.ids) else {
                continue;
            };
            let bucket = BUCKET_LENGTHS.iter().filter(|min| longest.length >= **min).count();
            let length = request.length_policy.length(bucket, 0.0);
            if length == 0 {
                request.declined = (request.length_policy.max_tokens > 0).then_some(bucket);
            }
            let tokens = longest.continuation(request.ids).take(length);
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

/// The occurrences of each pair of tokens, as linked lists of positions. The position of a pair is
/// the position of its second token.
#[derive(Debug, Default)]
struct NgramIndex {
    /// The last position of each pair.
    last: HashMap<[u32; 2], u32>,
    /// For each position, the previous position of its pair; `u32::MAX` means none.
    previous: Vec<u32>,
}

/// An earlier occurrence of the last tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Match {
    /// The position after the match.
    end: usize,
    /// The number of matching tokens.
    length: usize,
}

impl NgramIndex {
    /// Adds the tokens that are not indexed yet, except for the last one: its pair is searched for,
    /// and must not match itself.
    fn extend(&mut self, ids: &[u32]) {
        let end = ids.len().saturating_sub(1);
        if self.previous.len() > end {
            *self = Self::default();
        }
        for position in self.previous.len()..end {
            let previous = match position.checked_sub(1) {
                Some(first) => self.last.insert([ids[first], ids[position]], position as u32),
                None => None,
            };
            self.previous.push(previous.unwrap_or(u32::MAX));
        }
    }

    /// The longest match of at least two tokens among the compared occurrences, and the latest one
    /// of equal length.
    fn find(&self, ids: &[u32]) -> Option<Match> {
        let &[.., first, second] = ids else { return None };
        let mut best: Option<Match> = None;
        let mut next = self.last.get(&[first, second]).copied();
        for _ in 0..MAX_COMPARED {
            let Some(position) = next.map(|position| position as usize) else {
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
                    end: position + 1,
                    length,
                });
            }
            next = self
                .previous
                .get(position)
                .copied()
                .filter(|previous| *previous != u32::MAX);
        }
        best
    }
}

impl Match {
    /// The tokens after the match, repeated without end.
    fn continuation(self, ids: &[u32]) -> impl Iterator<Item = u32> {
        let period = ids.len() - self.end;
        (0..).map(move |index| ids[self.end + index % period])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The length of the match, and the first four proposed tokens.
    fn find(ids: &[u32]) -> Option<(usize, Vec<u32>)> {
        let mut index = NgramIndex::default();
        index.extend(ids);
        let longest = index.find(ids)?;
        Some((longest.length, longest.continuation(ids).take(4).collect()))
    }

    #[test]
    fn the_longest_and_then_the_latest_match_is_continued() {
        assert_eq!(find(&[1, 2, 3, 4, 1, 2]), Some((2, vec![3, 4, 1, 2])));
        assert_eq!(
            find(&[9, 1, 2, 5, 7, 1, 2, 6, 9, 1, 2]),
            Some((3, vec![5, 7, 1, 2])),
            "longer"
        );
        assert_eq!(
            find(&[3, 1, 2, 5, 4, 1, 2, 6, 7, 1, 2]),
            Some((2, vec![6, 7, 1, 2])),
            "later"
        );
        assert_eq!(
            find(&[7, 7, 7]),
            Some((2, vec![7, 7, 7, 7])),
            "repeated with a period of one"
        );
        assert_eq!(
            find(&[1, 2, 1, 2]),
            Some((2, vec![1, 2, 1, 2])),
            "repeated past the end"
        );
        assert_eq!(find(&[1, 2, 3]), None);
        assert_eq!(find(&[1]), None);
        assert_eq!(find(&[]), None);
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_an_exhaustive_search(
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
            let length = |end: usize| {
                ids[..end].iter().rev().zip(ids.iter().rev()).take(MAX_MATCH).take_while(|(a, b)| a == b).count()
            };
            let expected = (2..ids.len()).filter(|end| length(*end) >= 2).max_by_key(|end| (length(*end), *end));
            prop_assert_eq!(index.find(&ids).map(|longest| longest.end), expected);
        }
    }
}
