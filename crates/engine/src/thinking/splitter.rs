//! Splits a model's answer into what it thought and what it says.
//!
//! A marker that is a token begins a thought before the first text and at the beginning of a line,
//! and ends one. If the first end of an answer ends a thought that never began, what was said so
//! far was a thought. Elsewhere the model quotes the marker, and its letters are text. A marker in
//! letters counts before the first text and in a thought, since a model may write about markers
//! later. If the prompt ends with the end of a thought, the first end in letters without its
//! beginning counts too.

use super::markers::{Edge, Markers, PromptEnd};
use super::passage::Input;
use hearth_protocol::{Part, TextKind, append_text, fold_text};
use std::sync::Arc;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More text.
    Text(TextKind, String),
    /// The text so far is a thought, see [`fold_text`].
    Folded,
}

impl Piece {
    /// Adds it to the parts of its answer.
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
    /// Text that may be the beginning of a marker in letters, or white space around a marker.
    held: String,
    /// Whether the end of a thought in letters counts though the answer has no beginning of it.
    letters_fold: bool,
    /// Whether no end of a thought without its beginning counts any more.
    is_closed: bool,
    /// Beginnings of thoughts that the text quotes, whose ends are to come.
    quoted: usize,
    /// Whether what was said so far ends with a line break.
    ends_line: bool,
    /// Whether the last text was a thought's.
    follows_thought: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before any text.
    Beginning,
    /// After a thought's opening marker, before its first text.
    Opened,
    Thinking,
    /// After a thought, before the first text.
    Closed,
    Saying,
}

impl Splitter {
    /// A splitter for a model with these markers, after a prompt with this end.
    pub fn new(markers: Option<Arc<Markers>>, prompt: PromptEnd) -> Self {
        let state = match (&markers, prompt) {
            (None, _) => State::Saying,
            (Some(_), PromptEnd::Open) => State::Opened,
            (Some(_), PromptEnd::Closed | PromptEnd::Text) => State::Beginning,
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

    /// A splitter in the middle of a thought or a text. What is said goes on as a text, whatever
    /// ends of thoughts it has.
    pub fn inside(markers: Option<Arc<Markers>>, kind: TextKind) -> Self {
        let state = match (&markers, kind) {
            (Some(_), TextKind::Thinking) => State::Thinking,
            _ => State::Saying,
        };
        Self {
            state,
            is_closed: kind == TextKind::Text,
            ..Self::new(markers, PromptEnd::Text)
        }
    }

    /// Makes what was said so far certain: the model may not have said it, so no end of a thought
    /// makes it one.
    pub fn settle(&mut self) {
        self.is_closed |= !self.is_thinking();
        self.letters_fold &= !self.is_closed;
    }

    /// Whether the next text belongs to a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Opened | State::Thinking)
    }

    /// Adds to the answer. Returns the pieces that are certain, in order.
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

    /// Ends the answer. Returns the text held back.
    pub fn finish(&mut self) -> Vec<Piece> {
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        match self.state {
            // White space around a marker belongs to it.
            State::Opened | State::Closed => {}
            State::Thinking => self.emit(TextKind::Thinking, held.trim_end(), &mut pieces),
            State::Beginning | State::Saying => self.emit(TextKind::Text, &held, &mut pieces),
        }
        pieces
    }

    /// Adds a marker that is a token.
    fn mark(&mut self, edge: Edge, pieces: &mut Vec<Piece>) {
        if self.state == State::Beginning && !self.held.trim_start().is_empty() {
            // Letters that are not to become a marker.
            self.state = State::Saying;
        }
        let held = std::mem::take(&mut self.held);
        match (self.state, edge) {
            // It is open already. White space may yet be followed by text.
            (State::Opened | State::Thinking, Edge::Open) => {
                let text = held.trim_end();
                held[text.len()..].clone_into(&mut self.held);
                self.emit(TextKind::Thinking, text, pieces);
            }
            (State::Beginning | State::Closed, Edge::Open) => self.state = State::Opened,
            (State::Saying, Edge::Open) => {
                self.emit(TextKind::Text, &held, pieces);
                if self.ends_line {
                    self.state = State::Opened
                } else {
                    self.quote(edge, pieces)
                }
            }
            (State::Opened, Edge::Close) => self.close(),
            (State::Thinking, Edge::Close) => {
                self.emit(TextKind::Thinking, held.trim_end(), pieces);
                self.close();
            }
            // White space around a marker belongs to it.
            (State::Closed, Edge::Close) => self.quote(edge, pieces),
            (State::Beginning, Edge::Close) if !self.is_closed => self.close(),
            (State::Beginning | State::Saying, Edge::Close) => {
                self.emit(TextKind::Text, &held, pieces);
                if self.is_closed || self.quoted > 0 {
                    self.quote(edge, pieces)
                } else {
                    self.fold(pieces)
                }
            }
        }
    }

    /// A marker that is a token does not count: its letters are said.
    fn quote(&mut self, edge: Edge, pieces: &mut Vec<Piece>) {
        let letters = self.markers.as_ref().map_or("", |markers| markers.marker(edge).text);
        self.state = State::Saying;
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

    /// A thought has ended.
    fn close(&mut self) {
        self.state = State::Closed;
        self.is_closed = true;
        self.letters_fold = false;
        self.quoted = 0;
    }

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

    /// Goes on with the text held back. Returns whether there may be more to do.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Beginning => self.begin(),
            State::Opened => {
                self.skip_white_space();
                if self.held.is_empty() {
                    return false;
                }
                if self.follows_thought {
                    self.held.insert_str(0, "\n\n");
                }
                self.state = State::Thinking;
                true
            }
            State::Thinking => self.think(pieces),
            State::Closed => {
                self.skip_white_space();
                if self.held.is_empty() {
                    return false;
                }
                self.state = State::Saying;
                true
            }
            State::Saying => self.say(pieces),
        }
    }

