//! Banned strings.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::SamplingError;
use super::string_match::{StringMatcher, StringParams, Vocabulary};
use aho_corasick::automaton::StateID;
use std::sync::Arc;

/// Bans each token whose text would complete a banned string, so that the text of the answer never
/// contains one, however its tokens cut it.
#[derive(Debug, Clone)]
pub(super) struct Banned {
    rules: Arc<Rules>,
    /// The state of the search after the answer so far.
    state: StateID,
    /// A buffer that is reused for each token.
    banned: Vec<u32>,
}

/// The parts of the filter that depend only on the strings and the vocabulary.
#[derive(Debug)]
struct Rules {
    search: StringMatcher,
    vocabulary: Arc<dyn Vocabulary>,
    /// Tokens that contain a whole banned string.
    always: Vec<u32>,
    /// Tokens with text, by their first byte: byte `b` has the tokens from `starts[b]` to
    /// `starts[b + 1]`.
    by_first: Vec<u32>,
    starts: [usize; 257],
}

impl Banned {
    /// # Errors
    /// If there are too many strings, or one is too long or not searchable.
    pub fn from_params(texts: &StringParams) -> Result<Option<Box<dyn Filter>>, SamplingError> {
        Ok(Self::new(texts)?.map(|filter| Box::new(filter) as Box<dyn Filter>))
    }

    fn new(texts: &StringParams) -> Result<Option<Self>, SamplingError> {
        // Invalid UTF-8 of several tokens is shown as this character.
        if texts
            .banned
            .iter()
            .any(|text| text.contains(char::REPLACEMENT_CHARACTER))
        {
            return Err(SamplingError::ReplacementCharacter);
        }
        let search = StringMatcher::new("banned_strings", &texts.banned)?;
        Ok(search.map(|search| Self {
            state: search.start(),
            banned: Vec::new(),
            rules: Arc::new(Rules::new(search, Arc::clone(&texts.vocabulary))),
        }))
    }
}

