//! Finds special tokens in texts, and breaks them apart in texts that must not contain any.

use super::TokenizerError;
use super::vocabulary::{Kind, Vocabulary};
use aho_corasick::{AhoCorasick, Input, MatchKind};
use std::ops::RangeInclusive;

/// Unicode's noncharacters. One that does not occur in a conversation is its marker.
pub(crate) const NONCHARACTERS: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Bytes of text of all tokens of a kind. Models have some ten thousand; the automaton that finds them takes some 50 times as much.
const MOST_BYTES: usize = 1 << 20;

/// A part of a text.
pub(super) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// Finds the tokens of one kind in a text, the longest where several begin.
pub(super) struct Finder {
    /// None where there are no such tokens.
    texts: Option<AhoCorasick>,
    ids: Vec<u32>,
    /// The tokens' texts.
    patterns: Vec<String>,
    /// The white space in them.
    spaces: String,
}

impl Finder {
    /// Finds the tokens of a kind. Control tokens of a single character are left out: nothing could be put into one to tell
    /// it from text.
    pub fn of(kind: Kind, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let shortest = if kind == Kind::Control { 2 } else { 1 };
        let mut ids = Vec::new();
        let mut patterns = Vec::new();
        for (id, (text, &of_kind)) in vocabulary.texts.iter().zip(&vocabulary.kinds).enumerate() {
            if of_kind == kind && text.chars().nth(shortest - 1).is_some() {
                ids.push(id as u32);
                patterns.push(text.to_owned());
            }
        }
        let bytes: usize = patterns.iter().map(String::len).sum();
        if bytes > MOST_BYTES {
            let why = format!("its special tokens have {bytes} bytes of text, and Hearth reads at most {MOST_BYTES}");
            return Err(vocabulary.malformed(why));
        }
        let texts = if ids.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&patterns);
            let damaged = |error| vocabulary.malformed(format!("its special tokens cannot be searched for ({error})"));
            Some(built.map_err(damaged)?)
        };
        let spaces = patterns.iter().flat_map(|pattern| pattern.chars());
        let spaces = spaces.filter(|character| character.is_whitespace()).collect();
        Ok(Self {
            texts,
            ids,
            patterns,
            spaces,
        })
    }

    /// The token of a text.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.patterns
            .iter()
            .position(|pattern| pattern == text)
            .map(|place| self.ids[place])
    }

    /// Calls `part` with every part of a text, in order; texts are never empty.
    pub fn split<'t>(&self, text: &'t str, mut part: impl FnMut(Part<'t>)) {
        let mut done = 0;
        for found in self.texts.iter().flat_map(|texts| texts.find_iter(text)) {
            if found.start() > done {
                part(Part::Text(&text[done..found.start()]));
            }
            part(Part::Token(self.ids[found.pattern().as_usize()]));
            done = found.end();
        }
        if done < text.len() {
            part(Part::Text(&text[done..]));
        }
    }

    /// Puts `marker` into every such token's text inside a text, after its first character, and where one could arise with
    /// what will stand before or after the text. No such token is found there afterwards.
    pub fn mark(&self, text: &str, marker: char) -> String {
        let Some(texts) = &self.texts else {
            return text.to_owned();
        };
        let mut marks: Vec<usize> = Vec::new();
        let mut from = 0;
        // From the second character of each on: breaking one must not leave another that begins inside it.
        while let Some(found) = texts.find(Input::new(text).range(from..)) {
            from = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
            marks.push(from);
        }
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
        put(text, marks, marker)
    }

    /// Puts `marker` before and after every character that could be a part of such a token: none is found, whatever parts of
    /// the text are taken out, and whatever text stands beside them.
    pub fn mark_each(&self, text: &str, marker: char) -> String {
        let mut marked = String::with_capacity(text.len() * 2);
        let mut behind_mark = false;
        for character in text.chars() {
            let holds = self.could_hold(character);
            if holds && !behind_mark {
                marked.push(marker);
            }
            marked.push(character);
            if holds {
                marked.push(marker);
            }
            behind_mark = holds;
        }
        marked
    }

    /// A text of the same length without any character that could be a part of such a token: noncharacters other than `marker`
    /// stand for them. Texts that differ nearly always stay different, since they may be keys.
    pub fn blank(&self, text: &str, marker: char) -> String {
        let blanks: Vec<char> = NONCHARACTERS.filter(|&blank| blank != marker).collect();
        let blank = |character: char| {
            if self.could_hold(character) {
                blanks[u32::from(character) as usize % blanks.len()]
            } else {
                character
            }
        };
        text.chars().map(blank).collect()
    }

    /// Whether a character could be a part of such a token: white space, which templates trim, only if a token has it, and any
    /// other character, since templates change the case and read escapes.
    fn could_hold(&self, character: char) -> bool {
        !character.is_whitespace() || self.spaces.contains(character)
    }

    /// The tokens of this kind in a text, in order, each with how many characters but `marker` stand before it; and how many
    /// there are in all.
    pub fn places(&self, text: &str, marker: char) -> (Vec<(usize, u32)>, usize) {
        let (mut done, mut before) = (0, 0);
        let mut count_to = |end: usize| {
            before += text[done..end].chars().filter(|&character| character != marker).count();
            done = end;
            before
        };
        let found = self.texts.iter().flat_map(|texts| texts.find_iter(text));
        let places = found.map(|found| (count_to(found.start()), self.ids[found.pattern().as_usize()]));
        let places = places.collect();
        (places, count_to(text.len()))
    }
}

/// A text with `marker` at each of the marks.
fn put(text: &str, mut marks: Vec<usize>, marker: char) -> String {
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