    /// Looks for a marker in letters before the first text.
    fn begin(&mut self) -> bool {
        let begun = self.held.trim_start();
        if begun.is_empty() {
            return false;
        }
        let open = self.letters(Edge::Open).map(|letters| (letters, Edge::Open));
        let close = self.letters(Edge::Close).filter(|_| self.letters_fold);
        let close = close.map(|letters| (letters, Edge::Close));
        for (letters, edge) in [open, close].into_iter().flatten() {
            if let Some(rest) = begun.strip_prefix(letters) {
                self.held = rest.to_owned();
                match edge {
                    Edge::Open => self.state = State::Opened,
                    Edge::Close => self.close(),
                }
                return true;
            }
            if letters.starts_with(begun) {
                return false;
            }
        }
        self.state = State::Saying;
        true
    }

    /// Passes on the thought up to its closing marker.
    fn think(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let close = self.letters(Edge::Close);
        if let Some(letters) = close
            && let Some(at) = self.held.find(letters)
        {
            let rest = self.held.split_off(at + letters.len());
            let thought = std::mem::replace(&mut self.held, rest);
            self.emit(TextKind::Thinking, thought[..at].trim_end(), pieces);
            self.close();
            return true;
        }
        // What may be the beginning of the marker, with the white space before it, is held back.
        let marker = close.map_or(0, |letters| begun_at_the_end(&self.held, letters));
        let certain = self.held[..self.held.len() - marker].trim_end().len();
        let rest = self.held.split_off(certain);
        let certain = std::mem::replace(&mut self.held, rest);
        self.emit(TextKind::Thinking, &certain, pieces);
        false
    }

    /// Passes on what is said, up to the end of a thought that never began.
    fn say(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let searched: Vec<(Edge, &str)> = if self.letters_fold {
            [Edge::Open, Edge::Close]
                .into_iter()
                .filter_map(|edge| Some((edge, self.letters(edge)?)))
                .collect()
        } else {
            Vec::new()
        };
        let found = searched.iter().filter_map(|(edge, letters)| {
            let at = self.held.find(letters)?;
            Some((at, *edge, letters.len()))
        });
        let Some((at, edge, length)) = found.min_by_key(|(at, ..)| *at) else {
            let begun = searched
                .iter()
                .map(|(_, letters)| begun_at_the_end(&self.held, letters));
            let certain = self.held.len() - begun.max().unwrap_or(0);
            let rest = self.held.split_off(certain);
            let certain = std::mem::replace(&mut self.held, rest);
            self.emit(TextKind::Text, &certain, pieces);
            return false;
        };
        let rest = self.held.split_off(at + length);
        let text = std::mem::replace(&mut self.held, rest);
        if edge == Edge::Close && self.quoted == 0 {
            self.emit(TextKind::Text, &text[..at], pieces);
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

/// The number of bytes at a text's end that may be the beginning of these letters.
fn begun_at_the_end(text: &str, letters: &str) -> usize {
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

    fn letters(splitter: &mut Splitter, text: &str) -> Vec<Piece> {
        splitter.push(Input::Text(text.to_owned()))
    }

    fn piece(kind: TextKind, text: &str) -> Piece {
        Piece::Text(kind, text.to_owned())
    }

    #[test]
    fn text_is_not_held_back_without_need() {
        let mut of = splitter(false, PromptEnd::Open);
        for (text, pieces) in [
            ("Hm, ", vec![piece(Thinking, "Hm,")]),
            ("I", vec![piece(Thinking, " I")]),
            (" see </", vec![piece(Thinking, " see")]),
            ("b>", vec![piece(Thinking, " </b>")]),
            ("</think>A", vec![piece(Text, "A")]),
            (" </", vec![piece(Text, " </")]),
        ] {
            assert_eq!(letters(&mut of, text), pieces, "{text:?}");
        }
        let mut token = splitter(true, PromptEnd::Open);
        assert_eq!(letters(&mut token, "a </"), [piece(Thinking, "a </")]);
        let mut closed = splitter(false, PromptEnd::Closed);
        assert_eq!(letters(&mut closed, "a "), [piece(Text, "a ")]);
        assert_eq!(letters(&mut closed, "b </"), [piece(Text, "b ")]);
        let mut plain = Splitter::new(None, PromptEnd::Text);
        assert_eq!(letters(&mut plain, "<think>"), [piece(Text, "<think>")]);
    }

    #[test]
    fn a_continued_text_keeps_the_letters_of_markers() {
        for tokens in [false, true] {
            let markers = splitter(tokens, PromptEnd::Text).markers;
            let mut text = Splitter::inside(markers.clone(), Text);
            assert_eq!(letters(&mut text, "a</think>b"), [piece(Text, "a</think>b")]);
            assert_eq!(text.push(Input::Marker(Edge::Close)), [piece(Text, "</think>")]);
            let mut settled = splitter(tokens, PromptEnd::Closed);
            letters(&mut settled, "a");
            settled.settle();
            assert_eq!(settled.push(Input::Marker(Edge::Close)), [piece(Text, "</think>")]);
            assert_eq!(letters(&mut settled, "</think>b"), [piece(Text, "</think>b")]);
            let mut thought = Splitter::inside(markers, Thinking);
            assert!(thought.is_thinking());
            let [pieces, ended] = [
                letters(&mut thought, "a</think>b"),
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
            assert_eq!([pieces, ended], expected);
        }
    }
}
