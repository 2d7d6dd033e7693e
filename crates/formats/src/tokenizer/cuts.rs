//! Cuts: positions at which a text can be divided without a change of its tokens. A cut depends
//! only on the two characters around it, so that a change of the text elsewhere does not affect it.
//!
//! * In byte-level BPE, a pre-tokenizer ends a word between certain characters: nearly every one
//!   between a letter or number and a character that is neither a letter, a number nor a mark.
//! * In SPM and in BPE in its style, no merge spans two adjacent characters that no token has in
//!   sequence.
//! * No user-defined token spans two such characters either.

use super::{Model, Tokenizer};
use crate::interrupt;

/// Maximum bytes in which a cut is searched, so that a long text without cuts, such as a run of one
/// character, is searched in bounded time.
const MAX_SEARCH: usize = 256 << 10;

impl Tokenizer {
    /// The first cut at or after a byte offset, between two characters that `can_cut` accepts.
    /// `None` if there is none in the next [`MAX_SEARCH`] bytes, or if the search is interrupted.
    pub(crate) fn next_cut(&self, text: &str, from: usize, can_cut: impl Fn(char, char) -> bool) -> Option<usize> {
        let text = &text[..text.floor_char_boundary(from.saturating_add(MAX_SEARCH))];
        let first = text.floor_char_boundary(from);
        let mut start = text[..first].char_indices().next_back().map_or(0, |(index, _)| index);
        loop {
            let at = match &self.model {
                Model::Bpe(bpe) => bpe.find_cut(text, start)?,
                Model::Spm(_) => start,
            };
            let mut characters = text[at..].chars();
            let (previous, next) = (characters.next()?, characters.next()?);
            let end = at + previous.len_utf8();
            if interrupt::step((end - start) as u64) {
                return None;
            }
            start = end;
            if start >= from && self.divides(previous, next) && can_cut(previous, next) {
                return Some(start);
            }
        }
    }

    /// Whether neither a merge of SPM nor a user-defined token spans these characters.
    fn divides(&self, previous: char, next: char) -> bool {
        if self.user_defined.has_adjacent(previous, next) {
            return false;
        }
        match &self.model {
            Model::Bpe(bpe) => bpe.divides(previous, next, &self.vocabulary),
            // The text after a user-defined token begins with a space, as if it were another text.
            Model::Spm(_) => !self.user_defined.has_last(previous) && self.vocabulary.divides(previous, next),
        }
    }

    /// Counts the tokens of a piece of a text. `is_first`: the piece begins the text. `marker`
    /// breaks up user-defined tokens and is removed.
    pub(crate) fn count_piece(&self, piece: &str, is_first: bool, marker: char) -> usize {
        let mut ids = super::ids_with_capacity(piece);
        self.encode_text(piece, is_first, Some(marker), &mut ids);
        ids.len()
    }

    /// Calls `visit` with each part of a text that is not a control token, and its byte offset.
    pub(crate) fn ordinary_parts<'t>(&self, text: &'t str, mut visit: impl FnMut(usize, &'t str)) {
        let mut offset = 0;
        self.controls.split(text, |fragment| match fragment {
            super::Fragment::Text(part) => {
                visit(offset, part);
                offset += part.len();
            }
            super::Fragment::Token(id) => offset += self.vocabulary.text(id).map_or(0, str::len),
        });
    }
}
