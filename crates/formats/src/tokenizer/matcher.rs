//! Finds special tokens in text, and breaks them up where they must not be parsed.

use super::TokenizerError;
use super::vocabulary::{TokenType, Vocabulary};
use aho_corasick::{AhoCorasick, Input, Match, MatchKind};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// Unicode's noncharacters U+FDD0 to U+FDEF. Markers are those that do not occur in a conversation.
pub(crate) const NONCHARACTERS: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Maximum bytes of text of all tokens of a type. Models have about ten thousand. The automaton
/// takes about 50 times as much memory.
const MAX_BYTES: usize = 1 << 20;

/// Noncharacters that break up special tokens in the text of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Markers {
    /// Breaks up control tokens.
    pub control: char,
    /// Breaks up user-defined tokens that are literal text.
    pub literal: char,
}

impl Markers {
    /// The first noncharacters that a text does not contain, or the last ones if it contains too
    /// many. The text is then encoded without those.
    pub fn unused(contains: &dyn Fn(char) -> bool) -> Self {
        let mut unused = NONCHARACTERS.filter(|&character| !contains(character));
        let (last, second_to_last) = (*NONCHARACTERS.end(), '\u{fdee}');
        let control = unused.next().unwrap_or(last);
        let literal = unused
            .next()
            .unwrap_or(if control == last { second_to_last } else { last });
        Self { control, literal }
    }

    /// A text without the markers. It contains them only if the conversation contains nearly all
    /// noncharacters.
    pub fn removed_from(self, text: &str) -> Cow<'_, str> {
        match without(text, self.control) {
            Cow::Borrowed(text) => without(text, self.literal),
            Cow::Owned(text) => without(&text, self.literal).into_owned().into(),
        }
    }

    /// Whether a character is one of the markers.
    pub fn include(self, character: char) -> bool {
        character == self.control || character == self.literal
    }
}

/// Removes a marker from a text.
pub(super) fn without(text: &str, marker: char) -> Cow<'_, str> {
    if text.contains(marker) {
        text.replace(marker, "").into()
    } else {
        text.into()
    }
}

/// A fragment of a text: ordinary text or a special token.
pub(super) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

/// Finds the tokens of one type in a text. Matches are leftmost-longest.
pub(super) struct TokenMatcher {
    /// `None` if there are no such tokens.
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
    /// Texts of the tokens.
    patterns: Vec<String>,
    /// White space characters in these texts.
    spaces: String,
    /// Pairs of adjacent characters in these texts. Computed for the first text that is cut.
    adjacent: OnceLock<HashSet<(char, char)>>,
    /// Last characters of these texts. Computed for the first text that is cut.
    last: OnceLock<HashSet<char>>,
}

