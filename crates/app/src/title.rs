//! Titles and names: a conversation's title from its first message, and normalised names.

use crate::wire::{Problem, ProblemCode};

/// Most characters of a title; longer ones are cut at a word.
const MAX_TITLE: usize = 48;

/// Most characters of a name.
const MAX_NAME: usize = 200;

/// A name on one line, without control characters. `None` means that it is empty.
pub(crate) fn normalised(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let name: String = line.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// The problem of an empty name.
pub(crate) fn empty_name() -> Problem {
    Problem {
        code: ProblemCode::BadRequest,
        message: "A name needs at least one character.".to_owned(),
    }
}

/// The first line with text, on one line: at most [`MAX_TITLE`] characters and an ellipsis.
pub(crate) fn from_text(text: &str) -> String {
    let line = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '>', '*', '-']))
        .find(|line| line.chars().any(char::is_alphanumeric))
        .unwrap_or(text);
    let mut title = String::new();
    let mut length = 0;
    for word in line
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > MAX_TITLE {
            return title + "\u{2026}";
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        if letters > MAX_TITLE {
            title.extend(word.chars().take(MAX_TITLE));
            return title + "\u{2026}";
        }
        title += word;
        length += letters;
    }
    if title.is_empty() {
        "New conversation".to_owned()
    } else {
        title
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TITLE, from_text};
    use proptest::prelude::*;

    #[test]
    fn a_title_is_the_first_line_with_text() {
        let cases = [
            ("What is the capital of France?", "What is the capital of France?"),
            ("\n\n## Plan\nmore", "Plan"),
            ("a\tb\u{0}c", "a b c"),
            (
                "Explain how a transformer attends to earlier tokens, please",
                "Explain how a transformer attends to earlier\u{2026}",
            ),
            ("\u{1f642}", "\u{1f642}"),
            ("  \u{0}\n", "New conversation"),
        ];
        for (text, title) in cases {
            assert_eq!(from_text(text), title);
        }
        assert_eq!(from_text(&"x".repeat(100)).chars().count(), MAX_TITLE + 1);
    }

    proptest! {
        #[test]
        fn is_one_short_line(text in "\\PC*|[ \\n#a-z\u{0}\u{1f642}]*") {
            let title = from_text(&text);
            prop_assert!((1..=MAX_TITLE + 1).contains(&title.chars().count()));
            prop_assert!(!title.chars().any(char::is_control));
        }
    }
}
