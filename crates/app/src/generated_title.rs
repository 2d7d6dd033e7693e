//! Extracts a title from the output of a model, which may be any text.

use crate::title::{normalized, shortened};
use std::collections::HashSet;

/// The instruction of the model, after the conversation.
pub(crate) const INSTRUCTION: &str = "Write a short title for this conversation, in the language of the conversation.";
/// The beginning of the model's answer. A small model writes a title after it, and often a remark
/// without it.
pub(crate) const BEGINNING: &str = "\"";
/// Texts at which the title ends.
pub(crate) const STOP: [&str; 3] = ["\"", "\u{201d}", "\n"];
/// Maximum tokens of a title.
pub(crate) const MAX_TOKENS: u32 = 24;
/// Maximum characters of a title, including the ellipsis.
const MAX_TITLE: usize = 60;
/// Maximum bytes of the output that are read. A title of 24 tokens is shorter.
const MAX_TEXT: usize = 4096;
/// Maximum bytes of the conversation that are compared with a title.
const MAX_CONVERSATION: usize = 16 << 10;
/// Maximum nested marks that are removed around a title.
const MAX_MARKS: usize = 16;

/// Labels before a title in the languages of the window, in lower case.
const LABELS: [&str; 16] = [
    "title",
    "chat title",
    "conversation title",
    "the title",
    "subject",
    "topic",
    "titel",
    "thema",
    "betreff",
    "título",
    "titulo",
    "tema",
    "asunto",
    "标题",
    "主题",
    "题目",
];

/// Quotation marks around a title.
const QUOTES: [(char, char); 13] = [
    ('"', '"'),
    ('\'', '\''),
    ('`', '`'),
    ('\u{201c}', '\u{201d}'),
    ('\u{201e}', '\u{201c}'),
    ('\u{201e}', '\u{201d}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{201a}', '\u{2018}'),
    ('\u{ab}', '\u{bb}'),
    ('\u{bb}', '\u{ab}'),
    ('\u{300c}', '\u{300d}'),
    ('\u{300e}', '\u{300f}'),
    ('\u{300a}', '\u{300b}'),
];

/// The title in the text of a model: its first line that is one. `None` means that there is none,
/// or that it repeats itself or the instruction.
pub(crate) fn from_model(text: &str) -> Option<String> {
    let text = without_thoughts(&text[..text.floor_char_boundary(MAX_TEXT)]);
    let line = text.lines().find_map(plain)?;
    let is_title = !has_repetition(&line) && !is_instruction(&line);
    is_title.then(|| shortened(&line, MAX_TITLE - 1))
}

/// Whether a title shares a word with the conversation. A small model may write a title in another
/// language or about something else.
pub(crate) fn is_about(title: &str, conversation: &str) -> bool {
    let conversation = &conversation[..conversation.floor_char_boundary(MAX_CONVERSATION)];
    !stems(title).is_disjoint(&stems(conversation))
}

/// The first five letters of each word of at least four, in lower case. Of a word in a script
/// without spaces, all pairs of characters.
fn stems(text: &str) -> HashSet<String> {
    const FIRST_CJK: char = '\u{2e80}';
    let mut stems = HashSet::new();
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()) {
        let letters: Vec<char> = word.chars().collect();
        if letters.iter().any(|letter| *letter >= FIRST_CJK) {
            stems.extend(letters.windows(2).map(String::from_iter));
        } else if letters.len() >= 4 {
            stems.insert(letters.iter().take(5).collect());
        }
    }
    stems
}

/// The text after the last thought that a model marked as text.
fn without_thoughts(text: &str) -> &str {
    let after = text.rsplit_once("</think>").map_or(text, |(_, after)| after);
    after.split_once("<think>").map_or(after, |(before, _)| before)
}

/// A line without Markdown, labels, quotation marks and hidden characters. `None` means that it
/// cannot be a title.
fn plain(line: &str) -> Option<String> {
    let line = normalized(
        &without_links(line)
            .replace("**", "")
            .replace("__", "")
            .replace("~~", ""),
    )?;
    let mut title = line.as_str();
    // Data, markup, or the border of a code block.
    if title.starts_with(['{', '[', '<']) || title.starts_with("```") {
        return None;
    }
    for _ in 0..MAX_MARKS {
        let before = title;
        title = without_label(without_list_mark(title.trim())).trim();
        title = without_quotes(title)
            .trim()
            .trim_end_matches(['.', '\u{3002}', '\u{ff0e}']);
        title = title.trim_matches(['*', '_', '`', ' ']);
        if title == before {
            break;
        }
    }
    let is_announcement = title.ends_with([':', '\u{ff1a}']);
    (!is_announcement && title.chars().any(char::is_alphanumeric)).then(|| title.to_owned())
}

