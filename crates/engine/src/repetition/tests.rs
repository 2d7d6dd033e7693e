//! Tests of the detection: a table of texts, and a specification.

use super::exemption::Exemption;
use super::*;
use hearth_protocol::{Message, Part, Prompt, Role};
use proptest::prelude::*;
use std::collections::HashMap;

/// The limit of the window.
const LIMIT: u32 = 300;

/// The text as tokens of about the size of a model's: words of at most four letters with the space
/// before them, single digits and single other characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let letters = rest[first.len_utf8()..]
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .take(3)
            .count();
        let is_word = first == ' ' || first.is_ascii_alphabetic();
        let end = first.len_utf8() + if is_word { letters } else { 0 };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The number of tokens after which an answer to this prompt ends. `None` means that it goes on.
fn end(prompt: &Prompt, answer: &str) -> Option<usize> {
    let mut texts: Vec<&str> = Vec::new();
    let mut ids_by_text = HashMap::new();
    let mut id_of = |text| {
        *ids_by_text.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() as u32 - 1
        })
    };
    let ids: Vec<u32> = pieces(answer).into_iter().map(&mut id_of).collect();
    let mut repetition = Repetition::new(LIMIT, exemption::times(prompt));
    let mut exemption = Exemption::new(prompt);
    let mut times_asked = |period: &[u32]| {
        let period: String = period.iter().map(|&id| texts[id as usize]).collect();
        exemption.times(period.as_bytes())
    };
    (1..=ids.len()).find(|&length| repetition.push(&ids[..length], &mut times_asked))
}

fn chat(question: &str) -> Prompt {
    Prompt::Chat(vec![
        Message::of_text(
            Role::System,
            "You are a friendly assistant. Answer clearly and concisely.",
        ),
        Message::of_text(Role::User, question),
    ])
}

/// A question about a file.
fn about_file(question: &str, text: &str) -> Prompt {
    let file = Part::File {
        name: "file.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        text: text.to_owned(),
    };
    let text = Part::Text {
        text: question.to_owned(),
    };
    Prompt::Chat(vec![Message {
        role: Role::User,
        parts: vec![file, text],
    }])
}

/// Pseudorandom numbers below `below`.
fn random(below: usize) -> impl FnMut() -> usize {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % below
    }
}

#[test]
fn a_table_of_a_thousand_rows_goes_on() {
    let rows = (1..=1000).map(|row| format!("| {row} | yes | open | {} |\n", row % 10));
    let table = "| No. | Valid | State | Digit |\n|---|---|---|---|\n".to_owned() + &rows.collect::<String>();
    assert_eq!(end(&chat("Make a table of my invoices."), &table), None);
    let equal_rows = "| x | x | x |\n".repeat(1000);
    assert_eq!(
        end(&chat("A table of 1,000 rows, an x in each cell"), &equal_rows),
        None
    );
}

#[test]
fn a_numbered_list_goes_on() {
    let lines = (1..=500).map(|number| format!("{number}. I will not talk in class.\n"));
    assert_eq!(end(&chat("Write a list."), &lines.collect::<String>()), None);
}

#[test]
fn a_poem_with_a_refrain_goes_on() {
    let (mut adjective, mut noun) = (random(7), random(11));
    let mut verse = || {
        let adjectives = ["cold", "grey", "soft", "slow", "warm", "dark", "wild"];
        let nouns = [
            "roof", "road", "leaf", "lake", "town", "hill", "stone", "sea", "field", "door", "night",
        ];
        let mut line = || {
            format!(
                "The {} rain falls upon the {},\n",
                adjectives[adjective()],
                nouns[noun()]
            )
        };
        (0..4).map(|_| line()).collect::<String>()
    };
    let refrain = "\nOh rain, oh rain, come down again,\nand wash the dust from every lane,\n\
                   oh rain, oh rain, come down again,\nand let the summer grow the grain.\n\n";
    let poem: String = (0..60).map(|_| verse() + refrain).collect();
    assert_eq!(end(&chat("Write a poem with a refrain."), &poem), None);
    // At its end, the refrain is sung a few times.
    assert_eq!(
        end(&chat("Write a poem with a refrain."), &(poem + &refrain.repeat(5))),
        None
    );
}

#[test]
fn base64_goes_on() {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".as_bytes();
    let mut digit = random(alphabet.len());
    let mut bytes = |count: usize| (0..count).map(|_| char::from(alphabet[digit()])).collect::<String>();
    // Zeros, such as the padding of a file's header, are the letter A.
    let data = bytes(3000) + &"A".repeat(400) + &bytes(3000);
    assert_eq!(end(&chat("Encode it in base64."), &data), None);
    // As many as a file has that is copied.
    let zeros = "UklGR".to_owned() + &"A".repeat(8000) + "==";
    assert_eq!(end(&chat("Encode it in base64."), &zeros), Some(303));
    assert_eq!(end(&about_file("Copy the file.", &zeros), &zeros), None);
}

#[test]
fn minified_code_goes_on() {
    let name = |index: usize| format!("{}{}", char::from(b'a' + (index % 26) as u8), index / 26);
    let functions = (0..400).map(|index| {
        let (name, called) = (name(index), name(index * 7 % 400));
        format!("function {name}(e,t){{return e&&t?{called}(t,e):null}}")
    });
    let zeros = format!("var z=[{}];", "0,".repeat(140));
    let code = functions.collect::<String>() + &zeros;
    assert_eq!(end(&chat("Minify it."), &code), None);
    let many_zeros = format!("var z=[{}];", "0,".repeat(5000));
    assert_eq!(end(&about_file("Minify it.", &many_zeros), &many_zeros), None);
}

