//! Splits a model's answer into thoughts and text.
//!
//! A marker that is a token begins a thought before the first text and at the beginning of a line,
//! and ends a thought. If the first end of a thought in an answer has no beginning, the text so far
//! is a thought. Elsewhere the model quotes the marker, and its letters are text. A marker in
//! letters counts before the first text and in a thought, since a model may write about markers
//! later. If the prompt ends with the end of a thought, the first end in letters without a
//! beginning counts, too.

use super::markers::{Edge, Markers, PromptEnd};
use super::passage::Input;
use hearth_protocol::{Part, TextKind, append_text, fold_text};
use std::sync::Arc;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More text.
    Text(TextKind, String),
    /// The text so far is a thought; see [`fold_text`].
    Folded,
}

impl Piece {
    /// Adds the piece to the parts of its answer.
    pub fn add_to(&self, parts: &mut Vec<Part>) {
        match self {
            Self::Text(kind, text) => append_text(parts, *kind, text),
            Self::Folded => fold_text(parts),
        }
    }
}

/// A splitter of one answer.
#[derive(Debug, Clone)]
pub(crate) struct Splitter {
    markers: Option<Arc<Markers>>,
    state: State,
    /// Text that is held back: it may be the beginning of a marker in letters, or white space
    /// around a marker.
    held: String,
    /// Whether an end in letters without a beginning turns the text so far into a thought.
    letters_fold: bool,
    /// Whether ends without a beginning do not count any more.
    is_closed: bool,
    /// Quoted beginnings whose ends have not followed yet.
    quoted: usize,
    /// Whether the text so far ends with a line break.
    ends_line: bool,
    /// Whether the last emitted text belongs to a thought.
    follows_thought: bool,
}

/// The position in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before any text.
    Start,
    /// After a thought's opening marker, before its first text.
    ThoughtStart,
    /// In a thought.
    Thought,
    /// After a thought, before the first text.
    ThoughtEnd,
    /// In the text.
    Text,
}

impl Splitter {
    /// A splitter for a model with these markers and an answer to a prompt with this end.
    pub fn new(markers: Option<Arc<Markers>>, prompt: PromptEnd) -> Self {
        let state = match (&markers, prompt) {
            (None, _) => State::Text,
            (Some(_), PromptEnd::Open) => State::ThoughtStart,
            (Some(_), PromptEnd::Closed | PromptEnd::Text) => State::Start,
        };
        Self {
            markers,
            state,
            held: String::new(),
            letters_fold: prompt == PromptEnd::Closed,
            is_closed: false,
            quoted: 0,
            ends_line: false,
            follows_thought: false,
        }
    }

    /// A splitter in the middle of a thought or of a text. In a text, ends of thoughts do not
    /// count.
    pub fn inside(markers: Option<Arc<Markers>>, kind: TextKind) -> Self {
        let state = match (&markers, kind) {
            (Some(_), TextKind::Thinking) => State::Thought,
            _ => State::Text,
        };
        Self {
            state,
            is_closed: kind == TextKind::Text,
            ..Self::new(markers, PromptEnd::Text)
        }
    }

    /// Settles the text so far: no later end turns it into a thought. The user may have written it.
    pub fn settle(&mut self) {
        self.is_closed |= !self.is_thinking();
        self.letters_fold &= !self.is_closed;
    }