impl Rules {
    fn new(search: StringMatcher, vocabulary: Arc<dyn Vocabulary>) -> Self {
        let tokens = 0..u32::try_from(vocabulary.token_count()).unwrap_or(u32::MAX);
        let with_text = || {
            tokens
                .clone()
                .filter_map(|id| vocabulary.visible_bytes(id).first().map(|first| (id, *first)))
        };
        // A counting sort.
        let mut starts = [0; 257];
        with_text().for_each(|(_, first)| starts[usize::from(first) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let (mut by_first, mut next) = (vec![0; starts[256]], starts);
        for (id, first) in with_text() {
            by_first[next[usize::from(first)]] = id;
            next[usize::from(first)] += 1;
        }
        let start = search.start();
        let always = tokens.filter(|id| search.would_match(start, vocabulary.visible_bytes(*id)));
        Self {
            always: always.collect(),
            by_first,
            starts,
            vocabulary,
            search,
        }
    }

    /// Calls `ban` with the tokens that would complete a string after this state.
    fn completing(&self, state: StateID, mut ban: impl FnMut(u32)) {
        self.always.iter().copied().for_each(&mut ban);
        let start = self.search.start();
        if state == start {
            return;
        }
        for first in 0..=u8::MAX {
            // The others begin as they would at the beginning of the answer.
            if self.search.step(state, first) == self.search.step(start, first) {
                continue;
            }
            let group = self.starts[usize::from(first)]..self.starts[usize::from(first) + 1];
            for &id in &self.by_first[group] {
                if self.search.would_match(state, self.vocabulary.visible_bytes(id)) {
                    ban(id);
                }
            }
        }
    }
}

impl Filter for Banned {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        self.banned.clear();
        self.rules.completing(self.state, |id| self.banned.push(id));
        if self.banned.is_empty() {
            return;
        }
        let changed = candidates.logits_mut(logits);
        for &id in &self.banned {
            if let Some(logit) = changed.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn accept(&mut self, token: u32) {
        (self.state, _) = self
            .rules
            .search
            .advance(self.state, self.rules.vocabulary.visible_bytes(token));
    }

    fn begin_answer(&mut self) {
        self.state = self.rules.search.start();
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
    fn banned(texts: &StringParams, answer: &[u32]) -> Vec<u32> {
        let Some(mut filter) = Banned::new(texts).unwrap() else {
            return Vec::new();
        };
        answer.iter().for_each(|token| filter.accept(*token));
        let logits = vec![1.0; texts.vocabulary.token_count()];
        let mut candidates = Candidates::default();
        candidates.begin();
        filter.apply(&logits, &mut candidates, &mut Draws::new(0));
        let all = candidates.logits(&logits).iter().enumerate();
        all.filter(|(_, logit)| !logit.is_finite())
            .map(|(id, _)| id as u32)
            .collect()
    }

    #[test]
    fn a_token_that_completes_a_string_is_banned() {
        let words: [&[u8]; 8] = [b"for", b"bid", b"den", b"xforb", b"id forbid", b"", b"\xc3", b"\xa9t"];
        let texts = params(&words, &["forbid", "ét"]);
        assert_eq!(banned(&texts, &[]), [4]);
        assert_eq!(banned(&texts, &[0]), [1, 4]);
        // "xforb" and "id forbid" continue it, and the latter contains it anyway.
        assert_eq!(banned(&texts, &[2, 3]), [4]);
        assert_eq!(banned(&texts, &[0, 5]), [1, 4], "a token without text changes nothing");
        assert_eq!(banned(&texts, &[0, 2]), [4]);
        assert_eq!(banned(&texts, &[6]), [4, 7], "a character of two tokens");
    }

    #[test]
    fn the_prompt_is_not_searched() {
        let texts = params(&[b"a", b"b"], &["ab"]);
        let mut filter = Banned::new(&texts).unwrap().unwrap();
        let count = |filter: &Banned| {
            let mut actual = 0;
            filter.rules.completing(filter.state, |_| actual += 1);
            actual
        };
        filter.accept(0);
        assert_eq!(count(&filter), 1);
        filter.begin_answer();
        assert_eq!(count(&filter), 0);
    }

    #[test]
    fn strings_that_nothing_can_be_said_without_leave_no_token() {
        let params = SamplingParams::greedy();
        let texts = self::params(&[b"a"], &["a"]);
        let mut sampler = Sampler::with_strings(params, &texts).unwrap();
        assert!(!sampler.takes_argmax());
        assert_eq!(sampler.sample(&[1.0]), Err(SamplingError::NothingLeft));
        assert_eq!(sampler.sample(&[f32::NAN]), Err(SamplingError::NoLogits));
        let replaced = self::params(&[b"a"], &["\u{fffd}"]);
        assert!(matches!(
            Banned::new(&replaced),
            Err(SamplingError::ReplacementCharacter)
        ));
    }

    proptest! {
        /// The specification: a token is banned if the text with it contains a banned string.
        #[test]
        fn exactly_the_tokens_that_complete_a_string_are_banned(
            words in prop::collection::vec(
                prop::collection::vec(prop::sample::select(b"ab\xc3\xa9".to_vec()), 0..4), 1..12),
            strings in prop::collection::vec("[abé]{0,4}", 0..4),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let texts = params(&words, &strings);
            let contains = |bytes: &[u8]| {
                let has = |text: &[u8]| !text.is_empty() && bytes.windows(text.len()).any(|part| part == text);
                strings.iter().any(|text| has(text.as_bytes()))
            };
            let (mut answer, mut said): (Vec<u32>, Vec<u8>) = (Vec::new(), Vec::new());
            for choice in choices {
                let with = |id: usize| [&said[..], words[id]].concat();
                let all = 0..words.len() as u32;
                let expected: Vec<u32> = all.clone().filter(|id| contains(&with(*id as usize))).collect();
                prop_assert_eq!(banned(&texts, &answer), expected.clone());
                let free: Vec<u32> = all.filter(|id| !expected.contains(id)).collect();
                if free.is_empty() {
                    break;
                }
                answer.push(*choice.get(&free));
                said.extend(words[answer[answer.len() - 1] as usize]);
                let shown = String::from_utf8_lossy(&said);
                prop_assert!(!strings.iter().any(|text| !text.is_empty() && shown.contains(text)));
            }
        }
    }
}
