//! Escaping of untrusted text for terminals, which interpret control characters.

use std::borrow::Cow;
use std::io::IsTerminal;

/// The text for an output: [`escaped`] on a terminal, else unchanged.
pub fn for_output<'t>(out: &impl IsTerminal, text: &'t str) -> Cow<'t, str> {
    if out.is_terminal() {
        escaped(text)
    } else {
        Cow::Borrowed(text)
    }
}

/// The text with control characters escaped, `\u{1b}` for ESC, except line feeds and tabs.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let acts = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if acts(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_except_line_feeds_and_tabs() {
        for (text, expected) in [
            ("a\n\tb é 日本語 \u{fdd0}", "a\n\tb é 日本語 \u{fdd0}"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("x\ry\u{8}\0\u{7f}", "x\\ry\\u{8}\\u{0}\\u{7f}"),
            // The same control sequences as C1 characters.
            ("\u{9b}2J\u{9d}", "\\u{9b}2J\\u{9d}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn text_for_a_file_is_unchanged() {
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(for_output(&file, "\u{1b}[2J\r"), "\u{1b}[2J\r");
    }
}