impl TokenMatcher {
    /// Builds the matcher for a token type. Control tokens of a single character are not matched,
    /// since a marker could not break them up.
    pub fn new(token_type: TokenType, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let min_chars = if token_type == TokenType::Control { 2 } else { 1 };
        let mut ids = Vec::new();
        let mut patterns = Vec::new();
        for (id, (text, &kind)) in vocabulary.texts.iter().zip(&vocabulary.types).enumerate() {
            if kind == token_type && text.chars().nth(min_chars - 1).is_some() {
                ids.push(id as u32);
                patterns.push(text.to_owned());
            }
        }
        let bytes: usize = patterns.iter().map(String::len).sum();
        if bytes > MAX_BYTES {
            let why = format!("its special tokens have {bytes} bytes of text, more than the supported {MAX_BYTES}");
            return Err(vocabulary.malformed(why));
        }
        let automaton = if ids.is_empty() {
            None
        } else {
            let automaton = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&patterns);
            let malformed = |error| vocabulary.malformed(format!("its special tokens cannot be indexed ({error})"));
            Some(automaton.map_err(malformed)?)
        };
        let spaces = patterns.iter().flat_map(|pattern| pattern.chars());
        let spaces = spaces.filter(|character| character.is_whitespace()).collect();
        Ok(Self {
            automaton,
            ids,
            patterns,
            spaces,
            adjacent: OnceLock::new(),
            last: OnceLock::new(),
        })
    }

    /// Whether a token contains these characters in sequence.
    pub fn has_adjacent(&self, previous: char, next: char) -> bool {
        let adjacent = self.adjacent.get_or_init(|| {
            let patterns = self.patterns.iter();
            let pairs = patterns.flat_map(|pattern| pattern.chars().zip(pattern.chars().skip(1)));
            pairs.collect()
        });
        adjacent.contains(&(previous, next))
    }

    /// Whether a token ends with this character.
    pub fn has_last(&self, character: char) -> bool {
        let last = self.last.get_or_init(|| {
            let patterns = self.patterns.iter();
            patterns.filter_map(|pattern| pattern.chars().next_back()).collect()
        });
        last.contains(&character)
    }

    /// The token with this text.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.patterns
            .iter()
            .position(|pattern| pattern == text)
            .map(|index| self.ids[index])
    }

    /// Calls `visit` with the fragments of a text, in order. Text fragments are never empty.
    pub fn split<'t>(&self, text: &'t str, mut visit: impl FnMut(Fragment<'t>)) {
        let mut start = 0;
        for token in self.matches(text) {
            if token.start() > start {
                visit(Fragment::Text(&text[start..token.start()]));
            }
            visit(Fragment::Token(self.id(&token)));
            start = token.end();
        }
        if start < text.len() {
            visit(Fragment::Text(&text[start..]));
        }
    }

    fn matches(&self, text: &str) -> impl Iterator<Item = Match> {
        self.automaton
            .iter()
            .flat_map(move |automaton| automaton.find_iter(text))
    }

    fn id(&self, token: &Match) -> u32 {
        self.ids[token.pattern().as_usize()]
    }

    /// Inserts `marker` after the first character of each such token in a text, and wherever one
    /// could form across the ends of the text. The result contains no such token.
    pub fn mark(&self, text: &str, marker: char) -> String {
        if self.automaton.is_none() {
            return text.to_owned();
        }
        let mut offsets = self.inner_offsets(text, |_| true);
        // Templates trim white space.
        let (head, tail) = (text.trim_start(), text.trim_end());
        for pattern in &self.patterns {
            let first_len = pattern.chars().next().map_or(0, char::len_utf8);
            for (cut, _) in pattern.char_indices().skip(1) {
                if tail.ends_with(&pattern[..cut]) {
                    offsets.push(tail.len() - cut + first_len);
                }
                if head.starts_with(&pattern[cut..]) {
                    offsets.push(text.len() - head.len());
                }
            }
        }
        insert_markers(text, offsets, marker)
    }

    /// Inserts `marker` after the first character of each such token in a text that `is_marked`
    /// accepts.
    pub fn mark_some<'t>(&self, text: &'t str, marker: char, mut is_marked: impl FnMut(u32) -> bool) -> Cow<'t, str> {
        let offsets = self.inner_offsets(text, |token| is_marked(self.id(token)));
        if offsets.is_empty() {
            text.into()
        } else {
            insert_markers(text, offsets, marker).into()
        }
    }

    /// The offsets after the first character of each token in a text that `is_marked` accepts.
    fn inner_offsets(&self, text: &str, mut is_marked: impl FnMut(&Match) -> bool) -> Vec<usize> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        let mut offsets = Vec::new();
        let mut offset = 0;
        // Continues at the second character of each match, since tokens may overlap.
        while let Some(token) = automaton.find(Input::new(text).range(offset..)) {
            offset = token.start() + text[token.start()..].chars().next().map_or(1, char::len_utf8);
            if is_marked(&token) {
                offsets.push(offset);
            }
        }
        offsets
    }

    /// Inserts `marker` around every character that may occur in such a token, so that no substring
    /// of the result can form a token, alone or with adjacent text.
    pub fn mark_each(&self, text: &str, marker: char) -> String {
        let mut marked = String::with_capacity(text.len() * 2);
        let mut after_marker = false;
        for character in text.chars() {
            let is_marked = self.may_occur_in_token(character);
            if is_marked && !after_marker {
                marked.push(marker);
            }
            marked.push(character);
            if is_marked {
                marked.push(marker);
            }
            after_marker = is_marked;
        }
        marked
    }

    /// Replaces every character that may occur in such a token by a noncharacter other than the
    /// markers. Preserves the number of characters. Texts that differ, such as the keys of an
    /// object, nearly always stay different.
    pub fn blank(&self, text: &str, markers: Markers) -> String {
        let blanks: Vec<char> = NONCHARACTERS.filter(|&blank| !markers.include(blank)).collect();
        let blank = |character: char| {
            if self.may_occur_in_token(character) {
                blanks[u32::from(character) as usize % blanks.len()]
            } else {
                character
            }
        };
        text.chars().map(blank).collect()
    }

    /// Whether a character may occur in such a token after a template changed the text. Any
    /// character may, since templates change the case and decode escapes, except for white space
    /// that no token contains.
    fn may_occur_in_token(&self, character: char) -> bool {
        !character.is_whitespace() || self.spaces.contains(character)
    }

    /// The tokens in a text, in order, each with the number of characters before it, and the total
    /// number of characters. Markers are not counted.
    pub fn positions(&self, text: &str, markers: Markers) -> (Vec<(usize, u32)>, usize) {
        let (mut start, mut characters) = (0, 0);
        let mut characters_before = |end: usize| {
            characters += text[start..end]
                .chars()
                .filter(|&character| !markers.include(character))
                .count();
            start = end;
            characters
        };
        let positions = self
            .matches(text)
            .map(|token| (characters_before(token.start()), self.id(&token)))
            .collect();
        (positions, characters_before(text.len()))
    }
}

/// Inserts `marker` at these byte offsets.
fn insert_markers(text: &str, mut offsets: Vec<usize>, marker: char) -> String {
    offsets.sort_unstable();
    offsets.dedup();
    let mut marked = String::with_capacity(text.len() + offsets.len() * marker.len_utf8());
    let mut start = 0;
    for offset in offsets {
        marked.push_str(&text[start..offset]);
        marked.push(marker);
        start = offset;
    }
    marked.push_str(&text[start..]);
    marked
}
