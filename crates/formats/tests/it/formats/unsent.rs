//! The tokens of a message that is being written: counted after each change of its text, they are
//! the tokens of the whole prompt.

use crate::fixtures::{VOCABULARIES, open, vocabulary, with_pre_tokenizer, with_tokens};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, PLACEHOLDER, Role, UnsentText};
use hearth_formats::interrupt::{Interrupt, Interrupted};
use hearth_formats::tokenizer::Tokenizer;
use proptest::prelude::*;
use std::sync::LazyLock;

/// User-defined tokens: of white space, of letters, overlapping, and tags of which one structures
/// the conversations of [`TEMPLATE`].
const USER_DEFINED: [(&str, i32); 9] = [
    ("\n\n", 4),
    ("   ", 4),
    ("and a", 4),
    ("d ab", 4),
    ("x.", 4),
    ("<b>", 4),
    ("<turn>", 4),
    ("<think>", 4),
    ("<|sep|>", 3),
];

/// Pre-tokenizers whose words end elsewhere than words of [`VOCABULARIES`].
const PRE_TOKENIZERS: [&str; 8] = [
    "afmoe",
    "bloom",
    "deepseek-llm",
    "deepseek-v3",
    "exaone-moe",
    "gpt-4o",
    "superbpe",
    "tekken",
];

/// With text next to the message, outside of control tokens.
const TEMPLATE: &str = "{% for m in messages %}<|sep|><turn>{{ m.role }}\n{{ m.content }}.\n{% endfor %}model";

static TOKENIZERS: LazyLock<Vec<(String, Tokenizer)>> = LazyLock::new(|| {
    let plain = VOCABULARIES.map(|name| (name.to_owned(), open(&vocabulary(name)).1));
    let extended = VOCABULARIES.map(|name| {
        let (gguf, _) = open(&vocabulary(name));
        let known = gguf.strings("tokenizer.ggml.tokens").unwrap().unwrap();
        let is_new = |(text, _): &(&str, i32)| !known.iter().any(|token| token == *text);
        let added: Vec<_> = USER_DEFINED.into_iter().filter(is_new).collect();
        (format!("{name} with tokens"), with_tokens(name, &added))
    });
    let others = PRE_TOKENIZERS.map(|name| (name.to_owned(), with_pre_tokenizer(name)));
    plain.into_iter().chain(extended).chain(others).collect()
});

fn conversation(draft: &str) -> Chat {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let messages = [
        message(Role::User, "Hello <think>"),
        message(Role::Assistant, "Hi."),
        message(Role::User, draft),
    ];
    Chat::from(&messages[..]).with_quoted(&["<think>", "</think>"])
}

