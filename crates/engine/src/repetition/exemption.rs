//! The repetitions that do not end an answer at the limit, because the prompt asks for them: by a
//! number, as in "print 2,000 identical lines", or because it contains the repeated text. Such a
//! repetition has a larger limit.
//!
//! A number is read in digits only, and may count something else ("a story of 500 words"), so a
//! loop after such a prompt ends late.

use hearth_protocol::{Message, Part, Prompt, Role};
use std::collections::HashMap;

/// Letters and digits that must be found in the prompt. A shorter text is repeated up to this
/// length, because every prompt contains "the".
const MIN_CHARS: usize = 12;
/// Letters and digits of a text that a message need not repeat. A shorter one may be an echo of
/// the question, as "the capital of".
const MIN_MESSAGE_CHARS: usize = 40;
/// Repetitions of a shorter text in a message.
const MIN_MESSAGE_TIMES: usize = 3;
/// Repetitions of a text in an answer for each one in the prompt.
const TIMES_PER_OCCURRENCE: usize = 2;
/// Characters of the prompt that are searched, the newest messages first.
const MAX_SEARCHED: usize = 1 << 20;

/// The largest number of repetitions that a prompt asks for. Larger integers are rather prices,
/// populations or phone numbers.
const MAX_TIMES: usize = 100_000;
/// The integers without separators that are years, except for 2000.
const YEARS: std::ops::RangeInclusive<usize> = 1900..=2100;
/// Characters between groups of three digits.
const SEPARATORS: [char; 8] = [',', '.', ' ', '\'', '_', '\u{2019}', '\u{a0}', '\u{202f}'];

/// The largest number of repetitions that the user may ask for in the last message. 0 if there is
/// none.
pub(crate) fn times(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Chat(messages) | Prompt::Continue { messages, .. } => messages
            .iter()
            .rfind(|message| message.role == Role::User)
            .map_or(0, |message| largest_count(&message.text())),
        Prompt::Raw(text) => largest_count(text),
        Prompt::Tokens(_) => 0,
    }
}

/// The largest integer of a text that may count something, with or without separators. 0 if there
/// is none.
fn largest_count(text: &str) -> usize {
    let (mut largest, mut rest) = (0, text);
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let (count, after) = first_count(&rest[start..]);
        largest = largest.max(count.unwrap_or(0));
        rest = after;
    }
    largest
}

/// Reads the number at the beginning of a text, and returns the text after it. Groups of digits
/// with one character between them are one number. If they are not thousands, it is a date, a
/// decimal or a phone number, which counts nothing.
fn first_count(text: &str) -> (Option<usize>, &str) {
    let (first, mut rest) = split_digits(text);
    let mut digits = first.to_owned();
    let mut is_integer = true;
    loop {
        let mut characters = rest.chars();
        let Some(separator) = characters.next().filter(|character| !character.is_alphanumeric()) else {
            break;
        };
        let (group, after) = split_digits(characters.as_str());
        if group.is_empty() {
            break;
        }
        is_integer &= SEPARATORS.contains(&separator) && group.len() == 3 && first.len() <= 3;
        digits += group;
        rest = after;
    }
    let is_year = |count: &usize| digits.len() == first.len() && *count != 2000 && YEARS.contains(count);
    let count = digits.parse().ok().filter(|_| is_integer);
    (count.filter(|count| *count <= MAX_TIMES && !is_year(count)), rest)
}

/// The digits at the beginning of a text, and the text after them.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The texts of a prompt in which repeated text is searched. They are built once per answer.
#[derive(Debug)]
pub(crate) struct Exemption {
    texts: Vec<SearchedText>,
    /// The repeated texts so far, with the result of [`Exemption::search`].
    judged: Vec<(String, Option<usize>)>,
}

/// The letters and digits of a part of the prompt.
#[derive(Debug)]
struct SearchedText {
    letters: String,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A text of the user, or the system prompt.
    Message,
    /// A file, or the result of a tool.
    File,
}