    /// Whether the next text belongs to a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::ThoughtStart | State::Thought)
    }

    /// Adds a piece of the answer. Returns the pieces that are certain, in order.
    pub fn push(&mut self, input: Input) -> Vec<Piece> {
        let mut pieces = Vec::new();
        match input {
            Input::Text(text) => {
                self.held.push_str(&text);
                while self.step(&mut pieces) {}
            }
            Input::Marker(edge) => self.mark(edge, &mut pieces),
        }
        pieces
    }

    /// Ends the answer. Returns the text that was held back.
    pub fn finish(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        match self.state {
            // White space around a marker belongs to the marker.
            State::ThoughtStart | State::ThoughtEnd => {}
            State::Thought => self.emit(TextKind::Thinking, held.trim_end(), &mut pieces),
            State::Start | State::Text => self.emit(TextKind::Text, &held, &mut pieces),
        }
        pieces
    }

    /// Adds a marker that is a token.
    fn mark(&mut self, edge: Edge, pieces: &mut Vec<Piece>) {
        if self.state == State::Start && !self.held.trim_start().is_empty() {
            // The held letters are not the beginning of a marker any more.
            self.state = State::Text;
        }
        let held = std::mem::take(&mut self.held);
        match (self.state, edge) {
            // The thought is open already. White space is held back, since text may follow it.
            (State::ThoughtStart | State::Thought, Edge::Open) => {
                let text = held.trim_end();
                held[text.len()..].clone_into(&mut self.held);
                self.emit(TextKind::Thinking, text, pieces);
            }
            (State::Start | State::ThoughtEnd, Edge::Open) => self.state = State::ThoughtStart,
            (State::Text, Edge::Open) => {
                self.emit(TextKind::Text, &held, pieces);
                if self.ends_line {
                    self.state = State::ThoughtStart
                } else {
                    self.quote(edge, pieces)
                }
            }
            (State::ThoughtStart, Edge::Close) => self.close(),
            (State::Thought, Edge::Close) => {
                self.emit(TextKind::Thinking, held.trim_end(), pieces);
                self.close();
            }
            // The held white space belongs to the previous marker.
            (State::ThoughtEnd, Edge::Close) => self.quote(edge, pieces),
            (State::Start, Edge::Close) if !self.is_closed => self.close(),
            (State::Start | State::Text, Edge::Close) => {
                self.emit(TextKind::Text, &held, pieces);
                if self.is_closed || self.quoted > 0 {
                    self.quote(edge, pieces)
                } else {
                    self.fold(pieces)
                }
            }
        }
    }

    /// Emits the letters of a marker that is a token but does not count.
    fn quote(&mut self, edge: Edge, pieces: &mut Vec<Piece>) {
        let letters = self.markers.as_ref().map_or("", |markers| markers.marker(edge).text);
        self.state = State::Text;
        self.quoted = match edge {
            Edge::Open => self.quoted + 1,
            Edge::Close => self.quoted.saturating_sub(1),
        };
        self.emit(TextKind::Text, letters, pieces);
    }

    /// Turns the text so far into a thought.
    fn fold(&mut self, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Folded);
        self.follows_thought = true;
        self.close();
    }

    /// Ends a thought.
    fn close(&mut self) {
        self.state = State::ThoughtEnd;
        self.is_closed = true;
        self.letters_fold = false;
        self.quoted = 0;
    }

    /// Adds a piece of text, unless it is empty.
    fn emit(&mut self, kind: TextKind, text: &str, pieces: &mut Vec<Piece>) {
        if !text.is_empty() {
            pieces.push(Piece::Text(kind, text.to_owned()));
            self.follows_thought = kind == TextKind::Thinking;
            self.ends_line = kind == TextKind::Text && text.ends_with('\n');
        }
    }

    /// The letters of a marker. `None` if it is a token.
    fn letters(&self, edge: Edge) -> Option<&'static str> {
        self.markers.as_ref()?.marker(edge).letters()
    }

    /// Processes the held text. Returns `true` if it may have to be called again.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Start => self.find_first_marker(),
            State::ThoughtStart => {
                self.skip_white_space();
                if self.held.is_empty() {
                    return false;
                }
                if self.follows_thought {
                    self.held.insert_str(0, "\n\n");
                }
                self.state = State::Thought;
                true
            }
            State::Thought => self.emit_thought(pieces),
            State::ThoughtEnd => {
                self.skip_white_space();
                if self.held.is_empty() {
                    return false;
                }
                self.state = State::Text;
                true
            }
            State::Text => self.emit_text(pieces),
        }
    }

    /// Searches for a marker in letters before the first text.
    fn find_first_marker(&mut self) -> bool {
        let text = self.held.trim_start();
        if text.is_empty() {
            return false;
        }
        let open = self.letters(Edge::Open).map(|letters| (letters, Edge::Open));
        let close = self.letters(Edge::Close).filter(|_| self.letters_fold);
        let close = close.map(|letters| (letters, Edge::Close));
        for (letters, edge) in [open, close].into_iter().flatten() {
            if let Some(rest) = text.strip_prefix(letters) {
                self.held = rest.to_owned();
                match edge {
                    Edge::Open => self.state = State::ThoughtStart,
                    Edge::Close => self.close(),
                }
                return true;
            }
            if letters.starts_with(text) {
                return false;
            }
        }
        self.state = State::Text;
        true
    }

    /// Emits the thought up to its closing marker.
    fn emit_thought(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let close = self.letters(Edge::Close);
        if let Some(letters) = close
            && let Some(end) = self.held.find(letters)
        {
            let rest = self.held.split_off(end + letters.len());
            let thought = std::mem::replace(&mut self.held, rest);
            self.emit(TextKind::Thinking, thought[..end].trim_end(), pieces);
            self.close();
            return true;
        }
        // Text that may be the beginning of the marker, and the white space before it, is held
        // back.
        let marker = close.map_or(0, |letters| partial_marker(&self.held, letters));
        let certain = self.held[..self.held.len() - marker].trim_end().len();
        let rest = self.held.split_off(certain);
        let certain = std::mem::replace(&mut self.held, rest);
        self.emit(TextKind::Thinking, &certain, pieces);
        false
    }

    /// Emits the text up to the end of a thought without a beginning.
    fn emit_text(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let markers: Vec<(Edge, &str)> = if self.letters_fold {
            [Edge::Open, Edge::Close]
                .into_iter()
                .filter_map(|edge| Some((edge, self.letters(edge)?)))
                .collect()
        } else {
            Vec::new()
        };
        let matches = markers.iter().filter_map(|(edge, letters)| {
            let start = self.held.find(letters)?;
            Some((start, *edge, letters.len()))
        });
        let Some((start, edge, length)) = matches.min_by_key(|(start, ..)| *start) else {
            let partial = markers.iter().map(|(_, letters)| partial_marker(&self.held, letters));
            let certain = self.held.len() - partial.max().unwrap_or(0);
            let rest = self.held.split_off(certain);
            let certain = std::mem::replace(&mut self.held, rest);
            self.emit(TextKind::Text, &certain, pieces);
            return false;
        };
        let rest = self.held.split_off(start + length);
        let text = std::mem::replace(&mut self.held, rest);
        if edge == Edge::Close && self.quoted == 0 {
            self.emit(TextKind::Text, &text[..start], pieces);
            self.fold(pieces);
            return true;
        }
        self.quoted = match edge {
            Edge::Open => self.quoted + 1,
            Edge::Close => self.quoted - 1,
        };
        self.emit(TextKind::Text, &text, pieces);
        true
    }

    fn skip_white_space(&mut self) {
        let length = self.held.len() - self.held.trim_start().len();
        self.held.drain(..length);
    }
}

