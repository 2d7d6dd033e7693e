//! Finds special tokens in texts, and breaks them apart in texts that must not contain any.

use super::TokenizerError;
use super::vocabulary::{Kind, Vocabulary};
use aho_corasick::{AhoCorasick, Input, MatchKind};

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
        let texts = if ids.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&patterns);
            let damaged = |error| vocabulary.malformed(format!("its special tokens cannot be searched for ({error})"));
            Some(built.map_err(damaged)?)
        };
        Ok(Self { texts, ids, patterns })
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
        for pattern in &self.patterns {
            let first = pattern.chars().next().map_or(0, char::len_utf8);
            for (cut, _) in pattern.char_indices().skip(1) {
                if text.ends_with(&pattern[..cut]) {
                    marks.push(text.len() - cut + first);
                }
                if text.starts_with(&pattern[cut..]) {
                    marks.push(0);
                }
            }
        }
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
}