impl Exemption {
    /// Searches the texts of the user, the system prompt and tools, up to [`MAX_SEARCHED`]
    /// characters. Only letters and digits are compared, since a model adds punctuation.
    pub fn new(prompt: &Prompt) -> Self {
        let parts: Vec<(&str, Source)> = match prompt {
            Prompt::Chat(messages) | Prompt::Continue { messages, .. } => {
                let messages = messages.iter().rev();
                let searched = messages.filter(|message| message.role != Role::Assistant);
                searched.flat_map(searched_parts).collect()
            }
            Prompt::Raw(text) => vec![(text.as_str(), Source::Message)],
            Prompt::Tokens(_) => Vec::new(),
        };
        let mut left = MAX_SEARCHED;
        let texts = parts.into_iter().map(|(text, source)| {
            let letters = letters(text.chars().take(left)).collect();
            left -= text.chars().take(left).count();
            SearchedText { letters, source }
        });
        Self {
            texts: texts.collect(),
            judged: Vec::new(),
        }
    }

    /// The number of repetitions that the prompt asks for of a period with these bytes, which may
    /// begin anywhere in it. `None` means that it does not ask.
    pub fn times(&mut self, period: &[u8]) -> Option<usize> {
        // The end of a character at the beginning belongs to the beginning at the end.
        let is_start = |byte: &u8| byte & 0xc0 != 0x80;
        let start = period.iter().position(is_start).unwrap_or(0);
        let bytes = [&period[start..], &period[..start]].concat();
        let unit: String = letters(String::from_utf8_lossy(&bytes).chars()).collect();
        if unit.is_empty() {
            return None;
        }
        let doubled = unit.repeat(2);
        let is_rotation = |judged: &&(String, _)| judged.0.len() == unit.len() && doubled.contains(&judged.0);
        if let Some((_, times)) = self.judged.iter().find(is_rotation) {
            return *times;
        }
        let times = self.search(&unit);
        self.judged.push((unit, times));
        times
    }

    /// The number of repetitions that the prompt asks for of these letters and digits.
    fn search(&self, unit: &str) -> Option<usize> {
        let occurrences = self.texts.iter().filter_map(|text| text.occurrences(unit));
        let occurrences = occurrences.max()?;
        Some(occurrences.saturating_mul(TIMES_PER_OCCURRENCE))
    }
}

impl SearchedText {
    /// The number of times that the text has a unit. `None` means that it has too few for a
    /// repetition. A text that is nothing else does not ask for its repetition.
    fn occurrences(&self, unit: &str) -> Option<usize> {
        let chars = unit.chars().count();
        let copies = MIN_CHARS.div_ceil(chars);
        let (copies, min_count) = match self.source {
            Source::File => (copies, 1),
            Source::Message if chars >= MIN_MESSAGE_CHARS => (1, 1),
            Source::Message if copies == 1 => (1, MIN_MESSAGE_TIMES),
            Source::Message => (copies.max(MIN_MESSAGE_TIMES), 1),
        };
        let repeated = unit.repeat(copies);
        if self.letters.len() <= repeated.len() {
            return None;
        }
        let count = count_rotations(self.letters.as_bytes(), repeated.as_bytes());
        (count >= min_count).then_some(count * copies)
    }
}

/// The number of disjoint parts of a text that are a rotation of a unit. Takes one pass, with a
/// rolling hash.
fn count_rotations(text: &[u8], unit: &[u8]) -> usize {
    let doubled = unit.repeat(2);
    let offsets: HashMap<u64, usize> = window_hashes(&doubled, unit.len())
        .map(|(start, hash)| (hash, start))
        .collect();
    // Most hashes are found in no table, so a small one is looked up first.
    let key = |hash: u64| (hash >> 48) as usize;
    let mut is_possible = vec![false; 1 << 16];
    offsets.keys().for_each(|hash| is_possible[key(*hash)] = true);
    let (mut count, mut end) = (0, 0);
    for (start, hash) in window_hashes(text, unit.len()) {
        if start < end || !is_possible[key(hash)] {
            continue;
        }
        let is_equal = |&offset: &usize| text[start..].starts_with(&doubled[offset..offset + unit.len()]);
        if offsets.get(&hash).is_some_and(is_equal) {
            count += 1;
            end = start + unit.len();
        }
    }
    count
}

/// The start and a hash of each part of a text with this length.
fn window_hashes(text: &[u8], length: usize) -> impl Iterator<Item = (usize, u64)> {
    const BASE: u64 = 0x5851_f42d_4c95_7f2d;
    let power = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = 0_u64;
    text.iter().enumerate().filter_map(move |(index, byte)| {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(*byte));
        if let Some(before) = index.checked_sub(length) {
            hash = hash.wrapping_sub(power.wrapping_mul(u64::from(text[before])));
        }
        (index + 1).checked_sub(length).map(|start| (start, hash))
    })
}

