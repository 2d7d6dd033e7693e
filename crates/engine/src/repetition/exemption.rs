//! The repetitions that do not end an answer, because the prompt asks for them: by a number, as in
//! "print 2,000 identical lines", or because it contains the repeated text.
//!
//! A number is read in digits only, and may count something else ("a story of 500 words"), so a
//! loop after such a prompt ends late.

use hearth_protocol::{Message, Part, Prompt, Role};

/// Bytes of letters and digits that must be found in the prompt. A shorter text is repeated up to
/// this length, because every prompt contains "the".
const MIN_BYTES: usize = 12;

/// Characters of the prompt that are searched, the newest messages first. It bounds the time of a
/// search, which is repeated for each rotation of a period.
const MAX_SEARCHED: usize = 1 << 20;

/// Characters between groups of three digits.
const SEPARATORS: [char; 8] = [',', '.', ' ', '\'', '_', '\u{2019}', '\u{a0}', '\u{202f}'];

/// The largest integer that the user wrote in the last message. 0 if there is none.
pub(crate) fn times(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Chat(messages) | Prompt::Continue { messages, .. } => messages
            .iter()
            .rfind(|message| message.role == Role::User)
            .map_or(0, |message| largest_integer(&message.text())),
        Prompt::Raw(text) => largest_integer(text),
        Prompt::Tokens(_) => 0,
    }
}

/// The largest integer of a text, with or without separators. 0 if there is none.
fn largest_integer(text: &str) -> usize {
    let digits_from = |index: usize| {
        let bytes = text.as_bytes()[index..].iter().take(4);
        bytes.take_while(|byte| byte.is_ascii_digit()).count()
    };
    let (mut largest, mut integer) = (0, 0_usize);
    for (index, character) in text.char_indices() {
        if let Some(digit) = character.to_digit(10) {
            integer = integer.saturating_mul(10).saturating_add(digit as usize);
            largest = largest.max(integer);
        } else if !SEPARATORS.contains(&character) || digits_from(index + character.len_utf8()) != 3 {
            integer = 0;
        }
    }
    largest
}

/// Whether a message of the user or the system prompt contains the text of a period, whose tokens
/// have these bytes. Only letters and digits are compared, since a model adds its own punctuation.
/// A message that is nothing else does not ask for its repetition.
pub(crate) fn contains(prompt: &Prompt, period: &[&[u8]]) -> bool {
    let texts = searchable_texts(prompt);
    (0..period.len()).any(|start| {
        let rotated = [&period[start..], &period[..start]].concat().concat();
        let once: String = letters(&String::from_utf8_lossy(&rotated)).collect();
        if once.is_empty() {
            return false;
        }
        let repeated = once.repeat(MIN_BYTES.div_ceil(once.len()));
        texts
            .iter()
            .any(|text| text.len() > repeated.len() && text.contains(&repeated))
    })
}

/// The letters and digits of the messages that are searched.
fn searchable_texts(prompt: &Prompt) -> Vec<String> {
    let messages = match prompt {
        Prompt::Chat(messages) | Prompt::Continue { messages, .. } => messages,
        Prompt::Raw(text) => return vec![letters(text).collect()],
        Prompt::Tokens(_) => return Vec::new(),
    };
    let mut left = MAX_SEARCHED;
    let of_message = |message: &Message| {
        let mut all = String::new();
        for text in message.parts.iter().filter_map(text_for_model) {
            all.extend(letters(text).take(left));
            left = left.saturating_sub(text.len());
        }
        all
    };
    let messages = messages.iter().rev().filter(|message| message.role != Role::Assistant);
    messages.map(of_message).collect()
}

/// The text of a part that the user wrote, or gave to the model.
fn text_for_model(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } | Part::File { text, .. } | Part::ToolResult { text, .. } => Some(text),
        Part::Thinking { .. } | Part::ToolCall { .. } | Part::Image { .. } => None,
    }
}

