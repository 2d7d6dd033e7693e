//! Splits a model's generated text into what it thought and what it says, by the markers that its
//! chat template uses.

use hearth_protocol::TextKind;

/// Known markers: the beginning of a thought, and its end.
const MARKERS: [Markers; 4] = [
    Markers {
        open: "<think>",
        close: "</think>",
    },
    Markers {
        open: "[THINK]",
        close: "[/THINK]",
    },
    Markers {
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
    },
    Markers {
        open: "<seed:think>",
        close: "</seed:think>",
    },
];

/// The markers around a thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Markers {
    pub open: &'static str,
    pub close: &'static str,
}

impl Markers {
    /// The markers that a chat template mentions. `None`: its model does not think, or not between
    /// known markers.
    pub fn of_template(source: &str) -> Option<Self> {
        MARKERS.into_iter().find(|markers| source.contains(markers.close))
    }

    /// Whether a token's text is one of them.
    pub fn include(self, text: &str) -> bool {
        text == self.open || text == self.close
    }

    /// Whether a prompt ends inside a thought: templates may open it for the model.
    pub fn are_open_after(self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }
}

/// A splitter of one answer. A thought is looked for only before the first text: a model may write
/// about the markers later.
#[derive(Debug, Clone)]
pub(crate) struct Splitter {
    markers: Option<Markers>,
    state: State,
    /// Text that may be the beginning of a marker, or white space around one.
    held: String,
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

/// A piece of text.
pub(crate) type Piece = (TextKind, String);

impl Splitter {
    /// A splitter for a model with these markers. `is_open`: the prompt has opened a thought.
    pub fn new(markers: Option<Markers>, is_open: bool) -> Self {
        let state = match (markers, is_open) {
            (None, _) => State::Saying,
            (Some(_), true) => State::Opened,
            (Some(_), false) => State::Beginning,
        };
        Self {
            markers,
            state,
            held: String::new(),
        }
    }

    /// A splitter in the middle of a thought or a text.
    pub fn inside(markers: Option<Markers>, kind: TextKind) -> Self {
        let state = match (markers, kind) {
            (Some(_), TextKind::Thinking) => State::Thinking,
            _ => State::Saying,
        };
        Self {
            markers,
            state,
            held: String::new(),
        }
    }

    /// Whether the text belongs to a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Opened | State::Thinking)
    }

    /// Add text. Returns the pieces that are certain, in order.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        let Some(markers) = self.markers.filter(|_| self.state != State::Saying) else {
            return piece(TextKind::Text, text).into_iter().collect();
        };
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while self.step(markers, &mut pieces) {}
        pieces
    }

    /// End the answer. Returns the text held back.
    pub fn finish(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        let kind = match self.state {
            State::Opened | State::Thinking => TextKind::Thinking,
            State::Beginning | State::Closed | State::Saying => TextKind::Text,
        };
        // White space around a marker belongs to it.
        let is_margin = matches!(self.state, State::Opened | State::Closed) || kind == TextKind::Thinking;
        match is_margin {
            true => piece(kind, held.trim_end()),
            false => piece(kind, &held),
        }
    }

    /// Returns whether there may be more to do.
    fn step(&mut self, markers: Markers, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Beginning => self.begin(markers, pieces),
            State::Opened => {
                self.skip_white_space();
                let goes_on = !self.held.is_empty();
                if goes_on {
                    self.state = State::Thinking;
                }
                goes_on
            }
            State::Thinking => self.think(markers, pieces),
            State::Closed => {
                self.skip_white_space();
                let goes_on = !self.held.is_empty();
                if goes_on {
                    self.state = State::Saying;
                }
                goes_on
            }
            State::Saying => {
                let held = std::mem::take(&mut self.held);
                pieces.extend(piece(TextKind::Text, &held));
                false
            }
        }
    }

    /// Look for the opening marker at the beginning.
    fn begin(&mut self, markers: Markers, pieces: &mut Vec<Piece>) -> bool {
        let begun = self.held.trim_start();
        if let Some(rest) = begun.strip_prefix(markers.open) {
            self.held = rest.to_owned();
            self.state = State::Opened;
            return true;
        }
        if markers.open.starts_with(begun) {
            return false;
        }
        self.state = State::Saying;
        let held = std::mem::take(&mut self.held);
        pieces.extend(piece(TextKind::Text, &held));
        false
    }

    /// Pass on the thought up to its closing marker.
    fn think(&mut self, markers: Markers, pieces: &mut Vec<Piece>) -> bool {
        if let Some(at) = self.held.find(markers.close) {
            let rest = self.held.split_off(at + markers.close.len());
            pieces.extend(piece(TextKind::Thinking, self.held[..at].trim_end()));
            self.held = rest;
            self.state = State::Closed;
            return true;
        }
        // What may be the beginning of the marker, with the white space before it, is held back.
        let marker = (1..markers.close.len())
            .rev()
            .find(|&length| self.held.ends_with(&markers.close[..length]))
            .unwrap_or(0);
        let certain = self.held[..self.held.len() - marker].trim_end().len();
        let rest = self.held.split_off(certain);
        let certain = std::mem::replace(&mut self.held, rest);
        pieces.extend(piece(TextKind::Thinking, &certain));
        false
    }

    fn skip_white_space(&mut self) {
        let length = self.held.len() - self.held.trim_start().len();
        self.held.drain(..length);
    }
}

