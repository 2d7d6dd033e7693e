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
/// If the last n tokens have occurred before, the token that followed them there is lowered by
/// multiplier · base^(n − allowed length), for the largest n that is at least the allowed length.
/// A repetition does not reach back over a sequence breaker, and a token that completes one is not
/// lowered. Breakers are found in the text, so it does not matter how tokens cut them.
#[derive(Debug, Clone)]
pub(super) struct Dry {
    multiplier: f64,
    base: f64,
    allowed_length: usize,
    /// The window.
    last_n: usize,
    recent: VecDeque<u32>,
    /// Tokens after the last breaker.
    unbroken: usize,
    breakers: Option<Breakers>,
    scratch: Scratch,
}

/// The sequence breakers.
#[derive(Debug, Clone)]
struct Breakers {
    search: StringMatcher,
    vocabulary: Arc<dyn Vocabulary>,
    state: StateID,
}

/// Buffers that are reused for each token.
#[derive(Debug, Default)]
struct Scratch {
    /// The recent tokens, the last one first.
    reversed: Vec<u32>,
    /// See [`shared_lengths`].
    lengths: Vec<usize>,
    /// The longest repetition that each token would continue.
    longest: HashMap<u32, usize>,
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Dry {
    /// # Errors
    /// If there are too many breakers, or one is too long.
    pub fn from_params(
        params: &SamplingParams,
        texts: Option<&StringParams>,
    ) -> Result<Option<Box<dyn Filter>>, SamplingError> {
        if !params.has_dry() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::new(params, texts)?)))
    }

    fn new(params: &SamplingParams, texts: Option<&StringParams>) -> Result<Self, SamplingError> {
        let mut breakers = None;
        if let Some(texts) = texts
            && let Some(search) = StringMatcher::new("dry_breakers", &texts.dry_breakers)?
        {
            breakers = Some(Breakers {
                state: search.start(),
                search,
                vocabulary: Arc::clone(&texts.vocabulary),
            });
        }
        Ok(Self {
            multiplier: f64::from(params.dry_multiplier),
            base: f64::from(params.dry_base),
            allowed_length: params.dry_allowed_length,
            last_n: params.dry_last_n,
            recent: VecDeque::new(),
            unbroken: 0,
            breakers,
            scratch: Scratch::default(),
        })
    }

    /// Finds the longest repetition that each token would continue.
    fn find(&mut self) {
        let Scratch {
            reversed,
            lengths,
            longest,
        } = &mut self.scratch;
        longest.clear();
        if self.unbroken < self.allowed_length {
            return;
        }
        reversed.clear();
        reversed.extend(self.recent.iter().rev());
        shared_lengths(reversed, lengths);
        for (at, shared) in lengths.iter().enumerate().skip(1) {
            let shared = (*shared).min(self.unbroken);
            if shared >= self.allowed_length {
                // The token after the earlier occurrence.
                let most = longest.entry(reversed[at - 1]).or_default();
                *most = shared.max(*most);
            }
        }
        if let Some(Breakers {
            search,
            vocabulary,
            state,
        }) = &self.breakers
        {
            longest.retain(|token, _| !search.would_match(*state, vocabulary.bytes(*token)));
        }
    }
}

