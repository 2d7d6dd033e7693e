//! Counts the tokens of a message that is being written, with the conversation before it.
//!
//! The conversation is rendered once, with [`PLACEHOLDER`] as the message: that gives the [`Frame`]
//! around the message. The text of the message, [`UnsentText`], is divided into pieces whose tokens
//! do not depend on each other, so that a change of the text only affects the pieces that it
//! touches.

use super::{Author, Chat, ChatTemplate, GenerationPrompt, TemplateError, encode_rendered, on_large_stack, quoted};
use crate::interrupt;
use crate::tokenizer::{Markers, Tokenizer};
use std::ops::Range;

/// Stands for the message in the conversation that [`ChatTemplate::frame`] renders. No conversation
/// contains it.
pub const PLACEHOLDER: &str = "u5hearth0unsent3";

/// Minimum bytes of a piece, unless less text is left. A piece is tokenized in microseconds.
const PIECE_BYTES: usize = 1 << 10;

/// The prompt around a message.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Tokens of the prompt, without the part that contains the message.
    tokens: usize,
    /// That part's text before and after the message, with markers.
    before: String,
    after: String,
    markers: Markers,
    /// See [`Chat::with_quoted`].
    literals: Vec<String>,
}

/// A text and the number of its tokens in a [`Frame`].
#[derive(Debug, Default)]
pub struct UnsentText {
    text: String,
    /// The text, divided. No piece is empty.
    pieces: Vec<Piece>,
    tokenized: u64,
}

/// A part of a text whose tokens do not depend on the rest.
#[derive(Debug, Clone, Copy)]
struct Piece {
    bytes: usize,
    utf16: usize,
    /// `None` until they are counted.
    tokens: Option<usize>,
}

impl Piece {
    fn new(text: &str) -> Self {
        Self {
            bytes: text.len(),
            utf16: text.encode_utf16().count(),
            tokens: None,
        }
    }
}

impl ChatTemplate {
    /// The frame of the last message, in which [`PLACEHOLDER`] stands for the text that is not
    /// known yet. `None` if the template changes that text, so that the prompt has to be encoded in
    /// full.
    ///
    /// # Errors
    /// As [`ChatTemplate::encode_chat`].
    pub fn frame(&self, tokenizer: &Tokenizer, chat: &Chat) -> Result<Option<Frame>, TemplateError> {
        on_large_stack(|| {
            let (text, markers) = self.render_marked(tokenizer, chat, GenerationPrompt::Add)?;
            let total = encode_rendered(tokenizer, &text, markers)?.len();
            let mut places = text.match_indices(PLACEHOLDER);
            let (Some((place, _)), None) = (places.next(), places.next()) else {
                return Ok(None);
            };
            let mut frame = None;
            tokenizer.ordinary_parts(&text, |offset, part| {
                if !(offset..offset + part.len()).contains(&place) {
                    return;
                }
                let edge = |text: &str| text.replace(markers.control, "");
                let at = place - offset;
                let (before, after) = (edge(&part[..at]), edge(&part[at + PLACEHOLDER.len()..]));
                let edges = format!("{before}{PLACEHOLDER}{after}");
                let part_tokens = tokenizer.count_piece(&edges, true, markers.literal);
                frame = Some(Frame {
                    tokens: total.saturating_sub(part_tokens),
                    before,
                    after,
                    markers,
                    literals: chat.literals().to_vec(),
                });
            });
            Ok(frame)
        })
    }
}

impl Frame {
    /// Whether the frame is also the one of this message. The prompt of a message that contains the
    /// markers has other markers, so it has to be encoded in full.
    pub fn suits(&self, message: &str) -> bool {
        !message.contains(self.markers.control) && !message.contains(self.markers.literal)
    }

    /// Whether a piece may end between these characters: no literal contains them in sequence.
    fn can_cut(&self, previous: char, next: char) -> bool {
        let mut pairs = self
            .literals
            .iter()
            .flat_map(|literal| literal.chars().zip(literal.chars().skip(1)));
        !pairs.any(|pair| pair == (previous, next))
    }
}

impl UnsentText {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Total bytes that were tokenized so far.
    pub fn tokenized(&self) -> u64 {
        self.tokenized
    }

    /// The byte offset of a UTF-16 offset at or after a byte offset. `None` if it is beyond the
    /// end, or in a character.
    pub fn byte_offset(&self, start: usize, utf16: usize) -> Option<usize> {
        let (mut bytes, mut rest) = (start, utf16);
        let mut piece_start = 0;
        for piece in &self.pieces {
            if piece_start >= start && piece.utf16 <= rest {
                (bytes, rest) = (piece_start + piece.bytes, rest - piece.utf16);
            } else if piece_start + piece.bytes > start {
                let from = start.max(piece_start);
                for character in self.text.get(from..piece_start + piece.bytes)?.chars() {
                    if rest == 0 {
                        return Some(bytes);
                    }
                    rest = rest.checked_sub(character.len_utf16())?;
                    bytes += character.len_utf8();
                }
            }
            piece_start += piece.bytes;
        }
        (rest == 0).then_some(bytes)
    }