/// Text with words, special tokens and their parts, and every kind of character.
fn text(pieces: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zA-Z]{1,8}",
        5 => " ",
        2 => "[ \\t\\r\\n]{1,4}",
        1 => "\\PC{1,4}",
        1 => "[0-9]{1,7}",
        1 => prop::sample::select(vec![
            "<|im_start|>", "<|sep|>", "<start_of_turn>", "<s>", "<|im_", "end|>", "<", ">", "<turn>", "<think>",
            "</think>", "thi", "<b>", "and ", "ab", "d ", "x", ".", "'s", "'LL", "don't ", "e\u{301}", "\u{301}", "٣",
            "👩‍👩‍👧", "中文，中文。", "한국어 ", "\u{2581}", "\u{a0}", "\u{85}", "  a", "\n\n\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, pieces).prop_map(|pieces| pieces.concat())
}

/// A change: its place as a fraction of the text, the bytes to remove, and the new text.
fn change() -> impl Strategy<Value = (f64, usize, String)> {
    let place = prop_oneof![2 => 0.0..1.0_f64, 1 => Just(1.0), 1 => Just(0.0)];
    let removed = prop_oneof![3 => Just(0_usize), 2 => 0..40_usize, 1 => 0..9000_usize];
    (place, removed, prop_oneof![5 => text(0..4), 1 => text(200..500)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_tokens_after_each_change_are_those_of_the_whole_prompt(
        beginning in text(0..2000), changes in prop::collection::vec(change(), 1..5),
    ) {
        let template = ChatTemplate::parse(TEMPLATE, "", "").unwrap();
        for (name, tokenizer) in TOKENIZERS.iter() {
            let frame = template.frame(tokenizer, &conversation(PLACEHOLDER)).unwrap().expect("a frame");
            let mut unsent = UnsentText::default();
            let mut expected = String::new();
            for (place, removed, new) in std::iter::once(&(0.0, 0, beginning.clone())).chain(&changes) {
                let start = expected.floor_char_boundary((expected.len() as f64 * place) as usize);
                let end = expected.floor_char_boundary(start + removed).max(start);
                let units = |to: usize| expected[..to].encode_utf16().count();
                prop_assert_eq!(unsent.byte_offset(0, units(start)), Some(start));
                prop_assert_eq!(unsent.byte_offset(start, units(end) - units(start)), Some(end));
                unsent.replace(start..end, new);
                expected.replace_range(start..end, new);
                prop_assert_eq!(unsent.text(), &expected);
                let actual = unsent.count(&template, tokenizer, &frame).unwrap();
                let whole = template.encode_chat(tokenizer, &conversation(&expected), GenerationPrompt::Add).unwrap();
                prop_assert_eq!(actual, whole.len(), "{}: {:?}", name, expected);
            }
        }
    }
}

#[test]
fn typing_into_a_long_text_tokenizes_little() {
    let template = ChatTemplate::parse(TEMPLATE, "", "").unwrap();
    let long = "The quick brown fox, 12 of them; and so on. 中文，中文。\n".repeat(20_000);
    for (name, tokenizer) in TOKENIZERS.iter() {
        let frame = template
            .frame(tokenizer, &conversation(PLACEHOLDER))
            .unwrap()
            .expect("a frame");
        let mut unsent = UnsentText::default();
        unsent.replace(0..0, &long);
        unsent.count(&template, tokenizer, &frame).unwrap();
        for place in [0, long.len() / 2, long.len()] {
            let before = unsent.tokenized();
            let place = unsent.text().floor_char_boundary(place);
            unsent.replace(place..place, "a");
            unsent.count(&template, tokenizer, &frame).unwrap();
            let tokenized = unsent.tokenized() - before;
            assert!(tokenized < 16 << 10, "{name}: {tokenized} bytes at {place}");
        }
    }
}

#[test]
fn the_search_for_a_cut_in_a_text_without_one_can_be_interrupted() {
    let template = ChatTemplate::parse(TEMPLATE, "", "").unwrap();
    let text = "zq".repeat(1 << 19);
    let tokenizer = with_tokens("spm", &[("zqzq", 4)]);
    let frame = template
        .frame(&tokenizer, &conversation(PLACEHOLDER))
        .unwrap()
        .expect("a frame");
    let mut unsent = UnsentText::default();
    unsent.replace(0..0, &text);
    let interrupted = Interrupt::new(|| true).run(|| unsent.count(&template, &tokenizer, &frame).is_ok());
    assert_eq!(interrupted, Err(Interrupted));
    assert_eq!(unsent.tokenized(), 0, "interrupted before the text was tokenized");
    let actual = unsent.count(&template, &tokenizer, &frame).unwrap();
    let whole = template
        .encode_chat(&tokenizer, &conversation(&text), GenerationPrompt::Add)
        .unwrap();
    assert_eq!(actual, whole.len());
}

#[test]
fn another_conversation_before_the_message_changes_only_the_frame() {
    let template = ChatTemplate::parse(TEMPLATE, "", "").unwrap();
    let text = "Some words, and 2 more. ".repeat(400);
    for (name, tokenizer) in TOKENIZERS.iter() {
        let frame = |chat: &Chat| template.frame(tokenizer, chat).unwrap().expect("a frame");
        let alone = |text: &str| {
            let message = Message {
                role: Role::User,
                content: text.to_owned(),
            };
            Chat::from(&[message][..]).with_quoted(&["<think>", "</think>"])
        };
        let (first, second) = (frame(&conversation(PLACEHOLDER)), frame(&alone(PLACEHOLDER)));
        let mut unsent = UnsentText::default();
        unsent.replace(0..0, &text);
        unsent.count(&template, tokenizer, &first).unwrap();
        let before = unsent.tokenized();
        unsent.reframe(Some(&first), &second);
        let actual = unsent.count(&template, tokenizer, &second).unwrap();
        let whole = template
            .encode_chat(tokenizer, &alone(&text), GenerationPrompt::Add)
            .unwrap();
        assert_eq!(actual, whole.len(), "{name}");
        assert!(unsent.tokenized() - before < 8 << 10, "{name}");
    }
}

#[test]
fn a_template_that_changes_the_message_or_repeats_it_has_no_frame() {
    let (_, tokenizer) = open(&vocabulary("smollm"));
    for source in [
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
        "{{ messages[0].content }}",
    ] {
        let template = ChatTemplate::parse(source, "", "").unwrap();
        assert!(
            template
                .frame(&tokenizer, &conversation(PLACEHOLDER))
                .unwrap()
                .is_none(),
            "{source}"
        );
    }
}