/// Replaces the Markdown links in a line with their texts.
fn without_links(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link
            .split_once("](")
            .and_then(|(text, after)| Some((text, after.split_once(')')?.1)));
        match parts.filter(|(text, _)| !text.contains('[')) {
            Some((text, after)) => {
                plain.push_str(before.strip_suffix('!').unwrap_or(before));
                plain.push_str(text);
                rest = after;
            }
            None => {
                plain.push_str(before);
                plain.push('[');
                rest = link;
            }
        }
    }
    plain + rest
}

/// Removes the mark of a heading, a quotation, or an item of a list.
fn without_list_mark(line: &str) -> &str {
    let unmarked = line.trim_start_matches(['#', '>']);
    if let Some(item) = ["- ", "* ", "+ ", "\u{2022} ", "\u{2013} ", "\u{2014} "]
        .iter()
        .find_map(|mark| unmarked.trim_start().strip_prefix(mark))
    {
        return item;
    }
    let digits = unmarked.len() - unmarked.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match unmarked[digits..]
        .strip_prefix(". ")
        .or(unmarked[digits..].strip_prefix(") "))
    {
        Some(item) if (1..=2).contains(&digits) => item,
        _ => unmarked,
    }
}

/// Removes a label such as `Title:`.
fn without_label(line: &str) -> &str {
    let Some((label, title)) = line.split_once([':', '\u{ff1a}']) else {
        return line;
    };
    let label = label.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if LABELS.contains(&label.as_str()) { title } else { line }
}

/// Removes quotation marks around a line, and an opening one without an end.
fn without_quotes(line: &str) -> &str {
    for (open, close) in QUOTES {
        let Some(inner) = line.strip_prefix(open) else { continue };
        match inner.strip_suffix(close) {
            Some(quoted) if !quoted.contains([open, close]) => return quoted,
            None if !inner.contains(close) => return inner,
            _ => {}
        }
    }
    line
}

/// Whether words or characters repeat: the same words three times in a row, or the same three or
/// more words twice.
fn has_repetition(title: &str) -> bool {
    let lower = title.to_lowercase();
    let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let words: Vec<String> = lower.split(' ').map(word).filter(|word| !word.is_empty()).collect();
    let characters: Vec<char> = lower.chars().collect();
    has_period(&words, |period| if period < 3 { 3 } else { 2 })
        // Text without spaces, such as Chinese. Short repetitions are words.
        || has_period(&characters, |period| 12_usize.div_ceil(period).max(3))
}

/// Whether a sequence of items occurs `times(its length)` times in a row.
fn has_period<T: PartialEq>(items: &[T], times: impl Fn(usize) -> usize) -> bool {
    (1..=items.len() / 2).any(|period| {
        let needed = period * (times(period) - 1);
        let mut equal = 0;
        items.iter().zip(&items[period..]).any(|(item, later)| {
            equal = if item == later { equal + 1 } else { 0 };
            equal >= needed
        })
    })
}

/// Whether a line is a part of the instruction, or begins with its beginning.
fn is_instruction(line: &str) -> bool {
    let (line, instruction) = (line.to_lowercase(), INSTRUCTION.to_lowercase());
    let beginning: String = instruction.chars().take(12).collect();
    instruction.contains(&line) || line.starts_with(&beginning)
}

#[cfg(test)]
mod tests {
    use super::{INSTRUCTION, MAX_TITLE, from_model, is_about};
    use proptest::prelude::*;