/// The texts of a message that the user wrote, or that the model was given.
fn searched_parts(message: &Message) -> impl Iterator<Item = (&str, Source)> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some((text.as_str(), Source::Message)),
        Part::File { text, .. } | Part::ToolResult { text, .. } => Some((text.as_str(), Source::File)),
        Part::Thinking { .. } | Part::ToolCall { .. } | Part::Image { .. } => None,
    })
}

/// The letters and digits among these characters, in lower case.
fn letters(characters: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    characters
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_integer_is_read_with_separators() {
        let cases = [
            ("", 0),
            ("Tell me more.", 0),
            ("2 names, 1 line", 2),
            ("A table of 1,000 rows and 3 columns", 1000),
            ("2.000 Zeilen", 2000),
            ("2 000 lignes", 2000),
            ("12\u{202f}345 or 1\u{2019}234", 12_345),
            ("10, 2000", 2000),
            ("from 5 to 100.", 100),
            ("7 ,000", 7),
            ("x12y500z", 500),
        ];
        for (text, expected) in cases {
            assert_eq!(largest_count(text), expected, "{text:?}");
        }
    }

    #[test]
    fn years_prices_and_phone_numbers_count_nothing() {
        let cases = [
            ("What happened in 1989?", 0),
            ("Plans for 2100, not for 2101", 2101),
            ("The year 2,024 is written without a comma.", 2024),
            ("2000 lines", 2000),
            ("On 2024-05-12 at 10:30, or on 12.5.2024", 0),
            ("It costs $1,299.99 now.", 0),
            ("A house for 250,000 euros", 0),
            ("A chair for 250 euros", 250),
            ("Call 555-867-5309.", 0),
            ("Call 555 123 4567.", 0),
            ("Call +49 30 1234567.", 0),
            ("Call 5558675309.", 0),
            ("1,23 and 1,2345 and 1234,567", 0),
            ("99999999999999999999999999", 0),
            ("100,000 rows, not 100,001", 100_000),
        ];
        for (text, expected) in cases {
            assert_eq!(largest_count(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_the_last_message_of_the_user_has_the_number() {
        let messages = [
            Message::of_text(Role::System, "At most 900 words."),
            Message::of_text(Role::User, "Write 800 lines."),
            Message::of_text(Role::Assistant, "Here are 700."),
            Message::of_text(Role::User, "Now 60."),
            Message::of_text(Role::Assistant, "Here are 500."),
        ];
        let ids = Vec::new();
        let messages = messages.to_vec();
        assert_eq!(times(&Prompt::Continue { messages, ids }), 60);
        assert_eq!(times(&Prompt::Raw("40 times".to_owned())), 40);
        assert_eq!(times(&Prompt::Tokens(vec![40])), 0);
    }

    fn file(text: &str) -> Part {
        Part::File {
            name: "log.txt".to_owned(),
            media_type: "text/plain".to_owned(),
            text: text.to_owned(),
        }
    }

    /// The repetitions of a period that a chat with this part asks for.
    fn asked(role: Role, part: Part, period: &str) -> Option<usize> {
        let message = Message {
            role,
            parts: vec![part],
        };
        let prompt = Prompt::Chat(vec![message, Message::of_text(Role::User, "Go on.")]);
        Exemption::new(&prompt).times(period.as_bytes())
    }

    fn in_message(message: &str, period: &str) -> Option<usize> {
        asked(
            Role::User,
            Part::Text {
                text: message.to_owned(),
            },
            period,
        )
    }

    fn in_file(text: &str, period: &str) -> Option<usize> {
        asked(Role::User, file(text), period)
    }

    #[test]
    fn a_period_is_found_wherever_it_begins_and_with_other_punctuation() {
        let text = "Line: disk FULL: error at /dev/sda1";
        for period in [" error at /dev/sda1\nDisk full:", "* disk full: error at /dev/sda1.\n"] {
            assert_eq!(in_file(text, period), Some(2), "{period}");
        }
        assert_eq!(in_file(text, "disk full: error at /dev/sdb1\n"), None);
        assert_eq!(
            in_file("写：今天天气很好，我们一起去公园。", "我们一起去公园。今天天气很好，"),
            Some(2)
        );
        // Half of a character, at the end of one period and the beginning of the next.
        let period = [&"é".as_bytes()[1..], b" the very same", b"\xc3"].concat();
        let prompt = Prompt::Chat(vec![Message {
            role: Role::User,
            parts: vec![file("Repeat: é the very same")],
        }]);
        assert_eq!(Exemption::new(&prompt).times(&period), Some(2));
    }

    #[test]
    fn a_short_period_is_found_only_if_the_prompt_repeats_it_too() {
        assert_eq!(in_message("What is the weather in the north?", " the"), None);
        assert_eq!(in_message("Write 0 or 1, but not 2.", "1"), None);
        assert_eq!(in_file("Copy it: [0,0,0,0,0,0,0,0,0,0,0,0,0]", "0,"), Some(24));
        assert_eq!(in_message("Sing: la la la la la la la", " la"), Some(12));
        assert_eq!(in_message("Draw a line: ---------------------", "---"), None);
        assert_eq!(in_message("Anything", " \n"), None);
        assert_eq!(in_message("Anything", ""), None);
    }

    #[test]
    fn the_echo_of_a_message_is_not_asked_for() {
        for period in [" the capital of", " What is the capital of", " capital of France?"] {
            assert_eq!(in_message("What is the capital of France?", period), None, "{period}");
        }
        // Characters count, not bytes.
        assert_eq!(
            in_message("法国的首都是哪里？请详细地说明。", "法国的首都是哪里？"),
            None
        );
        assert_eq!(in_file("法国的首都是哪里？请详细地说明。", "法国的首都是哪里？"), None);
        let question = "Explain photosynthesis in two sentences of ten words.";
        assert_eq!(in_message(question, question), None);
        assert_eq!(in_message(&format!("Repeat: {question}"), question), Some(2));
    }

    #[test]
    fn a_message_asks_for_the_repetition_of_a_text_that_it_repeats() {
        let line = "the disk is full\n";
        let log = |times: usize| format!("Go on: {}", line.repeat(times));
        assert_eq!([0, 1, 2].map(|times| in_message(&log(times), line)), [None; 3]);
        assert_eq!(in_message(&log(3), line), Some(6));
        assert_eq!(in_message(&log(2000), line), Some(4000));
        let verses = format!("Sing on. {line} One verse. {line} Another verse. {line} And so on.");
        assert_eq!(in_message(&verses, line), Some(6));
        // One of 6 to 11 letters and digits has to be there three times in a row.
        assert_eq!(in_message("Write: disk full disk full", " disk full"), None);
        assert_eq!(
            in_message("Write: disk full disk full disk full", " disk full"),
            Some(6)
        );
    }

    #[test]
    fn files_and_the_system_prompt_are_searched_but_no_answers() {
        let line = "all quiet on the western front\n";
        let text = format!("Log:\n{line}");
        let three = Part::Text { text: text.repeat(3) };
        assert_eq!(asked(Role::User, file(&text), line), Some(2));
        assert_eq!(asked(Role::System, Part::Text { text: text.clone() }, line), None);
        assert_eq!(asked(Role::System, three.clone(), line), Some(6));
        assert_eq!(asked(Role::Assistant, three, line), None);
        assert_eq!(asked(Role::User, Part::Thinking { text: text.repeat(3) }, line), None);
    }

    #[test]
    fn a_search_is_bounded() {
        let long = "a, ".repeat(1 << 20);
        let prompt = Prompt::Chat(vec![Message::of_text(Role::User, long); 3]);
        let mut exemption = Exemption::new(&prompt);
        let sizes: Vec<usize> = exemption.texts.iter().map(|text| text.letters.len()).collect();
        assert_eq!(sizes, [MAX_SEARCHED.div_ceil(3), 0, 0]);
        assert!(exemption.times(&b"a".repeat(256)).is_some());
        assert_eq!(exemption.times(&b"b".repeat(256)), None);
        // A rotation is not searched again.
        let judged = exemption.judged.len();
        assert_eq!([exemption.times(b"xy"), exemption.times(b"y x")], [None; 2]);
        assert_eq!(exemption.judged.len(), judged + 1);
    }

    #[test]
    fn rotations_are_counted() {
        let count = |text: &str, unit: &str| count_rotations(text.as_bytes(), unit.as_bytes());
        assert_eq!(count("abcabcab", "abc"), 2);
        assert_eq!(count("xbcayabcz", "cab"), 2);
        assert_eq!(count("aaaaa", "a"), 5);
        assert_eq!(count("acb", "abc"), 0);
        assert_eq!(count("ab", "abc"), 0);
        assert_eq!(count("", "a"), 0);
    }
}
