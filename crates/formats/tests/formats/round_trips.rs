//! Any text comes back from its tokens, none of them special, whatever it looks like.

use crate::fixtures::{VOCABULARIES, open, vocabulary};
use hearth_formats::chat_template::{ChatTemplate, Message, Role, Turn};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;

static TOKENIZERS: LazyLock<Vec<(Gguf, Tokenizer)>> =
    LazyLock::new(|| VOCABULARIES.iter().map(|name| open(&vocabulary(name))).collect());

/// Texts of all kinds, with what is special in some vocabulary strewn in. Without U+2581, which SPM cannot tell from a space.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z]{1,8}",
        3 => "[ \\t\\r\\n]{1,4}",
        2 => "\\PC{1,4}",
        1 => any::<String>(),
        1 => "[0-9]{1,7}",
        2 => prop::sample::select(vec![
            "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<s>", "</s>", "<unk>", "<|im_", "end|>", "<", ">", "|",
            "<0x41>", "<think>", "'s", "'LL", "e\u{301}", "👩‍👩‍👧", "中文", "\u{fdd0}", "\u{fdef}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().replace('\u{2581}', ""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn texts_come_back(text in text()) {
        for (name, (_, tokenizer)) in VOCABULARIES.iter().zip(TOKENIZERS.iter()) {
            let ids = tokenizer.encode(&text, Special::Text);
            prop_assert_eq!(tokenizer.decode(&ids), text.as_str(), "{}", name);
            prop_assert!(!ids.iter().any(|&id| tokenizer.is_special(id)), "{}: {:?}", name, ids);
        }
    }

    /// Whatever the messages hold, the structure around them is that of the same conversation in harmless words.
    #[test]
    fn no_message_passes_for_structure(one in text(), two in text()) {
        for (name, (_, tokenizer)) in VOCABULARIES.iter().zip(TOKENIZERS.iter()) {
            // Also between halves of tokens, and with parts taken out.
            let source = "{% for m in messages %}{% set c = m.content | trim %}<|im_start|><start_of_turn>{{ c }}<end_of_turn>\
                          {{ c }}end|><|im_{{ c }}|{{ c | replace('\\n', '') }}><|im_end|>{% endfor %}";
            let template = ChatTemplate::parse(source, "", "").unwrap();
            let structure = |one: &str, two: &str| -> Vec<u32> {
                let messages = [(Role::User, one), (Role::Assistant, two)]
                    .map(|(role, content)| Message { role, content: content.to_owned() });
                let ids = template.encode(tokenizer, &messages, Turn::Closed).unwrap();
                ids.into_iter().filter(|&id| tokenizer.is_special(id)).collect()
            };
            // Without special tokens of its own the structure would be nothing, which equals nothing.
            let marks = ["<|im_start|>", "<start_of_turn>", "<end_of_turn>", "<|im_end|>"];
            let marks = marks.iter().filter(|mark| tokenizer.special_id(mark).is_some()).count();
            prop_assert!(marks > 0 || !["smollm", "default", "qwen2", "spm-gemma"].contains(name), "{}", name);
            prop_assert!(structure("a", "b").len() >= 2 * marks, "{}", name);
            prop_assert_eq!(structure(&one, &two), structure("a", "b"), "{}", name);
        }
    }
}
