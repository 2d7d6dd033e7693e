//! Banned strings.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingError;
use super::string_match::{StringMatcher, StringParams, Vocabulary};
use aho_corasick::automaton::StateID;
use std::sync::Arc;

/// Bans each token whose text would complete a banned string. So the text of the answer never
/// contains one, also across token boundaries.
#[derive(Debug, Clone)]
pub(super) struct BannedStrings {
    index: Arc<BanIndex>,
    /// The state of the matcher after the answer so far.
    state: StateID,
    /// The banned tokens. The buffer is reused.
    tokens: Vec<u32>,
}

/// The data that depends only on the strings and the vocabulary.
#[derive(Debug)]
struct BanIndex {
    matcher: StringMatcher,
    vocabulary: Arc<dyn Vocabulary>,
    /// Tokens that contain a whole banned string.
    always: Vec<u32>,
    /// Tokens with text, sorted by their first byte: the tokens of byte `b` are at
    /// `starts[b]..starts[b + 1]`.
    by_first_byte: Vec<u32>,
    starts: [usize; 257],
}

impl BannedStrings {
    /// # Errors
    /// If there are too many strings, or one is too long or not searchable.
    pub fn from_params(params: &StringParams) -> Result<Option<Box<dyn Filter>>, SamplingError> {
        Ok(Self::new(params)?.map(|filter| Box::new(filter) as Box<dyn Filter>))
    }

    fn new(params: &StringParams) -> Result<Option<Self>, SamplingError> {
        // Invalid UTF-8, which is not searched for, is also shown as this character.
        if params
            .banned
            .iter()
            .any(|string| string.contains(char::REPLACEMENT_CHARACTER))
        {
            return Err(SamplingError::ReplacementCharacter);
        }
        let matcher = StringMatcher::new("banned_strings", &params.banned)?;
        Ok(matcher.map(|matcher| Self {
            state: matcher.start(),
            tokens: Vec::new(),
            index: Arc::new(BanIndex::new(matcher, Arc::clone(&params.vocabulary))),
        }))
    }
}

impl BanIndex {
    fn new(matcher: StringMatcher, vocabulary: Arc<dyn Vocabulary>) -> Self {
        let tokens = 0..u32::try_from(vocabulary.token_count()).unwrap_or(u32::MAX);
        let first_bytes = || {
            tokens
                .clone()
                .filter_map(|id| vocabulary.visible_bytes(id).first().map(|first| (id, *first)))
        };
        // A counting sort.
        let mut starts = [0; 257];
        first_bytes().for_each(|(_, first)| starts[usize::from(first) + 1] += 1);
        for byte in 1..starts.len() {
            starts[byte] += starts[byte - 1];
        }
        let (mut by_first_byte, mut next) = (vec![0; starts[256]], starts);
        for (id, first) in first_bytes() {
            by_first_byte[next[usize::from(first)]] = id;
            next[usize::from(first)] += 1;
        }
        let start = matcher.start();
        let always = tokens.filter(|id| matcher.would_match(start, vocabulary.visible_bytes(*id)));
        Self {
            always: always.collect(),
            by_first_byte,
            starts,
            vocabulary,
            matcher,
        }
    }

    /// Calls `ban` with each token that would complete a banned string in this state.
    fn ban_completing(&self, state: StateID, mut ban: impl FnMut(u32)) {
        self.always.iter().copied().for_each(&mut ban);
        let start = self.matcher.start();
        if state == start {
            return;
        }
        for first in 0..=u8::MAX {
            // After such a byte, only tokens of `always` complete a string.
            if self.matcher.step(state, first) == self.matcher.step(start, first) {
                continue;
            }
            let tokens = self.starts[usize::from(first)]..self.starts[usize::from(first) + 1];
            for &id in &self.by_first_byte[tokens] {
                if self.matcher.would_match(state, self.vocabulary.visible_bytes(id)) {
                    ban(id);
                }
            }
        }
    }
}

