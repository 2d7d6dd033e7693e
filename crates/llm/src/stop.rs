//! Search for stop texts, which may span several tokens.

/// Searches a streamed answer for stop texts.
///
/// A possible beginning of a stop text is held back, so that no part of one is ever shown. The
/// first complete stop text ends the answer; the result does not depend on how the answer is split
/// into pieces.
#[derive(Debug, Default, Clone)]
pub struct StopStrings {
    texts: Vec<String>,
    held: String,
    stopped: bool,
}

/// The text to show after a piece.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The text before any stop text.
    pub text: String,
    /// Whether a stop text was found; the answer ends before it.
    pub stopped: bool,
}

impl StopStrings {
    /// Searches for these; empty ones are ignored.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let texts = texts.into_iter().filter(|text| !text.is_empty()).collect();
        Self {
            texts,
            held: String::new(),
            stopped: false,
        }
    }

    /// Appends the next piece of the answer. After a stop text, the text is always empty.
    pub fn push(&mut self, piece: &str) -> Passed {
        if self.stopped {
            return Passed {
                text: String::new(),
                stopped: true,
            };
        }
        self.held.push_str(piece);
        let found = self
            .texts
            .iter()
            .filter_map(|stop| self.held.find(stop).map(|at| (at + stop.len(), at)));
        if let Some((_, at)) = found.min() {
            self.held.truncate(at);
            self.stopped = true;
            return Passed {
                text: std::mem::take(&mut self.held),
                stopped: true,
            };
        }
        let keep = self
            .texts
            .iter()
            .map(|stop| partial_match(&self.held, stop))
            .max()
            .unwrap_or(0);
        let held = self.held.split_off(self.held.len() - keep);
        Passed {
            text: std::mem::replace(&mut self.held, held),
            stopped: false,
        }
    }

    /// Ends the answer; returns the text that was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length in bytes of the longest suffix of `text` that is a proper prefix of `stop`.
fn partial_match(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    let bytes = text.as_bytes();
    (1..=longest)
        .rev()
        .find(|&n| bytes[bytes.len() - n..] == stop.as_bytes()[..n])
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_possible_beginning_of_a_stop_text_is_held_back() {
        let check = |stops: &[&str], pieces: &[&str], texts: &[&str], rest: Option<&str>| {
            let mut watch = StopStrings::new(stops.iter().map(|stop| stop.to_string()));
            let passed: Vec<Passed> = pieces.iter().map(|piece| watch.push(piece)).collect();
            assert_eq!(passed.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(), texts);
            assert_eq!(passed.last().map(|p| p.stopped), Some(rest.is_none()));
            assert_eq!(watch.finish(), rest.unwrap_or_default());
        };
        check(&["</s>"], &["hi <", "/", "b>"], &["hi ", "", "</b>"], Some(""));
        check(&["</s>"], &["hi</", "s> more"], &["hi", ""], None);
        check(&["</s>"], &["end <"], &["end "], Some("<"));
        check(&["abc", "b"], &["xab", "c"], &["xa", ""], None);
        check(&["\u{1f600}!"], &["\u{1f600}", "?"], &["", "\u{1f600}?"], Some(""));
        check(&["", "aab"], &["a", "a", "a", "b"], &["", "", "a", ""], None);
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_how_the_answer_is_split(
            pieces in prop::collection::vec("[abé]{0,4}", 0..12),
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
        ) {
            let run = |pieces: &[String]| {
                let mut watch = StopStrings::new(stops.clone());
                let mut shown = String::new();
                let mut stopped = false;
                for piece in pieces {
                    let passed = watch.push(piece);
                    shown += &passed.text;
                    stopped = passed.stopped;
                }
                (shown + &watch.finish(), stopped)
            };
            let whole = pieces.concat();
            let (shown, stopped) = run(&pieces);
            let characters: Vec<String> = whole.chars().map(String::from).collect();
            prop_assert_eq!((shown.clone(), stopped), run(&characters));
            prop_assert!(whole.starts_with(&shown));
            prop_assert_eq!(stopped, stops.iter().any(|s| !s.is_empty() && whole.contains(s.as_str())));
            for stop in stops.iter().filter(|s| !s.is_empty()) {
                prop_assert!(!shown.contains(stop.as_str()));
            }
        }
    }
}
