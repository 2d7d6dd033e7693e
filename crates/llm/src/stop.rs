//! Searches for stop strings, which may span several tokens.

/// Searches a streamed answer for stop strings.
///
/// Text that may be the beginning of a stop string is held back, so that no part of one is shown.
/// The first complete stop string ends the answer. The result does not depend on the boundaries of
/// pieces.
#[derive(Debug, Default, Clone)]
pub struct StopStrings {
    strings: Vec<String>,
    /// Text that may be the beginning of a stop string.
    pending: String,
    is_stopped: bool,
}

/// The text to show after a piece.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Text without any part of a stop string.
    pub text: String,
    /// Whether there was a stop string. The answer ends before it.
    pub stopped: bool,
}

impl StopStrings {
    /// A search for these strings. Empty ones are ignored.
    pub fn new(strings: impl IntoIterator<Item = String>) -> Self {
        let strings = strings.into_iter().filter(|string| !string.is_empty()).collect();
        Self {
            strings,
            pending: String::new(),
            is_stopped: false,
        }
    }

    /// Appends the next piece of the answer. After a stop string, no further text is returned.
    pub fn push(&mut self, piece: &str) -> Passed {
        if self.is_stopped {
            return Passed {
                text: String::new(),
                stopped: true,
            };
        }
        self.pending.push_str(piece);
        // The match that ends first, so that the boundaries of pieces do not matter.
        let first_match = self
            .strings
            .iter()
            .filter_map(|stop| self.pending.find(stop).map(|start| (start + stop.len(), start)))
            .min();
        if let Some((_, start)) = first_match {
            self.pending.truncate(start);
            self.is_stopped = true;
            return Passed {
                text: std::mem::take(&mut self.pending),
                stopped: true,
            };
        }
        let held_back = self
            .strings
            .iter()
            .map(|stop| partial_match(&self.pending, stop))
            .max()
            .unwrap_or(0);
        let pending = self.pending.split_off(self.pending.len() - held_back);
        Passed {
            text: std::mem::replace(&mut self.pending, pending),
            stopped: false,
        }
    }

    /// Ends the answer, and returns the text that was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.pending)
    }
}

/// The length in bytes of the longest suffix of `text` that is a proper prefix of `stop`.
fn partial_match(text: &str, stop: &str) -> usize {
    let max = text.len().min(stop.len() - 1);
    let bytes = text.as_bytes();
    (1..=max)
        .rev()
        .find(|&length| bytes[bytes.len() - length..] == stop.as_bytes()[..length])
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_possible_beginning_of_a_stop_text_is_held_back() {
        // `rest` is the text at the end, or `None` if the answer is stopped.
        let check = |stops: &[&str], pieces: &[&str], texts: &[&str], rest: Option<&str>| {
            let mut search = StopStrings::new(stops.iter().map(|stop| stop.to_string()));
            let results: Vec<Passed> = pieces.iter().map(|piece| search.push(piece)).collect();
            assert_eq!(
                results.iter().map(|result| result.text.as_str()).collect::<Vec<_>>(),
                texts
            );
            assert_eq!(results.last().map(|result| result.stopped), Some(rest.is_none()));
            assert_eq!(search.finish(), rest.unwrap_or_default());
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
                let mut search = StopStrings::new(stops.clone());
                let mut text = String::new();
                let mut is_stopped = false;
                for piece in pieces {
                    let result = search.push(piece);
                    text += &result.text;
                    is_stopped = result.stopped;
                }
                (text + &search.finish(), is_stopped)
            };
            let answer = pieces.concat();
            let (text, is_stopped) = run(&pieces);
            let characters: Vec<String> = answer.chars().map(String::from).collect();
            prop_assert_eq!((text.clone(), is_stopped), run(&characters));
            prop_assert!(answer.starts_with(&text));
            let stops: Vec<&String> = stops.iter().filter(|stop| !stop.is_empty()).collect();
            prop_assert_eq!(is_stopped, stops.iter().any(|stop| answer.contains(stop.as_str())));
            prop_assert!(!stops.iter().any(|stop| text.contains(stop.as_str())));
        }
    }
}
