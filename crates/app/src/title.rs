//! Titles and names: a conversation's title, from what was said first, and what people type.

use crate::wire::{Code, Problem};

/// Longer titles are cut at a word.
const LONGEST: usize = 48;

/// Names that people type are cut here.
const LONGEST_TYPED: usize = 200;

/// A name as a person typed it, on one line; none if there is nothing in it.
pub(crate) fn typed(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let name: String = line.chars().filter(|c| !c.is_control()).take(LONGEST_TYPED).collect();
    (!name.is_empty()).then_some(name)
}

/// What is said when there is none.
pub(crate) fn no_name() -> Problem {
    Problem {
        code: Code::BadRequest,
        message: "A name needs at least one letter.".to_owned(),
    }
}

/// The first line that says something, on one line, at most [`LONGEST`] characters and a sign that more follows.
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
        if length > 0 && length + 1 + letters > LONGEST {
            return title + "\u{2026}";
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        if letters > LONGEST {
            title.extend(word.chars().take(LONGEST));
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
    use super::{LONGEST, from_text};
    use proptest::prelude::*;

    #[test]
    fn says_what_it_is_about() {
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
        assert_eq!(from_text(&"x".repeat(100)).chars().count(), LONGEST + 1);
    }

    proptest! {
        #[test]
        fn is_one_short_line(text in "\\PC*|[ \\n#a-z\u{0}\u{1f642}]*") {
            let title = from_text(&text);
            prop_assert!((1..=LONGEST + 1).contains(&title.chars().count()));
            prop_assert!(!title.chars().any(char::is_control));
        }
    }
}
