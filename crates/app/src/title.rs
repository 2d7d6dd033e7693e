//! Titles and names: a conversation's title from its first message, and normalized names.

use crate::wire::{ChatReason, Problem, ProblemCode};
use hearth_formats::characters::{is_hidden, is_joiner};
use hearth_protocol::{Part, text_of};

/// Most characters of a title. Longer text is truncated at a word boundary.
const MAX_TITLE: usize = 48;

/// Most characters of a name.
pub(crate) const MAX_NAME: usize = 200;

/// A name on one line, without control and hidden characters. `None` means that it is empty.
pub(crate) fn normalized(text: &str) -> Option<String> {
    // `length` is in characters.
    let (mut name, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let mut characters = word.chars().filter(|c| is_shown(*c)).peekable();
        if characters.peek().is_none() {
            continue;
        }
        let gap = (length > 0).then_some(' ');
        for c in gap.into_iter().chain(characters) {
            if length == MAX_NAME {
                return Some(name.trim_end().to_owned());
            }
            name.push(c);
            length += 1;
        }
    }
    (!name.is_empty()).then_some(name)
}

/// The displayed form of a name that an earlier version or another program may have written. Most
/// names are unchanged.
pub(crate) fn shown(name: &str) -> String {
    if is_name(name) {
        name.to_owned()
    } else {
        normalized(name).unwrap_or_default()
    }
}

/// Normalizes the names in a part of a message from another program.
pub(crate) fn shorten_names(part: &mut Part) {
    let normalize = |name: &mut String| *name = shown(name);
    match part {
        Part::Text { .. } | Part::Thinking { .. } => {}
        Part::ToolCall { id, name, .. } | Part::ToolResult { id, name, .. } => {
            normalize(id);
            normalize(name);
        }
        Part::File { name, media_type, .. } | Part::Image { name, media_type, .. } => {
            normalize(name);
            normalize(media_type);
        }
    }
}

/// Whether a text has the length and the characters of a name.
fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.by_ref().take(MAX_NAME).all(is_shown) && characters.next().is_none()
}

/// Whether a character may be part of a name.
fn is_shown(c: char) -> bool {
    let is_space = c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    !is_hidden(c) || is_joiner(c) || is_space
}

/// The problem of an empty name.
pub(crate) fn empty_name() -> Problem {
    Problem::new(ProblemCode::BadRequest, ChatReason::EmptyName)
}

/// A title for a conversation from its first message: from its text, or else from its first file.
pub(crate) fn of_message(parts: &[Part]) -> String {
    first_words(parts, MAX_TITLE)
}

/// The first words of a message, or else of the name of its first file: see [`from_text`].
pub(crate) fn first_words(parts: &[Part], max: usize) -> String {
    let file = parts.iter().find_map(|part| match part {
        Part::File { name, .. } => Some(name.as_str()),
        _ => None,
    });
    match text_of(parts) {
        text if text.is_empty() => words_of(file.unwrap_or_default(), max),
        text => words_of(&text, max),
    }
}

/// A title from a message: its first line with a letter or digit, without Markdown markers.
/// Truncated to [`MAX_TITLE`] characters and an ellipsis. Empty if the message has no visible
/// character; the page then names the conversation.
pub(crate) fn from_text(text: &str) -> String {
    words_of(text, MAX_TITLE)
}

fn words_of(text: &str, max: usize) -> String {
    let line = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '>', '*', '-']))
        .find(|line| line.chars().any(char::is_alphanumeric))
        .unwrap_or(text);
    shortened(line, max)
}

/// The words of a line. Truncated to `max` characters and an ellipsis, at a word boundary if there
/// is one.
pub(crate) fn shortened(line: &str, max: usize) -> String {
    let mut title = String::new();
    let mut length = 0;
    for word in line
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > max {
            return title + "\u{2026}";
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        if word_length > max {
            title.extend(word.chars().take(max));
            return title + "\u{2026}";
        }
        title += word;
        length += word_length;
    }
    title
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, MAX_TITLE, from_text, normalized, shown};
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
            ("  \u{0}\n", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(from_text(text), expected);
        }
        assert_eq!(from_text(&"x".repeat(100)).chars().count(), MAX_TITLE + 1);
    }

    #[test]
    fn a_name_is_one_short_line_of_visible_characters() {
        for (text, expected) in [
            (" A  chat\n of\u{1b}[2J\ttwo ", Some("A chat of[2J two")),
            ("\u{202e}gpj.exe\u{2069}", Some("gpj.exe")),
            ("\u{200b} \u{feff}\n", None),
            // A joined emoji, and a Persian word with a zero-width non-joiner.
            (
                "\u{1f468}\u{200d}\u{1f469} \u{645}\u{6cc}\u{200c}\u{62e}",
                Some("\u{1f468}\u{200d}\u{1f469} \u{645}\u{6cc}\u{200c}\u{62e}"),
            ),
        ] {
            assert_eq!(normalized(text).as_deref(), expected, "{text:?}");
            assert_eq!(shown(text), expected.unwrap_or_default(), "{text:?}");
        }
        for text in ["b".repeat(MAX_NAME), "a  b".to_owned(), "a\u{202f}b".to_owned()] {
            assert_eq!(shown(&text), text);
        }
        let long = shown(&"\u{e9} ".repeat(1_000_000));
        assert!(long.chars().count() <= MAX_NAME && long.ends_with('\u{e9}'), "{long}");
    }

    proptest! {
        #[test]
        fn a_title_is_one_short_line(text in "\\PC*|[ \\n#a-z\u{0}\u{1f642}]*") {
            let title = from_text(&text);
            prop_assert!(title.chars().count() <= MAX_TITLE + 1);
            prop_assert!(!title.chars().any(char::is_control));
        }
    }
}