impl Filter for BannedStrings {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        self.tokens.clear();
        self.index.ban_completing(self.state, |id| self.tokens.push(id));
        if self.tokens.is_empty() {
            return;
        }
        let logits = candidates.logits_mut(logits);
        for &id in &self.tokens {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn accept(&mut self, token: u32) {
        (self.state, _) = self
            .index
            .matcher
            .advance(self.state, self.index.vocabulary.visible_bytes(token));
    }

    fn begin_answer(&mut self) {
        self.state = self.index.matcher.start();
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::Words;
    use crate::sample::{Sampler, SamplingParams};
    use proptest::prelude::*;

    fn params(words: &[&[u8]], banned: &[&str]) -> StringParams {
        StringParams {
            vocabulary: Arc::new(Words(words.iter().map(|word| word.to_vec()).collect())),
            dry_breakers: Vec::new(),
            banned: banned.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    /// The tokens that are banned after these.
    fn banned(params: &StringParams, answer: &[u32]) -> Vec<u32> {
        let Some(mut filter) = BannedStrings::new(params).unwrap() else {
            return Vec::new();
        };
        answer.iter().for_each(|token| filter.accept(*token));
        let logits = vec![1.0; params.vocabulary.token_count()];
        let mut candidates = Candidates::default();
        candidates.begin();
        filter.apply(&logits, &mut candidates, &mut Draws::new(0));
        let logits = candidates.logits(&logits).iter().enumerate();
        logits
            .filter(|(_, logit)| !logit.is_finite())
            .map(|(id, _)| id as u32)
            .collect()
    }

    #[test]
    fn a_token_that_completes_a_string_is_banned() {
        let words: [&[u8]; 8] = [b"for", b"bid", b"den", b"xforb", b"id forbid", b"", b"\xc3", b"\xa9t"];
        let params = params(&words, &["forbid", "ét"]);
        assert_eq!(banned(&params, &[]), [4]);
        assert_eq!(banned(&params, &[0]), [1, 4]);
        // "xforb" is continued by "id forbid", which also contains "forbid".
        assert_eq!(banned(&params, &[2, 3]), [4]);
        assert_eq!(banned(&params, &[0, 5]), [1, 4], "a token without text changes nothing");
        assert_eq!(banned(&params, &[0, 2]), [4]);
        assert_eq!(banned(&params, &[6]), [4, 7], "a character of two tokens");
    }

    #[test]
    fn the_prompt_is_not_searched() {
        let params = params(&[b"a", b"b"], &["ab"]);
        let mut filter = BannedStrings::new(&params).unwrap().unwrap();
        let count_banned = |filter: &BannedStrings| {
            let mut count = 0;
            filter.index.ban_completing(filter.state, |_| count += 1);
            count
        };
        filter.accept(0);
        assert_eq!(count_banned(&filter), 1);
        filter.begin_answer();
        assert_eq!(count_banned(&filter), 0);
    }

    #[test]
    fn no_token_is_left_if_all_complete_a_string() {
        let strings = params(&[b"a"], &["a"]);
        let mut sampler = Sampler::with_strings(SamplingParams::greedy(), &strings).unwrap();
        assert!(!sampler.takes_argmax());
        assert_eq!(sampler.sample(&[1.0]), Err(SamplingError::NothingLeft));
        assert_eq!(sampler.sample(&[f32::NAN]), Err(SamplingError::NoLogits));
        let replacement = params(&[b"a"], &["\u{fffd}"]);
        assert!(matches!(
            BannedStrings::new(&replacement),
            Err(SamplingError::ReplacementCharacter)
        ));
    }

    proptest! {
        /// The reference: a token is banned if the text with it contains a banned string.
        #[test]
        fn exactly_the_tokens_that_complete_a_string_are_banned(
            words in prop::collection::vec(
                prop::collection::vec(prop::sample::select(b"ab\xc3\xa9".to_vec()), 0..4), 1..12),
            strings in prop::collection::vec("[abé]{0,4}", 0..4),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let params = params(&words, &strings);
            let contains_banned = |bytes: &[u8]| {
                let contains = |string: &[u8]| {
                    !string.is_empty() && bytes.windows(string.len()).any(|window| window == string)
                };
                strings.iter().any(|string| contains(string.as_bytes()))
            };
            let (mut answer, mut bytes): (Vec<u32>, Vec<u8>) = (Vec::new(), Vec::new());
            for choice in choices {
                let with_token = |id: usize| [&bytes[..], words[id]].concat();
                let tokens = 0..words.len() as u32;
                let expected: Vec<u32> =
                    tokens.clone().filter(|id| contains_banned(&with_token(*id as usize))).collect();
                prop_assert_eq!(banned(&params, &answer), expected.clone());
                let allowed: Vec<u32> = tokens.filter(|id| !expected.contains(id)).collect();
                if allowed.is_empty() {
                    break;
                }
                answer.push(*choice.get(&allowed));
                bytes.extend(words[answer[answer.len() - 1] as usize]);
                let text = String::from_utf8_lossy(&bytes);
                prop_assert!(!strings.iter().any(|string| !string.is_empty() && text.contains(string)));
            }
        }
    }
}
