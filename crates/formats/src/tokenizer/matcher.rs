//! Finds special tokens in text, and breaks them up in text that must not contain any.

use super::TokenizerError;
use super::vocabulary::{TokenType, Vocabulary};
use aho_corasick::{AhoCorasick, Input, Match, MatchKind};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Unicode's noncharacters U+FDD0 to U+FDEF. One that does not occur in a conversation is used as
/// its marker.
pub(crate) const NONCHARACTERS: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Maximum bytes of text of all tokens of a type. Models have about ten thousand; the automaton
/// takes about 50 times as much memory.
const MAX_BYTES: usize = 1 << 20;

/// Noncharacters that do not occur in a conversation. They break up special tokens in its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Markers {
    /// In a control token.
    pub control: char,
    /// In a user-defined token whose text stands for itself.
    pub letters: char,
}

impl Markers {
    /// The first noncharacters that `contains` does not find in a text. If it contains too many of
    /// them, the last ones are removed from it.
    pub fn unused(contains: &dyn Fn(char) -> bool) -> Self {
        let mut unused = NONCHARACTERS.filter(|&character| !contains(character));
        let (last, last_but_one) = (*NONCHARACTERS.end(), '\u{fdee}');
        let control = unused.next().unwrap_or(last);
        let letters = unused
            .next()
            .unwrap_or(if control == last { last_but_one } else { last });
        Self { control, letters }
    }

    /// A text without them. A text can contain them if the conversation contains all noncharacters.
    pub fn removed_from(self, text: &str) -> Cow<'_, str> {
        match without(text, self.control) {
            Cow::Borrowed(text) => without(text, self.letters),
            Cow::Owned(text) => without(&text, self.letters).into_owned().into(),
        }
    }

    /// Whether a character is one of them.
    pub fn include(self, character: char) -> bool {
        character == self.control || character == self.letters
    }
}

/// A text without a marker.
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
}

impl TokenMatcher {
    /// Builds the matcher for a token type. Control tokens of a single character are left out: a
    /// marker could not break them up.
    pub fn new(token_type: TokenType, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let min_chars = if token_type == TokenType::Control { 2 } else { 1 };
        let mut ids = Vec::new();
        let mut patterns = Vec::new();
        for (id, (text, &listed_type)) in vocabulary.texts.iter().zip(&vocabulary.types).enumerate() {
            if listed_type == token_type && text.chars().nth(min_chars - 1).is_some() {
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
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&patterns);
            let malformed = |error| vocabulary.malformed(format!("its special tokens cannot be indexed ({error})"));
            Some(built.map_err(malformed)?)
        };
        let spaces = patterns.iter().flat_map(|pattern| pattern.chars());
        let spaces = spaces.filter(|character| character.is_whitespace()).collect();
        Ok(Self {
            automaton,
            ids,
            patterns,
            spaces,
        })
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
        let mut done = 0;
        for found in self.automaton.iter().flat_map(|automaton| automaton.find_iter(text)) {
            if found.start() > done {
                visit(Fragment::Text(&text[done..found.start()]));
            }
            visit(Fragment::Token(self.ids[found.pattern().as_usize()]));
            done = found.end();
        }
        if done < text.len() {
            visit(Fragment::Text(&text[done..]));
        }
    }

    /// Inserts `marker` after the first character of each such token in a text, and wherever one
    /// could form across the ends of the text. Afterwards the text contains no such token.
    pub fn mark(&self, text: &str, marker: char) -> String {
        if self.automaton.is_none() {
            return text.to_owned();
        }
        let mut marks = self.inner_marks(text, |_| true);
        // Templates trim white space.
        let (head, tail) = (text.trim_start(), text.trim_end());
        for pattern in &self.patterns {
            let first = pattern.chars().next().map_or(0, char::len_utf8);
            for (cut, _) in pattern.char_indices().skip(1) {
                if tail.ends_with(&pattern[..cut]) {
                    marks.push(tail.len() - cut + first);
                }
                if head.starts_with(&pattern[cut..]) {
                    marks.push(text.len() - head.len());
                }
            }
        }
        insert_markers(text, marks, marker)
    }

    /// Inserts `marker` after the first character of each such token in a text whose id is
    /// `chosen`.
    pub fn mark_chosen<'t>(&self, text: &'t str, marker: char, mut chosen: impl FnMut(u32) -> bool) -> Cow<'t, str> {
        let marks = self.inner_marks(text, |found| chosen(self.ids[found.pattern().as_usize()]));
        if marks.is_empty() {
            text.into()
        } else {
            insert_markers(text, marks, marker).into()
        }
    }

    /// The ends of the first characters of the tokens in a text that are `chosen`.
    fn inner_marks(&self, text: &str, mut chosen: impl FnMut(&Match) -> bool) -> Vec<usize> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        let mut marks = Vec::new();
        let mut from = 0;
        // Continue from the second character of each match: another token may begin inside it.
        while let Some(found) = automaton.find(Input::new(text).range(from..)) {
            from = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
            if chosen(&found) {
                marks.push(from);
            }
        }
        marks
    }

    /// Inserts `marker` around every character that may occur in such a token. Afterwards no
    /// substring of the text can form a token, alone or with adjacent text.
    pub fn mark_each(&self, text: &str, marker: char) -> String {
        let mut marked = String::with_capacity(text.len() * 2);
        let mut after_marker = false;
        for character in text.chars() {
            let markable = self.may_occur_in_token(character);
            if markable && !after_marker {
                marked.push(marker);
            }
            marked.push(character);
            if markable {
                marked.push(marker);
            }
            after_marker = markable;
        }
        marked
    }

    /// Replaces every character that may occur in such a token by a noncharacter other than the
    /// markers. Preserves the number of characters. Different texts nearly always stay different,
    /// which matters for keys.
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

    /// Whether a character may occur in such a token after a template changed it. White space only
    /// if a token contains it, since templates trim; any other character, since templates change
    /// the case and decode escapes.
    fn may_occur_in_token(&self, character: char) -> bool {
        !character.is_whitespace() || self.spaces.contains(character)
    }

    /// The tokens in a text, in order, each with the number of characters before it, and the total
    /// number of characters. Markers are not counted.
    pub fn positions(&self, text: &str, markers: Markers) -> (Vec<(usize, u32)>, usize) {
        let (mut done, mut before) = (0, 0);
        let mut count_to = |end: usize| {
            before += text[done..end]
                .chars()
                .filter(|&character| !markers.include(character))
                .count();
            done = end;
            before
        };
        let found = self.automaton.iter().flat_map(|automaton| automaton.find_iter(text));
        let positions = found.map(|found| (count_to(found.start()), self.ids[found.pattern().as_usize()]));
        let positions = positions.collect();
        (positions, count_to(text.len()))
    }
}

/// Inserts `marker` at the byte offsets `marks`.
fn insert_markers(text: &str, mut marks: Vec<usize>, marker: char) -> String {
    marks.sort_unstable();
    marks.dedup();
    let mut marked = String::with_capacity(text.len() + marks.len() * marker.len_utf8());
    let mut done = 0;
    for mark in marks {
        marked.push_str(&text[done..mark]);
        marked.push(marker);
        done = mark;
    }
    marked.push_str(&text[done..]);
    marked
}