fn piece(kind: TextKind, text: &str) -> Option<Piece> {
    (!text.is_empty()).then(|| (kind, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THINK: Markers = MARKERS[0];

    /// Thought and text of an answer that arrives in these pieces.
    fn split<'a>(is_open: bool, pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut splitter = Splitter::new(Some(THINK), is_open);
        let (mut thought, mut said) = (String::new(), String::new());
        let mut add = |(kind, text): Piece| match kind {
            TextKind::Thinking => thought += &text,
            TextKind::Text => said += &text,
        };
        for piece in pieces {
            splitter.push(piece).into_iter().for_each(&mut add);
        }
        splitter.finish().into_iter().for_each(&mut add);
        (thought, said)
    }

    #[test]
    fn a_thought_is_split_from_the_answer() {
        for (is_open, text, thought, said) in [
            (false, "Paris.", "", "Paris."),
            (false, "<think>\nHm.\n</think>\n\nParis.", "Hm.", "Paris."),
            (false, "\n<think>Hm. </think>Paris.", "Hm.", "Paris."),
            (true, "\nHm.\n</think>\n\nParis.\n", "Hm.", "Paris.\n"),
            (false, "<think>\n\n</think>\n\nParis.", "", "Paris."),
            (false, "<think>Hm", "Hm", ""),
            (true, "Hm </thin", "Hm </thin", ""),
            (false, " <thin", "", " <thin"),
            (
                false,
                "In HTML, <think> is </think> no tag.",
                "",
                "In HTML, <think> is </think> no tag.",
            ),
            (false, "<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
            (false, "  two", "", "  two"),
            (false, "", "", ""),
        ] {
            assert_eq!(
                split(is_open, [text]),
                (thought.to_owned(), said.to_owned()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn text_is_not_held_back_without_need() {
        let mut splitter = Splitter::new(Some(THINK), true);
        assert_eq!(splitter.push("Hm, "), [(TextKind::Thinking, "Hm,".to_owned())]);
        assert_eq!(splitter.push("I"), [(TextKind::Thinking, " I".to_owned())]);
        assert_eq!(splitter.push(" see </"), [(TextKind::Thinking, " see".to_owned())]);
        assert_eq!(splitter.push("b>"), [(TextKind::Thinking, " </b>".to_owned())]);
        assert_eq!(splitter.push("</think>A"), [(TextKind::Text, "A".to_owned())]);
        let mut plain = Splitter::new(None, false);
        assert_eq!(plain.push("<think>"), [(TextKind::Text, "<think>".to_owned())]);
    }

    #[test]
    fn markers_are_those_of_the_template() {
        assert_eq!(Markers::of_template("{{ content.split('</think>')[-1] }}"), Some(THINK));
        assert_eq!(Markers::of_template("{{ message.content }}"), None);
        assert!(THINK.are_open_after("<|im_start|>assistant\n<think>\n"));
        assert!(!THINK.are_open_after("<think>\n\n</think>\n\n"));
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(
            is_open: bool,
            words in prop::collection::vec(
                prop::sample::select(vec!["<think>", "</think>", "<", "/", "think", ">", " ", "\n", "a", "é"]), 0..24),
            cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let text = words.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
            let (thought, said) = split(is_open, [text.as_str()]);
            prop_assert_eq!(split(is_open, pieces), (thought.clone(), said.clone()));
            // Nothing but the first two markers and white space is lost.
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let both = bare(&(thought + &said));
            let whole = bare(&text);
            let without = |text: &str| text.replacen("<think>", "", 1).replacen("</think>", "", 1);
            prop_assert!(both == whole || both.len() >= bare(&without(&text)).len(), "{both:?} of {whole:?}");
        }
    }
}
