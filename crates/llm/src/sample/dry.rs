//! DRY ("don't repeat yourself"), as in
//! <https://github.com/oobabooga/text-generation-webui/pull/5677>.

use super::candidates::Candidates;
use super::draws::Draws;
use super::filter::Filter;
use super::params::{SamplingError, SamplingParams};
use super::string_match::{StringMatcher, StringParams, Vocabulary};
use aho_corasick::automaton::StateID;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Lowers the logits of tokens that would continue a repetition.
///
/// If the last n tokens have occurred before, the logit of the token that followed them is lowered
/// by multiplier · base^(n − allowed length), for the largest n that is at least the allowed
/// length. A repetition does not extend over a sequence breaker, and a token that completes a
/// breaker is not penalized. Breakers are found in the text, also across token boundaries.
#[derive(Debug, Clone)]
pub(super) struct Dry {
    multiplier: f64,
    base: f64,
    allowed_length: usize,
    /// The number of recent tokens that are searched for repetitions.
    last_n: usize,
    recent: VecDeque<u32>,
    /// The number of tokens since the last breaker.
    since_breaker: usize,
    breakers: Option<Breakers>,
    buffers: Buffers,
}

/// The sequence breakers.
#[derive(Debug, Clone)]
struct Breakers {
    matcher: StringMatcher,
    vocabulary: Arc<dyn Vocabulary>,
    state: StateID,
}

/// Buffers that are reused for each token. A clone has empty ones.
#[derive(Debug, Default)]
struct Buffers {
    /// The recent tokens, the last one first.
    reversed: Vec<u32>,
    /// The [`z_function`] of `reversed`.
    z: Vec<usize>,
    /// The length of the longest repetition that each token would continue.
    longest: HashMap<u32, usize>,
}

impl Clone for Buffers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Dry {
    /// # Errors
    /// If there are too many breakers, or one is too long.
    pub fn from_params(
        params: &SamplingParams,
        strings: Option<&StringParams>,
    ) -> Result<Option<Box<dyn Filter>>, SamplingError> {
        if !params.has_dry() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::new(params, strings)?)))
    }

    fn new(params: &SamplingParams, strings: Option<&StringParams>) -> Result<Self, SamplingError> {
        let mut breakers = None;
        if let Some(strings) = strings
            && let Some(matcher) = StringMatcher::new("dry_breakers", &strings.dry_breakers)?
        {
            breakers = Some(Breakers {
                state: matcher.start(),
                matcher,
                vocabulary: Arc::clone(&strings.vocabulary),
            });
        }
        Ok(Self {
            multiplier: f64::from(params.dry_multiplier),
            base: f64::from(params.dry_base),
            allowed_length: params.dry_allowed_length,
            last_n: params.dry_last_n,
            recent: VecDeque::new(),
            since_breaker: 0,
            breakers,
            buffers: Buffers::default(),
        })
    }

    /// Finds the longest repetition that each token would continue.
    fn find_repetitions(&mut self) {
        let Buffers { reversed, z, longest } = &mut self.buffers;
        longest.clear();
        if self.since_breaker < self.allowed_length {
            return;
        }
        reversed.clear();
        reversed.extend(self.recent.iter().rev());
        z_function(reversed, z);
        for (position, length) in z.iter().enumerate().skip(1) {
            let length = (*length).min(self.since_breaker);
            if length >= self.allowed_length {
                // The token that followed the earlier occurrence.
                let max = longest.entry(reversed[position - 1]).or_default();
                *max = length.max(*max);
            }
        }
        if let Some(Breakers {
            matcher,
            vocabulary,
            state,
        }) = &self.breakers
        {
            longest.retain(|token, _| !matcher.would_match(*state, vocabulary.bytes(*token)));
        }
    }
}

