//! Searches for strings in the bytes of an answer, across token boundaries.

use super::params::SamplingError;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use std::fmt::Debug;
use std::sync::Arc;

/// Maximum number of strings per parameter.
pub const MAX_STRINGS: usize = 1000;
/// Maximum bytes of a string.
pub const MAX_STRING_BYTES: usize = 256;

/// The bytes of each token. A token may be a part of a character. An id outside the vocabulary has
/// no bytes.
pub trait Vocabulary: Debug + Send + Sync {
    /// The number of tokens.
    fn token_count(&self) -> usize;

    /// The bytes of a token, also of a control token.
    fn bytes(&self, token: u32) -> &[u8];

    /// The bytes that a token adds to the text of an answer. None for control tokens.
    fn visible_bytes(&self, token: u32) -> &[u8];
}

/// The sampling parameters that are strings, and the vocabulary for searching them.
#[derive(Debug, Clone)]
pub struct StringParams {
    /// The vocabulary.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// DRY's sequence breakers: a repetition ends at each of them. Empty ones are ignored.
    pub dry_breakers: Vec<String>,
    /// Strings that the answer never contains. Empty ones are ignored.
    pub banned: Vec<String>,
}

/// An Aho-Corasick automaton over a stream of bytes.
#[derive(Debug, Clone)]
pub(super) struct StringMatcher(Arc<NFA>);

impl StringMatcher {
    /// Builds the automaton. `None` if every string is empty.
    ///
    /// # Errors
    /// If there are too many strings, or one is too long. `name` is the parameter in the error.
    pub fn new(name: &'static str, strings: &[String]) -> Result<Option<Self>, SamplingError> {
        if strings.len() > MAX_STRINGS {
            let count = strings.len();
            return Err(SamplingError::TooManyStrings { name, count });
        }
        if let Some(bytes) = strings.iter().map(String::len).find(|bytes| *bytes > MAX_STRING_BYTES) {
            return Err(SamplingError::LongString { name, bytes });
        }
        let strings: Vec<&String> = strings.iter().filter(|string| !string.is_empty()).collect();
        if strings.is_empty() {
            return Ok(None);
        }
        // Within the limits above it has at most 256,000 states.
        let automaton = NFA::builder().match_kind(MatchKind::Standard).build(strings);
        let automaton = automaton.map_err(|_| SamplingError::TooManyStrings {
            name,
            count: MAX_STRINGS,
        })?;
        Ok(Some(Self(Arc::new(automaton))))
    }

    /// The state before any byte.
    pub fn start(&self) -> StateID {
        // An unanchored automaton always has a start state.
        self.0.start_state(Anchored::No).unwrap_or_default()
    }

    /// The state after a byte.
    pub fn step(&self, state: StateID, byte: u8) -> StateID {
        self.0.next_state(Anchored::No, state, byte)
    }

    /// The state after these bytes, and whether a match ended within them.
    pub fn advance(&self, state: StateID, bytes: &[u8]) -> (StateID, bool) {
        bytes.iter().fold((state, false), |(state, matched), &byte| {
            let state = self.step(state, byte);
            (state, matched | self.0.is_match(state))
        })
    }

    /// Whether a match would end within these bytes, from this state.
    pub fn would_match(&self, mut state: StateID, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| {
            state = self.step(state, byte);
            self.0.is_match(state)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn too_many_and_too_long_strings_are_refused_and_empty_ones_ignored() {
        let has_matcher =
            |strings: Vec<String>| StringMatcher::new("banned_strings", &strings).map(|matcher| matcher.is_some());
        assert_eq!(has_matcher(vec![]), Ok(false));
        assert_eq!(has_matcher(vec![String::new(); 2]), Ok(false));
        assert_eq!(has_matcher(vec!["a".repeat(256)]), Ok(true));
        assert!(matches!(
            has_matcher(vec!["a".repeat(257)]),
            Err(SamplingError::LongString { bytes: 257, .. })
        ));
        let too_many = (0..10_000).map(|number| number.to_string()).collect();
        assert!(matches!(
            has_matcher(too_many),
            Err(SamplingError::TooManyStrings { count: 10_000, .. })
        ));
        let maximum = (0..1000).map(|number| format!("{number:0256}")).collect();
        assert_eq!(has_matcher(maximum), Ok(true));
    }

    proptest! {
        #[test]
        fn matches_equal_a_naive_search(
            strings in prop::collection::vec("[abé]{0,4}", 0..5),
            stream in prop::collection::vec("[abé]{0,3}", 0..12),
        ) {
            let Some(matcher) = StringMatcher::new("banned_strings", &strings).unwrap() else {
                prop_assert!(strings.iter().all(String::is_empty));
                return Ok(());
            };
            let (mut state, mut prefix) = (matcher.start(), String::new());
            for piece in stream {
                let stream_so_far = format!("{prefix}{piece}");
                let ends_in_piece = |string: &String| {
                    (0..stream_so_far.len()).any(|start| {
                        !string.is_empty() && start + string.len() > prefix.len()
                            && stream_so_far.as_bytes()[start..].starts_with(string.as_bytes())
                    })
                };
                let expected = strings.iter().any(ends_in_piece);
                prop_assert_eq!(matcher.would_match(state, piece.as_bytes()), expected);
                let is_match;
                (state, is_match) = matcher.advance(state, piece.as_bytes());
                prop_assert_eq!(is_match, expected);
                prefix = stream_so_far;
            }
        }
    }
}
