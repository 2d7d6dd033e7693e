//! Passes the text of an answer through the search for stop strings, and keeps track of which parts
//! of the text are tokens of markers.

use super::markers::{Edge, Markers};
use hearth_llm::StopStrings;
use std::collections::VecDeque;
use std::sync::Arc;

/// A piece of an answer before it is split into thought and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Text. Its letters may form a marker only if the marker is not a token.
    Text(String),
    /// A token that is a marker.
    Marker(Edge),
}

/// The search for stop strings in text with markers. The text of markers is searched, too: a stop
/// string may contain a marker or a part of one.
#[derive(Debug, Clone)]
pub(crate) struct Passage {
    stop: StopStrings,
    markers: Option<Arc<Markers>>,
    /// Bytes that were added.
    bytes_in: usize,
    /// Bytes that were returned.
    bytes_out: usize,
    /// The markers that were not returned yet.
    markers_in: VecDeque<PendingMarker>,
    /// Text that has passed the search and is the beginning of a marker.
    part: String,
}

/// A marker whose text has not passed the search yet.
#[derive(Debug, Clone, Copy)]
struct PendingMarker {
    edge: Edge,
    /// Number of bytes before it.
    offset: usize,
}

impl Passage {
    pub fn new(stop: StopStrings, markers: Option<Arc<Markers>>) -> Self {
        Self {
            stop,
            markers,
            bytes_in: 0,
            bytes_out: 0,
            markers_in: VecDeque::new(),
            part: String::new(),
        }
    }

    /// Adds text. Returns the pieces that have passed the search, and whether a stop string was
    /// found.
    pub fn text(&mut self, text: &str) -> (Vec<Input>, bool) {
        self.bytes_in += text.len();
        let searched = self.stop.push(text);
        (self.pass(&searched.text), searched.stopped)
    }

    /// Adds a token that is a marker. Returns the same as [`Passage::text`].
    pub fn marker(&mut self, edge: Edge) -> (Vec<Input>, bool) {
        self.markers_in.push_back(PendingMarker {
            edge,
            offset: self.bytes_in,
        });
        let text = self.marker_text(edge);
        self.text(text)
    }

    /// Ends the text. Returns the pieces that were held back.
    pub fn finish(&mut self) -> Vec<Input> {
        let held = self.stop.finish();
        self.pass(&held)
    }

    fn marker_text(&self, edge: Edge) -> &'static str {
        self.markers.as_ref().map_or("", |markers| markers.marker(edge).text)
    }

    /// Splits text that has passed the search at the markers in it.
    fn pass(&mut self, text: &str) -> Vec<Input> {
        let mut ready = std::mem::take(&mut self.part) + text;
        let mut inputs = Vec::new();
        while let Some(&PendingMarker { edge, offset }) = self.markers_in.front() {
            let before = (offset - self.bytes_out).min(ready.len());
            if before > 0 {
                let rest = ready.split_off(before);
                inputs.push(Input::Text(std::mem::replace(&mut ready, rest)));
                self.bytes_out += before;
            }
            let length = self.marker_text(edge).len();
            if offset > self.bytes_out || ready.len() < length {
                break;
            }
            ready.drain(..length);
            self.bytes_out += length;
            inputs.push(Input::Marker(edge));
            self.markers_in.pop_front();
        }
        if !self.markers_in.is_empty() {
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

    /// The text that passes, joined, and whether a stop string was found. In `pieces`, `T` and `/`
    /// are the tokens of the markers; in the result, they are parentheses.
    fn passed(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let markers = Arc::new(Markers::with_tokens(PAIRS[0], [Some(1), Some(2)]));
        let stop = StopStrings::new(stops.iter().map(|stop| (*stop).to_owned()));
        let mut passage = Passage::new(stop, Some(markers));
        let (mut output, mut is_stopped) = (String::new(), false);
        let mut add = |inputs: Vec<Input>| {
            for input in inputs {
                match input {
                    Input::Text(text) => {
                        assert_ne!(text, "", "an empty piece");
                        output += &text;
                    }
                    Input::Marker(Edge::Open) => output += "(",
                    Input::Marker(Edge::Close) => output += ")",
                }
            }
        };
        for piece in pieces {
            let (inputs, stopped) = match *piece {
                "T" => passage.marker(Edge::Open),
                "/" => passage.marker(Edge::Close),
                text => passage.text(text),
            };
            add(inputs);
            is_stopped |= stopped;
        }
        add(passage.finish());
        (output, is_stopped)
    }

    #[test]
    fn tokens_stay_markers_and_letters_stay_text() {
        struct Case<'a> {
            stops: &'a [&'a str],
            pieces: &'a [&'a str],
            output: &'a str,
            stopped: bool,
        }
        fn case<'a>(stops: &'a [&'a str], pieces: &'a [&'a str], output: &'a str, stopped: bool) -> Case<'a> {
            Case {
                stops,
                pieces,
                output,
                stopped,
            }
        }
        for case in [
            case(&[], &["T", "a", "/", "b"], "(a)b", false),
            case(&[], &["<think>", "T", "</think>", "/"], "<think>(</think>)", false),
            case(&[], &["/", "/", "T"], "))(", false),
            // A token that may be the beginning of a stop string is held back.
            case(&["</think>\n\nX"], &["a", "/", "\n", "\nY"], "a)\n\nY", false),
            case(&["</think>\n\nX"], &["a", "/", "\n\nX"], "a", true),
            case(&["</think>"], &["a", "/", "b"], "a", true),
            case(&["</think>"], &["a</th", "ink>b"], "a", true),
            case(&["k>\n"], &["/", "b"], ")b", false),
            // A part of a marker is not a marker, and is dropped.
            case(&["ink>b"], &["a", "/", "b"], "a", true),
            case(&["k>"], &["a", "T"], "a", true),
            case(&["a<"], &["a", "T", "b"], "", true),
        ] {
            assert_eq!(
                passed(case.stops, case.pieces),
                (case.output.to_owned(), case.stopped),
                "{:?} {:?}",
                case.stops,
                case.pieces
            );
        }
    }
}
