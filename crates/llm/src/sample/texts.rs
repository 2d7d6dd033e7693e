//! Texts that filters search for in the answer, and the texts of tokens.

use super::params::SamplingError;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use std::fmt::Debug;
use std::sync::Arc;

/// Most texts of a parameter.
pub const MAX_TEXTS: usize = 1000;
/// Most bytes of a text.
pub const MAX_TEXT_BYTES: usize = 256;

/// The texts of a vocabulary's tokens. A text may be a part of a character; ids outside the
/// vocabulary have none.
pub trait TokenTexts: Debug + Send + Sync {
    /// Number of tokens.
    fn vocab(&self) -> usize;

    /// The text of a token, control tokens included.
    fn text(&self, token: u32) -> &[u8];

    /// The text that a token adds to an answer: empty for control tokens.
    fn shown(&self, token: u32) -> &[u8];
}

/// The parameters that are texts, with the vocabulary that they are searched in.
#[derive(Debug, Clone)]
pub struct TextParams {
    /// The vocabulary.
    pub vocabulary: Arc<dyn TokenTexts>,
    /// DRY's sequence breakers: a repetition ends at each of them. Empty ones are ignored.
    pub dry_breakers: Vec<String>,
    /// Texts that the answer never contains. Empty ones are ignored.
    pub banned: Vec<String>,
}

/// A search for texts in a stream of bytes.
#[derive(Debug, Clone)]
pub(super) struct TextSearch(Arc<NFA>);

impl TextSearch {
    /// A search for these; `None` if none of them has a character.
    ///
    /// # Errors
    /// If there are too many, or one is too long; `name` is the parameter's.
    pub fn new(name: &'static str, texts: &[String]) -> Result<Option<Self>, SamplingError> {
        if texts.len() > MAX_TEXTS {
            let count = texts.len();
            return Err(SamplingError::TooManyTexts { name, count });
        }
        if let Some(bytes) = texts.iter().map(String::len).find(|bytes| *bytes > MAX_TEXT_BYTES) {
            return Err(SamplingError::LongText { name, bytes });
        }
        let texts: Vec<&String> = texts.iter().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return Ok(None);
        }
        // Within the limits above it has at most 256,000 states.
        let automaton = NFA::builder().match_kind(MatchKind::Standard).build(texts);
        let automaton = automaton.map_err(|_| SamplingError::TooManyTexts { name, count: MAX_TEXTS })?;
        Ok(Some(Self(Arc::new(automaton))))
    }

    /// The state before any byte.
    pub fn start(&self) -> StateID {
        // Without a prefilter or anchors every automaton has this state.
        self.0.start_state(Anchored::No).unwrap_or_default()
    }

    /// The state after a byte.
    pub fn step(&self, state: StateID, byte: u8) -> StateID {
        self.0.next_state(Anchored::No, state, byte)
    }

    /// The state after these bytes, and whether a text ended at any of them.
    pub fn advance(&self, state: StateID, bytes: &[u8]) -> (StateID, bool) {
        bytes.iter().fold((state, false), |(state, ended), &byte| {
            let state = self.step(state, byte);
            (state, ended | self.0.is_match(state))
        })
    }

    /// Whether a text ends in these bytes, which follow the bytes of the state.
    pub fn ends_in(&self, mut state: StateID, bytes: &[u8]) -> bool {
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
    fn too_many_and_too_long_texts_are_refused_and_empty_ones_ignored() {
        let of = |texts: Vec<String>| TextSearch::new("banned_strings", &texts).map(|search| search.is_some());
        assert_eq!(of(vec![]), Ok(false));
        assert_eq!(of(vec![String::new(); 2]), Ok(false));
        assert_eq!(of(vec!["a".repeat(256)]), Ok(true));
        assert!(matches!(
            of(vec!["a".repeat(257)]),
            Err(SamplingError::LongText { bytes: 257, .. })
        ));
        let ten_thousand = (0..10_000).map(|number| number.to_string()).collect();
        assert!(matches!(
            of(ten_thousand),
            Err(SamplingError::TooManyTexts { count: 10_000, .. })
        ));
        let full = (0..1000).map(|number| format!("{number:0256}")).collect();
        assert_eq!(of(full), Ok(true));
    }

    proptest! {
        #[test]
        fn a_text_ends_where_the_stream_has_it(
            texts in prop::collection::vec("[abé]{0,4}", 0..5),
            stream in prop::collection::vec("[abé]{0,3}", 0..12),
        ) {
            let Some(search) = TextSearch::new("banned_strings", &texts).unwrap() else {
                prop_assert!(texts.iter().all(String::is_empty));
                return Ok(());
            };
            let (mut state, mut before) = (search.start(), String::new());
            for piece in stream {
                let whole = format!("{before}{piece}");
                // A byte of the piece is the last of a text.
                let ends = |text: &String| {
                    !text.is_empty() && whole.match_indices(text.as_str()).any(|(at, _)| at + text.len() > before.len())
                        || (0..whole.len()).any(|at| {
                            !text.is_empty() && at + text.len() > before.len()
                                && whole.as_bytes()[at..].starts_with(text.as_bytes())
                        })
                };
                let expected = texts.iter().any(ends);
                prop_assert_eq!(search.ends_in(state, piece.as_bytes()), expected);
                let ended;
                (state, ended) = search.advance(state, piece.as_bytes());
                prop_assert_eq!(ended, expected);
                before = whole;
            }
        }
    }
}