    #[track_caller]
    fn assert_titles<const N: usize>(cases: [(&str, Option<&str>); N]) {
        for (text, expected) in cases {
            assert_eq!(from_model(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_title_is_plain_text() {
        assert_titles([
            ("Capital of France", Some("Capital of France")),
            ("\n\n  Capital\tof  France.\nIt is Paris.", Some("Capital of France")),
            ("**Title:** \"Capital of France.\"", Some("Capital of France")),
            ("# Title: *The Capital of France*", Some("The Capital of France")),
            (
                "Titel: \u{201e}Hauptstadt Frankreichs\u{201c}",
                Some("Hauptstadt Frankreichs"),
            ),
            (
                "T\u{ed}tulo: \u{ab}La capital de Francia\u{bb}.",
                Some("La capital de Francia"),
            ),
            ("标题：《法国的首都》。", Some("法国的首都")),
            ("1. Capital of France", Some("Capital of France")),
            ("> - `Capital of France`", Some("Capital of France")),
            (
                "Sure, here is a title:\n\"Capital of France\"",
                Some("Capital of France"),
            ),
            ("```\nCapital of France\n```", Some("Capital of France")),
            (
                "[Paris](https://example.com) and ![Lyon](x.png)",
                Some("Paris and Lyon"),
            ),
            ("<think>A title?</think>\nCapital of France", Some("Capital of France")),
            ("Say \"hello\" in \"French\"", Some("Say \"hello\" in \"French\"")),
            ("Paris: a city", Some("Paris: a city")),
            ("3.5 miles in km", Some("3.5 miles in km")),
            ("Introduction to C#", Some("Introduction to C#")),
            ("C# and F#_2 * 3", Some("C# and F#_2 * 3")),
            (
                "Ca\u{202e}pital\u{1b}[2J of\u{200b} France\u{0}",
                Some("Capital[2J of France"),
            ),
            ("\"Capital of France", Some("Capital of France")),
            ("New York, New York", Some("New York, New York")),
        ]);
    }

    #[test]
    fn a_text_without_a_title_has_none() {
        assert_titles([
            ("", None),
            (" \n\u{200b}\n**\n---\n", None),
            ("Title:", None),
            ("<think>Capital of France", None),
            ("{\"title\": \"Capital of France\"}", None),
            ("Here is the title:", None),
            ("\u{1f642}", None),
        ]);
    }

    #[test]
    fn a_repetition_or_the_instruction_is_no_title() {
        assert_titles([
            ("rain Rain, rain", None),
            ("The rain. The rain. The rain.", None),
            ("Ares the Great, Ares the Great", None),
            ("ababababababab", None),
            ("北京北京北京北京北京北京", None),
            (INSTRUCTION, None),
            ("a short title for this conversation", None),
            ("Write a short title about France", None),
            ("Very very long numbers", Some("Very very long numbers")),
        ]);
    }

    #[test]
    fn a_long_title_ends_at_a_word() {
        assert_titles([(
            "Reasons for the long and complicated history of the capital of France",
            Some("Reasons for the long and complicated history of the capital\u{2026}"),
        )]);
        let long: String = ('\u{4e00}'..).take(80).collect();
        let cut: String = ('\u{4e00}'..).take(59).chain(['\u{2026}']).collect();
        assert_titles([(&long, Some(&cut))]);
    }

    #[test]
    fn a_title_is_about_the_conversation_if_it_shares_a_word() {
        let german = "Was ist die Hauptstadt von Frankreich? Die Hauptstadt ist Paris.";
        assert!(is_about("Hauptstädte und die Hauptstadt", german));
        assert!(is_about("Frankreichs Städte", german));
        assert!(!is_about("The Capital of France", german));
        assert!(!is_about("Ein Titel", german));
        assert!(is_about("法国的首都", "法国的首都是哪里？"));
        assert!(!is_about("Capital of France", "法国的首都是哪里？"));
        assert!(!is_about("", ""));
        let late = "a ".repeat(1 << 20) + "rain";
        assert!(!is_about("Rain", &late), "only the beginning is read");
    }

    proptest! {
        #[test]
        fn a_title_is_short_and_visible(
            text in "\\PC*|[ \\n#a-z*_`\"'\\[\\]().:\u{0}\u{202e}\u{200d}\u{1f642}<>/]*",
        ) {
            if let Some(title) = from_model(&text) {
                let length = title.chars().count();
                prop_assert!(length > 0 && length <= MAX_TITLE, "{title:?}");
                prop_assert!(!title.chars().any(|c| c.is_control() || c == '\u{202e}'), "{title:?}");
            }
        }

        #[test]
        fn a_huge_text_is_read_in_part(unit in "[a-z\\[\\](\"]{1,4}") {
            let title = from_model(&unit.repeat(100_000));
            prop_assert!(title.is_none_or(|title| title.chars().count() <= MAX_TITLE));
        }
    }
}