    /// Replaces a part of the text. Panics if the range is not within it or divides a character.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        let mut first = 0;
        let mut start = 0;
        // A piece that ends where the range starts is affected: its end may no longer be a cut.
        while let Some(piece) = self.pieces.get(first)
            && start + piece.bytes < range.start
        {
            start += piece.bytes;
            first += 1;
        }
        let (mut last, mut end) = (first, start);
        while let Some(piece) = self.pieces.get(last)
            && end <= range.end
        {
            end += piece.bytes;
            last += 1;
        }
        let end = end + text.len() - range.len();
        self.text.replace_range(range, text);
        let changed = Piece::new(&self.text[start..end]);
        self.pieces.splice(first..last, (changed.bytes > 0).then_some(changed));
    }

    /// Moves the text into another frame. Discards the counts of the first and the last piece, or
    /// of all pieces if the frames differ in their markers or literals.
    pub fn reframe(&mut self, previous: Option<&Frame>, frame: &Frame) {
        let is_same =
            |previous: &Frame| previous.markers.literal == frame.markers.literal && previous.literals == frame.literals;
        if previous.is_some_and(is_same) {
            for edge in [self.pieces.len().checked_sub(1), Some(0)].into_iter().flatten() {
                if let Some(piece) = self.pieces.get_mut(edge) {
                    piece.tokens = None;
                }
            }
        } else {
            self.pieces.iter_mut().for_each(|piece| piece.tokens = None);
        }
    }

    /// Counts the tokens of the prompt with this text. Only pieces that have changed since the last
    /// count are tokenized.
    ///
    /// # Errors
    /// It was interrupted. The next count continues.
    pub fn count(
        &mut self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        frame: &Frame,
    ) -> Result<usize, TemplateError> {
        if self.pieces.is_empty() {
            let edges = format!("{}{}", frame.before, frame.after);
            return Ok(frame.tokens + tokenizer.count_piece(&edges, true, frame.markers.literal));
        }
        let mut counted = Vec::with_capacity(self.pieces.len());
        let mut start = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let end = start + piece.bytes;
            if piece.tokens.is_some() {
                counted.push(piece);
            } else {
                self.count_range(start..end, template, tokenizer, frame, &mut counted);
            }
            start = end;
        }
        self.pieces = counted;
        let tokens = self.pieces.iter().map(|piece| piece.tokens).sum::<Option<usize>>();
        Ok(frame.tokens + tokens.ok_or(TemplateError::Interrupted)?)
    }

    /// Divides a part of the text into pieces and counts their tokens. If it is interrupted, the
    /// last piece is the rest, whose tokens are not counted.
    fn count_range(
        &mut self,
        range: Range<usize>,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        frame: &Frame,
        counted: &mut Vec<Piece>,
    ) {
        let mut start = range.start;
        while start < range.end {
            let rest = &self.text[start..range.end];
            let can_cut = |previous, next| frame.can_cut(previous, next);
            let length = match rest.len() {
                length if length <= 2 * PIECE_BYTES => length,
                length => tokenizer.next_cut(rest, PIECE_BYTES, can_cut).unwrap_or(length),
            };
            // The search may have been interrupted.
            if interrupt::is_set() {
                return counted.push(Piece::new(rest));
            }
            let mut piece = Piece::new(&rest[..length]);
            self.tokenized += length as u64;
            let tokens = self.tokens_of(start..start + length, template, tokenizer, frame);
            piece.tokens = (!interrupt::is_set()).then_some(tokens);
            counted.push(piece);
            start += length;
        }
    }

    /// Counts the tokens of a piece, with the text of the frame at the edges.
    fn tokens_of(&self, range: Range<usize>, template: &ChatTemplate, tokenizer: &Tokenizer, frame: &Frame) -> usize {
        let markers = frame.markers;
        let is_first = range.start == 0;
        let after = if range.end == self.text.len() {
            &*frame.after
        } else {
            ""
        };
        let before = if is_first { &*frame.before } else { "" };
        let own = quoted(
            &markers.removed_from(&self.text[range]),
            &frame.literals,
            markers.literal,
        );
        let own = template.mark_structure(tokenizer, &own, Author::Other, markers);
        tokenizer.count_piece(&format!("{before}{own}{after}"), is_first, markers.literal)
    }
}