#[test]
fn identical_log_lines_that_the_user_asked_for_go_on() {
    let log = "ERROR worker: the disk is full\n".repeat(2000);
    assert_eq!(end(&chat("Print 2,000 identical log lines."), &log), None);
    assert_eq!(end(&about_file("Clean up this log.", &log), &log), None);
    assert_eq!(end(&chat(&format!("Clean up this log:\n{log}")), &log), None);
    let period = pieces("ERROR worker: the disk is full\n").len();
    assert_eq!(end(&chat("Print some log lines."), &log), Some(period + LIMIT as usize));
    assert_eq!(
        end(&chat("Print 50 identical log lines."), &log),
        Some(period + 50 * period)
    );
}

#[test]
fn a_repetition_that_the_prompt_asks_for_ends_after_a_larger_limit() {
    let line = "ERROR worker 7: the disk is full, so the upload was refused\n";
    let log = line.repeat(2000);
    let (period, limit) = (pieces(line).len(), LIMIT as usize);
    let question = format!("Fill my log with \"{}\".", line.trim_end());
    assert_eq!(end(&chat(&question), &log), Some(period + EXEMPT_LIMITS * limit));
    assert_eq!(
        end(&about_file("Clean up this log.", &line.repeat(500)), &log),
        Some(period + 2 * 500 * period)
    );
}

#[test]
fn a_loop_ends_after_the_limit() {
    let poem = "\nThe rain falls soft upon the ground,\nA gentle hush, a quiet sound.";
    let story = " She walked through the forest, and she found a door, and she opened the door.";
    let cases = [
        ("Write a short poem about rain.", "Here is a poem about rain:\n", poem),
        (
            "Write a long story about a girl and a door.",
            "Once upon a time, there was a girl named Mia!",
            story,
        ),
        (
            "Give me three names for a small grey cat.",
            "1. Ares\n2.",
            " Ares the Warrior, Ares the",
        ),
        ("What is the capital of France?", "The capital of", " the"),
        ("What is the capital of France?", "It is", " the capital of"),
        // The question itself is no text to repeat.
        ("What is 3 times 4?", "", "What is 3 times 4?\n"),
    ];
    for (question, before, unit) in cases {
        let answer = before.to_owned() + &unit.repeat(400);
        let expected = pieces(before).len() + pieces(unit).len() + LIMIT as usize;
        assert_eq!(end(&chat(question), &answer), Some(expected), "{question}");
    }
}

#[test]
fn a_longer_period_is_repeated_eight_times_and_the_longest_is_256() {
    let end = |period: usize| {
        let ids: Vec<u32> = (0..period as u32).cycle().take(12 * period + 400).collect();
        let mut repetition = Repetition::new(LIMIT, 0);
        (1..=ids.len()).find(|&length| repetition.push(&ids[..length], |_| None))
    };
    assert_eq!(end(1), Some(1 + 300));
    assert_eq!(end(37), Some(37 + 300));
    assert_eq!(end(38), Some(38 + 8 * 38));
    assert_eq!(end(256), Some(256 + 8 * 256));
    assert_eq!(end(257), None);
}

#[test]
fn a_repetition_is_judged_once_while_it_lasts() {
    let mut repetition = Repetition::new(10, 0);
    let mut judged = Vec::new();
    let text = [[1, 2].repeat(40), vec![3], [1, 2].repeat(40)].concat();
    for length in 1..=text.len() {
        let ends = repetition.push(&text[..length], |period| {
            judged.push((length, period.to_vec()));
            Some(0)
        });
        assert!(!ends);
    }
    assert_eq!(judged, [(18, vec![1, 2]), (99, vec![1, 2])]);
}

/// The specification: the number of tokens after which an answer ends, by a count of the repeated
/// tokens of every period at every token. The tokens from `first` on are new. A repetition with the
/// token `asked` is asked for, `times_asked` times.
fn specified_end(
    answer: &[u32],
    first: usize,
    limit: u32,
    times: usize,
    (asked, times_asked): (u32, usize),
) -> Option<usize> {
    let has_ended = |&length: &usize| {
        let count = |period: usize| {
            let repeats = |at: &usize| *at >= period && answer[*at] == answer[*at - period];
            (first..length).rev().take_while(repeats).count()
        };
        let is_over = |&period: &usize| {
            let required = [limit as usize, MIN_TIMES * period, times * period];
            required.iter().all(|&required| count(period) >= required)
        };
        let Some(period) = (1..=MAX_PERIOD).find(is_over) else {
            return false;
        };
        let is_asked = answer[length - period..length].contains(&asked);
        !is_asked || count(period) >= (EXEMPT_LIMITS * limit as usize).max(times_asked * period)
    };
    (first + 1..=answer.len()).find(has_ended)
}

proptest! {
    #[test]
    fn the_count_of_a_token_equals_the_specification(
        blocks in prop::collection::vec((prop::collection::vec(0_u32..3, 1..6), 1_usize..30), 1..6),
        first in 0_usize..30, limit in 0_u32..60, times in 0_usize..20,
        asked in (0_u32..6, 0_usize..40),
    ) {
        let answer: Vec<u32> = blocks.iter().flat_map(|(block, times)| block.repeat(*times)).collect();
        let first = first.min(answer.len());
        let mut repetition = Repetition::new(limit, times);
        let times_asked = |period: &[u32]| period.contains(&asked.0).then_some(asked.1);
        let end = (first + 1..=answer.len()).find(|&length| repetition.push(&answer[..length], times_asked));
        prop_assert_eq!(end, specified_end(&answer, first, limit, times, asked));
    }
}
