//! Steps of pre-tokenizers. Each divides the words of the previous step, and its words concatenate
//! to the text.

use regex::Regex;
use std::ops::{ControlFlow, Range};
use std::sync::LazyLock;

/// Calls `visit` with the words that a sequence of steps divides a text into, until it breaks.
pub(super) fn divide(steps: &[&Step], text: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    match steps.split_first() {
        Some((step, inner)) => step.divide(text, &mut |word| divide(inner, word, visit)),
        None => visit(text),
    }
}

/// One step.
pub(super) enum Step {
    /// Matches are words, and so is the text between two matches.
    Pattern(Pattern),
    /// Groups of three digits, counted from the end of a number.
    Groups(Groups),
}

/// A pattern of words.
pub(super) struct Pattern {
    pub regex: LazyLock<Regex>,
    pub white_space: WhiteSpace,
}

/// The replacement of the look-ahead of a published pattern. The `regex` crate has none, so the
/// patterns here match all white space before a word, and the end of the match is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhiteSpace {
    /// The pattern has no look-ahead.
    Whole,
    /// `\s+(?!\S)|\s+`: white space except the last character before a word.
    ButLast,
    /// As [`WhiteSpace::ButLast`], after an alternative without look-ahead for white space that
    /// ends with a line break.
    ButLastOfLine,
    /// As [`WhiteSpace::ButLastOfLine`], in words of at most 512 characters: see [`power`].
    PowersOfTwo,
}

/// Where the groups of three digits begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// `\d{1,3}(?=(?:\d{3})*\b)` as llama.cpp applies it, to numbers in any script: the first group
    /// begins at the end of the previous number, so that its word includes the text before it. The
    /// steps that follow divide it.
    WithTextBefore,
    /// `(?=(\d{3})+(?!\d))`: each group of three ASCII digits begins a word, which includes the
    /// text after it.
    WithTextAfter,
}

impl Step {
    fn divide(&self, text: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Self::Pattern(pattern) => pattern.divide(text, visit),
            Self::Groups(groups) => groups.divide(text, visit),
        }
    }
}

impl Pattern {
    fn divide(&self, text: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut start = 0;
        while start < text.len() {
            let word = self.find(text, start);
            if word.start > start {
                visit(&text[start..word.start])?;
            }
            if self.white_space == WhiteSpace::PowersOfTwo && text[word.clone()].chars().all(char::is_whitespace) {
                powers(&text[word.clone()], visit)?;
            } else if !word.is_empty() {
                visit(&text[word.clone()])?;
            }
            start = word.end;
        }
        ControlFlow::Continue(())
    }

    /// The first match at or after `start`, or an empty range at the end of the text.
    fn find(&self, text: &str, start: usize) -> Range<usize> {
        let Some(found) = self.regex.find_at(text, start) else {
            return text.len()..text.len();
        };
        let matched = found.as_str();
        let is_whole = match self.white_space {
            WhiteSpace::Whole => true,
            WhiteSpace::ButLast => false,
            WhiteSpace::ButLastOfLine | WhiteSpace::PowersOfTwo => matched.ends_with(['\r', '\n']),
        };
        let is_before_word = found.end() < text.len();
        match matched.chars().next_back() {
            Some(last)
                if is_before_word
                    && !is_whole
                    && last.len_utf8() < matched.len()
                    && matched.chars().all(char::is_whitespace) =>
            {
                found.start()..found.end() - last.len_utf8()
            }
            _ => found.range(),
        }
    }
}

/// Divides white space as `\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s` does, where
/// `space` is already without the last character before a word.
fn powers(space: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    // White space that ends with a line break is one word.
    if space.ends_with(['\r', '\n']) {
        return visit(space);
    }
    let mut rest = space;
    let mut remaining = space.chars().count();
    while remaining > 0 {
        let characters = power(remaining);
        let end = rest
            .char_indices()
            .nth(characters)
            .map_or(rest.len(), |(index, _)| index);
        let (word, after) = rest.split_at(end);
        visit(word)?;
        rest = after;
        remaining -= characters;
    }
    ControlFlow::Continue(())
}

/// The largest power of two up to a number, at most 512.
fn power(number: usize) -> usize {
    1 << number.ilog2().min(9)
}

impl Groups {
    fn divide(self, text: &str, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        static NUMBERS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\p{N}+").expect("a valid pattern"));
        static ASCII_NUMBERS: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9]+").expect("a valid pattern"));
        let regex = match self {
            Self::WithTextBefore => &NUMBERS,
            Self::WithTextAfter => &ASCII_NUMBERS,
        };
        let mut start = 0;
        let mut word_ends_at = |end: usize| {
            let word = &text[start..end];
            start = end;
            if word.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(word)
            }
        };
        for number in regex.find_iter(text) {
            let digits = number.as_str().chars().count();
            for (index, (offset, _)) in number.as_str().char_indices().enumerate() {
                let is_at_group = (digits - index).is_multiple_of(3);
                if is_at_group && (index > 0 || self == Self::WithTextAfter) {
                    word_ends_at(number.start() + offset)?;
                }
            }
            if self == Self::WithTextBefore {
                word_ends_at(number.end())?;
            }
        }
        word_ends_at(text.len())
    }
}