impl Filter for Dry {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        self.find_repetitions();
        if self.buffers.longest.is_empty() {
            return;
        }
        let logits = candidates.logits_mut(logits);
        for (&id, &length) in &self.buffers.longest {
            if let Some(logit) = logits.get_mut(id as usize).filter(|logit| logit.is_finite()) {
                // The logit remains finite, so that the token can still be drawn.
                let penalty = penalty(self.multiplier, self.base, length - self.allowed_length);
                *logit = (*logit - penalty).max(f32::MIN);
            }
        }
    }

    fn accept(&mut self, token: u32) {
        if self.recent.len() == self.last_n {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
        self.since_breaker += 1;
        if let Some(breakers) = &mut self.breakers {
            let bytes = breakers.vocabulary.bytes(token);
            let (state, completes_breaker) = breakers.matcher.advance(breakers.state, bytes);
            breakers.state = state;
            if completes_breaker {
                self.since_breaker = 0;
            }
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

/// The penalty of a repetition that is `excess` tokens longer than allowed.
fn penalty(multiplier: f64, base: f64, excess: usize) -> f32 {
    let exponent = i32::try_from(excess).unwrap_or(i32::MAX);
    (multiplier * base.powi(exponent)).min(f32::MAX.into()) as f32
}

/// The Z function, in linear time: for each position but the first, the length of the longest
/// common prefix of `tokens` and of its suffix from this position on (Gusfield, "Algorithms on
/// Strings, Trees and Sequences", 1997).
fn z_function(tokens: &[u32], z: &mut Vec<usize>) {
    z.clear();
    z.resize(tokens.len(), 0);
    // The match with the furthest end so far.
    let (mut start, mut end) = (0, 0);
    for position in 1..tokens.len() {
        let mut length = if position < end {
            z[position - start].min(end - position)
        } else {
            0
        };
        while tokens
            .get(position + length)
            .is_some_and(|token| *token == tokens[length])
        {
            length += 1;
        }
        if position + length > end {
            (start, end) = (position, position + length);
        }
        z[position] = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::Words;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn params(allowed_length: usize, last_n: usize) -> SamplingParams {
        SamplingParams {
            dry_multiplier: 0.5,
            dry_base: 2.0,
            dry_allowed_length: allowed_length,
            dry_last_n: last_n,
            ..SamplingParams::greedy()
        }
    }

    fn string_params(words: &[&str], breakers: &[&str]) -> StringParams {
        StringParams {
            vocabulary: Arc::new(Words(words.iter().map(|word| word.as_bytes().to_vec()).collect())),
            dry_breakers: breakers.iter().map(|text| (*text).to_owned()).collect(),
            banned: Vec::new(),
        }
    }

    /// The penalties of four tokens after `tokens`.
    fn penalties(params: &SamplingParams, strings: Option<&StringParams>, tokens: &[u32]) -> Vec<f32> {
        let mut filter = Dry::new(params, strings).unwrap();
        tokens.iter().for_each(|token| filter.accept(*token));
        let mut candidates = Candidates::default();
        candidates.begin();
        let logits = [0.0; 4];
        filter.apply(&logits, &mut candidates, &mut Draws::new(0));
        candidates.logits(&logits).iter().map(|logit| -logit).collect()
    }

    #[test]
    fn penalties_grow_with_the_repetition() {
        let check = |allowed_length, last_n, tokens: &[u32], expected: [f32; 4]| {
            assert_eq!(
                penalties(&params(allowed_length, last_n), None, tokens),
                expected,
                "{tokens:?}"
            );
        };
        check(2, 64, &[], [0.0; 4]);
        check(2, 64, &[0, 1, 2, 0], [0.0; 4]);
        // 0 1 was followed by 2.
        check(2, 64, &[0, 1, 2, 0, 1], [0.0, 0.0, 0.5, 0.0]);
        check(1, 64, &[0, 1, 2, 0, 1], [0.0, 0.0, 1.0, 0.0]);
        check(2, 64, &[3, 0, 1, 2, 3, 0, 1], [0.0, 0.0, 1.0, 0.0]);
        // The occurrences of 1 1 1 overlap.
        check(2, 64, &[1, 1, 1, 1], [0.0, 1.0, 0.0, 0.0]);
        // The first token is outside of the window.
        check(2, 4, &[0, 1, 2, 0, 1], [0.0; 4]);
        // The longest of several repetitions counts.
        check(1, 64, &[0, 1, 2, 3, 1, 2, 3, 0, 1], [0.0, 0.0, 1.0, 0.0]);
        // With an allowed length of 0, each token of the window but the first is penalized.
        check(0, 64, &[0, 1, 2], [0.0, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn the_window_and_the_multiplier_enable_it() {
        let is_enabled = |params: &SamplingParams| Dry::from_params(params, None).unwrap().is_some();
        assert!(is_enabled(&params(2, 64)));
        assert!(!is_enabled(&params(2, 0)));
        assert!(!is_enabled(&SamplingParams {
            dry_multiplier: 0.0,
            ..params(2, 64)
        }));
    }

    #[test]
    fn a_repetition_does_not_reach_over_a_breaker() {
        let check = |words: &[&str], breakers: &[&str], tokens: &[u32], expected: [f32; 4]| {
            let strings = string_params(words, breakers);
            assert_eq!(
                penalties(&params(1, 64), Some(&strings), tokens),
                expected,
                "{words:?} {breakers:?}"
            );
        };
        let tokens = [0, 1, 2, 3, 0, 1, 2];
        check(&["a", "b", "c", "d"], &[], &tokens, [0.0, 0.0, 0.0, 2.0]);
        check(&["a", "\n", "c", "d"], &["\n"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["a", "x\n\ny", "c", "d"], &["", "\n"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["a", "b", "\n", "d"], &["\n"], &tokens, [0.0; 4]);
        // Breakers of two and of three tokens.
        check(&["a", "b", "c", "d"], &["ab"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["xa", "b", "c", "d"], &["abc"], &tokens, [0.0; 4]);
        // A token that completes a breaker is not penalized.
        check(&["a", "b", "c", "d:"], &[":"], &tokens, [0.0; 4]);
    }

    #[test]
    fn penalties_are_finite() {
        let mut params = params(0, 100_000);
        (params.dry_multiplier, params.dry_base) = (100.0, 100.0);
        let tokens = vec![1; 100_000];
        let actual = penalties(&params, None, &tokens);
        assert!(actual[1].is_finite() && actual[1] > 1e30, "{actual:?}");
        params.dry_base = 1.0;
        assert_eq!(penalties(&params, None, &tokens)[1], 100.0);
    }

    proptest! {
        /// The reference compares each earlier position with the end, token by token.
        #[test]
        fn the_longest_repetitions_are_found(
            tokens in prop::collection::vec(0_u32..4, 0..60),
            allowed_length in 0_usize..4,
            last_n in 1_usize..70,
            breaker in prop::option::of(0_usize..4),
        ) {
            let letters = ["a", "b", "c", "d"];
            let strings = string_params(&letters, breaker.map(|index| &letters[index..=index]).unwrap_or_default());
            let window = &tokens[tokens.len().saturating_sub(last_n)..];
            let breaker = breaker.map(|index| index as u32);
            let mut longest: BTreeMap<u32, i32> = BTreeMap::new();
            for position in 0..window.len().saturating_sub(1) {
                let length = (0..=position)
                    .take_while(|back| {
                        let last = window[window.len() - 1 - back];
                        window[position - back] == last && Some(last) != breaker
                    })
                    .count();
                let next = window[position + 1];
                if length >= allowed_length && Some(next) != breaker {
                    let max = longest.entry(next).or_default();
                    *max = (length as i32).max(*max);
                }
            }
            // No token is penalized if too few follow the last breaker.
            let since_breaker = tokens.iter().rev().take_while(|token| Some(**token) != breaker).count();
            if since_breaker < allowed_length {
                longest.clear();
            }
            let expected: Vec<f32> = (0..4)
                .map(|id| longest.get(&id).map_or(0.0, |length| 0.5 * 2.0_f32.powi(length - allowed_length as i32)))
                .collect();
            prop_assert_eq!(penalties(&params(allowed_length, last_n), Some(&strings), &tokens), expected);
        }
    }
}
