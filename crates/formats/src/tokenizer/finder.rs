//! Finds special tokens in texts, and breaks them apart in texts that must not contain any.

use super::TokenizerError;
use super::vocabulary::{Kind, Vocabulary};
use aho_corasick::{AhoCorasick, Input, MatchKind};
use std::collections::HashMap;

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
        put(text, self.marks(text), marker)
    }

    fn marks(&self, text: &str) -> Vec<usize> {
        let mut marks: Vec<usize> = Vec::new();
        let Some(texts) = &self.texts else {
            return marks;
        };
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
        marks
    }

    /// As [`Finder::mark`], for a text that a template may take parts out of, or put inside such a token's text: also after
    /// each character from which on such a token's characters follow in order, however far apart, and before a text that is
    /// the inside of one.
    pub fn mark_all_that_could_arise(&self, text: &str, marker: char) -> String {
        let mut marks = self.marks(text);
        let mut places: HashMap<char, Vec<usize>> = HashMap::new();
        for (place, character) in text.char_indices() {
            places.entry(character).or_default().push(place);
        }
        // Where the last such token could begin, by its first character.
        let mut last: HashMap<char, usize> = HashMap::new();
        for pattern in &self.patterns {
            if let (Some(first), Some(start)) = (pattern.chars().next(), last_start(pattern, text.len(), &places)) {
                let last = last.entry(first).or_default();
                *last = start.max(*last);
            }
            let mut inside = pattern.chars();
            inside.next();
            inside.next_back();
            if !text.is_empty() && inside.as_str().contains(text) {
                marks.push(0);
            }
        }
        for (first, last) in last {
            let starts = places.get(&first).into_iter().flatten();
            marks.extend(
                starts
                    .take_while(|&&start| start <= last)
                    .map(|start| start + first.len_utf8()),
            );
        }
        put(text, marks, marker)
    }

    /// The tokens of this kind in a text, in order.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let found = self.texts.iter().flat_map(|texts| texts.find_iter(text));
        found.map(|found| self.ids[found.pattern().as_usize()]).collect()
    }
}

/// The last place from which on the characters of a pattern follow in order.
fn last_start(pattern: &str, end: usize, places: &HashMap<char, Vec<usize>>) -> Option<usize> {
    let mut before = end;
    for character in pattern.chars().rev() {
        let places = places.get(&character)?;
        let later = places.partition_point(|&place| place < before);
        before = places[later.checked_sub(1)?];
    }
    Some(before)
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