impl Filter for Dry {
    fn apply(&mut self, logits: &[f32], candidates: &mut Candidates, _draws: &mut Draws) {
        self.find();
        if self.scratch.longest.is_empty() {
            return;
        }
        let changed = candidates.logits_mut(logits);
        for (&id, &length) in &self.scratch.longest {
            if let Some(logit) = changed.get_mut(id as usize).filter(|logit| logit.is_finite()) {
                // It stays finite, so that a token that would repeat can still be drawn.
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
        self.unbroken += 1;
        if let Some(breakers) = &mut self.breakers {
            let text = breakers.vocabulary.bytes(token);
            let (state, is_broken) = breakers.search.advance(breakers.state, text);
            breakers.state = state;
            if is_broken {
                self.unbroken = 0;
            }
        }
    }

    fn boxed(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }
}

/// The penalty of a repetition that is `excess` tokens too long.
fn penalty(multiplier: f64, base: f64, excess: usize) -> f32 {
    let exponent = i32::try_from(excess).unwrap_or(i32::MAX);
    (multiplier * base.powi(exponent)).min(f32::MAX.into()) as f32
}

/// For each position but the first, how many tokens from there on are those from the beginning on:
/// the Z function (Gusfield, "Algorithms on Strings, Trees and Sequences", 1997), in linear time.
fn shared_lengths(tokens: &[u32], lengths: &mut Vec<usize>) {
    lengths.clear();
    lengths.resize(tokens.len(), 0);
    // The range that was compared furthest, which equals the beginning.
    let (mut start, mut end) = (0, 0);
    for at in 1..tokens.len() {
        let mut shared = if at < end { lengths[at - start].min(end - at) } else { 0 };
        while tokens.get(at + shared).is_some_and(|token| *token == tokens[shared]) {
            shared += 1;
        }
        if at + shared > end {
            (start, end) = (at, at + shared);
        }
        lengths[at] = shared;
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

    fn words(words: &[&str], breakers: &[&str]) -> StringParams {
        StringParams {
            vocabulary: Arc::new(Words(words.iter().map(|word| word.as_bytes().to_vec()).collect())),
            dry_breakers: breakers.iter().map(|text| (*text).to_owned()).collect(),
            banned: Vec::new(),
        }
    }

    /// The penalties on the logits of four tokens, after these tokens.
    fn subtracted(params: &SamplingParams, texts: Option<&StringParams>, tokens: &[u32]) -> Vec<f32> {
        let mut filter = Dry::new(params, texts).unwrap();
        tokens.iter().for_each(|token| filter.accept(*token));
        let mut candidates = Candidates::default();
        candidates.begin();
        let logits = [0.0; 4];
        filter.apply(&logits, &mut candidates, &mut Draws::new(0));
        candidates.logits(&logits).iter().map(|logit| -logit).collect()
    }

    #[test]
    fn penalties_grow_with_the_repetition() {
        let check = |allowed, last_n, tokens: &[u32], expected: [f32; 4]| {
            assert_eq!(
                subtracted(&params(allowed, last_n), None, tokens),
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
        // Overlapping: 1 1 1 repeats itself.
        check(2, 64, &[1, 1, 1, 1], [0.0, 1.0, 0.0, 0.0]);
        // The window has the last four.
        check(2, 4, &[0, 1, 2, 0, 1], [0.0; 4]);
        // The longest of several.
        check(1, 64, &[0, 1, 2, 3, 1, 2, 3, 0, 1], [0.0, 0.0, 1.0, 0.0]);
        // Without an allowed length, each token of the window that follows another.
        check(0, 64, &[0, 1, 2], [0.0, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn the_window_and_the_multiplier_enable_it() {
        let of = |params: &SamplingParams| Dry::from_params(params, None).unwrap().is_some();
        assert!(of(&params(2, 64)));
        assert!(!of(&params(2, 0)));
        assert!(!of(&SamplingParams {
            dry_multiplier: 0.0,
            ..params(2, 64)
        }));
    }

    #[test]
    fn a_repetition_does_not_reach_over_a_breaker() {
        let check = |words: &[&str], breakers: &[&str], tokens: &[u32], expected: [f32; 4]| {
            let texts = self::words(words, breakers);
            assert_eq!(
                subtracted(&params(1, 64), Some(&texts), tokens),
                expected,
                "{words:?} {breakers:?}"
            );
        };
        let tokens = [0, 1, 2, 3, 0, 1, 2];
        check(&["a", "b", "c", "d"], &[], &tokens, [0.0, 0.0, 0.0, 2.0]);
        check(&["a", "\n", "c", "d"], &["\n"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["a", "x\n\ny", "c", "d"], &["", "\n"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["a", "b", "\n", "d"], &["\n"], &tokens, [0.0; 4]);
        // Two tokens are a breaker, and three.
        check(&["a", "b", "c", "d"], &["ab"], &tokens, [0.0, 0.0, 0.0, 0.5]);
        check(&["xa", "b", "c", "d"], &["abc"], &tokens, [0.0; 4]);
        // A token that completes a breaker may follow.
        check(&["a", "b", "c", "d:"], &[":"], &tokens, [0.0; 4]);
    }

    #[test]
    fn penalties_are_finite() {
        let mut params = params(0, 100_000);
        (params.dry_multiplier, params.dry_base) = (100.0, 100.0);
        let tokens = vec![1; 100_000];
        let actual = subtracted(&params, None, &tokens);
        assert!(actual[1].is_finite() && actual[1] > 1e30, "{actual:?}");
        params.dry_base = 1.0;
        assert_eq!(subtracted(&params, None, &tokens)[1], 100.0);
    }

    proptest! {
        /// The specification: compare each earlier position with the end, token by token.
        #[test]
        fn the_longest_repetitions_are_found(
            tokens in prop::collection::vec(0_u32..4, 0..60),
            allowed_length in 0_usize..4,
            last_n in 1_usize..70,
            breaker in prop::option::of(0_usize..4),
        ) {
            let letters = ["a", "b", "c", "d"];
            let texts = words(&letters, breaker.map(|at| &letters[at..=at]).unwrap_or_default());
            let window = &tokens[tokens.len().saturating_sub(last_n)..];
            let breaker = breaker.map(|at| at as u32);
            let mut longest: BTreeMap<u32, i32> = BTreeMap::new();
            for at in 0..window.len().saturating_sub(1) {
                let shared = (0..=at)
                    .take_while(|back| {
                        let last = window[window.len() - 1 - back];
                        window[at - back] == last && Some(last) != breaker
                    })
                    .count();
                let next = window[at + 1];
                if shared >= allowed_length && Some(next) != breaker {
                    let most = longest.entry(next).or_default();
                    *most = (shared as i32).max(*most);
                }
            }
            // Nothing is penalized if too little follows the last breaker.
            let unbroken = tokens.iter().rev().take_while(|token| Some(**token) != breaker).count();
            if unbroken < allowed_length {
                longest.clear();
            }
            let expected: Vec<f32> = (0..4)
                .map(|id| longest.get(&id).map_or(0.0, |shared| 0.5 * 2.0_f32.powi(shared - allowed_length as i32)))
                .collect();
            prop_assert_eq!(subtracted(&params(allowed_length, last_n), Some(&texts), &tokens), expected);
        }
    }
}