/// The letters and digits of a text, in lower case. Of a long text only the beginning.
fn letters(text: &str) -> impl Iterator<Item = char> {
    let searched = text.chars().take(MAX_SEARCHED);
    searched
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
            ("1\u{202f}234\u{a0}567 or 1\u{2019}234", 1_234_567),
            ("10, 2000", 2000),
            ("1,23 and 1,2345", 2345),
            ("from 5 to 100.", 100),
            ("7 ,000", 7),
            ("x12y500z", 500),
            ("99999999999999999999999999", usize::MAX),
        ];
        for (text, expected) in cases {
            assert_eq!(largest_integer(text), expected, "{text:?}");
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

    /// Whether a chat with this message contains the period with these tokens.
    fn is_in(message: &str, period: &[&str]) -> bool {
        let prompt = Prompt::Chat(vec![Message::of_text(Role::User, message)]);
        let period: Vec<&[u8]> = period.iter().map(|token| token.as_bytes()).collect();
        contains(&prompt, &period)
    }

    #[test]
    fn a_period_is_found_wherever_it_begins_and_with_other_punctuation() {
        let asked = "Print this line until I stop you: disk FULL: error at /dev/sda1";
        assert!(is_in(
            asked,
            &[" error", " at", " /dev", "/sda1", "\n", "Disk", " full", ":"]
        ));
        assert!(is_in(asked, &["* ", "disk full", ": error at /dev/sda1", ".\n"]));
        assert!(!is_in(asked, &["disk full", ": error at /dev/sdb1", "\n"]));
        assert!(is_in("请不停地写：今天天气很好。", &["天气很好", "。今天"]));
        // Half of a character, at the end of one period and the beginning of the next.
        let period: [&[u8]; 3] = [&"é".as_bytes()[1..], b" the very same", b"\xc3"];
        let prompt = Prompt::Raw("Repeat: é the very same".to_owned());
        assert!(contains(&prompt, &period));
    }

    #[test]
    fn a_short_period_is_found_only_if_the_prompt_repeats_it_too() {
        assert!(!is_in("What is the weather in the north?", &[" the"]));
        assert!(!is_in("Write 0 or 1, but not 2.", &["1"]));
        assert!(is_in("Copy it: [0,0,0,0,0,0,0,0,0,0,0,0,0]", &["0", ","]));
        assert!(is_in("Sing: la la la la la la la", &[" la"]));
        assert!(!is_in("Draw a line: ---------------------", &["---"]));
        assert!(!is_in("Anything", &[" ", "\n"]));
        assert!(!is_in("Anything", &[]));
    }

    #[test]
    fn the_echo_of_a_message_is_not_asked_for() {
        let question = "Explain photosynthesis in two sentences.";
        assert!(!is_in(
            question,
            &["Explain photosynthesis", " in two sentences", ".\n"]
        ));
        assert!(is_in(
            &format!("Repeat: {question}"),
            &["Explain photosynthesis", " in two sentences", ".\n"]
        ));
    }

    #[test]
    fn files_and_the_system_prompt_are_searched_but_no_answers() {
        let line = "all quiet on the western front";
        let asks = |role, part| {
            let messages = vec![
                Message {
                    role,
                    parts: vec![part],
                },
                Message::of_text(Role::User, "Go on."),
            ];
            contains(&Prompt::Chat(messages), &[line.as_bytes(), b"\n"])
        };
        let text = format!("Log:\n{line}\n");
        let file = Part::File {
            name: "log.txt".to_owned(),
            media_type: "text/plain".to_owned(),
            text: text.clone(),
        };
        assert!(asks(Role::User, file));
        assert!(asks(Role::System, Part::Text { text: text.clone() }));
        assert!(!asks(Role::Assistant, Part::Text { text: text.clone() }));
        assert!(!asks(Role::User, Part::Thinking { text }));
    }

    #[test]
    fn a_search_is_bounded() {
        let period: Vec<&[u8]> = vec![b"ab"; 256];
        let long = "ab".repeat(1 << 20) + "c";
        let messages = vec![Message::of_text(Role::User, long); 3];
        let prompt = Prompt::Chat(messages);
        let sizes: Vec<usize> = searchable_texts(&prompt).iter().map(String::len).collect();
        assert_eq!(sizes, [MAX_SEARCHED, 0, 0]);
        assert!(contains(&prompt, &period));
    }
}
