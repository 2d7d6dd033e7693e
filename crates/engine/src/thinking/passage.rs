//! The text of an answer on its way through the search for stop strings, which keeps what of it is
//! a marker's token.

use super::markers::{Edge, Markers};
use hearth_llm::StopStrings;
use std::collections::VecDeque;
use std::sync::Arc;

/// A piece of an answer before thought and text are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Text, in which letters may be a marker only if no token is.
    Text(String),
    /// A token that is a marker.
    Marker(Edge),
}

/// Text and markers, of which the search for stop strings sees the whole text. A stop string may
/// contain a marker, or a part of one.
#[derive(Debug, Clone)]
pub(crate) struct Passage {
    stop: StopStrings,
    markers: Option<Arc<Markers>>,
    /// Bytes that came in.
    bytes_in: usize,
    /// Bytes that went out.
    bytes_out: usize,
    /// The markers that have not gone out, each with the number of bytes before it.
    tokens: VecDeque<(usize, Edge)>,
    /// Text that has passed the search and is the beginning of a marker's token.
    part: String,
}

impl Passage {
    pub fn new(stop: StopStrings, markers: Option<Arc<Markers>>) -> Self {
        Self {
            stop,
            markers,
            bytes_in: 0,
            bytes_out: 0,
            tokens: VecDeque::new(),
            part: String::new(),
        }
    }

    /// Adds text. Returns what has passed, and whether a stop string was found.
    pub fn text(&mut self, text: &str) -> (Vec<Input>, bool) {
        self.bytes_in += text.len();
        let passed = self.stop.push(text);
        (self.passed(&passed.text), passed.stopped)
    }

    /// Adds a marker's token.
    pub fn marker(&mut self, edge: Edge) -> (Vec<Input>, bool) {
        self.tokens.push_back((self.bytes_in, edge));
        let text = self.marker_text(edge);
        self.text(text)
    }

    /// Ends the text. Returns what was held back.
    pub fn finish(&mut self) -> Vec<Input> {
        let held = self.stop.finish();
        self.passed(&held)
    }

    fn marker_text(&self, edge: Edge) -> &'static str {
        self.markers.as_ref().map_or("", |markers| markers.marker(edge).text)
    }

    fn passed(&mut self, text: &str) -> Vec<Input> {
        let mut ready = std::mem::take(&mut self.part) + text;
        let mut inputs = Vec::new();
        while let Some(&(at, edge)) = self.tokens.front() {
            let before = (at - self.bytes_out).min(ready.len());
            if before > 0 {
                let rest = ready.split_off(before);
                inputs.push(Input::Text(std::mem::replace(&mut ready, rest)));
                self.bytes_out += before;
            }
            let length = self.marker_text(edge).len();
            if at > self.bytes_out || ready.len() < length {
                break;
            }
            ready.drain(..length);
            self.bytes_out += length;
            inputs.push(Input::Marker(edge));
            self.tokens.pop_front();
        }
        if !self.tokens.is_empty() {
            self.part = ready;
        } else if !ready.is_empty() {
            self.bytes_out += ready.len();
            inputs.push(Input::Text(ready));
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::super::markers::PAIRS;
    use super::*;

    /// The text that passes, joined, and whether it was stopped. `T` and `/` are the markers'
    /// tokens.
    fn passed(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let markers = Arc::new(Markers::with_tokens(PAIRS[0], [Some(1), Some(2)]));
        let stop = StopStrings::new(stops.iter().map(|stop| (*stop).to_owned()));
        let mut passage = Passage::new(stop, Some(markers));
        let (mut shown, mut is_stopped) = (String::new(), false);
        let mut show = |inputs: Vec<Input>| {
            for input in inputs {
                match input {
                    Input::Text(text) => {
                        assert_ne!(text, "", "an empty piece");
                        shown += &text;
                    }
                    Input::Marker(Edge::Open) => shown += "(",
                    Input::Marker(Edge::Close) => shown += ")",
                }
            }
        };
        for piece in pieces {
            let (inputs, stopped) = match *piece {
                "T" => passage.marker(Edge::Open),
                "/" => passage.marker(Edge::Close),
                text => passage.text(text),
            };
            show(inputs);
            is_stopped |= stopped;
        }
        show(passage.finish());
        (shown, is_stopped)
    }

    #[test]
    fn tokens_stay_markers_and_letters_stay_text() {
        for (stops, pieces, shown, stopped) in [
            (&[][..], &["T", "a", "/", "b"][..], "(a)b", false),
            (&[], &["<think>", "T", "</think>", "/"], "<think>(</think>)", false),
            (&[], &["/", "/", "T"], "))(", false),
            // The beginning of a stop string holds a token back.
            (&["</think>\n\nX"], &["a", "/", "\n", "\nY"], "a)\n\nY", false),
            (&["</think>\n\nX"], &["a", "/", "\n\nX"], "a", true),
            (&["</think>"], &["a", "/", "b"], "a", true),
            (&["</think>"], &["a</th", "ink>b"], "a", true),
            (&["k>\n"], &["/", "b"], ")b", false),
            // A part of a marker is none, and is not shown.
            (&["ink>b"], &["a", "/", "b"], "a", true),
            (&["k>"], &["a", "T"], "a", true),
            (&["a<"], &["a", "T", "b"], "", true),
        ] {
            assert_eq!(
                passed(stops, pieces),
                (shown.to_owned(), stopped),
                "{stops:?} {pieces:?}"
            );
        }
    }
}