/// Number of bytes at the end of a text that may be the beginning of these letters.
fn partial_marker(text: &str, letters: &str) -> usize {
    let lengths = (1..letters.len()).rev();
    lengths
        .filter(|&length| letters.is_char_boundary(length))
        .find(|&length| text.ends_with(&letters[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::markers::PAIRS;
    use super::*;
    use TextKind::{Text, Thinking};

    fn splitter(tokens: bool, prompt: PromptEnd) -> Splitter {
        let tokens = [0, 1].map(|token| tokens.then_some(token));
        Splitter::new(Some(Arc::new(Markers::with_tokens(PAIRS[0], tokens))), prompt)
    }

    fn push_text(splitter: &mut Splitter, text: &str) -> Vec<Piece> {
        splitter.push(Input::Text(text.to_owned()))
    }

    fn piece(kind: TextKind, text: &str) -> Piece {
        Piece::Text(kind, text.to_owned())
    }

    #[test]
    fn text_is_not_held_back_without_need() {
        let mut thought = splitter(false, PromptEnd::Open);
        for (text, expected) in [
            ("Hm, ", vec![piece(Thinking, "Hm,")]),
            ("I", vec![piece(Thinking, " I")]),
            (" see </", vec![piece(Thinking, " see")]),
            ("b>", vec![piece(Thinking, " </b>")]),
            ("</think>A", vec![piece(Text, "A")]),
            (" </", vec![piece(Text, " </")]),
        ] {
            assert_eq!(push_text(&mut thought, text), expected, "{text:?}");
        }
        let mut with_tokens = splitter(true, PromptEnd::Open);
        assert_eq!(push_text(&mut with_tokens, "a </"), [piece(Thinking, "a </")]);
        let mut closed = splitter(false, PromptEnd::Closed);
        assert_eq!(push_text(&mut closed, "a "), [piece(Text, "a ")]);
        assert_eq!(push_text(&mut closed, "b </"), [piece(Text, "b ")]);
        let mut without_markers = Splitter::new(None, PromptEnd::Text);
        assert_eq!(push_text(&mut without_markers, "<think>"), [piece(Text, "<think>")]);
    }

    #[test]
    fn a_continued_text_keeps_the_letters_of_markers() {
        for tokens in [false, true] {
            let markers = splitter(tokens, PromptEnd::Text).markers;
            let mut text = Splitter::inside(markers.clone(), Text);
            assert_eq!(push_text(&mut text, "a</think>b"), [piece(Text, "a</think>b")]);
            assert_eq!(text.push(Input::Marker(Edge::Close)), [piece(Text, "</think>")]);
            let mut settled = splitter(tokens, PromptEnd::Closed);
            push_text(&mut settled, "a");
            settled.settle();
            assert_eq!(settled.push(Input::Marker(Edge::Close)), [piece(Text, "</think>")]);
            assert_eq!(push_text(&mut settled, "</think>b"), [piece(Text, "</think>b")]);
            let mut thought = Splitter::inside(markers, Thinking);
            assert!(thought.is_thinking());
            let actual = [
                push_text(&mut thought, "a</think>b"),
                thought.push(Input::Marker(Edge::Close)),
            ];
            let expected = if tokens {
                [vec![piece(Thinking, "a</think>b")], vec![]]
            } else {
                [
                    vec![piece(Thinking, "a"), piece(Text, "b")],
                    vec![piece(Text, "</think>")],
                ]
            };
            assert_eq!(actual, expected);
        }
    }
}
